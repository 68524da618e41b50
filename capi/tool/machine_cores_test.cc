#include "capi/tool/machine_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace tutti::tool {
namespace {

constexpr const char* kVersion1 = "12:memory:/box\n4:cpu,cpuacct:/box/inner\n1:cpuset:/\n0::/new\n";

TEST(MachineCores, FindsTheControlGroupOfAController) {
  EXPECT_EQ(ControlGroupPath(kVersion1, "cpu"), "/box/inner");
  EXPECT_EQ(ControlGroupPath(kVersion1, "cpuacct"), "/box/inner");
  EXPECT_EQ(ControlGroupPath(kVersion1, "cpuset"), "");
  EXPECT_EQ(ControlGroupPath(kVersion1, "memory"), "/box");
  EXPECT_EQ(ControlGroupPath(kVersion1, ""), "/new");
  EXPECT_EQ(ControlGroupPath(kVersion1, "cpua"), std::nullopt);
  EXPECT_EQ(ControlGroupPath("", ""), std::nullopt);
  EXPECT_EQ(ControlGroupPath("0::/", ""), "");
}

TEST(MachineCores, UsesNoMoreThanTheAffinityMaskHas) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const MachineCores all = ReadMachineCores();
  EXPECT_EQ(all.affinity, CPU_COUNT(&before));
  EXPECT_GE(all.online, all.usable);
  EXPECT_LE(all.usable, all.affinity);
  EXPECT_GE(all.usable, 1);

  cpu_set_t one;
  CPU_ZERO(&one);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(ReadMachineCores().usable, 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace tutti::tool
