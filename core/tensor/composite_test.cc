#include "core/tensor/composite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kAny = PartialShape::kUnknownDim;

template <class T>
Ref<Tensor> Made(std::initializer_list<int64_t> dims, std::vector<T> items) {
  return Tensor::FromSpan<T>(Shape(dims), items).value();
}
Ref<Tensor> Numbers(std::vector<int64_t> items) {
  const auto size = static_cast<int64_t>(items.size());
  return Made<int64_t>({size}, std::move(items));
}
Ref<Value> Ragged(const Ref<Value>& values, std::vector<int64_t> splits) {
  return MakeRagged(values, Numbers(std::move(splits))).value();
}
// [[1, 2], [], [3]]
Ref<Value> Three() { return Ragged(Value::OfTensor(Numbers({1, 2, 3})), {0, 2, 2, 3}); }
// 5 at (0, 1), 6 at (2, 0) of [3, 2].
Ref<Value> Two() {
  return MakeSparse(Made<int64_t>({2, 2}, {0, 1, 2, 0}), Numbers({5, 6}), Numbers({3, 2})).value();
}

std::string Refusal(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return std::string(status.message());
}
template <class T>
std::string Refusal(const Result<T>& result) {
  return Refusal(result.status());
}

TEST(Composite, KeepsItsNamesToItself) {
  const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  EXPECT_EQ(Refusal(TreeSpec::NamedTuple("tutti.SparseTensor", {"x"}, {leaf})),
            "named tuple: tutti.SparseTensor is the name of sparse tensors, of the fields indices, "
            "values, dense_shape; give a type of other fields another name");
  EXPECT_THAT(Refusal(TreeSpec::NamedTuple("tutti.RaggedTensor", {"values", "row_splits"},
                                           {SparseTree(), leaf})),
              HasSubstr("values, row_splits"));
  EXPECT_TRUE(TreeSpec::NamedTuple("SparseTensor", {"x"}, {leaf}).ok());
  EXPECT_TRUE(SparseTree()->has_composites());
  EXPECT_TRUE(TreeSpec::Tuple({leaf, RaggedTree(2)})->has_composites());
  EXPECT_FALSE(TreeSpec::Tuple({leaf, leaf})->has_composites());
  EXPECT_EQ(RaggedRankOf(*RaggedTree(3)), 3);
  EXPECT_EQ(CompositeOf(*SparseTree()), Composite::kSparse);
}

TEST(Composite, BecomesDense) {
  EXPECT_EQ(CompositeToDense(*Two(), nullptr).value()->ContentsToString(), "[[0 5] [0 0] [6 0]]");
  EXPECT_EQ(CompositeToDense(*Two(), Tensor::Scalar<int64_t>(-1).get()).value()->ToString(),
            "int64[3,2] [[-1 5] [-1 -1] [6 -1]]");
  EXPECT_EQ(CompositeToDense(*Three(), nullptr).value()->ContentsToString(),
            "[[1 2] [0 0] [3 0]]");
  const Ref<Value> twice = Ragged(Three(), {0, 1, 3});
  EXPECT_EQ(CompositeToDense(*twice, Tensor::Scalar<int64_t>(9).get()).value()->ContentsToString(),
            "[[[1 2] [9 9]] [[9 9] [3 9]]]");
  const Ref<Value> rows =
      Ragged(Value::OfTensor(Made<float>({3, 2}, {1, 2, 3, 4, 5, 6})), {0, 1, 3});
  EXPECT_EQ(CompositeToDense(*rows, nullptr).value()->ToString(),
            "float32[2,2,2] [[[1 2] [0 0]] [[3 4] [5 6]]]");
  const std::vector<BytesView> texts = {{"ab", 2}, {"c", 1}};
  const Ref<Value> strings =
      Ragged(Value::OfTensor(Tensor::FromStrings(Shape({2}), texts).value()), {0, 0, 2});
  EXPECT_EQ(CompositeToDense(*strings, Tensor::Bytes("-").get()).value()->ContentsToString(),
            R"([["-" "-"] ["ab" "c"]])");
  const Ref<Value> unordered = MakeSparse(Made<int64_t>({2, 1}, {2, 0}), Numbers({7, 8}),
                                          Numbers({3})).value();
  EXPECT_EQ(CompositeToDense(*unordered, nullptr).value()->ContentsToString(), "[8 0 7]");
  const Ref<Value> scalar =
      MakeSparse(Made<int64_t>({1, 0}, {}), Numbers({7}), Numbers({})).value();
  EXPECT_EQ(CompositeToDense(*scalar, nullptr).value()->ToString(), "int64[] 7");
  const Ref<Value> none = Ragged(Value::OfTensor(Numbers({})), {0});
  EXPECT_EQ(CompositeToDense(*none, nullptr).value()->SpecString(), "int64[0,0]");
}

