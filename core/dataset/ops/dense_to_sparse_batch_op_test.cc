#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "core/dataset/testing/op_walks_testing.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kNone = -1;

Ref<const Value> Sizes(std::vector<int64_t> sizes) {
  return Value::OfTensor(
      Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(sizes.size())}), sizes).value());
}
Ref<Value> Copies(int64_t n) {
  const std::vector<int64_t> items(static_cast<size_t>(n), n);
  return Value::OfTensor(Tensor::FromSpan<int64_t>(Shape({n}), items).value());
}
Ref<const ElementSpec> AnyVector() {
  return ElementSpec::OfTensor(DType::kInt64, PartialShape({kNone}));
}
// x -> a vector of x copies of x.
Ref<TestFunction> FillSelf(Ref<const ElementSpec> spec = AnyVector()) {
  return MakeFunction([](Context&, const Value& in,
                         void*) -> Result<Ref<Value>> { return Copies(NumberIn(in)); },
                      {.spec = std::move(spec)});
}
// The same, which fails for 3.
Ref<TestFunction> FillSelfBut3() {
  return MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 3) return Status(StatusCode::kDataLoss, "bad");
        return Copies(NumberIn(in));
      },
      {.spec = AnyVector()});
}

std::string Sparse(std::string_view indices, std::string_view values,
                   std::string_view dense_shape) {
  return "tutti.SparseTensor(indices=" + std::string(indices) + ", values=" + std::string(values) +
         ", dense_shape=" + std::string(dense_shape) + ")";
}

class DenseToSparseBatch : public OpWalksTest {
 protected:
  Ref<Dataset> Filled(int64_t start, int64_t stop) {
    return Ok(Range(start, stop)->Map(FillSelf()));
  }
  static Ref<Dataset> Batches(const Ref<Dataset>& input, int64_t size, std::vector<int64_t> sizes,
                              std::string name = {}) {
    return Ok(input->DenseToSparseBatch(size, Sizes(std::move(sizes)), std::move(name)));
  }
  static std::string Refusal(const Result<Ref<Dataset>>& dataset) {
    EXPECT_EQ(dataset.status().code(), StatusCode::kInvalidArgument);
    return std::string(dataset.status().message());
  }
};

TEST_F(DenseToSparseBatch, HasEveryItemOfEachElement) {
  EXPECT_THAT(All(Batches(Filled(1, 4), 2, {6})),
              ElementsAre(Sparse("[[0 0] [1 0] [1 1]]", "[1 2 2]", "[2 6]"),
                          Sparse("[[0 0] [0 1] [0 2]]", "[3 3 3]", "[1 6]")));
}

TEST_F(DenseToSparseBatch, AnUnknownSizeIsTheLargestOfItsBatch) {
  EXPECT_THAT(All(Batches(Filled(1, 4), 2, {kNone})),
              ElementsAre(Sparse("[[0 0] [1 0] [1 1]]", "[1 2 2]", "[2 2]"),
                          Sparse("[[0 0] [0 1] [0 2]]", "[3 3 3]", "[1 3]")));
}

TEST_F(DenseToSparseBatch, KeepsZerosAndEmptyElements) {
  EXPECT_THAT(All(Batches(Filled(0, 2), 2, {kNone})),
              ElementsAre(Sparse("[[1 0]]", "[1]", "[2 1]")));
  EXPECT_THAT(All(Batches(Filled(0, 1), 2, {kNone})), ElementsAre(Sparse("[]", "[]", "[1 0]")));
  const Ref<Tensor> zeros =
      Tensor::FromSpan<int64_t>(Shape({2, 2}), std::vector<int64_t>{0, 1, 2, 0}).value();
  EXPECT_THAT(All(Batches(Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(zeros))), 2,
                          {3})),
              ElementsAre(Sparse("[[0 0] [0 1] [1 0] [1 1]]", "[0 1 2 0]", "[2 3]")));
}

