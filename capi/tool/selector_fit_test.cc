#include "capi/tool/selector_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

namespace tutti::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kAny = SelectorStep::kAny;
constexpr int64_t kKiB = 1024;

const SelectorChoice kFlat{"flat_fold", ""};
const SelectorChoice kSmallChunks{"slice_and_share", "64KiB"};
const SelectorChoice kLargeChunks{"slice_and_share", "256KiB"};
const SelectorPlace kPlace{"all_reduce", "shared_memory", 2};

uint64_t Seed() {
  const char* const text = std::getenv("TUTTI_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

// Flat folding takes 1 us and a nanosecond a byte, slicing 4 us and half a nanosecond.
double Flat(int64_t bytes) { return 1 + static_cast<double>(bytes) * 1e-3; }
double Sliced(int64_t bytes) { return 4 + static_cast<double>(bytes) * 5e-4; }

using TimeOf = std::function<double(int64_t bytes)>;

struct Curve {
  SelectorChoice choice;
  TimeOf us;
  int64_t most_bytes = kAny;
};

// Rounds of each curve at 256, 512, ... 4 MiB, off by `noise` at most.
FitMeasurements Measure(const std::vector<Curve>& curves, double noise = 0, uint64_t seed = 0) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> off(1 - noise, 1 + noise);
  FitMeasurements measured;
  for (const Curve& curve : curves) {
    measured.candidates.push_back({curve.choice, curve.most_bytes});
  }
  for (int64_t bytes = 256; bytes <= 4096 * kKiB; bytes *= 2) {
    measured.sizes.push_back(bytes);
    measured.us.emplace_back(curves.size());
    for (size_t c = 0; c < curves.size(); ++c) {
      if (bytes > curves[c].most_bytes) continue;
      for (int round = 0; round < 12; ++round) {
        measured.us.back()[c].push_back(curves[c].us(bytes) * off(random));
      }
    }
  }
  return measured;
}

std::vector<SelectorStep> FlatUpTo(int64_t bytes) { return {{bytes, kFlat}, {kAny, kSmallChunks}}; }

TEST(SelectorFit, MovesTheBorderToWhereTheCurvesCross) {
  // 1 + b / 1000 = 4 + b / 2000 at 6000 bytes.
  const FitMeasurements measured = Measure({{kFlat, Flat}, {kSmallChunks, Sliced}});
  for (const int64_t present : {kKiB, 64 * kKiB, 1024 * kKiB}) {
    const std::vector<SelectorStep> steps = FitSteps(measured, FlatUpTo(present));
    ASSERT_EQ(steps.size(), 2u) << present;
    EXPECT_EQ(steps[0].choice, kFlat);
    EXPECT_GE(steps[0].limit, 5 * kKiB);
    EXPECT_LE(steps[0].limit, 7 * kKiB);
    EXPECT_EQ(steps[1], (SelectorStep{kAny, kSmallChunks}));
  }
}

TEST(SelectorFit, LeavesABorderThatIsRightToTheByte) {
  const FitMeasurements measured = Measure({{kFlat, Flat}, {kSmallChunks, Sliced}});
  for (const int64_t present : {5000, 6000, 7000}) {
    EXPECT_EQ(FitSteps(measured, FlatUpTo(present)), FlatUpTo(present));
  }
}

TEST(SelectorFit, LeavesWhatGainsLittle) {
  const TimeOf almost = [](int64_t bytes) { return 0.96 * Sliced(bytes); };
  EXPECT_EQ(FitSteps(Measure({{kFlat, Flat}, {kSmallChunks, Sliced}, {kLargeChunks, almost}}),
                     FlatUpTo(6000)),
            FlatUpTo(6000));
}

TEST(SelectorFit, LeavesTies) {
  EXPECT_EQ(FitSteps(Measure({{kLargeChunks, Sliced}, {kSmallChunks, Sliced}, {kFlat, Sliced}}),
                     FlatUpTo(6000)),
            FlatUpTo(6000));
}

TEST(SelectorFit, LeavesTheOnlyAlgorithm) {
  const std::vector<SelectorStep> steps = {{kAny, kFlat}};
  EXPECT_EQ(FitSteps(Measure({{kFlat, Flat}}), steps), steps);
}

TEST(SelectorFit, TakesAnotherChunkWhereItIsFaster) {
  const TimeOf cheaper = [](int64_t bytes) {
    return bytes < 512 * kKiB ? Sliced(bytes) : 0.8 * Sliced(bytes);
  };
  const std::vector<SelectorStep> steps =
      FitSteps(Measure({{kFlat, Flat}, {kSmallChunks, Sliced}, {kLargeChunks, cheaper}}),
               FlatUpTo(6000));
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0], (SelectorStep{6000, kFlat}));
  EXPECT_EQ(steps[1].choice, kSmallChunks);
  EXPECT_GE(steps[1].limit, 256 * kKiB);
  EXPECT_LT(steps[1].limit, 512 * kKiB);
  EXPECT_EQ(steps[2], (SelectorStep{kAny, kLargeChunks}));
}

TEST(SelectorFit, RandomNoiseChangesNothing) {
  const uint64_t seed = Seed();
  SCOPED_TRACE(seed);
  for (uint64_t i = 0; i < 50; ++i) {
    // Three that take the same, each measurement off by 10 % at most.
    EXPECT_EQ(FitSteps(Measure({{kFlat, Sliced}, {kSmallChunks, Sliced}, {kLargeChunks, Sliced}},
                               0.1, seed + i),
                       FlatUpTo(6000)),
              FlatUpTo(6000))
        << i;
  }
}

