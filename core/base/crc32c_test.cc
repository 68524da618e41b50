#include "core/base/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "core/base/random.h"

namespace tutti {
namespace {

// Vectors of RFC 3720, appendix B.4.
TEST(Crc32c, GivesTheValuesOfTheStandard) {
  const std::vector<unsigned char> zeros(32, 0);
  const std::vector<unsigned char> ones(32, 0xff);
  std::vector<unsigned char> rising(32);
  std::iota(rising.begin(), rising.end(), 0);
  EXPECT_EQ(Crc32c(zeros.data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(ones.data(), 32), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(rising.data(), 32), 0x46dd794eu);
  EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(Crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, AgreesWithTheTableForEveryLengthAndAlignment) {
  SplitMix64 random(17);
  std::vector<unsigned char> data(40'000);
  for (unsigned char& byte : data) byte = static_cast<unsigned char>(random.Next());
  for (size_t length = 0; length < 2000; ++length) {
    const size_t offset = length % 9;
    ASSERT_EQ(Crc32c(data.data() + offset, length),
              ExtendCrc32cByTable(0, data.data() + offset, length))
        << length << " bytes at " << offset;
  }
  for (const size_t length : {4096u, 12288u, 12289u, 24576u + 1536u + 200u, 39'000u}) {
    ASSERT_EQ(Crc32c(data.data() + 3, length), ExtendCrc32cByTable(0, data.data() + 3, length))
        << length << " bytes";
  }
}

TEST(Crc32c, OfAConcatenationIsTheExtensionOfTheFirstPart) {
  const std::string text(5000, 'x');
  const uint32_t whole = Crc32c(text.data(), text.size());
  for (const size_t cut : {0u, 1u, 7u, 100u, 4999u, 5000u}) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(text.data(), cut), text.data() + cut, text.size() - cut), whole);
  }
}

TEST(Crc32c, IsMaskedAsTfRecordStoresIt) {
  // The masked checksum of the little-endian length 0, as every empty record begins.
  const unsigned char zero_length[8] = {};
  const uint32_t crc = Crc32c(zero_length, 8);
  EXPECT_EQ(MaskCrc32c(crc), ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
  EXPECT_NE(MaskCrc32c(crc), crc);
  for (const uint32_t value : {0u, 1u, 0xffffffffu, 0xdeadbeefu}) {
    EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(value)), value);
  }
}

}  // namespace
}  // namespace tutti