TEST_F(DenseToSparseBatch, TakesScalarsAndSeveralAxes) {
  EXPECT_THAT(All(Batches(Range(3), 2, {})), ElementsAre(Sparse("[[0] [1]]", "[0 1]", "[2]"),
                                                         Sparse("[[0]]", "[2]", "[1]")));
  EXPECT_THAT(All(Batches(Ok(Range(4)->Batch(2)), 1, {kNone})),
              ElementsAre(Sparse("[[0 0] [0 1]]", "[0 1]", "[1 2]"),
                          Sparse("[[0 0] [0 1]]", "[2 3]", "[1 2]")));
  EXPECT_THAT(All(Batches(Ok(Ok(Range(4)->Batch(2))->Batch(2)), 1, {kNone, 5})),
              ElementsAre(Sparse("[[0 0 0] [0 0 1] [0 1 0] [0 1 1]]", "[0 1 2 3]", "[1 2 5]")));
}

TEST_F(DenseToSparseBatch, TakesByteStringsAndViews) {
  const std::vector<BytesView> texts = {{"a", 1}, {"", 0}, {"bc", 2}, {"d", 1}};
  const Ref<Tensor> rows = Tensor::FromStrings(Shape({2, 2}), texts).value();
  EXPECT_THAT(
      All(Batches(Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(rows))), 2, {2})),
      ElementsAre(Sparse("[[0 0] [0 1] [1 0] [1 1]]", R"(["a" "" "bc" "d"])", "[2 2]")));
  // Every second item of a longer tensor.
  const Ref<Tensor> long_one = Tensor::Vector<int64_t>({0, 1, 2, 3, 4});
  const int64_t begin[] = {0}, size[] = {3}, step[] = {2};
  const Ref<Tensor> view = long_one->SliceGeneral(begin, size, step).value();
  EXPECT_THAT(
      All(Batches(Ok(Dataset::FromTensors(datasets_, Value::OfTensor(view))), 2, {3})),
      ElementsAre(Sparse("[[0 0] [0 1] [0 2]]", "[0 2 4]", "[1 3]")));
}

TEST_F(DenseToSparseBatch, KnowsItsSpecAndCardinality) {
  const Ref<Dataset> batches = Batches(Filled(1, 6), 2, {6});
  EXPECT_EQ(SpecText(batches), "sparse(int64[?,6])");
  EXPECT_EQ(SpecText(Batches(Filled(1, 6), 2, {kNone})), "sparse(int64[?,?])");
  EXPECT_EQ(batches->cardinality(), 3);
  EXPECT_EQ(Batches(Ok(Range(8)->Repeat(-1)), 3, {})->cardinality(), kInfiniteCardinality);
  // What comes fits it.
  const Ref<const ElementSpec> spec = batches->known_element_spec();
  const Ref<Iterator> iterator = Iterate(batches);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(spec->Check(*iterator->Next(CallOptions()).value(), "an element").ok());
  }
  EXPECT_EQ(SpecText(Batches(Ok(Range(1, 5)->Map(FillSelf(nullptr))), 2, {9})),
            "sparse(int64[?,9])");
}

