// How a rank waits before it sleeps: where every rank can have a core it spins for some
// microseconds, then it offers its core a few times. Of a rank; one wait at a time. In a simulation
// nothing happens meanwhile, not even to the time: there it looks once.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_SPIN_WAIT_H_
#define TUTTI_CORE_COLLECTIVE_CALL_SPIN_WAIT_H_

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "core/base/clock.h"

namespace tutti {

class SpinWait {
 public:
  // A peer that has not come may be late by anything; one that has come is busy copying.
  static constexpr int64_t kForArrivalNs = 20'000;
  static constexpr int64_t kForStepNs = 200'000;

  SpinWait(const Clock& clock, bool spins) noexcept
      : clock_(clock), spins_(spins && !clock.is_virtual()), is_simulated_(clock.is_virtual()) {}

  // Whether `reached` has become true. False also once `failed` is.
  template <typename Reached, typename Failed>
  bool Until(const Reached& reached, const Failed& failed, int64_t spin_ns) noexcept {
    if (spins_) {
      // Most waits are so short that a look at the clock would be a good part of them.
      int64_t until_ns = 0;
      for (int round = 1;; ++round) {
        if (reached()) return true;
        Pause();
        if (round % kRoundsPerClockRead != 0) continue;
        if (failed()) return false;
        const int64_t now_ns = clock_.NowNs();
        if (until_ns == 0) until_ns = now_ns + spin_ns;
        if (now_ns >= until_ns) break;
      }
    }
    if (is_simulated_) return reached();
    if (waits_without_yield_ > 0) {
      --waits_without_yield_;
      return reached();
    }
    int64_t yielded_ns = clock_.NowNs();
    for (int round = 0; round < kYieldRounds; ++round) {
      if (reached()) {
        next_waits_without_yield_ = kLeastWaitsWithoutYield;
        return true;
      }
      if (failed()) return false;
      sched_yield();
      const int64_t now_ns = clock_.NowNs();
      if (now_ns - yielded_ns >= kLongYieldNs) {
        waits_without_yield_ = next_waits_without_yield_;
        next_waits_without_yield_ = std::min(2 * next_waits_without_yield_, kMostWaitsWithoutYield);
        return reached();
      }
      yielded_ns = now_ns;
    }
    next_waits_without_yield_ = kLeastWaitsWithoutYield;
    return reached();
  }

 private:
  static constexpr int kRoundsPerClockRead = 64;
  // Ranks that share a core meet faster when they offer it before they sleep. But a core that
  // others compete for comes back a time slice later, while who sleeps is preferred when it is
  // woken.
  static constexpr int kYieldRounds = 64;
  static constexpr int64_t kLongYieldNs = 200'000;
  static constexpr int kLeastWaitsWithoutYield = 64;
  static constexpr int kMostWaitsWithoutYield = 8192;

  static void Pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

  const Clock& clock_;
  const bool spins_;
  const bool is_simulated_;
  // How many waits go straight to sleep, and how many will after the next long yield.
  int waits_without_yield_ = 0;
  int next_waits_without_yield_ = kLeastWaitsWithoutYield;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_SPIN_WAIT_H_
