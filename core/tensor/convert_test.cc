#include "core/tensor/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/tensor/cast.h"
#include "core/tensor/half.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
Ref<Tensor> Row(std::vector<T> values) {
  return Tensor::FromData(DTypeOf<T>, Shape({static_cast<int64_t>(values.size())}), values.data(),
                          values.size() * sizeof(T))
      .value();
}

template <class T>
std::vector<T> Items(const Tensor& tensor) {
  const auto span = tensor.span<T>();
  return std::vector<T>(span.begin(), span.end());
}

std::string Refusal(Ref<Tensor> tensor, DType to) {
  const Result<Ref<Tensor>> converted = Convert(std::move(tensor), to);
  EXPECT_EQ(converted.status().code(), StatusCode::kInvalidArgument);
  return std::string(converted.status().message());
}

bool MayBecome(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::kBool) return false;
  if (IsComplex(from)) return IsComplex(to);
  if (IsFloating(from)) return !IsInteger(to);
  return true;
}

// Small whole numbers fit everywhere, so that the dtypes alone decide.
TEST(Convert, DecidesByTheDTypesOfEveryPair) {
  const std::vector<double> numbers = {0, 1, 1, 0};
  for (int32_t from = 1; from <= 15; ++from) {
    for (int32_t to = 1; to <= 15; ++to) {
      const auto from_dtype = static_cast<DType>(from);
      const auto to_dtype = static_cast<DType>(to);
      const Ref<Tensor> given = Cast(*Row<double>(numbers), from_dtype).value();
      const Result<Ref<Tensor>> converted = Convert(given, to_dtype);
      ASSERT_EQ(converted.ok(), MayBecome(from_dtype, to_dtype))
          << DTypeName(from_dtype) << " to " << DTypeName(to_dtype);
      if (!converted.ok()) continue;
      EXPECT_EQ((*converted)->dtype(), to_dtype);
      EXPECT_EQ(Items<double>(*Cast(**converted, DType::kFloat64).value()), numbers);
    }
  }
}

TEST(Convert, GivesTheTensorItselfWhereTheDTypeIsRight) {
  const Ref<Tensor> tensor = Row<float>({1, 2});
  EXPECT_EQ(Convert(tensor, DType::kFloat32).value().get(), tensor.get());
}

TEST(Convert, KeepsIntegersThatTheDTypeHoldsAndNamesTheFirstThatItDoesNot) {
  std::vector<int64_t> many(1000, 5);
  EXPECT_EQ(Items<int8_t>(*Convert(Row(many), DType::kInt8).value()),
            std::vector<int8_t>(1000, 5));
  many[700] = 3000000000;
  many[701] = 4000000000;
  EXPECT_EQ(Refusal(Row(many), DType::kInt32),
            "3000000000 does not fit into int32; int64 holds it (in Python np.int64)");
  EXPECT_THAT(Items<uint32_t>(*Convert(Row(many), DType::kUint32).value()),
              ::testing::Contains(3000000000u));
  const Status status = Convert(Row(many), DType::kInt32).status();
  ASSERT_NE(status.FindDetail("row"), nullptr);
  EXPECT_EQ(std::get<int64_t>(status.FindDetail("row")->value), 700);
}

TEST(Convert, KnowsTheEdgesOfEveryIntegerDType) {
  using Int64 = std::numeric_limits<int64_t>;
  EXPECT_TRUE(Convert(Row<int64_t>({-128, 127}), DType::kInt8).ok());
  EXPECT_THAT(Refusal(Row<int64_t>({-129}), DType::kInt8), HasSubstr("-129 does not fit"));
  EXPECT_THAT(Refusal(Row<int64_t>({128}), DType::kInt8), HasSubstr("128 does not fit"));
  EXPECT_THAT(Refusal(Row<int32_t>({-1}), DType::kUint64), HasSubstr("-1 does not fit"));
  EXPECT_TRUE(Convert(Row<int64_t>({0, Int64::max()}), DType::kUint64).ok());
  EXPECT_THAT(Refusal(Row<uint64_t>({1u + uint64_t{Int64::max()}}), DType::kInt64),
              HasSubstr("9223372036854775808 does not fit into int64; uint64 holds it"));
  EXPECT_TRUE(Convert(Row<uint64_t>({uint64_t{Int64::max()}}), DType::kInt64).ok());
  EXPECT_THAT(Refusal(Row<uint64_t>({256}), DType::kUint8), HasSubstr("256 does not fit"));
}

TEST(Convert, RoundsFloatsOnceAndNeverMakesOneInfinite) {
  EXPECT_THAT(Items<float>(*Convert(Row<double>({0.1, INFINITY}), DType::kFloat32).value()),
              ElementsAre(0.1f, INFINITY));
  EXPECT_TRUE(std::isnan(Items<float>(*Convert(Row<double>({NAN}), DType::kFloat32).value())[0]));
  EXPECT_THAT(Refusal(Row<double>({1, 1e39}), DType::kFloat32),
              HasSubstr("1e+39 does not fit into float32; float64 holds it"));
  EXPECT_THAT(Refusal(Row<int32_t>({65520}), DType::kFloat16), HasSubstr("65520 does not fit"));
  EXPECT_THAT(Items<float>(*Convert(Row<int32_t>({(1 << 24) + 1}), DType::kFloat32).value()),
              ElementsAre(16777216.0f));
}

TEST(Convert, SaysWhatNeverBecomesWhat) {
  EXPECT_EQ(Refusal(Row<double>({2.5}), DType::kInt64),
            "2.5 is a float, which never becomes an integer; give int64, or declare float64");
  EXPECT_THAT(Refusal(Row<float>({1, -0.5}), DType::kInt64), HasSubstr("-0.5 is a float"));
  EXPECT_THAT(Refusal(Row<float>({1, 2}), DType::kInt64), HasSubstr("1 is a float"));
  EXPECT_THAT(Refusal(Row<int32_t>({7}), DType::kBool),
              HasSubstr("7 is an integer, which never becomes a boolean"));
  EXPECT_THAT(Refusal(Row<int32_t>({7}), DType::kBytes),
              HasSubstr("7 is an integer, which never becomes a byte string"));
  const std::vector<BytesView> texts = {{"foo", 3}};
  EXPECT_THAT(Refusal(Tensor::FromStrings(Shape({1}), texts).value(), DType::kInt32),
              HasSubstr("\"foo\" is a byte string, which never becomes an integer"));
}

TEST(Convert, GivesATensorWithoutElementsAnyDType) {
  for (const DType to : {DType::kBytes, DType::kInt8, DType::kBool}) {
    const Ref<Tensor> converted = Convert(Row<double>({}), to).value();
    EXPECT_EQ(converted->dtype(), to);
    EXPECT_EQ(converted->shape(), Shape({0}));
  }
}

TEST(Convert, ReadsTensorsWithGaps) {
  const std::vector<int64_t> numbers = {1, 300, 2, 400};
  const Ref<Tensor> whole =
      Tensor::FromData(DType::kInt64, Shape({2, 2}), numbers.data(), 32).value();
  const Ref<Tensor> column = whole->SliceAxis(1, 0, 1).value();
  EXPECT_THAT(Items<int8_t>(*Convert(column, DType::kInt8).value()), ElementsAre(1, 2));
}

}  // namespace
}  // namespace tutti