TEST_F(DenseToSparseBatch, NamesBothShapesOfAnElementThatIsTooLargeAndGoesOnBehindItsBatch) {
  const Ref<Iterator> iterator = Iterate(Batches(Filled(1, 7), 2, {3}, "mine"));
  EXPECT_EQ(Next(*iterator), Sparse("[[0 0] [1 0] [1 1]]", "[1 2 2]", "[2 3]"));
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("dense_to_sparse_batch 'mine'"),
                    HasSubstr("element 1 has shape [4], and row_shape is [3]")));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 0 has shape [5], and row_shape is [3]"));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(DenseToSparseBatch, KeepsTheRowsBeforeAFailedElement) {
  const Ref<Iterator> iterator =
      Iterate(Batches(Ok(Range(1, 5)->Map(FillSelfBut3())), 3, {kNone}));
  EXPECT_EQ(Next(*iterator), "!map: element 2: bad");
  EXPECT_EQ(Next(*iterator),
            Sparse("[[0 0] [1 0] [1 1] [2 0] [2 1] [2 2] [2 3]]", "[1 2 2 4 4 4 4]", "[3 4]"));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(DenseToSparseBatch, RefusesArgumentsThatCannotBe) {
  const Ref<Dataset> filled = Filled(1, 5);
  const auto refusal = [](const Ref<Dataset>& dataset, int64_t size, Ref<const Value> row_shape) {
    return Refusal(dataset->DenseToSparseBatch(size, std::move(row_shape)));
  };
  EXPECT_EQ(refusal(filled, 0, Sizes({6})),
            "dense_to_sparse_batch: batch_size must be positive, got 0");
  EXPECT_EQ(refusal(filled, 2, Sizes({4, 4})),
            "dense_to_sparse_batch: the elements have shape [?], which row_shape's [4,4] does not "
            "hold; it needs as many sizes, each as large or null (-1)");
  EXPECT_THAT(refusal(Ok(Range(8)->Batch(4, true)), 2, Sizes({3})),
              HasSubstr("the elements have shape [4], which row_shape's [3] does not hold"));
  EXPECT_THAT(refusal(filled, 2, Sizes({-2})),
              AllOf(HasSubstr("row_shape must be sizes of 0 or more"), HasSubstr("-2")));
  EXPECT_THAT(refusal(filled, 2, Value::OfTensor(Tensor::Vector<float>({1.5f}))),
              HasSubstr("row_shape"));
  EXPECT_THAT(refusal(filled, 2, Value::OfString("x")),
              HasSubstr("row_shape must be the sizes of a shape"));
  EXPECT_THAT(refusal(filled, 2, Value::Tuple({Copies(2)})),
              HasSubstr("row_shape must be the sizes of a shape"));
  const Ref<Value> both = Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, Range(3))),
                                        Value::OfLeaf(Leaf(LeafKind::kDataset, Range(3)))});
  EXPECT_THAT(refusal(Ok(Dataset::Zip(datasets_, *both)), 2, Sizes({3})),
              HasSubstr("the elements must be single tensors, and are (int64[], int64[])"));
  EXPECT_THAT(refusal(Batches(filled, 2, {6}), 2, Sizes({6})),
              HasSubstr("the elements must be single tensors"));
}

TEST_F(DenseToSparseBatch, RefusesAtIterationWhatOnlyAnElementShows) {
  const Ref<TestFunction> anything = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 0) return Copies(1);
        if (NumberIn(in) == 1) return Number(1);
        return Value::OfTensor(Tensor::Vector<float>({1.0f}));
      },
      {.spec = ElementSpec::OfTensor(DType::kInt64, PartialShape::Unknown())});
  const Ref<Iterator> iterator = Iterate(Batches(Ok(Range(2)->Map(anything)), 1, {2}));
  EXPECT_EQ(Next(*iterator), Sparse("[[0 0]]", "[1]", "[1 2]"));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 0 has shape [], and row_shape is [2]"));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(DenseToSparseBatch, IsWrittenAndReadWithItsRowShape) {
  const Ref<Dataset> batches = Batches(Ok(Range(4)->Batch(2)), 2, {3});
  const Ref<Dataset> read = Ok(Dataset::Deserialize(datasets_, batches->Serialize().value()));
  EXPECT_EQ(SpecText(read), "sparse(int64[?,3])");
  EXPECT_THAT(All(read), ElementsAre(Sparse("[[0 0] [0 1] [1 0] [1 1]]", "[0 1 2 3]", "[2 3]")));
}

