// The messages of the membership protocol (proto/tutti/v1/membership.proto) as plain structs. What
// comes off the wire is checked here, once: a decoded message is within its bounds, and what is not
// is an INVALID_ARGUMENT that says what is wrong with it.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_MESSAGES_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/status.h"
#include "core/cluster/worker_info.h"

namespace tutti {

// Workers of different major versions cannot work together; of different minor ones they use the
// smaller.
inline constexpr int64_t kMembershipMajor = 1;
inline constexpr int64_t kMembershipMinor = 0;

inline constexpr int64_t kMaxWorkers = 1024;
inline constexpr size_t kMaxExchangeKeyBytes = 1024;
inline constexpr size_t kMaxExchangePartBytes = size_t{64} << 10;

struct Heartbeat {};

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

struct Welcome {
  uint64_t job_id = 0;
  int64_t minor = 0;
  uint64_t capabilities = 0;
  std::vector<WorkerInfo> workers;  // in order
  int64_t silence_limit_ns = 0;
  int64_t heartbeat_interval_ns = 0;
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
};

struct JobAbort {
  Status reason;
};

struct Goodbye {
  Status reason;  // OK: a plain end
};

struct JobFailure {
  Status reason;
};

struct Departure {
  int64_t worker = 0;
  Status reason;
};

using MessageToCoordinator = std::variant<Hello, Heartbeat, ExchangePart, ExchangeWithdrawal,
                                          Suspicion, JobAbort, Goodbye>;
using MessageToMember = std::variant<Refusal, Gathering, Welcome, Heartbeat, ExchangeResult,
                                     ExchangeFailure, JobFailure, Departure>;

std::string Encode(const MessageToCoordinator& message);
std::string Encode(const MessageToMember& message);

// A hello of another major version is decoded as far as its version: it may mean the rest
// otherwise.
Status Decode(std::string_view bytes, MessageToCoordinator* message);
Status Decode(std::string_view bytes, MessageToMember* message);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_MESSAGES_H_
