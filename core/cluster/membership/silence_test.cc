#include "core/cluster/membership/silence.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/base/clock.h"

namespace tutti {
namespace {

constexpr int64_t kIntervalNs = 250 * kMillisecondNs;

class SilenceTest : public testing::Test {
 protected:
  // A tick `after_ns` after the last one, in which nobody was heard.
  bool Tick(int64_t after_ns) {
    now_ns_ += after_ns;
    const bool counts = attention_.OnTick(now_ns_, kIntervalNs);
    if (counts) silence_.OnTick();
    return counts;
  }
  bool UpToDate(int64_t after_ns) const {
    return attention_.IsUpToDate(now_ns_ + after_ns, kIntervalNs);
  }
  bool IsSilent() const { return silence_.Exceeds(MembershipTiming()); }

  int64_t now_ns_ = kSecondNs;
  Attention attention_;
  Silence silence_;
};

TEST_F(SilenceTest, IsFoundAfterAsManyTicksAsTheLimitIsLong) {
  const int64_t begin_ns = now_ns_;
  while (!IsSilent()) EXPECT_TRUE(Tick(kIntervalNs));
  EXPECT_GT(now_ns_ - begin_ns, 2 * kSecondNs);
  EXPECT_LE(now_ns_ - begin_ns, MembershipTiming().silence_limit_ns + kIntervalNs);
  silence_.Heard(now_ns_);
  EXPECT_FALSE(IsSilent());
}

TEST_F(SilenceTest, TimeInWhichThisProcessWasStoppedIsNobodysSilence) {
  EXPECT_TRUE(Tick(kIntervalNs));
  EXPECT_TRUE(UpToDate(kIntervalNs));
  EXPECT_FALSE(UpToDate(60 * kSecondNs));
  EXPECT_FALSE(Tick(60 * kSecondNs));
  EXPECT_FALSE(UpToDate(0));
  EXPECT_FALSE(IsSilent());
  EXPECT_TRUE(Tick(kIntervalNs));
  EXPECT_TRUE(UpToDate(0));
  EXPECT_FALSE(Tick(60 * kSecondNs));  // stopped again
  EXPECT_FALSE(IsSilent());
}

TEST_F(SilenceTest, IsFoundWhereEveryTickIsLate) {
  Tick(kIntervalNs);
  EXPECT_FALSE(Tick(kSecondNs));
  int ticks = 0;
  for (; !IsSilent() && ticks < 100; ++ticks) {
    EXPECT_TRUE(Tick(kSecondNs));
    EXPECT_TRUE(UpToDate(0));
  }
  EXPECT_GE(ticks, 8);  // a peer that goes as slowly has been heard in so many
  EXPECT_LE(ticks, 13);
}

TEST_F(SilenceTest, IsFoundWhereEveryOtherTickIsLate) {
  for (int i = 0; i < 26; ++i) Tick(i % 2 == 0 ? kIntervalNs : kSecondNs);
  EXPECT_TRUE(IsSilent());
}

}  // namespace
}  // namespace tutti
