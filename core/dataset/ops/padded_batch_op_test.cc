#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "core/dataset/testing/op_walks_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kNone = -1;

Ref<const Value> Vector(std::initializer_list<int64_t> items) {
  return Value::OfTensor(Tensor::Vector<int64_t>(items));
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

class PaddedBatch : public OpWalksTest {
 protected:
  Ref<Dataset> Filled(int64_t start, int64_t stop) {
    return Ok(Range(start, stop)->Map(FillSelf()));
  }
  // Of (a vector, the number itself).
  Ref<Dataset> Pairs(int64_t start, int64_t stop) {
    const Ref<Value> both =
        Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, Filled(start, stop))),
                      Value::OfLeaf(Leaf(LeafKind::kDataset, Range(start, stop)))});
    return Ok(Dataset::Zip(datasets_, *both));
  }
  static std::string Refusal(const Result<Ref<Dataset>>& dataset) {
    EXPECT_EQ(dataset.status().code(), StatusCode::kInvalidArgument);
    return std::string(dataset.status().message());
  }
};

TEST_F(PaddedBatch, PadsToTheLargestOfEachBatch) {
  EXPECT_THAT(All(Ok(Filled(1, 6)->PaddedBatch(2))),
              ElementsAre("[[1 0] [2 2]]", "[[3 3 3 0] [4 4 4 4]]", "[[5 5 5 5 5]]"));
  EXPECT_THAT(All(Ok(Filled(1, 6)->PaddedBatch(2, nullptr, nullptr, true))),
              ElementsAre("[[1 0] [2 2]]", "[[3 3 3 0] [4 4 4 4]]"));
  EXPECT_THAT(All(Ok(Filled(0, 2)->PaddedBatch(2))), ElementsAre("[[0] [1]]"));
  EXPECT_THAT(All(Ok(Range(3)->PaddedBatch(2))), ElementsAre("[0 1]", "[2]"));
}

TEST_F(PaddedBatch, PadsToAFixedSizeWithAValue) {
  EXPECT_THAT(All(Ok(Filled(1, 5)->PaddedBatch(3, Vector({4}), Number(-1)))),
              ElementsAre("[[1 -1 -1 -1] [2 2 -1 -1] [3 3 3 -1]]", "[[4 4 4 4]]"));
  EXPECT_THAT(All(Ok(Filled(1, 3)->PaddedBatch(2, Number(3)))), ElementsAre("[[1 0 0] [2 2 0]]"));
  EXPECT_THAT(All(Ok(Filled(1, 3)->PaddedBatch(2, Value::None(), Value::None()))),
              ElementsAre("[[1 0] [2 2]]"));
}

TEST_F(PaddedBatch, PadsAxesApartAndGoesThroughBatches) {
  // [2,1], [2,2] in one, [1,3] in the next.
  const Ref<Dataset> batches = Ok(Filled(1, 4)->PaddedBatch(2));
  EXPECT_THAT(All(Ok(batches->PaddedBatch(2))),
              ElementsAre("[[[1 0 0] [2 2 0]] [[3 3 3] [0 0 0]]]"));
  EXPECT_THAT(All(Ok(batches->PaddedBatch(2, Vector({kNone, 4})))),
              ElementsAre("[[[1 0 0 0] [2 2 0 0]] [[3 3 3 0] [0 0 0 0]]]"));
}

TEST_F(PaddedBatch, PadsEachComponentInItsOwnWay) {
  const Ref<Value> shapes =
      Value::Tuple({Value::OfTensor(Tensor::Vector<int64_t>({3})), Value::None()});
  const Ref<Value> values = Value::Tuple({Number(-1), Value::None()});
  EXPECT_THAT(All(Ok(Pairs(1, 4)->PaddedBatch(2, shapes, values))),
              ElementsAre("([[1 -1 -1] [2 2 -1]], [1 2])", "([[3 3 3]], [3])"));
  EXPECT_THAT(All(Ok(Pairs(1, 3)->PaddedBatch(2, nullptr, Number(7)))),
              ElementsAre("([[1 7] [2 2]], [1 2])"));
}

