#include "core/base/tick_clock.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

namespace tutti {
namespace {

// The machine's time passes.
void Busy(int64_t ns) {
  const int64_t until = RealClock().NowNs() + ns;
  while (RealClock().NowNs() < until) {
  }
}

TEST(TickClock, TellsTheTimeOfTheClockThatItStandsFor) {
  const TickClock ticks(RealClock());
  struct Reading {
    int64_t before, after;
    uint64_t ticks;
  };
  std::vector<Reading> readings;
  for (int i = 0; i < 20; ++i) {
    Busy(kMillisecondNs);
    const int64_t before = RealClock().NowNs();
    const uint64_t now = ticks.Now();
    readings.push_back({before, RealClock().NowNs(), now});
  }
  const TickClock::Scale scale = ticks.ReadScale();
  // A line through two moments; what bends between them is how the kernel steers its clock.
  constexpr int64_t kSlackNs = kMillisecondNs;
  for (const Reading& reading : readings) {
    EXPECT_GE(scale.ToNs(reading.ticks), reading.before - kSlackNs);
    EXPECT_LE(scale.ToNs(reading.ticks), reading.after + kSlackNs);
  }
}

TEST(TickClock, NeverTellsATimeThatHasNotCome) {
  const TickClock ticks(RealClock());
  Busy(kMillisecondNs);
  const TickClock::Scale scale = ticks.ReadScale();
  const int64_t now = RealClock().NowNs();
  Busy(kMillisecondNs);
  if (ticks.counts()) {
    EXPECT_LE(scale.ToNs(ticks.Now()), now);
  }
}

class StandingClock final : public Clock {
 public:
  int64_t NowNs() const override { return 4711; }
  int64_t WallNs() const override { return 1; }
  Status Wait(std::unique_lock<std::mutex>&, std::condition_variable&, int64_t) override {
    return OkStatus();
  }
};

TEST(TickClock, IsTheClockItselfWhereThatIsNotTheMachines) {
  const StandingClock clock;
  const TickClock ticks(clock);
  EXPECT_FALSE(ticks.counts());
  EXPECT_EQ(ticks.ReadScale().ToNs(ticks.Now()), 4711);
}

}  // namespace
}  // namespace tutti