TEST_F(DenseToSparseBatch, KeepsItsPlaceThroughSavesSkipsFailuresAndCancelledCalls) {
  const Ref<TestFunction> asks = MakeFunction(
      [](Context& context, const Value& in, void*) -> Result<Ref<Value>> {
        if (context.cancelled()) return Status(StatusCode::kCancelled, "nobody waits");
        return Copies(NumberIn(in));
      },
      {.spec = AnyVector()});
  const std::string ones = Sparse("[[0 0] [1 0] [1 1]]", "[1 2 2]", "[2 2]");
  const std::string threes = Sparse("[[0 0] [0 1] [0 2]]", "[3 3 3]", "[1 3]");
  ExpectAllWalks({
      {"plain", [&] { return Batches(Ok(Range(1, 4)->Map(asks)), 2, {kNone}); }, {ones, threes}},
      {"failing in the middle",
       [&] { return Batches(Ok(Range(1, 5)->Map(FillSelfBut3())), 2, {kNone}); },
       {ones, "!map: element 2: bad",
        Sparse("[[0 0] [0 1] [0 2] [0 3]]", "[4 4 4 4]", "[1 4]")}},
      {"too large in the middle",
       [&] { return Batches(Filled(1, 4), 1, {1}); },
       {Sparse("[[0 0]]", "[1]", "[1 1]"),
        "!dense_to_sparse_batch: element 0 has shape [2], and row_shape is [1]; let it hold the "
        "largest element, or be null (-1) for that axis",
        "!element 0 has shape [3]"}},
      {"empty", [&] { return Batches(Filled(1, 1), 2, {2}); }, {}},
      {.name = "infinite",
       .build = [&] { return Batches(Ok(Filled(1, 3)->Repeat(-1)), 2, {kNone}); },
       .elements = {ones, ones, ones},
       .endless = true},
      {"several passes",
       [&] { return Ok(Batches(Filled(1, 4), 2, {kNone})->Repeat(2)); },
       {ones, threes, ones, threes}},
      {"shuffled by one and cached",
       [&] {
         return Ok(Ok(Batches(Filled(1, 4), 2, {kNone})->Shuffle(1, Seed(1)))->Cache());
       },
       {ones, threes}},
  });
}

// ---- sparse and ragged elements below other operations

class CompositeElements : public OpWalksTest {
 protected:
  static Ref<Value> Vector(std::vector<int64_t> items) {
    return Value::OfTensor(
        Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(items.size())}), items).value());
  }
  static Ref<Value> Ragged(const Ref<Value>& values, std::vector<int64_t> splits) {
    return MakeRagged(values, Vector(std::move(splits))->leaf().tensor_ref()).value();
  }
  static std::string RaggedText(std::string_view values, std::string_view splits) {
    return "tutti.RaggedTensor(values=" + std::string(values) +
           ", row_splits=" + std::string(splits) + ")";
  }
  Ref<Dataset> Slices(const Ref<Value>& value) {
    return Ok(Dataset::FromTensorSlices(datasets_, value));
  }
};

TEST_F(CompositeElements, AreSlicedAlongAxisZero) {
  const Ref<Value> once = Ragged(Vector({1, 2, 3}), {0, 2, 2, 3});
  EXPECT_THAT(All(Slices(once)), ElementsAre("[1 2]", "[]", "[3]"));
  EXPECT_EQ(SpecText(Slices(once)), "int64[?]");
  EXPECT_EQ(Slices(once)->cardinality(), 3);
  const Ref<Value> twice = Ragged(Ragged(Vector({1, 2, 3}), {0, 1, 3}), {0, 0, 2});
  EXPECT_THAT(All(Slices(twice)),
              ElementsAre(RaggedText("[]", "[0]"), RaggedText("[1 2 3]", "[0 1 3]")));
  EXPECT_EQ(SpecText(Slices(twice)), "ragged(int64[?,?])");
  const Ref<Value> sparse =
      Iterate(Ok(Ok(Range(3)->Batch(3))->DenseToSparseBatch(1, Sizes({4}))))
          ->Next(CallOptions())
          .value();
  EXPECT_THAT(All(Slices(Value::Tuple({sparse, Vector({7})}))),
              ElementsAre("(" + Sparse("[[0] [1] [2]]", "[0 1 2]", "[4]") + ", 7)"));
  EXPECT_THAT(All(Slices(Ragged(Vector({}), {0}))), ElementsAre());
  EXPECT_EQ(SpecText(Slices(Ragged(Vector({}), {0}))), "int64[?]");
}

