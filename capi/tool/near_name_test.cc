#include "capi/tool/near_name.h"

#include <gtest/gtest.h>

namespace tutti::tool {
namespace {

TEST(NearName, IsWhatSomebodyMayHaveMeant) {
  const std::vector<std::string> commands = {"run", "doctor", "bench", "trace"};
  EXPECT_EQ(NearName("docter", commands), "doctor");
  EXPECT_EQ(NearName("rnu", commands), "run");
  EXPECT_EQ(NearName("becnh", commands), "bench");
  EXPECT_EQ(NearName("traces", commands), "trace");
  EXPECT_EQ(NearName("launch", commands), "");
  EXPECT_EQ(NearName("", commands), "");
  EXPECT_EQ(NearName("r", {}), "");
}

}  // namespace
}  // namespace tutti::tool
