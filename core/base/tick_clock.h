// TickClock: a clock for whoever notes the time so often that reading the real one would be most of
// the work. Now() is one instruction where the processor has a counter that runs at a constant rate
// (x86: the invariant time stamp counter); elsewhere, and for clocks that are not the machine's, it
// is the clock itself. Ticks become the clock's nanoseconds afterwards:
//
//   const uint64_t then = ticks.Now();
//   ...
//   const TickClock::Scale scale = ticks.ReadScale();
//   const int64_t then_ns = scale.ToNs(then);

#ifndef TUTTI_CORE_BASE_TICK_CLOCK_H_
#define TUTTI_CORE_BASE_TICK_CLOCK_H_

#include <cstdint>

#include "core/base/clock.h"

namespace tutti {

class TickClock {
 public:
  // The line through two moments, at each of which both clocks were read.
  class Scale {
   public:
    // Never after the moment at which the scale was read.
    int64_t ToNs(uint64_t ticks) const noexcept;

   private:
    friend class TickClock;
    bool is_identity_ = true;
    uint64_t ticks_ = 0;
    int64_t ns_ = 0;
    double ns_per_tick_ = 1;
  };

  // `clock` outlives this one.
  explicit TickClock(const Clock& clock);

  uint64_t Now() const noexcept {
#if defined(__x86_64__)
    // The builtin: <x86intrin.h> would take a fifth of the compile time of what includes this file.
    if (counts_) return __builtin_ia32_rdtsc();
#endif
    return static_cast<uint64_t>(clock_.NowNs());
  }
  // True where Now() is the processor's counter.
  bool counts() const noexcept { return counts_; }

  Scale ReadScale() const noexcept;

 private:
  struct Moment {
    uint64_t ticks = 0;
    int64_t ns = 0;
  };
  Moment ReadMoment() const noexcept;

  const Clock& clock_;
  const bool counts_;
  Moment start_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_TICK_CLOCK_H_
