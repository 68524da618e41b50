// ParkingSpot: where a thread waits for another one that is usually quick: it spins for a few
// microseconds, about as long as going to sleep and being woken costs, and then sleeps.
//
// Conditions read sequentially consistent atomics. Whoever changes one calls Wake afterwards: it
// costs one load while nobody sleeps. (The waiter counts itself before it looks at the condition
// for the last time, and the waker changes the condition before it looks at the count, so that one
// of them sees the other.)

#ifndef TUTTI_CORE_STRATEGY_PARKING_SPOT_H_
#define TUTTI_CORE_STRATEGY_PARKING_SPOT_H_

#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/base/wait.h"

namespace tutti {

class ParkingSpot {
 public:
  static constexpr int64_t kSpinNs = 20'000;

  // `spin` false, when threads outnumber cores: does not spin. Either way the core is offered to
  // the others a few times before the thread sleeps, which is quicker than to sleep and be woken
  // when one of them only waits for its turn.
  template <typename Condition>
  Status Wait(Clock& clock, const CallOptions& options, bool spin, const Condition& condition,
              std::string_view what) {
    if (condition() || (spin && Spin(condition)) || Yield(condition)) return OkStatus();
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    Status status = WaitUntil(lock, woken_, clock, options, condition, what);
    sleepers_.fetch_sub(1);
    return status;
  }

  void Wake() {
    if (sleepers_.load() == 0) return;
    { std::lock_guard<std::mutex> lock(mutex_); }
    woken_.notify_all();
  }

 private:
  // True when the condition came to hold.
  template <typename Condition>
  static bool Spin(const Condition& condition) {
    constexpr int kRoundsPerLook = 32;
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kSpinNs);
    do {
      for (int i = 0; i < kRoundsPerLook; ++i) {
        if (condition()) return true;
        Pause();
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  template <typename Condition>
  static bool Yield(const Condition& condition) {
    constexpr int kRounds = 8;
    for (int i = 0; i < kRounds; ++i) {
      sched_yield();
      if (condition()) return true;
    }
    return false;
  }

  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<int> sleepers_{0};
  std::mutex mutex_;  // guards nothing but the way to sleep
  std::condition_variable woken_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_PARKING_SPOT_H_
