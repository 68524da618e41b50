#include "core/tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/tensor/half.h"
#include "core/tensor/half_convert.h"

namespace tutti {
namespace {

TEST(DType, HasANameAndASizeForEveryNumber) {
  for (int32_t number = 1; number <= 16; ++number) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
    EXPECT_GT(ItemSize(dtype), 0u);
  }
  EXPECT_EQ(DTypeName(DType::kBfloat16), "bfloat16");
  EXPECT_EQ(DTypeName(DType::kComplex128), "complex128");
  EXPECT_EQ(ItemSize(DType::kComplex128), 16u);
  EXPECT_EQ(ItemSize(DType::kBytes), sizeof(BytesView));
}

TEST(DType, KnowsNumbersThatAreNone) {
  EXPECT_EQ(ItemSize(DType::kInvalid), 0u);
  EXPECT_EQ(ItemSize(static_cast<DType>(17)), 0u);
  EXPECT_EQ(ItemSize(static_cast<DType>(-1)), 0u);
  EXPECT_EQ(DTypeName(static_cast<DType>(99)), "invalid");
  EXPECT_EQ(DTypeFromName("float31"), DType::kInvalid);
  EXPECT_EQ(DTypeFromName("string"), DType::kBytes);
}

TEST(DType, IsNumericExceptForBoolAndBytes) {
  EXPECT_FALSE(IsNumeric(DType::kBool));
  EXPECT_FALSE(IsNumeric(DType::kBytes));
  EXPECT_TRUE(IsNumeric(DType::kUint64));
  EXPECT_TRUE(IsNumeric(DType::kFloat16));
  EXPECT_TRUE(IsNumeric(DType::kComplex64));
}

// The value of a float16 by its definition.
double Float16ByDefinition(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, WidensEveryFloat16ToItsDefinition) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = ToFloat(Float16{static_cast<uint16_t>(bits)});
    const double expected = Float16ByDefinition(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    }
  }
}

TEST(Half, ReturnsEveryFloat16FromFloatUnchanged) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    if (std::isnan(Float16ByDefinition(half.bits))) {
      ASSERT_EQ(ToFloat16(ToFloat(half)).bits, half.bits | 0x200u);
    } else {
      ASSERT_EQ(ToFloat16(ToFloat(half)).bits, half.bits);
    }
  }
}

TEST(Half, RoundsHalfwayCasesToEven) {
  for (uint32_t bits = 0; bits + 1 < 0x7c00; ++bits) {
    const double low = Float16ByDefinition(static_cast<uint16_t>(bits));
    const double high = Float16ByDefinition(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const uint32_t even = bits & 1 ? bits + 1 : bits;
    ASSERT_EQ(ToFloat16(middle).bits, even) << bits;
    ASSERT_EQ(ToFloat16(std::nextafter(middle, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(ToFloat16(-std::nextafter(middle, 1e9f)).bits, (bits + 1) | 0x8000u) << bits;
  }
  EXPECT_EQ(ToFloat16(65519.0f).bits, 0x7bffu);
  EXPECT_EQ(ToFloat16(65520.0f).bits, 0x7c00u);
  EXPECT_EQ(ToFloat16(1e30f).bits, 0x7c00u);
}

TEST(Half, RoundsBfloat16HalfwayCasesToEven) {
  const auto from_bits = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  EXPECT_EQ(ToBfloat16(from_bits(0x3f808000)).bits, 0x3f80u);
  EXPECT_EQ(ToBfloat16(from_bits(0x3f818000)).bits, 0x3f82u);
  EXPECT_EQ(ToBfloat16(from_bits(0x3f808001)).bits, 0x3f81u);
  EXPECT_EQ(ToBfloat16(from_bits(0x7f7fffff)).bits, 0x7f80u);
  EXPECT_EQ(ToBfloat16(from_bits(0x7f800001)).bits, 0x7fc0u);
  EXPECT_EQ(ToBfloat16(from_bits(0xff800000)).bits, 0xff80u);
}

TEST(Half, ConvertsBlocksToTheSameBitsAsSingleValues) {
  std::vector<Float16> halves(65536 + 5);
  std::vector<Bfloat16> brains(halves.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i].bits = static_cast<uint16_t>(i);
    brains[i].bits = static_cast<uint16_t>(i);
  }
  std::vector<float> floats(halves.size());
  ConvertToFloat(halves.data(), floats.data(), static_cast<int64_t>(halves.size()));
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(ToFloat(halves[i])));
  }
  ConvertToFloat(brains.data(), floats.data(), static_cast<int64_t>(brains.size()));
  for (size_t i = 0; i < brains.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(ToFloat(brains[i])));
  }
  // All the floats with these upper halves, and some lower ones.
  for (uint32_t lower : {0x0000u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xf000u}) {
    std::vector<float> source(floats.size());
    for (size_t i = 0; i < source.size(); ++i) {
      source[i] = std::bit_cast<float>(static_cast<uint32_t>(i % 65536) << 16 | lower);
    }
    ConvertFromFloat(source.data(), halves.data(), static_cast<int64_t>(source.size()));
    ConvertFromFloat(source.data(), brains.data(), static_cast<int64_t>(source.size()));
    for (size_t i = 0; i < source.size(); ++i) {
      ASSERT_EQ(halves[i].bits, ToFloat16(source[i]).bits) << i << " " << lower;
      ASSERT_EQ(brains[i].bits, ToBfloat16(source[i]).bits) << i << " " << lower;
    }
  }
}

}  // namespace
}  // namespace tutti
