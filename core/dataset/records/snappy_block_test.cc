#include "core/dataset/records/snappy_block.h"

#include <gmock/gmock.h>

#include <string>

#include "core/base/random.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using namespace std::string_literals;

std::string ThereAndBack(const std::string& content) {
  const Result<std::string> block = SnappyCompress(content);
  EXPECT_TRUE(block.ok());
  const Result<std::string> back = SnappyDecompress(*block);
  EXPECT_TRUE(back.ok()) << back.status().ToString();
  return back.ok() ? *back : std::string();
}

void ExpectDamaged(const std::string& block, std::string_view why) {
  const Result<std::string> content = SnappyDecompress(block);
  ASSERT_FALSE(content.ok());
  EXPECT_EQ(content.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(content.status().message()), HasSubstr(why));
}

TEST(SnappyBlock, WritesTheBytesThatTheFormatDescribes) {
  EXPECT_EQ(*SnappyCompress(""), "\x00"s);
  EXPECT_EQ(*SnappyCompress("Wikipedia"), "\x09\x20Wikipedia");
  // A literal of one byte, and a copy of 99 from one before: 64 and 35.
  EXPECT_EQ(*SnappyCompress(std::string(100, 'a')),
            "\x64\x00"s + "a" + "\xfe\x01\x00\x8a\x01\x00"s);
  // A near copy of four bytes.
  EXPECT_EQ(*SnappyCompress("abcdabcd"), "\x08\x0c" "abcd\x01\x04");
}

TEST(SnappyBlock, ReadsAllKindsOfElements) {
  EXPECT_EQ(*SnappyDecompress("\x00"s), "");
  // Literals with a length of one, two, three and four bytes.
  const std::string text(70, 'x');
  EXPECT_EQ(*SnappyDecompress("\x46\xf0\x45"s + text), text);
  EXPECT_EQ(*SnappyDecompress("\x46\xf4\x45\x00"s + text), text);
  EXPECT_EQ(*SnappyDecompress("\x46\xf8\x45\x00\x00"s + text), text);
  EXPECT_EQ(*SnappyDecompress("\x46\xfc\x45\x00\x00\x00"s + text), text);
  // Copies with offsets of one, two and four bytes, of which the first overlaps itself.
  EXPECT_EQ(*SnappyDecompress("\x07\x08" "abc\x01\x03"s), "abcabca");
  EXPECT_EQ(*SnappyDecompress("\x05\x08" "abc\x06\x03\x00"s), "abcab");
  EXPECT_EQ(*SnappyDecompress("\x05\x08" "abc\x07\x02\x00\x00\x00"s), "abcbc");
}

TEST(SnappyBlock, GivesBackWhatItWasGiven) {
  SplitMix64 random(20);
  for (const size_t size :
       {1u, 3u, 4u, 59u, 60u, 61u, 256u, 257u, 65535u, 65536u, 65537u, 300000u}) {
    std::string repeated, mixed, noise;
    while (noise.size() < size) {
      repeated += "the quick brown fox ";
      const uint64_t number = random.Next();
      mixed += number % 3 == 0 ? std::string(number % 70, static_cast<char>(number >> 8))
                               : mixed.substr(mixed.size() - std::min<size_t>(mixed.size(), 90), 7);
      mixed.push_back(static_cast<char>(number >> 16));
      noise.push_back(static_cast<char>(number >> 24));
    }
    repeated.resize(size);
    mixed.resize(size);
    for (const std::string& content : {repeated, mixed, noise}) {
      EXPECT_TRUE(ThereAndBack(content) == content) << size;
    }
    if (size > 1000) {
      EXPECT_LT(SnappyCompress(repeated)->size(), size / 10);
    }
    EXPECT_LT(SnappyCompress(noise)->size(), size + size / 6 + 32);
  }
}

TEST(SnappyBlock, RefusesWhatIsDamaged) {
  ExpectDamaged("", "its length does not end");
  ExpectDamaged("\xff\xff\xff\xff\xff\x01"s, "its length does not end");
  ExpectDamaged("\xff\xff\xff\xff\x0f"s, "cannot stand in it");
  ExpectDamaged("\x03\x08" "ab"s, "ends in a literal");
  ExpectDamaged("\x02\x08" "abc"s, "more than the 2 bytes");
  ExpectDamaged("\x05\x08" "abc"s, "ends after 3 of 5 bytes");
  ExpectDamaged("\x07\x08" "abc\x01\x04"s, "begins before the content");
  ExpectDamaged("\x07\x08" "abc\x01\x00"s, "begins before the content");
  ExpectDamaged("\x07\x08" "abc\x01"s, "ends in an element");
  ExpectDamaged("\x07\x08" "abc\x06\x01"s, "damaged at byte 5: it ends in an element");
  ExpectDamaged("\x07\x08" "abc\x07\x01\x00\x00"s, "ends in an element");
  ExpectDamaged("\x05\xf4\x45"s, "ends in an element");
}

// Every byte of a block changed, and every length of it: an error or some content, and no more.
TEST(SnappyBlock, SurvivesEveryChangeOfAByte) {
  const std::string block = *SnappyCompress("abcabcabc the quick abcabc brown fox abc");
  for (size_t i = 0; i < block.size(); ++i) {
    EXPECT_FALSE(SnappyDecompress(block.substr(0, i)).ok()) << i;
    for (int change = 1; change < 256; ++change) {
      std::string changed = block;
      changed[i] = static_cast<char>(changed[i] ^ change);
      const Result<std::string> content = SnappyDecompress(changed);
      EXPECT_TRUE(content.ok() || content.status().code() == StatusCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace tutti
