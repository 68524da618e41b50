// WaitUntil: the one way to block. Every wait has a deadline, can be cancelled, and names what it
// waited for.
//
//   std::unique_lock<std::mutex> lock(mutex_);
//   auto done = [&] { return done_; };
//   TUTTI_RETURN_IF_ERROR(WaitUntil(lock, ready_, clock, options, done, "all_reduce #7"));
//
// The condition is looked at before deadline and cancellation: what is ready is delivered even when
// time is up. On return the lock is held, and after success the condition holds. A wait with a
// cancellation wakes at least every 50 ms.

#ifndef TUTTI_CORE_BASE_WAIT_H_
#define TUTTI_CORE_BASE_WAIT_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace tutti {

// The part of WaitUntil that does not depend on the condition.
class WaitLoop {
 public:
  WaitLoop(std::unique_lock<std::mutex>& lock, std::condition_variable& condition, Clock& clock,
           const CallOptions& options, std::string_view what);
  ~WaitLoop();
  WaitLoop(const WaitLoop&) = delete;
  WaitLoop& operator=(const WaitLoop&) = delete;

  // One wait. May release and take the lock several times.
  Status Step();

 private:
  std::unique_lock<std::mutex>& lock_;
  std::condition_variable& condition_;
  Clock& clock_;
  const CallOptions& options_;
  std::string_view what_;
  int64_t start_ns_;
  int64_t next_poll_ns_;
  uint64_t listener_ = 0;
};

template <typename Predicate>
Status WaitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                 Clock& clock, const CallOptions& options, Predicate predicate,
                 std::string_view what) {
  if (predicate()) return OkStatus();
  WaitLoop loop(lock, condition, clock, options, what);
  do {
    Status status = loop.Step();
    if (!status.ok()) {
      if (predicate()) return OkStatus();
      return status;
    }
  } while (!predicate());
  return OkStatus();
}

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_WAIT_H_