TEST_F(PaddedBatch, OneValueIsForTheComponentsOfItsDType) {
  const Ref<TestFunction> with_text = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const std::vector<BytesView> texts(static_cast<size_t>(NumberIn(in)), BytesView{"ab", 2});
        return Value::Tuple({Copies(NumberIn(in)),
                             Value::OfTensor(Tensor::FromStrings(Shape({NumberIn(in)}), texts)
                                                 .value())});
      },
      {.spec = ElementSpec::Tuple(std::vector<Ref<const ElementSpec>>{
           AnyVector(), ElementSpec::OfTensor(DType::kBytes, PartialShape({kNone}))})});
  const Ref<Dataset> both = Ok(Range(1, 3)->Map(with_text));
  EXPECT_THAT(All(Ok(both->PaddedBatch(2, nullptr, Number(9)))),
              ElementsAre(R"(([[1 9] [2 2]], [["ab" ""] ["ab" "ab"]]))"));
  EXPECT_THAT(All(Ok(both->PaddedBatch(2, nullptr, Value::OfTensor(Tensor::Bytes("-"))))),
              ElementsAre(R"(([[1 0] [2 2]], [["ab" "-"] ["ab" "ab"]]))"));
  EXPECT_EQ(Refusal(both->PaddedBatch(2, nullptr, Value::OfTensor(Tensor::Scalar(0.5f)))),
            "padded_batch: no component of the elements is float32 as the padding value, the first "
            "is int64; give the value that dtype");
}

TEST_F(PaddedBatch, OfRowsThatAreOneShapeIsAView) {
  const Ref<Tensor> numbers = Tensor::Vector<int64_t>({1, 2, 3, 4});
  const Ref<Iterator> iterator = Iterate(
      Ok(Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(numbers)))->PaddedBatch(2)));
  const Ref<Value> batch = iterator->Next(CallOptions()).value();
  EXPECT_EQ(batch->AsTensor()->data(), numbers->data());
}

TEST_F(PaddedBatch, KnowsItsSpecAndCardinality) {
  EXPECT_EQ(SpecText(Ok(Filled(1, 9)->PaddedBatch(3))), "int64[?,?]");
  EXPECT_EQ(SpecText(Ok(Filled(1, 9)->PaddedBatch(3, Vector({8}), nullptr, true))), "int64[3,8]");
  EXPECT_EQ(SpecText(Ok(Ok(Range(8)->Batch(2, true))->PaddedBatch(3))), "int64[?,2]");
  EXPECT_EQ(SpecText(Ok(Ok(Range(8)->Batch(2, true))->PaddedBatch(3, Vector({kNone})))),
            "int64[?,?]");
  EXPECT_EQ(Ok(Range(8)->PaddedBatch(3))->cardinality(), 3);
  EXPECT_EQ(Ok(Range(8)->PaddedBatch(3, nullptr, nullptr, true))->cardinality(), 2);
  EXPECT_EQ(Ok(Ok(Range(8)->Repeat(-1))->PaddedBatch(3))->cardinality(), kInfiniteCardinality);
}

TEST_F(PaddedBatch, OfWhatOnlyTheFirstElementHasShownAnySizeMayCome) {
  const Ref<Dataset> learnt = Ok(Range(1, 5)->Map(FillSelf(nullptr)));
  EXPECT_EQ(SpecText(learnt), "int64[1]");
  EXPECT_EQ(SpecText(Ok(learnt->PaddedBatch(2))), "int64[?,?]");
  EXPECT_THAT(All(Ok(learnt->PaddedBatch(2))),
              ElementsAre("[[1 0] [2 2]]", "[[3 3 3 0] [4 4 4 4]]"));
  const Ref<Dataset> from_three = Ok(Range(3, 5)->Map(FillSelf(nullptr)));
  EXPECT_EQ(SpecText(from_three), "int64[3]");
  EXPECT_THAT(Next(*Iterate(Ok(from_three->PaddedBatch(2, Vector({2}))))),
              HasSubstr("element 0 has shape [3], and is padded to [2]"));
}