TEST(SelectorFit, FindsTheCrossingBehindNoise) {
  const uint64_t seed = Seed();
  SCOPED_TRACE(seed);
  for (uint64_t i = 0; i < 50; ++i) {
    const std::vector<SelectorStep> steps = FitSteps(
        Measure({{kFlat, Flat}, {kSmallChunks, Sliced}}, 0.1, seed + i), FlatUpTo(256 * kKiB));
    ASSERT_EQ(steps.size(), 2u) << i;
    EXPECT_GE(steps[0].limit, 3 * kKiB) << i;
    EXPECT_LE(steps[0].limit, 12 * kKiB) << i;
  }
}

TEST(SelectorFit, AFasterMiddleThatIsSlowerInManyRoundsDoesNotCount) {
  FitMeasurements measured = Measure({{kFlat, Sliced}, {kSmallChunks, Sliced}});
  for (auto& of_size : measured.us) {
    // 20 % less in nine rounds of twelve, a little more in the others.
    for (size_t round = 0; round < 12; ++round) of_size[0][round] *= round < 9 ? 0.8 : 1.01;
  }
  const std::vector<SelectorStep> steps = {{kAny, kSmallChunks}};
  EXPECT_EQ(FitSteps(measured, steps), steps);
}

TEST(SelectorFit, OneFastSizeIsNoIslandUnlessItGainsMuch) {
  const std::vector<SelectorStep> steps = {{kAny, kSmallChunks}};
  const auto island = [&](double factor) {
    const TimeOf us = [=](int64_t bytes) {
      return (bytes == 64 * kKiB ? factor : 1.1) * Sliced(bytes);
    };
    return FitSteps(Measure({{kSmallChunks, Sliced}, {kLargeChunks, us}}), steps);
  };
  EXPECT_EQ(island(0.92), steps);
  EXPECT_EQ(island(0.5).size(), 3u);
}

TEST(SelectorFit, NeverChoosesWhatIsNotPossible) {
  const TimeOf fast = [](int64_t bytes) { return 0.5 * Flat(bytes); };
  const std::vector<SelectorStep> steps = FitSteps(
      Measure({{kFlat, fast, 48 * kKiB}, {kSmallChunks, [](int64_t) { return 1e6; }}}),
      FlatUpTo(4 * kKiB));
  EXPECT_THAT(steps, ElementsAre(SelectorStep{48 * kKiB, kFlat}, SelectorStep{kAny, kSmallChunks}));
}

TEST(SelectorFit, BordersOutsideTheMeasuredSizesStay) {
  const TimeOf slow = [](int64_t bytes) { return 2 * Sliced(bytes); };
  const int64_t large = int64_t{1} << 30;
  const std::vector<SelectorStep> steps =
      FitSteps(Measure({{kFlat, slow}, {kSmallChunks, slow}, {kLargeChunks, Sliced}}),
               {{64, kSmallChunks}, {large, kFlat}, {kAny, kSmallChunks}});
  EXPECT_THAT(steps,
              ElementsAre(SelectorStep{64, kSmallChunks}, SelectorStep{large, kLargeChunks},
                          SelectorStep{kAny, kSmallChunks}));
}

TEST(SelectorFit, WithoutMeasurementsNothingChanges) {
  EXPECT_EQ(FitSteps({}, FlatUpTo(1)), FlatUpTo(1));
  EXPECT_THAT(FitSteps({}, {}), IsEmpty());
  // What holds now was not measured at any size.
  FitMeasurements measured = Measure({{kFlat, Flat}});
  EXPECT_EQ(FitSteps(measured, FlatUpTo(kKiB)), FlatUpTo(kKiB));
}

TEST(SelectorRows, StepsAreWhatTheFirstFittingRowsSay) {
  const std::string table =
      "all_reduce     in_process    any   any         slice_and_share\n"
      "all_reduce     shared_memory 3-    1KiB        slice_and_share 16KiB\n"
      "all_reduce     shared_memory any   64KiB/ranks flat_fold\n"
      "all_reduce     shared_memory any   8KiB/peers  slice_and_share 32KiB\n"
      "all_reduce     shared_memory 2-4   any         slice_and_share 128KiB\n"
      "# all_reduce   shared_memory any   any         none\n";
  EXPECT_THAT(StepsOfTable(table, kPlace),
              ElementsAre(SelectorStep{32 * kKiB, kFlat},
                          SelectorStep{kAny, {"slice_and_share", "128KiB"}}));
  EXPECT_THAT(StepsOfTable(table, {"all_reduce", "shared_memory", 4}),
              ElementsAre(SelectorStep{kKiB, {"slice_and_share", "16KiB"}},
                          SelectorStep{16 * kKiB, kFlat},
                          SelectorStep{kAny, {"slice_and_share", "128KiB"}}));
  EXPECT_THAT(StepsOfTable(table, {"reduce", "shared_memory", 4}), IsEmpty());
  EXPECT_THAT(AlgorithmsOfTable(table), ElementsAre("slice_and_share", "flat_fold"));
}

TEST(SelectorRows, RowsSayTheSteps) {
  EXPECT_EQ(RowsOfSteps(kPlace, {{1000, kFlat}, {3 << 20, kFlat}, {kAny, kSmallChunks}}),
            "all_reduce     shared_memory 2     1000        flat_fold\n"
            "all_reduce     shared_memory 2     3MiB        flat_fold\n"
            "all_reduce     shared_memory 2     any         slice_and_share 64KiB\n");
}

}  // namespace
}  // namespace tutti::tool
