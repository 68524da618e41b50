#include "core/tensor/cast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/tensor/half.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;

template <class To, class From>
To CastOne(From value) {
  To out;
  CastElements(DTypeOf<From>, &value, DTypeOf<To>, &out, 1);
  return out;
}

// Small whole numbers are exact in every dtype, so that every pair can be tried with them.
TEST(Cast, KeepsSmallNumbersBetweenAllPairsOfDTypes) {
  const int64_t count = 1000;  // several blocks and a tail
  std::vector<double> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<double>(i % 101);
  for (int32_t from = 1; from <= 15; ++from) {
    for (int32_t to = 1; to <= 15; ++to) {
      const auto from_dtype = static_cast<DType>(from);
      const auto to_dtype = static_cast<DType>(to);
      std::vector<Complex128> source(count);
      std::vector<Complex128> converted(count);
      std::vector<double> back(count);
      CastElements(DType::kFloat64, numbers.data(), from_dtype, source.data(), count);
      CastElements(from_dtype, source.data(), to_dtype, converted.data(), count);
      CastElements(to_dtype, converted.data(), DType::kFloat64, back.data(), count);
      const bool through_bool = from_dtype == DType::kBool || to_dtype == DType::kBool;
      for (int64_t i = 0; i < count; ++i) {
        const double expected = through_bool ? static_cast<double>(numbers[i] != 0) : numbers[i];
        ASSERT_EQ(back[i], expected) << DTypeName(from_dtype) << " to " << DTypeName(to_dtype);
      }
    }
  }
}

TEST(Cast, TruncatesAndSaturatesFloatsToIntegers) {
  EXPECT_EQ(CastOne<int32_t>(-2.9f), -2);
  EXPECT_EQ(CastOne<int8_t>(127.9f), 127);
  EXPECT_EQ(CastOne<int8_t>(128.0f), 127);
  EXPECT_EQ(CastOne<int8_t>(-1000.0), -128);
  EXPECT_EQ(CastOne<uint8_t>(-1.0), 0);
  EXPECT_EQ(CastOne<uint8_t>(-0.5), 0);
  EXPECT_EQ(CastOne<uint8_t>(255.9), 255);
  EXPECT_EQ(CastOne<int32_t>(3e9f), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(CastOne<int64_t>(1e30), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(CastOne<int64_t>(-1e30), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(CastOne<uint64_t>(18446744073709549568.0), 18446744073709549568u);
  EXPECT_EQ(CastOne<uint64_t>(18446744073709551616.0), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(CastOne<int32_t>(std::nan("")), 0);
  EXPECT_EQ(CastOne<int32_t>(std::numeric_limits<float>::infinity()),
            std::numeric_limits<int32_t>::max());
}

TEST(Cast, KeepsTheLowBitsOfIntegers) {
  EXPECT_EQ(CastOne<int8_t>(int32_t{300}), 44);
  EXPECT_EQ(CastOne<uint8_t>(int64_t{-1}), 255);
  EXPECT_EQ(CastOne<int64_t>(std::numeric_limits<uint64_t>::max()), -1);
}

TEST(Cast, TakesEverythingThatIsNotZeroAsTrue) {
  EXPECT_TRUE(CastOne<bool>(0.25f));
  EXPECT_FALSE(CastOne<bool>(-0.0f));
  EXPECT_TRUE(CastOne<bool>(std::nan("")));
  EXPECT_TRUE(CastOne<bool>(Complex64{0, 1}));
  EXPECT_FALSE(CastOne<bool>(Float16{0x8000}));
}

TEST(Cast, DropsTheImaginaryPart) {
  EXPECT_EQ(CastOne<float>(Complex64{3, 4}), 3.0f);
  EXPECT_EQ(CastOne<int32_t>(Complex128{-3.5, 4}), -3);
  EXPECT_EQ(CastOne<Complex128>(Complex64{3, 4}).imag, 4.0);
  EXPECT_EQ(CastOne<Complex64>(int32_t{7}).imag, 0.0f);
}

TEST(Cast, RoundsOnceTo16Bits) {
  // Each lies just off the middle of two bfloat16 (or float16); rounding to float first would fall
  // on the middle.
  EXPECT_EQ(CastOne<Bfloat16>(1.0 + 0x1p-8 + 0x1p-40).bits, 0x3f81);
  EXPECT_EQ(CastOne<Bfloat16>(1.0 + 0x1p-8).bits, 0x3f80);
  EXPECT_EQ(CastOne<Bfloat16>(1.0 + 0x1p-7 + 0x1p-8 - 0x1p-40).bits, 0x3f81);
  EXPECT_EQ(CastOne<Bfloat16>(-(1.0 + 0x1p-8 + 0x1p-40)).bits, 0xbf81);
  EXPECT_EQ(CastOne<Float16>(1.0 + 0x1p-11 + 0x1p-40).bits, 0x3c01);
  EXPECT_EQ(CastOne<Float16>(1.0 + 0x1p-11).bits, 0x3c00);
  EXPECT_EQ(CastOne<Bfloat16>((int32_t{1} << 30) + (1 << 22) + 1).bits, 0x4e81);
  EXPECT_EQ(CastOne<Bfloat16>((int32_t{1} << 30) + (1 << 22)).bits, 0x4e80);
  EXPECT_EQ(CastOne<Bfloat16>((int64_t{1} << 62) + (int64_t{1} << 54) + 1).bits, 0x5e81);
  EXPECT_EQ(CastOne<Bfloat16>(-((int64_t{1} << 62) + (int64_t{1} << 54) + 1)).bits, 0xde81);
  EXPECT_EQ(CastOne<Bfloat16>((uint64_t{1} << 63) + (uint64_t{1} << 55) + 1).bits, 0x5f01);
  EXPECT_EQ(CastOne<Float16>(1e300).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(ToFloat(CastOne<Float16>(std::nan("")))));
}

TEST(Cast, CountsStrangeBooleansAsTrue) {
  uint8_t bytes[] = {0, 1, 2, 255};
  const Ref<Tensor> strange =
      Tensor::Wrap(bytes, sizeof(bytes), DType::kBool, Shape({4}), {}, false, nullptr).value();
  EXPECT_EQ(Cast(*strange, DType::kFloat16).value()->span<Float16>()[3].bits, 0x3c00);
  EXPECT_THAT(Cast(*strange, DType::kFloat32).value()->span<float>(), ElementsAre(0, 1, 1, 1));
}

TEST(Cast, MakesDenseTensorsOfViews) {
  const Ref<Tensor> tensor =
      Tensor::FromSpan<float>(Shape({2, 2}), std::vector<float>{1.5f, 2, 3, 4}).value();
  const Ref<Tensor> column = tensor->SliceAxis(1, 0, 1).value();
  const Ref<Tensor> whole = Cast(*column, DType::kInt64).value();
  EXPECT_THAT(whole->span<int64_t>(), ElementsAre(1, 3));
  EXPECT_EQ(whole->shape(), Shape({2, 1}));
  EXPECT_THAT(Cast(*column, DType::kFloat32).value()->span<float>(), ElementsAre(1.5f, 3));
}

TEST(Cast, RefusesByteStrings) {
  EXPECT_EQ(Cast(*Tensor::Bytes("1"), DType::kInt32).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Cast(*Tensor::Scalar(1.0f), DType::kBytes).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Cast(*Tensor::Scalar(1.0f), DType::kInvalid).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Cast(*Tensor::Bytes("1"), DType::kBytes).value()->item<BytesView>().text(), "1");
}

}  // namespace
}  // namespace tutti
