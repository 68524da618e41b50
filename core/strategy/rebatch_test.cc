#include "core/strategy/rebatch.h"

#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;

std::vector<int64_t> Sizes(int64_t rows, size_t num_slices) {
  std::vector<int64_t> sizes;
  int64_t next = 0;
  for (size_t i = 0; i < num_slices; ++i) {
    const RowRange range = CeilSlice(rows, i, num_slices);
    EXPECT_EQ(range.begin, next) << "slices must follow each other";
    next = range.end;
    sizes.push_back(range.end - range.begin);
  }
  EXPECT_EQ(next, rows) << "no row may be lost";
  return sizes;
}

TEST(CeilSlice, CutsBatchesByTheDocumentedRule) {
  EXPECT_THAT(Sizes(4, 3), ElementsAre(2, 2, 0));
  EXPECT_THAT(Sizes(4, 5), ElementsAre(1, 1, 1, 1, 0));
  EXPECT_THAT(Sizes(2, 2), ElementsAre(1, 1));
  EXPECT_THAT(Sizes(5, 2), ElementsAre(3, 2));
  EXPECT_THAT(Sizes(0, 2), ElementsAre(0, 0));
  EXPECT_THAT(Sizes(7, 1), ElementsAre(7));
}

// All slices of a batch.
std::vector<Ref<Value>> CutBatch(const Value& batch, int64_t rows, size_t num_slices) {
  std::vector<Ref<Value>> slices;
  for (size_t i = 0; i < num_slices; ++i) {
    slices.push_back(CutRows(batch, CeilSlice(rows, i, num_slices)));
  }
  return slices;
}

TEST(CutRows, GivesViewsOnTheBatch) {
  const Ref<Tensor> x =
      Tensor::FromSpan<int32_t>(Shape({3, 2}), std::vector<int32_t>{1, 2, 3, 4, 5, 6}).value();
  const Ref<Value> batch = Value::Tuple({Value::OfTensor(x), VectorOf<float>({7, 8, 9})});
  const std::vector<Ref<Value>> slices = CutBatch(*batch, 3, 2);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0]->ToString(), "([[1 2] [3 4]], [7 8])");
  EXPECT_EQ(slices[1]->ToString(), "([[5 6]], [9])");
  EXPECT_EQ(slices[1]->leaf(0).tensor().data(), x->span<int32_t>().data() + 4);
}

TEST(CutRows, LeavesTrailingSlicesWithoutRowsAndWithTheRowsShape) {
  const Ref<Tensor> x = Tensor::Create(DType::kFloat32, Shape({1, 5})).value();
  const std::vector<Ref<Value>> slices = CutBatch(*Value::OfTensor(x), 1, 3);
  EXPECT_EQ(slices[0]->AsTensor()->SpecString(), "float32[1,5]");
  EXPECT_EQ(slices[1]->AsTensor()->SpecString(), "float32[0,5]");
  EXPECT_EQ(slices[2]->AsTensor()->SpecString(), "float32[0,5]");
  EXPECT_EQ(EmptyBatchLike(*slices[0])->AsTensor()->SpecString(), "float32[0,5]");
}

TEST(BatchRows, SaysToCallBatchFirst) {
  EXPECT_TRUE(Fails(BatchRows(*ScalarOf(1), "distribute").status(), StatusCode::kInvalidArgument,
                    {"distribute", "int32[]", "call batch first"}));
  EXPECT_TRUE(
      Fails(BatchRows(*Value::Tuple({VectorOf<int32_t>({1}), Value::OfString("x")}), "distribute")
                .status(),
            StatusCode::kInvalidArgument, {"[1]", "string"}));
}

TEST(BatchRows, NamesTwoLeavesWithDifferentRows) {
  const Ref<Value> uneven = Value::Tuple({VectorOf<int32_t>({1, 2}), VectorOf<int32_t>({1})});
  EXPECT_TRUE(Fails(BatchRows(*uneven, "distribute").status(), StatusCode::kInvalidArgument,
                    {"[0] has 2", "[1] has 1"}));
}

TEST(SliceSpec, KnowsTheRowsOnlyWhenEverySliceHasTheSame) {
  const auto spec = [](PartialShape shape) {
    return ElementSpec::OfTensor(DType::kFloat32, std::move(shape));
  };
  EXPECT_EQ(SliceSpec(*spec({4, 3}), 2)->ToString(), "float32[2,3]");
  EXPECT_EQ(SliceSpec(*spec({4, 3}), 3)->ToString(), "float32[?,3]");
  EXPECT_EQ(SliceSpec(*spec({-1, 3}), 2)->ToString(), "float32[?,3]");
  EXPECT_EQ(SliceSpec(*spec(PartialShape::Unknown()), 2)->ToString(),
            spec(PartialShape::Unknown())->ToString());
}

}  // namespace
}  // namespace tutti
