#include "core/tensor/scatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/tensor/arithmetic.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

IndexedSlices SlicesOf(const Ref<Tensor>& values, std::initializer_list<int64_t> indices) {
  IndexedSlices slices;
  slices.values = values;
  slices.indices = Tensor::Vector<int64_t>(indices);
  return slices;
}

Ref<Tensor> Rows(std::initializer_list<int64_t> shape, std::vector<float> values) {
  return Tensor::FromSpan<float>(Shape(shape), std::span<const float>(values)).value();
}

std::string Scattered(ScatterOp op, const Ref<Tensor>& target, const IndexedSlices& slices) {
  const Status status =
      CheckScatter(op, target->dtype(), target->shape(), slices, ScatterOpName(op));
  if (!status.ok()) return std::string(status.message());
  ScatterRows(op, slices, 0, target->dim(0), target.get());
  return target->ContentsToString();
}

TEST(Scatter, CombinesSlicesOfOneIndexInTheirOrder) {
  const auto target = [] { return Rows({3, 2}, {1, 2, 3, 4, 5, 6}); };
  const IndexedSlices slices = SlicesOf(Rows({3, 2}, {10, 20, 2, 4, 4, 8}), {2, 0, 2});
  EXPECT_EQ(Scattered(ScatterOp::kAdd, target(), slices), "[[3 6] [3 4] [19 34]]");
  EXPECT_EQ(Scattered(ScatterOp::kSub, target(), slices), "[[-1 -2] [3 4] [-9 -22]]");
  EXPECT_EQ(Scattered(ScatterOp::kUpdate, target(), slices), "[[2 4] [3 4] [4 8]]");
  EXPECT_EQ(Scattered(ScatterOp::kMin, target(), slices), "[[1 2] [3 4] [4 6]]");
  EXPECT_EQ(Scattered(ScatterOp::kMax, target(), slices), "[[2 4] [3 4] [10 20]]");
  EXPECT_EQ(Scattered(ScatterOp::kMul, target(), slices), "[[2 8] [3 4] [200 960]]");
  EXPECT_EQ(Scattered(ScatterOp::kDiv, target(), slices), "[[0.5 0.5] [3 4] [0.125 0.0375]]");
}

TEST(Scatter, IsTheSameForShortAndLongRowsOfEveryDtype) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64,
                            DType::kInt8, DType::kUint16, DType::kInt32, DType::kInt64,
                            DType::kComplex64}) {
    for (const int64_t row : {1, 3, 16, 17, 100}) {
      std::mt19937 random(static_cast<unsigned>(row));
      const auto filled = [&](int64_t rows) {
        Ref<Tensor> tensor = Tensor::Create(DType::kInt32, Shape({rows, row})).value();
        for (int32_t& item : tensor->mutable_span<int32_t>()) {
          item = static_cast<int32_t>(random() % 9) - (IsUnsignedInteger(dtype) ? 0 : 4);
        }
        return Cast(*tensor, dtype).value();
      };
      Ref<Tensor> target = filled(7);
      IndexedSlices slices;
      slices.values = filled(40);
      std::vector<int64_t> places(40);
      for (int64_t& place : places) place = static_cast<int64_t>(random() % 7);
      slices.indices =
          Tensor::FromSpan<int64_t>(Shape({40}), std::span<const int64_t>(places)).value();
      for (const ScatterOp op : {ScatterOp::kAdd, ScatterOp::kSub}) {
        const Ref<Tensor> expected = target->Copy().value();
        for (size_t i = 0; i < places.size(); ++i) {
          const Ref<Tensor> to = expected->Row(places[i]);
          ASSERT_TRUE(BinaryInPlace(op == ScatterOp::kAdd ? BinaryOp::kAdd : BinaryOp::kSub,
                                    to.get(), *slices.values->Row(static_cast<int64_t>(i)))
                          .ok());
        }
        const Ref<Tensor> found = target->Copy().value();
        // Two halves are the whole.
        ScatterRows(op, slices, 0, 3, found.get());
        ScatterRows(op, slices, 3, 7, found.get());
        EXPECT_TRUE(found->ContentsEqual(*expected)) << DTypeName(dtype) << " rows of " << row;
      }
    }
  }
}

