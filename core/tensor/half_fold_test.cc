#include "core/tensor/half_fold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "core/tensor/half.h"
#include "core/tensor/reduce.h"

namespace tutti::tensor_internal {
namespace {

constexpr HalfOp kOps[] = {HalfOp::kSum, HalfOp::kMean, HalfOp::kProd};

template <class T>
struct HalfFold : ::testing::Test {
  static constexpr DType kDType =
      std::is_same_v<T, Bfloat16> ? DType::kBfloat16 : DType::kFloat16;

  static T Narrow(float value) {
    if constexpr (std::is_same_v<T, Bfloat16>) {
      return ToBfloat16(value);
    } else {
      return ToFloat16(value);
    }
  }

  static float InFloat(HalfOp op, const std::vector<std::vector<T>>& inputs, size_t i) {
    float value = ToFloat(inputs[0][i]);
    for (size_t r = 1; r < inputs.size(); ++r) {
      const float operand = ToFloat(inputs[r][i]);
      value = op == HalfOp::kProd ? value * operand : value + operand;
    }
    return op == HalfOp::kMean ? value / static_cast<float>(inputs.size()) : value;
  }

  // What a vector may leave to the caller.
  static bool IsSpecial(float value) {
    return std::isnan(value) || std::fpclassify(value) == FP_SUBNORMAL;
  }

  static std::vector<const void*> Pointers(const std::vector<std::vector<T>>& inputs) {
    std::vector<const void*> pointers;
    for (const auto& input : inputs) pointers.push_back(input.data());
    return pointers;
  }

  // Bits of all numbers in a narrow range of exponents, where sums are rounded in every way, or of
  // any.
  static std::vector<std::vector<T>> Numbers(size_t ranks, size_t n, bool of_any_bits) {
    static std::mt19937 random(7);
    std::vector<std::vector<T>> inputs(ranks, std::vector<T>(n));
    for (auto& input : inputs) {
      for (T& value : input) {
        const auto bits = static_cast<uint16_t>(random());
        const auto plain = Narrow(std::ldexp(1.0f + static_cast<float>(bits % 2048) / 2048,
                                             static_cast<int>(bits >> 11) % 14));
        value = of_any_bits ? T{bits} : T{static_cast<uint16_t>(plain.bits | (bits & 0x8000))};
      }
    }
    return inputs;
  }
};

using Halves = ::testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(HalfFold, Halves);

TYPED_TEST(HalfFold, HasTheBitsOfElementsFoldedOneByOne) {
  using T = TypeParam;
  for (int width = 1; width <= static_cast<int>(WidestVectors()); ++width) {
    for (const HalfOp op : kOps) {
      for (const size_t ranks : {2, 3, 6}) {
        for (const bool of_any_bits : {false, true}) {
          constexpr int64_t kElements = 8 * kHalfBlock + 77;
          const auto inputs = this->Numbers(ranks, kElements, of_any_bits);
          const std::vector<const void*> pointers = this->Pointers(inputs);
          std::vector<T> out(kElements);
          int64_t folded = 0;
          while (folded < kElements) {
            const size_t own = of_any_bits ? 1 : SIZE_MAX;
            const int64_t end = FoldHalves(static_cast<VectorWidth>(width), op, pointers.data(),
                                           ranks, folded, kElements, own, out.data());
            ASSERT_LE(folded, end);
            for (; folded < end; ++folded) {
              const auto i = static_cast<size_t>(folded);
              ASSERT_EQ(out[i].bits, this->Narrow(this->InFloat(op, inputs, i)).bits)
                  << "width " << width << ", element " << i << " of " << ranks;
            }
            // Why it has stopped.
            bool has_special = false;
            const int64_t rest = std::min(kElements, end + kHalfBlock);
            for (int64_t i = end; i < rest; ++i) {
              has_special |= this->IsSpecial(this->InFloat(op, inputs, static_cast<size_t>(i)));
            }
            ASSERT_TRUE(has_special || kElements - end < 16) << "width " << width << " at " << end;
            folded = rest;
          }
        }
      }
    }
  }
}

TYPED_TEST(HalfFold, OfAnyLengthAndInPlaceWritesNothingElse) {
  using T = TypeParam;
  for (int64_t n = 0; n < 3 * kHalfBlock; n += n < 70 ? 1 : 17) {
    auto inputs = this->Numbers(3, static_cast<size_t>(n + 1), false);
    std::vector<T> expected;
    for (int64_t i = 0; i < n; ++i) {
      expected.push_back(this->Narrow(this->InFloat(HalfOp::kSum, inputs, static_cast<size_t>(i))));
    }
    for (size_t target = 0; target < inputs.size(); ++target) {
      auto copies = inputs;
      expected.resize(static_cast<size_t>(n));
      expected.push_back(inputs[target].back());
      const std::vector<const void*> pointers = this->Pointers(copies);
      T* const out = copies[target].data();
      ASSERT_TRUE(ReduceInto(ReduceOp::kSum, this->kDType, pointers, n, out).ok());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(copies[target][i].bits, expected[i].bits) << i << " of " << n;
      }
    }
  }
}

// A result is that of any other stretch of the same inputs, NaNs of any payload included.
TYPED_TEST(HalfFold, OfAnyStretchIsTheSame) {
  using T = TypeParam;
  constexpr int64_t kElements = 700;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kProd}) {
    const auto inputs = this->Numbers(4, kElements, true);
    std::vector<T> whole(kElements);
    ASSERT_TRUE(
        ReduceInto(op, this->kDType, this->Pointers(inputs), kElements, whole.data()).ok());
    for (int64_t first = 0; first < kElements; first += 97) {
      std::vector<const void*> pointers;
      for (const auto& input : inputs) pointers.push_back(input.data() + first);
      std::vector<T> part(static_cast<size_t>(std::min<int64_t>(kElements - first, first + 1)));
      ASSERT_TRUE(ReduceInto(op, this->kDType, pointers, static_cast<int64_t>(part.size()),
                             part.data()).ok());
      for (size_t i = 0; i < part.size(); ++i) {
        ASSERT_EQ(part[i].bits, whole[static_cast<size_t>(first) + i].bits) << first << " + " << i;
      }
    }
  }
}