TEST_F(PaddedBatch, NamesBothShapesOfAnElementThatIsTooLargeAndGoesOnBehindItsBatch) {
  const Ref<Iterator> iterator =
      Iterate(Ok(Filled(1, 6)->PaddedBatch(2, Vector({3}), nullptr, false, "mine")));
  EXPECT_EQ(Next(*iterator), "[[1 0 0] [2 2 0]]");
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("padded_batch 'mine'"), HasSubstr("element 1 has shape [4]"),
                    HasSubstr("padded to [3]")));
  EXPECT_THAT(Next(*iterator), HasSubstr("element 0 has shape [5]"));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(PaddedBatch, KeepsTheRowsBeforeAFailedElement) {
  const Ref<Iterator> iterator =
      Iterate(Ok(Ok(Range(1, 6)->Map(FillSelfBut3()))->PaddedBatch(3)));
  EXPECT_EQ(Next(*iterator), "!map: element 2: bad");
  EXPECT_EQ(Next(*iterator), "[[1 0 0 0] [2 2 0 0] [4 4 4 4]]");
  EXPECT_EQ(Next(*iterator), "[[5 5 5 5 5]]");
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(PaddedBatch, RefusesArgumentsThatCannotBe) {
  const Ref<Dataset> filled = Filled(1, 5);
  EXPECT_EQ(Refusal(filled->PaddedBatch(0)), "padded_batch: batch_size must be positive, got 0");
  EXPECT_EQ(Refusal(filled->PaddedBatch(2, Vector({2, 2}))),
            "padded_batch: the element has shape [?], which padded_shapes' [2,2] does not hold; it "
            "needs as many sizes, each as large or null (-1)");
  EXPECT_THAT(Refusal(Ok(Range(8)->Batch(4, true))->PaddedBatch(2, Vector({3}))),
              HasSubstr("has shape [4], which padded_shapes' [3] does not hold"));
  EXPECT_THAT(Refusal(filled->PaddedBatch(2, Vector({-2}))),
              AllOf(HasSubstr("padded_shapes must be sizes of 0 or more"), HasSubstr("-2")));
  EXPECT_THAT(Refusal(filled->PaddedBatch(2, Value::OfTensor(Tensor::Scalar(1.5f)))),
              HasSubstr("padded_shapes"));
  EXPECT_THAT(Refusal(filled->PaddedBatch(2, Value::OfString("x"))),
              HasSubstr("padded_shapes must be the sizes of a shape"));
  EXPECT_THAT(Refusal(filled->PaddedBatch(2, Value::Tuple({Copies(2), Copies(2)}))),
              HasSubstr("padded_batch: padded_shapes"));
  EXPECT_THAT(Refusal(filled->PaddedBatch(2, nullptr, Vector({1}))),
              HasSubstr("padding_values must be a scalar, and is int64[1]"));
  EXPECT_THAT(Refusal(filled->PaddedBatch(2, nullptr, Value::Tuple({Number(1), Number(2)}))),
              HasSubstr("padded_batch: padding_values"));
  EXPECT_EQ(Refusal(filled->PaddedBatch(2, nullptr, Value::OfTensor(Tensor::Scalar<int32_t>(1)))),
            "padded_batch: the elements are int64, and their padding value is int32; give it that "
            "dtype");
  EXPECT_THAT(Refusal(Ok(Dataset::FromTensors(datasets_, Value::OfString("x")))->PaddedBatch(2)),
              HasSubstr("only tensors can be stacked"));
}

TEST_F(PaddedBatch, WantsShapesWhereTheNumberOfAxesIsUnknown) {
  const Ref<Dataset> any = Ok(Range(1, 3)->Map(
      FillSelf(ElementSpec::OfTensor(DType::kInt64, PartialShape::Unknown()))));
  EXPECT_EQ(Refusal(any->PaddedBatch(2)),
            "padded_batch: the element may have any number of axes, so that padded_shapes must say "
            "to which shape it is padded");
  EXPECT_THAT(All(Ok(any->PaddedBatch(2, Vector({kNone})))), ElementsAre("[[1 0] [2 2]]"));
  EXPECT_THAT(Next(*Iterate(Ok(any->PaddedBatch(2, Vector({2, 2}))))),
              HasSubstr("element 0 has shape [1], and is padded to [2,2]"));
}

TEST_F(PaddedBatch, RefusesAtIterationWhatOnlyAnElementShows) {
  const Ref<TestFunction> ranks = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return NumberIn(in) == 0 ? Number(0) : Copies(2);
      });
  const Ref<Dataset> dataset = Ok(Range(2)->Map(ranks));
  EXPECT_THAT(Next(*Iterate(Ok(dataset->PaddedBatch(2)))),
              HasSubstr("element 1 has shape [2], element 0 has []"));
  const Ref<Dataset> filled = Ok(Range(1, 3)->Map(FillSelf(nullptr)));
  EXPECT_THAT(Next(*Iterate(Ok(filled->PaddedBatch(
                  2, nullptr, Value::OfTensor(Tensor::Scalar<int32_t>(1)))))),
              HasSubstr("are int64, and their padding value is int32"));
}

