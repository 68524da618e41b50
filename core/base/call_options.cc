#include "core/base/call_options.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace tutti {
namespace {

// Made before anything runs, and never destroyed: what ends others needs no memory for it.
const Status& ByTheCaller() {
  static const Status* const reason =
      new Status(StatusCode::kCancelled, "cancelled by the caller");
  return *reason;
}
[[maybe_unused]] const Status& made_early = ByTheCaller();

}  // namespace

Deadline Deadline::After(const Clock& clock, int64_t timeout_ns) {
  if (timeout_ns == kNeverNs) return Infinite();
  const int64_t now = clock.NowNs();
  if (timeout_ns <= 0) return At(now);
  return timeout_ns > kNeverNs - now ? Infinite() : At(now + timeout_ns);
}

int64_t Deadline::RemainingNs(const Clock& clock) const {
  return is_infinite() ? kNeverNs : std::max<int64_t>(0, time_ns_ - clock.NowNs());
}

Cancellation::Cancellation(Poll poll, void* user_data, Ref<const RefCounted> owner)
    : poll_(poll), user_data_(user_data), owner_(std::move(owner)) {}

bool Cancellation::Cancel(Status reason) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (cancelled()) return false;
  reason_ = reason.ok() ? ByTheCaller() : std::move(reason);
  cancelled_.store(true, std::memory_order_release);
  running_thread_ = std::this_thread::get_id();
  RunListeners(lock);
  return true;
}

void Cancellation::RunListeners(std::unique_lock<std::mutex>& lock) {
  while (!listeners_.empty()) {
    Listener listener = std::move(listeners_.front());
    listeners_.erase(listeners_.begin());
    running_id_ = listener.id;
    const auto is_done = [&] {
      lock.lock();
      running_id_ = 0;
      idle_.notify_all();
    };
    lock.unlock();
    try {
      listener.task();
    } catch (...) {
      listener.task = Task();
      is_done();
      RunListeners(lock);  // the others are to hear of it all the same
      throw;
    }
    listener.task = Task();
    is_done();
  }
}

Status Cancellation::reason() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return reason_;
}

bool Cancellation::PollNow() {
  if (cancelled()) return true;
  if (poll_ == nullptr || polling_.test_and_set(std::memory_order_acquire)) return false;
  bool stop = false;
  {
    // The host may throw, and is asked again.
    const struct Polling {
      std::atomic_flag& flag;
      ~Polling() { flag.clear(std::memory_order_release); }
    } polling{polling_};
    stop = poll_(user_data_);
  }
  if (stop) Cancel();
  return stop;
}

uint64_t Cancellation::AddListener(Task listener) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!cancelled()) {
      listeners_.push_back({next_id_, std::move(listener)});
      return next_id_++;
    }
  }
  listener();
  return 0;
}

void Cancellation::RemoveListener(uint64_t id) {
  Task removed;  // destroyed after the lock is released
  std::unique_lock<std::mutex> lock(mutex_);
  for (auto it = listeners_.begin(); it != listeners_.end(); ++it) {
    if (it->id != id) continue;
    removed = std::move(it->task);
    listeners_.erase(it);
    return;
  }
  if (id == 0 || running_thread_ == std::this_thread::get_id()) return;
  // Bounded: listeners do not block.
  idle_.wait(lock, [&] { return running_id_ != id; });
}

Status CheckCallOptions(const CallOptions& options, const Clock& clock, std::string_view what) {
  if (options.cancellation != nullptr && options.cancellation->cancelled()) {
    return options.cancellation->reason().WithPrefix(what);
  }
  if (options.deadline.Expired(clock)) {
    return DeadlineExceeded("{}: the deadline has passed; give a longer timeout", what);
  }
  return OkStatus();
}

}  // namespace tutti
