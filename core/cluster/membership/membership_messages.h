// The messages of the membership protocol (proto/tutti/v1/membership.proto) as plain structs. What
// comes off the wire is checked here, once: a decoded message is within its bounds, and what is not
// is an INVALID_ARGUMENT that says what is wrong with it.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_MEMBERSHIP_MESSAGES_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_MEMBERSHIP_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/status.h"
#include "core/cluster/membership/worker_info.h"

namespace tutti {

// Workers of different major versions cannot work together; of different minor ones they use the
// smaller.
inline constexpr int64_t kMembershipMajor = 1;
inline constexpr int64_t kMembershipMinor = 0;

inline constexpr int64_t kMaxWorkers = 1024;
inline constexpr size_t kMaxExchangeKeyBytes = 1024;
inline constexpr size_t kMaxExchangePartBytes = size_t{64} << 10;
inline constexpr size_t kMaxNoteBytes = size_t{16} << 10;

struct Heartbeat {
  bool knows_of_failure = false;  // to the coordinator: its JobFailure has come
};

struct Hello {
  int64_t major = kMembershipMajor;
  int64_t minor = kMembershipMinor;
  uint64_t capabilities = 0;
  uint64_t incarnation = 0;
  std::vector<std::string> tasks;
  std::vector<std::string> addresses;
  WorkerInfo info;
};

struct Gathering {
  std::string waiting_for;
  Status misfit;  // OK: none is known
};

struct Departure {
  int64_t worker = 0;
  Status reason;
};

struct Welcome {
  uint64_t job_id = 0;
  int64_t minor = 0;
  uint64_t capabilities = 0;
  std::vector<WorkerInfo> workers;  // in order
  int64_t silence_limit_ns = 0;
  int64_t heartbeat_interval_ns = 0;
  bool elastic = false;
  std::vector<MemberId> newcomers;  // who took a seat when the job ran already
  std::vector<Departure> absent;
};

struct Refusal {
  Status reason;
};

struct ExchangePart {
  std::string key;
  std::string part;
};

struct ExchangeWithdrawal {
  std::string key;
  Status reason;
};

struct ExchangeResult {
  std::string key;
  std::vector<std::string> parts;
  bool last = false;
};

struct ExchangeFailure {
  std::string key;
  Status reason;
};

struct Suspicion {
  int64_t worker = 0;
  std::string what;
  uint64_t arrival = 0;
};

struct JobAbort {
  Status reason;
  bool gives_up_worker_0 = false;
};

struct Goodbye {
  Status reason;  // OK: a plain end
};

struct JobFailure {
  Status reason;
};

struct Arrival {
  WorkerInfo info;
  uint64_t arrival = 0;
};

struct RegroupPart {
  uint64_t id = 0;
  std::string name;
  std::vector<MemberId> among;
  bool all = false;
  int64_t at_least = 0;
  int64_t epoch = 0;
  std::string part;
};

struct RegroupWithdrawal {
  uint64_t id = 0;
  Status reason;
};

struct RegroupResult {
  uint64_t id = 0;
  int64_t epoch = 0;
  std::vector<MemberId> members;
  std::vector<std::string> parts;
  bool last = false;
};

struct RegroupFailure {
  uint64_t id = 0;
  Status reason;
};

struct Resignation {
  std::string name;
  std::vector<MemberId> among;
  int64_t epoch = 0;
};

struct Note {
  std::string topic;
  MemberId from;
  std::vector<MemberId> to;
  std::string content;
};

using MessageToCoordinator = std::variant<Hello, Heartbeat, ExchangePart, ExchangeWithdrawal,
                                          Suspicion, JobAbort, Goodbye, RegroupPart,
                                          RegroupWithdrawal, Note, Resignation>;
using MessageToMember = std::variant<Refusal, Gathering, Welcome, Heartbeat, ExchangeResult,
                                     ExchangeFailure, JobFailure, Departure, Arrival,
                                     RegroupResult, RegroupFailure, Note>;

std::string Encode(const MessageToCoordinator& message);
std::string Encode(const MessageToMember& message);

// A hello of another major version is decoded as far as its version: it may mean the rest
// otherwise.
Status Decode(std::string_view bytes, MessageToCoordinator* message);
Status Decode(std::string_view bytes, MessageToMember* message);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_MEMBERSHIP_MESSAGES_H_
