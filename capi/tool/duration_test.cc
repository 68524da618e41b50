#include "capi/tool/duration.h"

#include <gtest/gtest.h>

namespace tutti::tool {
namespace {

TEST(Duration, IsReadWithItsUnit) {
  EXPECT_EQ(ParseDuration("500ms"), Milliseconds(500));
  EXPECT_EQ(ParseDuration("30s"), Milliseconds(30'000));
  EXPECT_EQ(ParseDuration("1.5 s"), Milliseconds(1'500));
  EXPECT_EQ(ParseDuration("5m"), Milliseconds(300'000));
  EXPECT_EQ(ParseDuration("5min"), Milliseconds(300'000));
  EXPECT_EQ(ParseDuration("2h"), Milliseconds(7'200'000));
  EXPECT_EQ(ParseDuration("2"), Milliseconds(2'000));
  EXPECT_EQ(ParseDuration("0"), Milliseconds(0));
}

TEST(Duration, WhatIsNoneIsRefused) {
  for (const char* text : {"", "s", "-1s", "5 parsecs", "nan", "inf", "1e300h", "3s 4s", "+1s"}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
}

TEST(Duration, IsWrittenForPeople) {
  EXPECT_EQ(FormatDuration(Milliseconds(12'340)), "12.3 s");
  EXPECT_EQ(FormatDuration(Milliseconds(245'000)), "4 min 5 s");
  EXPECT_EQ(FormatDuration(Milliseconds(7'800'000)), "2 h 10 min");
}

}  // namespace
}  // namespace tutti::tool
