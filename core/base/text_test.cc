#include "core/base/text.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Text, SplitsAndJoins) {
  EXPECT_EQ(Split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_TRUE(Split("", ',').empty());
  EXPECT_EQ(Join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(JoinAll(std::vector<int>{1, 2, 3}, "x"), "1x2x3");
  EXPECT_EQ(Trim("  a b\n"), "a b");
}

TEST(Text, QuotesWhatDoesNotPrint) {
  EXPECT_EQ(Quote("a\"b\n\x01"), "\"a\\\"b\\n\\x01\"");
  EXPECT_EQ(JsonQuote("a\"b\n"), "\"a\\\"b\\u000a\"");
  EXPECT_EQ(JsonQuote("\xc3\xa9\xff"), "\"\xc3\xa9\xef\xbf\xbd\"");
  EXPECT_EQ(JsonQuote("\xc0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");  // overlong zero
  EXPECT_TRUE(IsReadable("") && IsReadable("a \"b\"\n\t~") && IsReadable("\xc3\xa9"));
  for (const char* text : {"a\x01", "\x1b[1m", "\x7f", "\xff", "a\xc3"}) {
    EXPECT_FALSE(IsReadable(text)) << text;
  }
}

TEST(Text, ParsesWholeNumbersOnly) {
  EXPECT_EQ(ParseInt64("-12"), -12);
  EXPECT_EQ(ParseInt64("+12"), 12);
  EXPECT_EQ(ParseInt64("9223372036854775807"), INT64_MAX);
  EXPECT_FALSE(ParseInt64("9223372036854775808"));
  EXPECT_FALSE(ParseInt64("12x"));
  EXPECT_FALSE(ParseInt64(""));
  EXPECT_FALSE(ParseInt64("+-1"));
  EXPECT_EQ(ParseDouble("2.5"), 2.5);
  EXPECT_FALSE(ParseDouble("2.5.1"));
}

TEST(Text, ParsesDurationsAndBytesWithUnits) {
  EXPECT_EQ(ParseDuration("250ms"), 250'000'000);
  EXPECT_EQ(ParseDuration("1.5 s"), 1'500'000'000);
  EXPECT_EQ(ParseDuration("2"), 2'000'000'000);
  EXPECT_EQ(ParseDuration("100ns"), 100);
  EXPECT_EQ(ParseDuration("1h"), 3'600'000'000'000);
  EXPECT_FALSE(ParseDuration("5 parsecs"));
  EXPECT_FALSE(ParseDuration("-1s"));
  EXPECT_FALSE(ParseDuration("s"));
  EXPECT_FALSE(ParseDuration("99999999999h"));
  EXPECT_EQ(ParseBytes("512"), 512);
  EXPECT_EQ(ParseBytes("64K"), 65536);
  EXPECT_EQ(ParseBytes("1.5 GiB"), 1610612736);
  EXPECT_FALSE(ParseBytes("1e30"));
}

TEST(Text, ParsesBooleansInAnyCase) {
  EXPECT_EQ(ParseBool("Yes"), true);
  EXPECT_EQ(ParseBool("OFF"), false);
  EXPECT_FALSE(ParseBool("maybe"));
}

TEST(Text, WritesSizesAndDurationsForPeople) {
  EXPECT_EQ(HumanBytes(17), "17 bytes");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanDuration(900), "900 ns");
  EXPECT_EQ(HumanDuration(20'000'000), "20 ms");
  EXPECT_EQ(HumanDuration(90'000'000'000), "90 s");
}

TEST(Text, FindsTheNameThatWasProbablyMeant) {
  const std::vector<std::string> names = {"log_level", "memory_limit", "compute_threads"};
  EXPECT_EQ(NearestName("log_levle", names), "log_level");
  EXPECT_EQ(NearestName("memory_limits", names), "memory_limit");
  EXPECT_EQ(NearestName("banana", names), "");
}

}  // namespace
}  // namespace tutti
