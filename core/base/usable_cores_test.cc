#include "core/base/usable_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace tutti {
namespace {

TEST(UsableCores, IsAtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(UsableCores(), 1u);
  EXPECT_LE(UsableCores(), std::thread::hardware_concurrency());
}

TEST(UsableCores, FollowsTheAffinityOfTheThreadThatAsks) {
  size_t cores = 0;
  std::thread([&] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    cores = UsableCores();
  }).join();
  EXPECT_EQ(cores, 1u);
}

TEST(CoresOfCpuMax, RoundsTheQuotaUp) {
  EXPECT_EQ(CoresOfCpuMax("200000 100000\n"), 2u);
  EXPECT_EQ(CoresOfCpuMax("150000 100000\n"), 2u);
  EXPECT_EQ(CoresOfCpuMax("1000 100000\n"), 1u);
}

TEST(CoresOfCpuMax, KnowsNoLimitWhereThereIsNone) {
  EXPECT_EQ(CoresOfCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(CoresOfCpuMax(""), std::nullopt);
  EXPECT_EQ(CoresOfCpuMax("100000"), std::nullopt);
  EXPECT_EQ(CoresOfCpuMax("100000 0"), std::nullopt);
}

TEST(CoresOfCfsQuota, ReadsTheTwoFilesOfTheFirstVersion) {
  EXPECT_EQ(CoresOfCfsQuota("250000\n", "100000\n"), 3u);
  EXPECT_EQ(CoresOfCfsQuota("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(CoresOfCfsQuota("", ""), std::nullopt);
}

TEST(ControlGroupPath, FindsTheUnifiedHierarchyAndControllers) {
  const char* text = "12:memory:/a\n4:cpu,cpuacct:/slice/job\n0::/unified/job\n";
  EXPECT_EQ(ControlGroupPath(text, ""), "/unified/job");
  EXPECT_EQ(ControlGroupPath(text, "cpu"), "/slice/job");
  EXPECT_EQ(ControlGroupPath(text, "cpuacct"), "/slice/job");
  EXPECT_EQ(ControlGroupPath(text, "pids"), std::nullopt);
  EXPECT_EQ(ControlGroupPath("0::/\n", ""), "");
}

}  // namespace
}  // namespace tutti