TEST(Composite, RefusesWhatDoesNotBecomeDense) {
  EXPECT_EQ(Refusal(CompositeToDense(*Value::OfTensor(Numbers({1})), nullptr)),
            "a sparse or a ragged tensor is needed, and this is *");
  EXPECT_EQ(Refusal(CompositeToDense(*Two(), Tensor::Scalar<int32_t>(0).get())),
            "to dense: the default value is int32[], and must be a scalar of the values' dtype, "
            "int64");
  const Ref<Value> twice = MakeSparse(Made<int64_t>({2, 2}, {1, 1, 1, 1}), Numbers({5, 6}),
                                      Numbers({3, 2})).value();
  EXPECT_EQ(Refusal(CompositeToDense(*twice, nullptr)),
            "sparse tensor: the index [1,1] comes twice");
  const Ref<Value> huge =
      MakeSparse(Made<int64_t>({0, 2}, {}), Numbers({}),
                 Numbers({int64_t{1} << 40, int64_t{1} << 40})).value();
  EXPECT_FALSE(CompositeToDense(*huge, nullptr).ok());
}

TEST(Composite, RefusesPartsThatDoNotFit) {
  const Ref<Tensor> indices = Made<int64_t>({1, 2}, {0, 1});
  EXPECT_THAT(Refusal(MakeSparse(Numbers({0}), Numbers({5}), Numbers({3}))),
              HasSubstr("indices must be int64 of shape [values, axes], and are int64[1]"));
  EXPECT_THAT(Refusal(MakeSparse(Made<int32_t>({1, 1}, {0}), Numbers({5}), Numbers({3}))),
              HasSubstr("and are int32[1,1]"));
  EXPECT_THAT(Refusal(MakeSparse(indices, Numbers({5, 6}), Numbers({3, 2}))),
              HasSubstr("a vector of as many as there are indices, 1, and are int64[2]"));
  EXPECT_THAT(Refusal(MakeSparse(indices, Numbers({5}), Numbers({3}))),
              HasSubstr("dense_shape must be int64 of shape [2]"));
  EXPECT_THAT(Refusal(MakeSparse(indices, Numbers({5}), Numbers({3, -1}))),
              HasSubstr("sizes of 0 or more"));
  EXPECT_EQ(Refusal(MakeSparse(indices, Numbers({5}), Numbers({3, 1}))),
            "sparse tensor: index 0 is [0,1], outside dense_shape [3,1]");
  const Ref<Value> values = Value::OfTensor(Numbers({1, 2}));
  EXPECT_THAT(Refusal(MakeRagged(values, Numbers({}))), HasSubstr("shape [rows + 1]"));
  EXPECT_THAT(Refusal(MakeRagged(values, Numbers({1, 2}))), HasSubstr("begin with 0"));
  EXPECT_THAT(Refusal(MakeRagged(values, Numbers({0, 2, 1}))),
              HasSubstr("must not become smaller, and are 1 at 2 behind 2"));
  EXPECT_THAT(Refusal(MakeRagged(values, Numbers({0, 1}))),
              HasSubstr("end with the number of values, 2, and end with 1"));
  EXPECT_THAT(Refusal(MakeRagged(values, Made<float>({1}, {0}))), HasSubstr("int64 or int32"));
  EXPECT_THAT(Refusal(MakeRagged(Value::OfTensor(Tensor::Scalar<int64_t>(1)), Numbers({0}))),
              HasSubstr("rank 1 or more"));
  EXPECT_THAT(Refusal(MakeRagged(Two(), Numbers({0}))), HasSubstr("a tensor or ragged"));
  EXPECT_THAT(Refusal(MakeRagged(Three(), Made<int32_t>({2}, {0, 3}))),
              HasSubstr("all row_splits must have one dtype"));
  EXPECT_TRUE(MakeRagged(values, Made<int32_t>({2}, {0, 2})).ok());
}