TEST_F(CompositeElements, AreStackedAndTakenApartAgain) {
  const Ref<Dataset> rows = Slices(Ragged(Vector({1, 2, 3}), {0, 2, 2, 3}));
  const Ref<Dataset> ragged = Slices(
      Ragged(Ragged(Vector({1, 2, 3, 4}), {0, 1, 3, 3, 4}), {0, 2, 3, 4}));
  const std::string first = RaggedText(RaggedText("[1 2 3]", "[0 1 3 3]"), "[0 2 3]");
  const std::string last = RaggedText(RaggedText("[4]", "[0 1]"), "[0 1]");
  EXPECT_THAT(All(Ok(ragged->Batch(2))), ElementsAre(first, last));
  EXPECT_EQ(SpecText(Ok(ragged->Batch(2))), "ragged(int64[?,?,?])");
  EXPECT_EQ(SpecText(Ok(ragged->Batch(2, true))), "ragged(int64[2,?,?])");
  EXPECT_THAT(All(Ok(Ok(ragged->Batch(2))->Unbatch())), ::testing::ElementsAreArray(All(ragged)));
  EXPECT_EQ(SpecText(Ok(Ok(ragged->Batch(2))->Unbatch())), "ragged(int64[?,?])");
  const Ref<Dataset> sparse = Ok(Ok(Range(1, 4)->Map(FillSelf()))->DenseToSparseBatch(
      2, Sizes({kNone})));
  EXPECT_THAT(All(Ok(sparse->Batch(2))),
              ElementsAre(Sparse("[[0 0 0] [0 1 0] [0 1 1] [1 0 0] [1 0 1] [1 0 2]]",
                                 "[1 2 2 3 3 3]", "[2 2 3]")));
  EXPECT_EQ(SpecText(Ok(sparse->Batch(2))), "sparse(int64[?,?,?])");
  EXPECT_THAT(All(Ok(sparse->Unbatch())),
              ElementsAre(Sparse("[[0]]", "[1]", "[2]"), Sparse("[[0] [1]]", "[2 2]", "[2]"),
                          Sparse("[[0] [1] [2]]", "[3 3 3]", "[3]")));
  EXPECT_EQ(SpecText(Ok(sparse->Unbatch())), "sparse(int64[?])");
  ExpectAllWalks({
      {"batches of ragged tensors", [&] { return Ok(ragged->Batch(2)); }, {first, last}},
      {"their rows", [&] { return Ok(Ok(ragged->Batch(2))->Unbatch()); }, All(ragged)},
  });
}

TEST_F(CompositeElements, AreNotTakenApartByWhatGoesByTensors) {
  const Ref<Dataset> ragged = Slices(Ragged(Ragged(Vector({1, 2}), {0, 1, 2}), {0, 1, 2}));
  const auto refusal = [](const Result<Ref<Dataset>>& dataset) {
    EXPECT_EQ(dataset.status().code(), StatusCode::kInvalidArgument);
    return std::string(dataset.status().message());
  };
  EXPECT_EQ(refusal(ragged->Window(2)),
            "window: ragged tensors are not taken, and stand in the place of the element; make "
            "them dense first");
  EXPECT_THAT(refusal(ragged->PaddedBatch(2)), HasSubstr("ragged tensors are not taken"));
  EXPECT_THAT(refusal(ragged->Unique()), HasSubstr("unique"));
  const Ref<TestFunction> slabs = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Ref<Value>::Retain(const_cast<Value*>(&in));
      },
      {.spec = Int64Scalar(), .granularity = Granularity::kSlab});
  EXPECT_THAT(Next(*Iterate(Ok(ragged->Map(slabs)))),
              HasSubstr("a function of slabs: ragged tensors are not taken"));
}

TEST_F(CompositeElements, AreSavedInWhatHoldsThem) {
  const auto build = [&] {
    return Ok(Slices(Ragged(Ragged(Vector({1, 2, 3}), {0, 1, 3}), {0, 1, 2}))->Shuffle(4, Seed(3)));
  };
  const std::vector<std::string> all = All(build());
  ExpectAllWalks({{.name = "shuffled", .build = build, .elements = all}});
}

}  // namespace
}  // namespace tutti