TEST_F(PaddedBatch, SaysHowMuchMemoryAPaddedSizeWouldTake) {
  const Ref<Iterator> iterator =
      Iterate(Ok(Filled(1, 3)->PaddedBatch(2, Vector({int64_t{1} << 62}))));
  EXPECT_THAT(Next(*iterator), HasSubstr("padded_batch: "));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(PaddedBatch, IsWrittenAndReadWithItsShapesAndValues) {
  const Ref<Value> values = Value::Tuple({Number(-1), Value::None()});
  const Ref<Dataset> slices = Ok(Dataset::FromTensorSlices(
      datasets_, Value::Tuple({Value::OfTensor(
                                   Tensor::FromSpan<int64_t>(Shape({2, 1}), std::vector<int64_t>{
                                                                                5, 6})
                                       .value()),
                               Value::OfTensor(Tensor::Vector<int64_t>({7, 8}))})));
  const Ref<Value> shapes =
      Value::Tuple({Value::OfTensor(Tensor::Vector<int64_t>({2})), Value::None()});
  const Ref<Dataset> batches = Ok(slices->PaddedBatch(2, shapes, values));
  const Ref<Dataset> read = Ok(Dataset::Deserialize(datasets_, batches->Serialize().value()));
  EXPECT_THAT(All(read), ElementsAre("([[5 -1] [6 -1]], [7 8])"));
}

TEST_F(PaddedBatch, KeepsItsPlaceThroughSavesSkipsFailuresAndCancelledCalls) {
  // Looks at whether its call was cancelled, as functions that take long do.
  const Ref<TestFunction> asks = MakeFunction(
      [](Context& context, const Value& in, void*) -> Result<Ref<Value>> {
        if (context.cancelled()) return Status(StatusCode::kCancelled, "nobody waits");
        return Copies(NumberIn(in));
      },
      {.spec = AnyVector()});
  const auto asked = [&] { return Ok(Ok(Range(1, 8)->Map(asks))->PaddedBatch(2)); };
  ExpectAllWalks({
      {"plain", asked,
       {"[[1 0] [2 2]]", "[[3 3 3 0] [4 4 4 4]]", "[[5 5 5 5 5 0] [6 6 6 6 6 6]]",
        "[[7 7 7 7 7 7 7]]"}},
      {"failing in the middle",
       [&] { return Ok(Ok(Range(1, 6)->Map(FillSelfBut3()))->PaddedBatch(2)); },
       {"[[1 0] [2 2]]", "!map: element 2: bad", "[[4 4 4 4 0] [5 5 5 5 5]]"}},
      {"too large in the middle",
       [&] { return Ok(Filled(1, 6)->PaddedBatch(1, Vector({4}))); },
       {"[[1 0 0 0]]", "[[2 2 0 0]]", "[[3 3 3 0]]", "[[4 4 4 4]]",
        "!padded_batch: element 0 has shape [5], and is padded to [4]; let padded_shapes hold the "
        "largest element, or be null (-1) for that axis"}},
      {"empty", [&] { return Ok(Filled(1, 1)->PaddedBatch(2)); }, {}},
      {"nothing but a remainder",
       [&] { return Ok(Filled(1, 3)->PaddedBatch(3, nullptr, nullptr, true)); },
       {}},
      {.name = "infinite",
       .build = [&] { return Ok(Ok(Filled(1, 4)->Repeat(-1))->PaddedBatch(2)); },
       .elements = {"[[1 0] [2 2]]", "[[3 3 3] [1 0 0]]", "[[2 2 0] [3 3 3]]", "[[1 0] [2 2]]"},
       .endless = true},
      {"several passes",
       [&] { return Ok(Ok(Filled(1, 4)->PaddedBatch(2))->Repeat(2)); },
       {"[[1 0] [2 2]]", "[[3 3 3]]", "[[1 0] [2 2]]", "[[3 3 3]]"}},
  });
}

}  // namespace
}  // namespace tutti
