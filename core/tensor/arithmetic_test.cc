#include "core/tensor/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/cast.h"
#include "core/tensor/half.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
Ref<Tensor> Vector(std::vector<T> values) {
  return Tensor::FromSpan<T>(Shape({static_cast<int64_t>(values.size())}), values).value();
}

// 1000 elements: several blocks and a tail, in every numeric dtype, against plain C++ on small
// whole numbers.
TEST(Binary, ComputesInEveryNumericDType) {
  const int64_t count = 1000;
  std::vector<double> a(count);
  std::vector<double> b(count);
  for (int64_t i = 0; i < count; ++i) {
    b[i] = static_cast<double>(1 + i % 7);
    a[i] = b[i] * static_cast<double>(1 + i % 9);
  }
  const Ref<Tensor> wide_a = Vector(a);
  const Ref<Tensor> wide_b = Vector(b);
  for (int32_t number = 2; number <= 15; ++number) {
    const auto dtype = static_cast<DType>(number);
    const Ref<Tensor> left = Cast(*wide_a, dtype).value();
    const Ref<Tensor> right = Cast(*wide_b, dtype).value();
    const Ref<Tensor> three = Cast(*Tensor::Scalar(3.0), dtype).value();
    const auto check = [&](BinaryOp op, const Tensor& y, auto expected) {
      const Ref<Tensor> result =
          Cast(*Binary(op, *left, y).value(), DType::kFloat64).value();
      const Ref<Tensor> in_place = left->Copy().value();
      ASSERT_TRUE(BinaryInPlace(op, in_place.get(), y).ok());
      const Ref<Tensor> result_in_place = Cast(*in_place, DType::kFloat64).value();
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(result->span<double>()[i], expected(i))
            << DTypeName(dtype) << " " << BinaryOpName(op) << " " << i;
      }
      EXPECT_TRUE(result->ContentsEqual(*result_in_place));
    };
    check(BinaryOp::kAdd, *right, [&](int64_t i) { return a[i] + b[i]; });
    check(BinaryOp::kDiv, *right, [&](int64_t i) { return a[i] / b[i]; });
    check(BinaryOp::kAdd, *three, [&](int64_t i) { return a[i] + 3; });
    if (!IsUnsignedInteger(dtype)) {
      check(BinaryOp::kSub, *right, [&](int64_t i) { return a[i] - b[i]; });
      check(BinaryOp::kSub, *three, [&](int64_t i) { return a[i] - 3; });
    }
    if (ItemSize(dtype) > 1 && dtype != DType::kBfloat16) {
      check(BinaryOp::kMul, *right, [&](int64_t i) { return a[i] * b[i]; });
      check(BinaryOp::kMul, *three, [&](int64_t i) { return a[i] * 3; });
    }
  }
}

TEST(Binary, WrapsIntegers) {
  const int64_t big = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Binary(BinaryOp::kAdd, *Tensor::Scalar(big), *Tensor::Scalar<int64_t>(1))
                .value()
                ->item<int64_t>(),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Binary(BinaryOp::kMul, *Tensor::Scalar<uint16_t>(65535),
                   *Tensor::Scalar<uint16_t>(65535))
                .value()
                ->item<uint16_t>(),
            1);
  const int32_t lowest = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(Binary(BinaryOp::kDiv, *Tensor::Scalar(lowest), *Tensor::Scalar<int32_t>(-1))
                .value()
                ->item<int32_t>(),
            lowest);
}

TEST(Binary, TruncatesIntegerQuotientsAndNamesAZeroDivisor) {
  EXPECT_THAT(Binary(BinaryOp::kDiv, *Vector<int32_t>({-7, 7}), *Tensor::Scalar<int32_t>(2))
                  .value()
                  ->span<int32_t>(),
              ElementsAre(-3, 3));
  const Status status =
      Binary(BinaryOp::kDiv, *Vector<int32_t>({1, 2}), *Vector<int32_t>({1, 0})).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("element 1 of the divisor"));
  EXPECT_TRUE(std::isinf(Binary(BinaryOp::kDiv, *Tensor::Scalar(1.0f), *Tensor::Scalar(0.0f))
                             .value()
                             ->item<float>()));
}