// Between sums that are folded in vectors.
TYPED_TEST(HalfFold, OfNansInfinitiesAndSubnormals) {
  using T = TypeParam;
  const T one = this->Narrow(1);
  const T infinity = this->Narrow(std::numeric_limits<float>::infinity());
  const T minus_infinity{static_cast<uint16_t>(infinity.bits | 0x8000)};
  const T nan{static_cast<uint16_t>(infinity.bits | 3)};  // it signals
  const T tiny{1};
  const T least{static_cast<uint16_t>(std::is_same_v<T, Bfloat16> ? 0x80 : 0x400)};
  const struct {
    T a;
    T b;
  } kPairs[] = {{nan, one},   {one, nan},   {infinity, minus_infinity}, {infinity, one},
                {tiny, tiny}, {tiny, T{0}}, {least, T{0x8001}},         {T{0x8000}, T{0x8000}}};
  for (size_t at = 0; at < 3 * kHalfBlock; at += 13) {
    std::vector<std::vector<T>> inputs(2, std::vector<T>(3 * kHalfBlock, one));
    for (size_t i = 0; i < std::size(kPairs) && at + i < inputs[0].size(); ++i) {
      inputs[0][at + i] = kPairs[i].a;
      inputs[1][at + i] = kPairs[i].b;
    }
    std::vector<T> out(inputs[0].size());
    ASSERT_TRUE(ReduceInto(ReduceOp::kSum, this->kDType, this->Pointers(inputs), 3 * kHalfBlock,
                           out.data()).ok());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i].bits, this->Narrow(this->InFloat(HalfOp::kSum, inputs, i)).bits) << i;
    }
  }
}

// As those of the numbers in float32.
TYPED_TEST(HalfFold, ExtremesOfAnyBits) {
  using T = TypeParam;
  const auto inputs = this->Numbers(3, 1000, true);
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    std::vector<std::vector<float>> floats;
    std::vector<const void*> float_pointers;
    for (const auto& input : inputs) {
      floats.emplace_back();
      for (const T value : input) floats.back().push_back(ToFloat(value));
    }
    for (const auto& input : floats) float_pointers.push_back(input.data());
    std::vector<float> expected(1000);
    std::vector<T> actual(1000);
    ASSERT_TRUE(ReduceInto(op, DType::kFloat32, float_pointers, 1000, expected.data()).ok());
    ASSERT_TRUE(ReduceInto(op, this->kDType, this->Pointers(inputs), 1000, actual.data()).ok());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i].bits, this->Narrow(expected[i]).bits) << i;
    }
  }
}

}  // namespace
}  // namespace tutti::tensor_internal
