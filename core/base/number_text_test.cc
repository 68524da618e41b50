#include "core/base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace tutti {
namespace {

template <class T>
std::string Read(std::string_view text) {
  T value{};
  return ReadNumber(text, &value) ? std::to_string(value) : "none";
}

TEST(NumberText, BlanksAroundANumberAndAPlusDoNotCount) {
  EXPECT_EQ(Read<int64_t>(" 12\t\r\n"), "12");
  EXPECT_EQ(Read<int64_t>("+4"), "4");
  EXPECT_EQ(Read<double>("\v-2.5 "), "-2.500000");
  for (const char* text : {"", " ", "+", "+-4", "--4", "1 2", "1.5", "12a", "0x1f"}) {
    EXPECT_EQ(Read<int64_t>(text), "none") << text;
  }
  for (const char* text : {"", "+", "e5", "1e", "1 2", "0x1f", "1,5", "."}) {
    EXPECT_EQ(Read<double>(text), "none") << text;
  }
}

TEST(NumberText, AnIntegerThatDoesNotFitIsNone) {
  EXPECT_EQ(Read<int64_t>("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(Read<int64_t>("9223372036854775808"), "none");
  EXPECT_EQ(Read<uint64_t>("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(Read<uint64_t>("-1"), "none");
}

TEST(NumberText, AFloatIsTheNearestThatThereIs) {
  for (const char* text : {"1e400", "+1e39", "12345678901234567890123456789012345678901", "1e99999",
                           "0.001e60", "1e9999999999999999999999", "9e38", "inf"}) {
    EXPECT_EQ(Read<float>(text), "inf") << text;
  }
  EXPECT_EQ(Read<float>("-1e40"), "-inf");
  EXPECT_EQ(Read<double>("-1.5E+400"), "-inf");
  for (const char* text : {"1e-400", "0.00000000000000000000000000000000000000000000000001",
                           "100e-99", "1e-9999999999999999999999", "1e-60"}) {
    float value = 1;
    EXPECT_TRUE(ReadNumber(text, &value)) << text;
    EXPECT_EQ(value, 0) << text;
    EXPECT_FALSE(std::signbit(value));
  }
  double value = 1;
  EXPECT_TRUE(ReadNumber("-1e-400", &value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(std::signbit(value));
  EXPECT_TRUE(ReadNumber("5e-324", &value));
  EXPECT_EQ(value, std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(Read<float>("0.1"), std::to_string(0.1F));
}

}  // namespace
}  // namespace tutti