TEST(Scatter, RefusesWhatDoesNotFitAndNamesIt) {
  const Ref<Tensor> target = Rows({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto refusal = [&](ScatterOp op, const IndexedSlices& slices) {
    const std::string text = Scattered(op, target, slices);
    EXPECT_EQ(target->ContentsToString(), "[[1 2] [3 4] [5 6]]");
    return text;
  };
  const Ref<Tensor> row = Rows({1, 2}, {1, 1});
  EXPECT_EQ(refusal(ScatterOp::kAdd, SlicesOf(Rows({2, 2}, {1, 1, 1, 1}), {0, 3})),
            "scatter_add: index 3 is outside of the 3 rows of [3,2]; nothing was changed");
  EXPECT_EQ(refusal(ScatterOp::kUpdate, SlicesOf(row, {-1})),
            "scatter_update: index -1 is outside of the 3 rows of [3,2]; nothing was changed");
  EXPECT_EQ(refusal(ScatterOp::kAdd, SlicesOf(Rows({1, 3}, {1, 1, 1}), {0})),
            "scatter_add: the values of the slices are float32[1,3], which are no rows of [3,2]");
  EXPECT_THAT(refusal(ScatterOp::kAdd, SlicesOf(Cast(*row, DType::kFloat64).value(), {0})),
              testing::HasSubstr("are float64, and float32 is expected"));
  EXPECT_EQ(Scattered(ScatterOp::kAdd, Tensor::Scalar(1.0f), SlicesOf(row, {0})),
            "scatter_add: a scalar has no rows to change");
  const Ref<Tensor> flags = Tensor::Vector<bool>({true, false});
  EXPECT_EQ(Scattered(ScatterOp::kUpdate, flags, SlicesOf(Tensor::Vector<bool>({true}), {1})),
            "[True True]");
  EXPECT_EQ(Scattered(ScatterOp::kAdd, flags, SlicesOf(Tensor::Vector<bool>({true}), {1})),
            "scatter_add: scatter_add is not defined for bool");
  const Ref<Tensor> whole = Tensor::Vector<int32_t>({7, 8});
  EXPECT_THAT(Scattered(ScatterOp::kDiv, whole, SlicesOf(Tensor::Vector<int32_t>({2, 0}), {0, 1})),
              testing::HasSubstr("element 1 of the values is 0"));
  EXPECT_EQ(whole->ContentsToString(), "[7 8]");
}

TEST(Scatter, IntegersWrapAndNaNStays) {
  const Ref<Tensor> whole = Tensor::Vector<int32_t>({std::numeric_limits<int32_t>::max()});
  EXPECT_EQ(Scattered(ScatterOp::kAdd, whole, SlicesOf(Tensor::Vector<int32_t>({1}), {0})),
            "[-2147483648]");
  const Ref<Tensor> real = Tensor::Vector<float>({1});
  Scattered(ScatterOp::kMax, real, SlicesOf(Tensor::Vector<float>({std::nanf("")}), {0}));
  EXPECT_TRUE(std::isnan(real->item<float>()));
}

TEST(IndexedSlices, AreANamedTupleOfAReservedNameWhosePartsFit) {
  const Ref<Tensor> values = Rows({2, 2}, {1, 2, 3, 4});
  const auto made = [&](const Ref<Tensor>& indices, const Ref<Tensor>& sizes = nullptr) {
    const Result<Ref<Value>> value = MakeIndexedSlices(values, indices, sizes);
    return value.ok() ? (*value)->ToString() : std::string(value.status().message());
  };
  EXPECT_EQ(made(Tensor::Vector<int32_t>({4, 1})),
            "tutti.IndexedSlices(values=[[1 2] [3 4]], indices=[4 1], dense_shape=None)");
  EXPECT_EQ(made(Tensor::Vector<int64_t>({4, 1}), Tensor::Vector<int64_t>({5, 2})),
            "tutti.IndexedSlices(values=[[1 2] [3 4]], indices=[4 1], dense_shape=[5 2])");
  EXPECT_THAT(made(Tensor::Vector<int64_t>({4, 5}), Tensor::Vector<int64_t>({5, 2})),
              testing::HasSubstr("index 5 of indexed slices is outside of their dense_shape"));
  EXPECT_THAT(made(Tensor::Vector<int64_t>({4, 1}), Tensor::Vector<int64_t>({5, 3})),
              testing::HasSubstr("are no rows of a tensor of their dense_shape [5,3]"));
  EXPECT_THAT(made(Tensor::Vector<int64_t>({4})), testing::HasSubstr("one row of values for each"));
  EXPECT_THAT(made(Tensor::Vector<float>({4, 1})), testing::HasSubstr("must be int64 or int32"));
  EXPECT_THAT(made(Tensor::Scalar<int64_t>(4)), testing::HasSubstr("must be a vector"));
  const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  EXPECT_THAT(
      TreeSpec::NamedTuple("tutti.IndexedSlices", {"x"}, {leaf}).status().message(),
      testing::HasSubstr("is the name of indexed slices, of the fields values, indices"));
}

TEST(IndexedSlices, AreFoundInAStructure) {
  const Ref<Value> slices =
      MakeIndexedSlices(Tensor::Vector<float>({1}), Tensor::Vector<int64_t>({0}), nullptr).value();
  const Ref<Value> one = Value::OfTensor(Tensor::Scalar(1.0f));
  const Ref<Value> nested = Value::Tuple({one, Value::List({slices, one}), slices});
  EXPECT_THAT(FindIndexedSlices(nested->spec()), testing::ElementsAre(1, 5));
  EXPECT_THAT(FindIndexedSlices(one->spec()), testing::IsEmpty());
}

}  // namespace
}  // namespace tutti
