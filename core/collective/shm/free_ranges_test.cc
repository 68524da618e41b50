#include "core/collective/shm/free_ranges.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tutti {
namespace {

using Range = FreeRanges::Range;

TEST(FreeRangesTest, GiveTheBeginningOfTheSmallestRangeThatIsLongEnough) {
  FreeRanges ranges(1000);
  EXPECT_EQ(ranges.Take(100), 0u);
  EXPECT_EQ(ranges.Take(300), 100u);
  EXPECT_EQ(ranges.Take(50), 400u);
  EXPECT_EQ(ranges.Give({0, 100}), (Range{0, 100}));
  EXPECT_EQ(ranges.Take(90), 0u);  // not from the large range at the end
  EXPECT_EQ(ranges.Take(551), std::nullopt);
  EXPECT_EQ(ranges.Take(550), 450u);
  EXPECT_EQ(ranges.Take(11), std::nullopt);
  EXPECT_EQ(ranges.Take(10), 90u);
  EXPECT_EQ(ranges.num_ranges(), 0u);
}

TEST(FreeRangesTest, WhatIsGivenBackJoinsItsFreeNeighbours) {
  FreeRanges ranges(300);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ranges.Take(100));
  EXPECT_EQ(ranges.Give({0, 100}), (Range{0, 100}));
  EXPECT_EQ(ranges.Give({200, 300}), (Range{200, 300}));
  EXPECT_EQ(ranges.num_ranges(), 2u);
  EXPECT_EQ(ranges.Give({100, 200}), (Range{0, 300}));
  EXPECT_EQ(ranges.num_ranges(), 1u);
}

TEST(FreeRangesTest, NothingIsGivenTwiceAndNothingIsLost) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr size_t kBytes = 5000;
  FreeRanges ranges(kBytes);
  std::vector<bool> taken(kBytes, false);
  std::vector<Range> held;
  for (int i = 0; i < 2000; ++i) {
    if (held.empty() || random() % 2 == 0) {
      const size_t bytes = 1 + random() % 400;
      const std::optional<size_t> begin = ranges.Take(bytes);
      if (!begin) continue;
      ASSERT_LE(*begin + bytes, kBytes);
      for (size_t at = *begin; at < *begin + bytes; ++at) {
        ASSERT_FALSE(taken[at]);
        taken[at] = true;
      }
      held.push_back({*begin, *begin + bytes});
    } else {
      std::swap(held[random() % held.size()], held.back());
      const Range range = held.back();
      held.pop_back();
      for (size_t at = range.begin; at < range.end; ++at) taken[at] = false;
      const Range joined = ranges.Give(range);
      for (size_t at = joined.begin; at < joined.end; ++at) ASSERT_FALSE(taken[at]);
      ASSERT_TRUE(joined.begin == 0 || taken[joined.begin - 1]);
      ASSERT_TRUE(joined.end == kBytes || taken[joined.end]);
    }
  }
  for (const Range& range : held) ranges.Give(range);
  EXPECT_EQ(ranges.num_ranges(), 1u);
  EXPECT_EQ(ranges.Take(kBytes), 0u);
}

}  // namespace
}  // namespace tutti