TEST(Composite, HasASpecOfTheWhole) {
  const Ref<const ElementSpec> sparse = SparseSpec(DType::kInt64, PartialShape({kAny, 6}));
  EXPECT_EQ(sparse->ToString(), "sparse(int64[?,6])");
  EXPECT_EQ(*ElementSpec::OfValue(*Two()), *SparseSpec(DType::kInt64, PartialShape({3, 2})));
  EXPECT_TRUE(SparseSpec(DType::kInt64, PartialShape({kAny, 2}))
                  ->IsMoreGeneralThan(*ElementSpec::OfValue(*Two())));
  EXPECT_FALSE(sparse->IsMoreGeneralThan(*ElementSpec::OfValue(*Two())));
  EXPECT_TRUE(SparseSpec(DType::kInt64, PartialShape())->Check(*Two(), "it").ok());
  EXPECT_THAT(Refusal(sparse->Check(*Two(), "it")), HasSubstr("dense_shape"));
  EXPECT_EQ(sparse->Relax(*ElementSpec::OfValue(*Two()), "it").value()->ToString(),
            "sparse(int64[?,?])");
  EXPECT_EQ(SparseSpec(DType::kInt64, PartialShape())->ToString(), "sparse(int64<unknown>)");

  EXPECT_EQ(ElementSpec::OfValue(*Three())->ToString(), "ragged(int64[3,?])");
  EXPECT_EQ(ElementSpec::OfValue(*Ragged(Three(), {0, 1, 3}))->ToString(), "ragged(int64[2,?,?])");
  const Ref<const ElementSpec> ragged =
      RaggedSpec(DType::kInt64, PartialShape({kAny, kAny}), 1).value();
  EXPECT_TRUE(ragged->IsMoreGeneralThan(*ElementSpec::OfValue(*Three())));
  EXPECT_TRUE(ragged->Check(*Three(), "it").ok());
  EXPECT_FALSE(RaggedSpec(DType::kInt64, PartialShape({2, kAny}), 1).value()->Check(
      *Three(), "it").ok());
  EXPECT_FALSE(RaggedSpec(DType::kInt64, PartialShape({3, kAny, 2}), 1).value()->Check(
      *Three(), "it").ok());
  EXPECT_FALSE(*ragged == *RaggedSpec(DType::kInt64, PartialShape({kAny, kAny}), 1,
                                      DType::kInt32).value());
  EXPECT_EQ(RaggedSpec(DType::kBytes, PartialShape(), 2).value()->ToString(),
            "ragged(bytes<unknown>)");
  EXPECT_THAT(Refusal(RaggedSpec(DType::kInt64, PartialShape({kAny, kAny}), 2)),
              HasSubstr("a ragged_rank of 2 for the shape [?,?]"));
  EXPECT_THAT(Refusal(RaggedSpec(DType::kInt64, PartialShape(), 0)), HasSubstr("expected 1 or"));
  EXPECT_THAT(Refusal(RaggedSpec(DType::kInt64, PartialShape(), 1, DType::kFloat32)),
              HasSubstr("row_splits are int64 or int32"));
}

TEST(Composite, ASpecOfLeavesAloneSaysWhatTheySay) {
  const auto made = [](const Ref<const TreeSpec>& tree, std::vector<LeafSpec> leaves) {
    return ElementSpec::Create(tree, std::move(leaves));
  };
  const LeafSpec any = LeafSpec::OfTensor(DType::kInt64, PartialShape({kAny}));
  EXPECT_EQ(made(SparseTree(), {LeafSpec::OfTensor(DType::kInt64, PartialShape({kAny, 2})), any,
                                LeafSpec::OfTensor(DType::kInt64, PartialShape({2}))})
                .value()
                ->ToString(),
            "sparse(int64[?,?])");
  EXPECT_EQ(made(RaggedTree(1), {any, LeafSpec::OfTensor(DType::kInt64, PartialShape({4}))})
                .value()
                ->ToString(),
            "ragged(int64[3,?])");
  EXPECT_THAT(Refusal(made(SparseTree(), {any, any, any})),
              HasSubstr("these are not the parts of sparse tensors"));
  EXPECT_THAT(Refusal(made(RaggedTree(1),
                           {any, LeafSpec::OfTensor(DType::kFloat32, PartialShape({4}))})),
              HasSubstr("these are not the parts of ragged tensors"));
}

