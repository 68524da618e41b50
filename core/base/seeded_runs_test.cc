#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "core/base/seeded_runs_testing.h"

namespace tutti {
namespace {

std::chrono::steady_clock::time_point now;

uint64_t RunsOf(uint64_t ordinary_runs, uint64_t scale, std::chrono::seconds each) {
  SeededRuns runs("test", ordinary_runs, scale, [] { return now; });
  uint64_t count = 0;
  while (runs.Next()) {
    EXPECT_EQ(runs.number(), count);
    ++count;
    now += each;
  }
  EXPECT_EQ(runs.done(), count);
  return count;
}

TEST(SeededRuns, ScaleWithThePercentage) {
  EXPECT_EQ(RunsOf(500, 100, std::chrono::seconds(0)), 500u);
  EXPECT_EQ(RunsOf(500, 20, std::chrono::seconds(0)), 100u);
  EXPECT_EQ(RunsOf(500, 1000, std::chrono::seconds(0)), 5000u);
}

TEST(SeededRuns, AreOneAtLeast) {
  EXPECT_EQ(RunsOf(3, 1, std::chrono::seconds(0)), 1u);
  EXPECT_EQ(RunsOf(3, 0, std::chrono::seconds(1000)), 1u);
}

TEST(SeededRuns, BeginNothingNewAfterAWhile) {
  EXPECT_EQ(RunsOf(500, 100, std::chrono::seconds(7)), 2u);
  EXPECT_EQ(RunsOf(500, 20, std::chrono::seconds(5)), 3u);
}

TEST(SeededRuns, GoOnForAsLongAsItTakesWhereMoreAreAskedFor) {
  EXPECT_EQ(RunsOf(500, 200, std::chrono::seconds(7)), 1000u);
}

}  // namespace
}  // namespace tutti
