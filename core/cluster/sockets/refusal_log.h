// RefusalLog: what a listening port refuses, in one line of the log every ten seconds at most, with
// the counts: strangers decide how much there is to say, and must not fill a disk with it.

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_REFUSAL_LOG_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_REFUSAL_LOG_H_

#include <cstdint>
#include <string>

#include "core/base/clock.h"

namespace tutti {

class Log;

// By one thread.
class RefusalLog {
 public:
  static constexpr int64_t kPeriodNs = 10 * kSecondNs;

  // `port` is what the line begins with: "worker 0, the port for tensors".
  RefusalLog(Log& log, const Clock& clock, std::string port);

  // More than `limit` connections at a time had not proved themselves.
  void CountCrowded(size_t limit);
  // No file descriptor, or no memory, was left for one.
  void CountWithoutDescriptor(int error);
  // A worker from `peer` told that it has a job secret of another fingerprint.
  void CountOtherSecret(const std::string& peer, const std::string& fingerprint,
                        const std::string& own_fingerprint);
  // Writes what has been counted when it is time to.
  void Tick();
  // When Tick has something to write; kNeverNs.
  int64_t due_ns() const;

 private:
  Log& log_;
  const Clock& clock_;
  const std::string port_;
  int64_t next_line_ns_ = 0;
  int64_t crowded_ = 0;
  size_t limit_ = 0;
  int64_t without_descriptor_ = 0;
  int error_ = 0;
  int64_t other_secret_ = 0;
  std::string other_secret_last_;  // who, and both fingerprints
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_REFUSAL_LOG_H_