TEST(Composite, NamesThePlaceOfOneThatIsNotTaken) {
  const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  const Ref<const TreeSpec> tree =
      TreeSpec::Dict({"a", "b"}, {leaf, TreeSpec::Tuple({leaf, RaggedTree(2)})}).value();
  EXPECT_EQ(Refusal(CheckNoComposites(*tree, "window")),
            "window: ragged tensors are not taken, and stand at [\"b\"][1]; make them dense first");
  EXPECT_TRUE(CheckNoComposites(*leaf, "window").ok());
}

TEST(Composite, RowsNeedNoOrderAndNoValues) {
  const Ref<Value> sparse = MakeSparse(Made<int64_t>({3, 2}, {2, 1, 0, 0, 2, 0}),
                                       Numbers({5, 6, 7}), Numbers({3, 2})).value();
  const std::vector<Ref<Value>> rows = RowsOfComposite(*sparse).value();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(CompositeToDense(*rows[0], nullptr).value()->ContentsToString(), "[6 0]");
  EXPECT_EQ(CompositeToDense(*rows[1], nullptr).value()->ContentsToString(), "[0 0]");
  EXPECT_EQ(CompositeToDense(*rows[2], nullptr).value()->ContentsToString(), "[7 5]");
  EXPECT_EQ(CompositeToDense(*StackComposites(rows).value(), nullptr).value()->ContentsToString(),
            "[[6 0] [0 0] [7 5]]");
  const Ref<Value> scalar =
      MakeSparse(Made<int64_t>({1, 0}, {}), Numbers({7}), Numbers({})).value();
  EXPECT_THAT(Refusal(RowsOfComposite(*scalar)), HasSubstr("rank 0 has no rows"));
  const Ref<Value> tall = MakeSparse(Made<int64_t>({0, 1}, {}), Numbers({}),
                                     Numbers({int64_t{1} << 40})).value();
  EXPECT_EQ(RowsOfComposite(*tall).status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Refusal(StackComposites(std::vector<Ref<Value>>{sparse, scalar})),
              HasSubstr("element 1 is a sparse tensor of int64 with dense_shape []"));
  EXPECT_THAT(Refusal(RowsOfStructure(*Value::Tuple({sparse, Value::OfTensor(Numbers({1, 2}))}),
                                      "it")),
              HasSubstr("component[1] has 2 and component 0 has 3"));
}

TEST(Composite, TheMostSpecificOfTwoSpecsFollowsFromTheWhole) {
  constexpr int64_t kAny = PartialShape::kUnknownDim;
  const auto ragged = [](const PartialShape& shape) {
    return RaggedSpec(DType::kInt32, shape, 1).value();
  };
  const auto relaxed = [](const Ref<const ElementSpec>& left,
                          const Ref<const ElementSpec>& right) {
    return left->Relax(*right, "spec").value();
  };
  EXPECT_EQ(*relaxed(ragged(PartialShape({2, kAny, 5})), ragged(PartialShape({4, kAny, 5}))),
            *ragged(PartialShape({kAny, kAny, 5})));
  EXPECT_EQ(*relaxed(ragged(PartialShape({2, kAny, 5})), ragged(PartialShape({2, kAny}))),
            *ragged(PartialShape::Unknown()));
  EXPECT_EQ(*relaxed(SparseSpec(DType::kInt64, PartialShape({3, 2})),
                     SparseSpec(DType::kInt64, PartialShape({3}))),
            *SparseSpec(DType::kInt64, PartialShape::Unknown()));
  EXPECT_FALSE(ragged(PartialShape({2, kAny}))
                   ->Relax(*RaggedSpec(DType::kInt32, PartialShape({2, kAny, kAny}), 2).value(),
                           "spec")
                   .ok());
}

}  // namespace
}  // namespace tutti
