#include "core/tensor/half_convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "core/tensor/half.h"

namespace tutti {
namespace {

// What a block becomes must not depend on how many numbers it has, nor on where one lies.
template <typename Half, typename Narrow>
void ExpectBitsOfSingleNumbers(const Narrow& narrow) {
  for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u}) {
    std::vector<float> numbers;
    for (uint32_t high = 0; high < 0x10000; ++high) {
      numbers.push_back(std::bit_cast<float>(high << 16 | low));
    }
    numbers.resize(numbers.size() - 5);  // no whole block at the end
    const auto count = static_cast<int64_t>(numbers.size());
    std::vector<Half> halves(numbers.size());
    ConvertFromFloat(numbers.data(), halves.data(), count);
    std::vector<float> back(numbers.size());
    ConvertToFloat(halves.data(), back.data(), count);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const bool is_same =
          halves[i].bits == narrow(numbers[i]).bits &&
          std::bit_cast<uint32_t>(back[i]) == std::bit_cast<uint32_t>(ToFloat(halves[i]));
      if (!is_same) FAIL() << std::bit_cast<uint32_t>(numbers[i]) << " became " << halves[i].bits;
    }
  }
}

TEST(HalfConvert, BlocksOfBfloat16HaveTheBitsOfSingleNumbers) {
  ExpectBitsOfSingleNumbers<Bfloat16>([](float number) { return ToBfloat16(number); });
}

TEST(HalfConvert, BlocksOfFloat16HaveTheBitsOfSingleNumbers) {
  ExpectBitsOfSingleNumbers<Float16>([](float number) { return ToFloat16(number); });
}

}  // namespace
}  // namespace tutti
