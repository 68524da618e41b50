#include "core/base/wait.h"

#include <algorithm>

#include "core/base/error.h"

namespace tutti {

WaitLoop::WaitLoop(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                   Clock& clock, const CallOptions& options, std::string_view what)
    : lock_(lock),
      condition_(condition),
      clock_(clock),
      options_(options),
      what_(what),
      start_ns_(clock.NowNs()),
      next_poll_ns_(start_ns_) {
  if (options_.cancellation != nullptr) {
    // The listener takes no lock: the waiter may hold its own while it removes the listener. A
    // notification that falls between a waiter's look and its sleep costs one poll interval.
    listener_ = options_.cancellation->AddListener([this] { condition_.notify_all(); });
  }
}

WaitLoop::~WaitLoop() {
  if (options_.cancellation != nullptr) options_.cancellation->RemoveListener(listener_);
}

Status WaitLoop::Step() {
  Cancellation* const cancellation = options_.cancellation;
  if (cancellation != nullptr && cancellation->cancelled()) {
    return cancellation->reason().WithPrefix(what_);
  }
  const int64_t now = clock_.NowNs();
  if (!options_.deadline.is_infinite() && now >= options_.deadline.time_ns()) {
    return DeadlineExceeded("{}: not done after {}; give a longer timeout", what_,
                            HumanDuration(now - start_ns_))
        .With("waited_ns", now - start_ns_);
  }
  int64_t until = options_.deadline.time_ns();
  if (cancellation != nullptr) {
    if (cancellation->is_polled() && now >= next_poll_ns_) {
      next_poll_ns_ = now + Cancellation::kPollIntervalNs;
      lock_.unlock();
      const bool cancelled = cancellation->PollNow();
      lock_.lock();
      // The condition may have come true meanwhile, unseen: the caller looks again.
      if (cancelled || !clock_.is_virtual()) return OkStatus();
    }
    // In virtual time every event wakes this loop anyway, and slices would never end.
    if (!clock_.is_virtual()) until = std::min(until, now + Cancellation::kPollIntervalNs);
  }
  Status status = clock_.Wait(lock_, condition_, until);
  if (status.ok()) return status;
  return std::move(status).WithPrefix(what_);
}

}  // namespace tutti
