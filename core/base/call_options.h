// How long a blocking call may take and who may end it early.

#ifndef TUTTI_CORE_BASE_CALL_OPTIONS_H_
#define TUTTI_CORE_BASE_CALL_OPTIONS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/task.h"

namespace tutti {

// A point on a clock's monotonic scale, or never.
class Deadline {
 public:
  constexpr Deadline() noexcept = default;
  static constexpr Deadline Infinite() noexcept { return Deadline(); }
  static constexpr Deadline At(int64_t time_ns) noexcept { return Deadline(time_ns); }
  // Zero and less have expired already; a sum beyond the scale is infinite.
  static Deadline After(const Clock& clock, int64_t timeout_ns);

  constexpr bool is_infinite() const noexcept { return time_ns_ == kNeverNs; }
  constexpr int64_t time_ns() const noexcept { return time_ns_; }
  bool Expired(const Clock& clock) const { return !is_infinite() && clock.NowNs() >= time_ns_; }
  // Never negative; kNeverNs when infinite.
  int64_t RemainingNs(const Clock& clock) const;
  static constexpr Deadline Earlier(Deadline a, Deadline b) noexcept {
    return a.time_ns_ < b.time_ns_ ? a : b;
  }

 private:
  explicit constexpr Deadline(int64_t time_ns) noexcept : time_ns_(time_ns) {}
  int64_t time_ns_ = kNeverNs;
};

// A switch that one side throws and waiting calls notice. It stays thrown; the first reason stays.
//
// A *polled* cancellation also asks the host ("has Ctrl-C been pressed?"): threads that wait with
// it call `poll` about every 50 ms, holding no lock; once it returns true the cancellation is
// thrown. Any number of threads may poll, one at a time.
class Cancellation : public RefCounted {
 public:
  using Poll = bool (*)(void* user_data);
  static constexpr int64_t kPollIntervalNs = 50 * kMillisecondNs;

  Cancellation() = default;
  // `owner` keeps user_data alive (may be null).
  Cancellation(Poll poll, void* user_data, Ref<const RefCounted> owner);

  // An OK reason means "cancelled by the caller". Calls the listeners on this thread, all of them;
  // an exception that leaves one leaves this, too, after the last. False when it was thrown before.
  bool Cancel(Status reason = OkStatus());
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }
  // OK while not cancelled; else a CANCELLED status, or the reason given.
  Status reason() const;

  bool is_polled() const noexcept { return poll_ != nullptr; }
  // Asks the host if this is a polled one; returns cancelled(). Call it with no lock held.
  bool PollNow();

  // Calls `listener` once when the switch is thrown, on the thread that throws it (at once on this
  // one when it is thrown already). It must not block. RemoveListener returns when the listener is
  // not running (unless called from it).
  uint64_t AddListener(Task listener);
  void RemoveListener(uint64_t id);

 private:
  ~Cancellation() override = default;

  struct Listener {
    uint64_t id;
    Task task;
  };
  void RunListeners(std::unique_lock<std::mutex>& lock);

  std::atomic<bool> cancelled_{false};
  Poll poll_ = nullptr;
  void* user_data_ = nullptr;
  Ref<const RefCounted> owner_;
  std::atomic_flag polling_ = ATOMIC_FLAG_INIT;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  Status reason_;
  uint64_t next_id_ = 1;
  std::vector<Listener> listeners_;
  uint64_t running_id_ = 0;
  std::thread::id running_thread_;
};

// What every blocking function takes. Borrowed: the cancellation outlives the call.
struct CallOptions {
  Deadline deadline;
  Cancellation* cancellation = nullptr;

  static CallOptions Default() noexcept { return CallOptions(); }
  static CallOptions WithTimeout(const Clock& clock, int64_t timeout_ns) {
    return CallOptions{Deadline::After(clock, timeout_ns), nullptr};
  }
};

// OK, DEADLINE_EXCEEDED or CANCELLED, for loops that do not wait. Does not poll.
Status CheckCallOptions(const CallOptions& options, const Clock& clock, std::string_view what);

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_CALL_OPTIONS_H_
