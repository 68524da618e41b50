#include "core/base/tick_clock.h"

#include <algorithm>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti {
namespace {

// CPUID 80000007H, EDX bit 8: the counter runs at a constant rate in all states of the processor
// (Intel SDM volume 3, "Invariant TSC"; AMD APM volume 3 has the same bit).
bool HasInvariantCounter() noexcept {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
#else
  return false;
#endif
}

}  // namespace

int64_t TickClock::Scale::ToNs(uint64_t ticks) const noexcept {
  if (is_identity_) return static_cast<int64_t>(ticks);
  const auto behind = static_cast<int64_t>(ticks_ - ticks);
  return std::min(ns_, ns_ - static_cast<int64_t>(static_cast<double>(behind) * ns_per_tick_));
}

TickClock::TickClock(const Clock& clock)
    : clock_(clock), counts_(&clock == &RealClock() && HasInvariantCounter()) {
  if (counts_) start_ = ReadMoment();
}

// Of a few tries the one in which the clock took least: nothing came in between.
TickClock::Moment TickClock::ReadMoment() const noexcept {
  Moment best;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = Now();
    const int64_t ns = clock_.NowNs();
    const uint64_t took = Now() - before;
    if (took < least) {
      least = took;
      best = {before + took / 2, ns};
    }
  }
  return best;
}

TickClock::Scale TickClock::ReadScale() const noexcept {
  Scale scale;
  if (!counts_) return scale;
  const Moment now = ReadMoment();
  scale.is_identity_ = false;
  scale.ticks_ = now.ticks;
  scale.ns_ = now.ns;
  const auto ticks = static_cast<double>(now.ticks - start_.ticks);
  scale.ns_per_tick_ = ticks > 0 ? static_cast<double>(now.ns - start_.ns) / ticks : 0;
  return scale;
}

}  // namespace tutti
