#include "core/strategy/cross_replica_reduce.h"

#include <cmath>

#include "core/strategy/strategy_test_fixture.h"
#include "core/tensor/half.h"

namespace tutti {
namespace {

Result<Ref<Tensor>> ReduceAll(ReduceOp op, std::initializer_list<Ref<Tensor>> tensors,
                              std::optional<int64_t> axis) {
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return ReduceAcrossReplicas(op, pointers, axis, "reduce");
}

Result<Ref<Tensor>> GatherAll(std::initializer_list<Ref<Tensor>> tensors, int64_t axis) {
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return GatherAcrossReplicas(pointers, axis, "gather");
}

template <typename T>
Ref<Tensor> Of(std::initializer_list<T> values) {
  return Tensor::Vector<T>(values);
}

template <typename T>
Ref<Tensor> Matrix(std::initializer_list<int64_t> dims, std::initializer_list<T> values) {
  return Tensor::FromSpan<T>(Shape(dims), std::span<const T>(values.begin(), values.size()))
      .value();
}

TEST(ReduceAcrossReplicas, SumsElementByElementWithoutAnAxis) {
  EXPECT_EQ(ReduceAll(ReduceOp::kSum, {Of<int64_t>({0, 1, 2, 3}), Of<int64_t>({4, 5, 6, 7})}, {})
                .value()
                ->ToString(),
            "int64[4] [4 6 8 10]");
}

TEST(ReduceAcrossReplicas, SumsAlongAnAxisToo) {
  EXPECT_EQ(ReduceAll(ReduceOp::kSum, {Of<int64_t>({0, 1, 2, 3}), Of<int64_t>({4, 5, 6, 7})}, 0)
                .value()
                ->item<int64_t>(),
            28);
}

TEST(ReduceAcrossReplicas, SumsUnevenBatchesAlongTheirAxis) {
  EXPECT_EQ(ReduceAll(ReduceOp::kSum, {Of<int64_t>({0, 1, 2, 3}), Of<int64_t>({4, 5})}, 0)
                .value()
                ->item<int64_t>(),
            15);
}

TEST(ReduceAcrossReplicas, MeanCountsElementsAndIsNoMeanOfMeans) {
  // The mean of means would be (2 + 10) / 2.
  EXPECT_EQ(
      ReduceAll(ReduceOp::kMean, {Of<float>({1, 2, 3}), Of<float>({10})}, 0).value()->item<float>(),
      4.0f);
}

TEST(ReduceAcrossReplicas, MeanPassesOverAnEmptyReplica) {
  EXPECT_EQ(
      ReduceAll(ReduceOp::kMean, {Of<float>({1, 2}), Of<float>({})}, 0).value()->item<float>(),
      1.5f);
}

TEST(ReduceAcrossReplicas, MeanOfNoElementsIsNaNForFloatsAndAnErrorForIntegers) {
  EXPECT_TRUE(std::isnan(
      ReduceAll(ReduceOp::kMean, {Of<float>({}), Of<float>({})}, 0).value()->item<float>()));
  EXPECT_TRUE(Fails(ReduceAll(ReduceOp::kMean, {Of<int32_t>({}), Of<int32_t>({})}, 0).status(),
                    StatusCode::kInvalidArgument, {"no elements", "int32"}));
}

TEST(ReduceAcrossReplicas, MeanOfSmallIntegersDoesNotWrapOnTheWay) {
  EXPECT_EQ(ReduceAll(ReduceOp::kMean, {Of<int8_t>({100, 100}), Of<int8_t>({101})}, 0)
                .value()
                ->item<int8_t>(),
            100);
}

TEST(ReduceAcrossReplicas, SumsHalvesInFloat32AndRoundsOnce) {
  // 2048 + 1 + 1: in float16 each addition of 1 alone would be lost.
  const auto half = [](float x) { return ToFloat16(x); };
  const Ref<Tensor> first = Of<Float16>({half(2048), half(1)});
  const Ref<Tensor> second = Of<Float16>({half(1)});
  const Ref<Tensor> sum = ReduceAll(ReduceOp::kSum, {first, second}, 0).value();
  EXPECT_EQ(sum->dtype(), DType::kFloat16);
  EXPECT_EQ(ToFloat(sum->item<Float16>()), 2050.0f);
}

TEST(ReduceAcrossReplicas, CountsANegativeAxisFromTheEnd) {
  EXPECT_EQ(ReduceAll(ReduceOp::kSum,
                      {Matrix<int32_t>({2, 2}, {1, 2, 3, 4}), Matrix<int32_t>({2, 1}, {5, 6})}, -1)
                .value()
                ->ToString(),
            "int32[2] [8 13]");
}

TEST(ReduceAcrossReplicas, NamesBothShapesAndSuggestsAnAxis) {
  EXPECT_TRUE(Fails(
      ReduceAll(ReduceOp::kSum, {Of<int64_t>({0, 1, 2, 3}), Of<int64_t>({4, 5})}, {}).status(),
      StatusCode::kInvalidArgument, {"[4]", "[2]", "axis"}));
}

TEST(ReduceAcrossReplicas, NamesBothDTypes) {
  EXPECT_TRUE(
      Fails(ReduceAll(ReduceOp::kSum, {Of<float>({0, 1}), Of<int32_t>({4, 5})}, {}).status(),
            StatusCode::kInvalidArgument, {"float32", "int32"}));
}

TEST(ReduceAcrossReplicas, RefusesAnAxisOutOfRange) {
  EXPECT_TRUE(Fails(ReduceAll(ReduceOp::kSum, {Of<float>({0}), Of<float>({1})}, 1).status(),
                    StatusCode::kInvalidArgument, {"axis 1", "rank is 1"}));
}

TEST(ReduceAcrossReplicas, RefusesBool) {
  EXPECT_TRUE(Fails(ReduceAll(ReduceOp::kSum, {Of<bool>({true}), Of<bool>({true})}, {}).status(),
                    StatusCode::kInvalidArgument, {"bool"}));
}

TEST(GatherAcrossReplicas, JoinsInReplicaOrder) {
  EXPECT_EQ(GatherAll({Matrix<int32_t>({2, 1}, {1, 2}), Matrix<int32_t>({2, 1}, {3, 4})}, 0)
                .value()
                ->ToString(),
            "int32[4,1] [[1] [2] [3] [4]]");
}

TEST(GatherAcrossReplicas, JoinsUnevenSizesAlongTheAxis) {
  EXPECT_EQ(GatherAll({Matrix<int32_t>({1, 2}, {1, 2}), Matrix<int32_t>({1, 3}, {3, 4, 5})}, 1)
                .value()
                ->ToString(),
            "int32[1,5] [[1 2 3 4 5]]");
}

TEST(GatherAcrossReplicas, RefusesScalars) {
  EXPECT_TRUE(Fails(GatherAll({Tensor::Scalar<int32_t>(1), Tensor::Scalar<int32_t>(2)}, 0).status(),
                    StatusCode::kInvalidArgument, {"scalar"}));
}

TEST(GatherAcrossReplicas, RefusesAnAxisOutOfRange) {
  for (const int64_t axis : {-1, 2}) {
    EXPECT_TRUE(
        Fails(GatherAll({Matrix<int32_t>({2, 1}, {1, 2}), Matrix<int32_t>({2, 1}, {3, 4})}, axis)
                  .status(),
              StatusCode::kInvalidArgument, {"[0, 2)"}));
  }
}

TEST(GatherAcrossReplicas, NamesBothShapesWhenAnotherAxisDiffers) {
  EXPECT_TRUE(Fails(
      GatherAll({Matrix<int32_t>({1, 2}, {1, 2}), Matrix<int32_t>({1, 3}, {3, 4, 5})}, 0).status(),
      StatusCode::kInvalidArgument, {"[1,2]", "[1,3]"}));
}

TEST(GatherAcrossReplicas, JoinsByteStrings) {
  const auto strings = [](std::vector<BytesView> views) {
    return Tensor::FromStrings(Shape({static_cast<int64_t>(views.size())}), views).value();
  };
  const Ref<Tensor> joined =
      GatherAll({strings({{"ab", 2}}), strings({{"c", 1}, {"", 0}})}, 0).value();
  ASSERT_EQ(joined->num_elements(), 3);
  EXPECT_EQ(joined->span<BytesView>()[0].text(), "ab");
  EXPECT_EQ(joined->span<BytesView>()[1].text(), "c");
}

}  // namespace
}  // namespace tutti