TEST(Binary, MultipliesAndDividesComplexNumbers) {
  const Ref<Tensor> a = Tensor::Scalar(Complex64{1, 2});
  const Ref<Tensor> b = Tensor::Scalar(Complex64{3, -4});
  const Complex64 product = Binary(BinaryOp::kMul, *a, *b).value()->item<Complex64>();
  EXPECT_EQ(product.real, 11.0f);
  EXPECT_EQ(product.imag, 2.0f);
  const Complex64 quotient = Binary(BinaryOp::kDiv, *a, *b).value()->item<Complex64>();
  EXPECT_FLOAT_EQ(quotient.real, -0.2f);
  EXPECT_FLOAT_EQ(quotient.imag, 0.4f);
}

TEST(Binary, RoundsHalvesOnce) {
  const Ref<Tensor> a = Tensor::Scalar(ToFloat16(1.0f));
  const Ref<Tensor> b = Tensor::Scalar(ToFloat16(0x1p-11f));
  EXPECT_EQ(Binary(BinaryOp::kAdd, *a, *b).value()->item<Float16>().bits, 0x3c00);
}

TEST(Binary, WritesThroughViewsWithGaps) {
  const Ref<Tensor> table = Tensor::FromSpan<float>(Shape({2, 2}),
                                                    std::vector<float>{1, 2, 3, 4}).value();
  const Ref<Tensor> column = table->SliceAxis(1, 1, 2).value();
  ASSERT_TRUE(BinaryInPlace(BinaryOp::kSub, column.get(), *Tensor::Scalar(10.0f)).ok());
  EXPECT_THAT(table->span<float>(), ElementsAre(1, -8, 3, -6));
  ASSERT_TRUE(ScaleInPlace(column.get(), 0.5).ok());
  EXPECT_THAT(table->span<float>(), ElementsAre(1, -4, 3, -3));
}

TEST(Binary, NamesBothSpecsThatDoNotFit) {
  const Status shapes =
      Binary(BinaryOp::kAdd, *Vector<float>({1, 2}), *Vector<float>({1})).status();
  EXPECT_EQ(shapes.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shapes.message()), HasSubstr("float32[2] and float32[1]"));
  EXPECT_EQ(Binary(BinaryOp::kAdd, *Vector<float>({1}), *Vector<double>({1})).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Binary(BinaryOp::kAdd, *Tensor::Scalar(true), *Tensor::Scalar(true)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Binary(BinaryOp::kAdd, *Tensor::Bytes("a"), *Tensor::Bytes("b")).status().code(),
            StatusCode::kInvalidArgument);
  float one = 1;
  const Ref<Tensor> constant =
      Tensor::Wrap(&one, sizeof(one), DType::kFloat32, Shape(), {}, true, nullptr).value();
  EXPECT_EQ(BinaryInPlace(BinaryOp::kAdd, constant.get(), *constant).code(),
            StatusCode::kFailedPrecondition);
}

TEST(Binary, TakesTensorsWithoutElements) {
  EXPECT_EQ(Binary(BinaryOp::kDiv, *Vector<int32_t>({}), *Vector<int32_t>({}))
                .value()
                ->num_elements(),
            0);
  EXPECT_EQ(Binary(BinaryOp::kMul, *Vector<Float16>({}), *Tensor::Scalar(Float16{0x3c00}))
                .value()
                ->num_elements(),
            0);
}

TEST(Scale, MultipliesEveryNumericDType) {
  std::vector<double> numbers(700);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 50);
  for (int32_t number = 2; number <= 15; ++number) {
    const auto dtype = static_cast<DType>(number);
    const Ref<Tensor> tensor = Cast(*Vector(numbers), dtype).value();
    const Ref<Tensor> scaled = Cast(*Scale(*tensor, 2.0).value(), DType::kFloat64).value();
    for (size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(scaled->span<double>()[i], 2 * numbers[i]) << DTypeName(dtype);
    }
  }
  EXPECT_THAT(Scale(*Vector<int32_t>({7, -7}), 0.5).value()->span<int32_t>(), ElementsAre(3, -3));
  EXPECT_EQ(Scale(*Tensor::Scalar<int8_t>(100), 2).value()->item<int8_t>(), 127);
  EXPECT_EQ(Scale(*Tensor::Scalar(Complex64{1, 2}), 3).value()->item<Complex64>().imag, 6.0f);
  EXPECT_EQ(Scale(*Tensor::Scalar(true), 2).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
