#include <gmock/gmock.h>

#include "core/dataset/testing/op_walks_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Unbatch : public OpWalksTest {
 protected:
  static Ref<Tensor> Tensor2(int64_t rows, int64_t columns) {
    Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({rows, columns})).value();
    int64_t next = 0;
    for (int64_t& item : tensor->mutable_span<int64_t>()) item = next++;
    return tensor;
  }
  Ref<Dataset> Only(Ref<Value> value) {
    return Ok(Dataset::FromTensors(datasets_, std::move(value)));
  }
  // x -> as many numbers from 10 * x on; -1 of them in a pair is one less than in the other part.
  static Ref<TestFunction> Counts(Ref<const ElementSpec> spec = ElementSpec::OfTensor(
                                      DType::kInt64, PartialShape({PartialShape::kUnknownDim}))) {
    return MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          const int64_t x = NumberIn(in);
          if (x == 6) return Status(StatusCode::kDataLoss, "six is bad");
          return NumbersFrom(10 * x, x % 4);
        },
        {.spec = std::move(spec)});
  }
  static Result<Ref<Value>> NumbersFrom(int64_t first, int64_t count) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out, Tensor::Create(DType::kInt64, Shape({count})));
    for (int64_t& item : out->mutable_span<int64_t>()) item = first++;
    return Value::OfTensor(std::move(out));
  }
  // Pairs, of which every third is of unequal sizes.
  static Ref<TestFunction> Pairs() {
    const Ref<const ElementSpec> part =
        ElementSpec::OfTensor(DType::kInt64, PartialShape({PartialShape::kUnknownDim}));
    return MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          const int64_t x = NumberIn(in);
          TUTTI_ASSIGN_OR_RETURN(Ref<Value> left, NumbersFrom(x, 2));
          TUTTI_ASSIGN_OR_RETURN(Ref<Value> right, NumbersFrom(10 * x, x % 3 == 1 ? 3 : 2));
          return Value::Tuple({std::move(left), std::move(right)});
        },
        {.spec = ElementSpec::Tuple(std::vector{part, part})});
  }
  static std::vector<std::string> NumberTexts(int64_t begin, int64_t end) {
    std::vector<std::string> texts;
    for (; begin < end; ++begin) texts.push_back(Format("{}", begin));
    return texts;
  }
};

TEST_F(Unbatch, WalksAsItShould) {
  ExpectAllWalks({
      {"slices", [&] {
         return Ok(Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(Tensor2(5, 3))))
                       ->Unbatch());
       }, NumberTexts(0, 15)},
      {"one element", [&] { return Ok(Only(Value::OfTensor(Tensor2(20, 1)))->Unbatch()); },
       [] {
         std::vector<std::string> texts;
         for (int i = 0; i < 20; ++i) texts.push_back(Format("[{}]", i));
         return texts;
       }()},
      {"of batches", [&] { return Ok(Ok(Range(23)->Batch(4))->Unbatch()); }, NumberTexts(0, 23)},
      {"of whole batches", [&] { return Ok(Ok(Range(23)->Batch(4, true))->Unbatch()); },
       NumberTexts(0, 20)},
      {"of batches of one", [&] { return Ok(Ok(Range(9)->Batch(1))->Unbatch()); },
       NumberTexts(0, 9)},
      {"twice", [&] {
         return Ok(Ok(Ok(Ok(Range(12)->Batch(2))->Batch(3))->Unbatch())->Unbatch());
       }, NumberTexts(0, 12)},
      {"of many rows", [&] { return Ok(Only(Value::OfTensor(Tensor2(9000, 1)))->Unbatch()); },
       [] {
         std::vector<std::string> texts;
         for (int i = 0; i < 30; ++i) texts.push_back(Format("[{}]", i));
         return texts;
       }(), true},
      {"of other sizes, some empty, one failed", [&] {
         return Ok(Ok(Range(9)->Map(Counts()))->Unbatch());
       }, {"10", "20", "21", "30", "31", "32", "50", "!six is bad", "70", "71", "72"}},
      {"of pairs of which some differ", [&] {
         return Ok(Ok(Range(5)->Map(Pairs()))->Unbatch());
       }, {"(0, 0)", "(1, 1)",
           "!unbatch: element 1: all components must have the same size along axis 0, but component"
           " 1 at [1] has 3 and component 0 has 2",
           "(2, 20)", "(3, 21)", "(3, 30)", "(4, 31)", "!unbatch: element 4: all components"}},
      {"empty", [&] { return Ok(Ok(Range(0)->Batch(3))->Unbatch()); }, {}},
      {"of empty elements", [&] { return Ok(Only(Value::OfTensor(Tensor2(0, 2)))->Unbatch()); },
       {}},
      {"infinite", [&] { return Ok(Ok(Ok(Range(5)->Batch(2))->Repeat(-1))->Unbatch()); },
       {"0", "1", "2", "3", "4", "0", "1", "2", "3", "4", "0", "1", "2"}, true},
      {"below a prefetch", [&] {
         return Ok(Ok(Ok(Range(10)->Batch(3))->Unbatch())->Prefetch(2));
       }, NumberTexts(0, 10)},
  });
}

TEST_F(Unbatch, SaysWhatItKnowsOfItsElements) {
  const auto batches = [&](bool drop) { return Ok(Range(7)->Batch(3, drop)); };
  EXPECT_EQ(Ok(batches(true)->Unbatch())->cardinality(), 6);
  EXPECT_EQ(Ok(batches(false)->Unbatch())->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Ok(batches(false)->Repeat(-1))->Unbatch())->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Ok(Ok(Range(0)->Batch(3))->Unbatch())->cardinality(), 0);
  EXPECT_EQ(Ok(Only(Value::OfTensor(Tensor2(0, 2)))->Unbatch())->cardinality(), 0);
  EXPECT_EQ(SpecText(Ok(batches(false)->Unbatch())), "int64[]");
  const Ref<Value> both = Value::Dict({{"a", Value::OfTensor(Tensor2(4, 2))},
                                       {"b", Value::OfTensor(Tensor::Vector<float>({1, 2, 3, 4}))}})
                              .value();
  EXPECT_EQ(SpecText(Ok(Only(both)->Unbatch())), "{'a': int64[2], 'b': float32[]}");
  EXPECT_EQ(SpecText(Ok(Ok(Range(3)->Map(Counts(nullptr)))->Unbatch())), "int64[]");
}

TEST_F(Unbatch, TakesTheSizeOfTheFirstElementForNobodyElses) {
  const Ref<TestFunction> counts = MakeFunction(
      [](Context&, const Value& in, void*) { return NumbersFrom(0, 3 - NumberIn(in)); });
  const Ref<Dataset> mapped = Ok(Range(3)->Map(counts));
  EXPECT_EQ(SpecText(mapped), "int64[3]");
  const Ref<Dataset> unbatched = Ok(mapped->Unbatch());
  EXPECT_EQ(unbatched->cardinality(), kUnknownCardinality);
  EXPECT_THAT(Numbers(unbatched), ElementsAre(0, 1, 2, 0, 1, 0));
  // It is kept when it is complete, and not when there are so many as the first one promises.
  EXPECT_THAT(Numbers(Ok(Ok(unbatched->Cache())->Repeat(2))), SizeIs(12));
}

TEST_F(Unbatch, RefusesWhatHasNoRowsWhenItIsBuilt) {
  const auto refused = [](const Result<Ref<Dataset>>& made) {
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  };
  EXPECT_EQ(refused(Range(3)->Unbatch()),
            "unbatch: expected tensors of rank 1 or more, but the element is int64[]");
  EXPECT_THAT(refused(Only(Value::None())->Unbatch()), HasSubstr("the element is none"));
  EXPECT_THAT(refused(Only(Value::Tuple({}))->Unbatch()), HasSubstr("the elements are ()"));
  EXPECT_EQ(refused(Only(Value::Tuple({Value::OfTensor(Tensor2(3, 1)),
                                       Value::OfTensor(Tensor2(2, 1))}))
                        ->Unbatch()),
            "unbatch: all components must have the same size along axis 0, but component 1 at [1] "
            "has 2 and component 0 has 3");
}

TEST_F(Unbatch, RefusesWhatHasNoRowsWhereOnlyAnElementShowsIt) {
  const Ref<TestFunction> mixed = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 1) return Number(7);
        return NumbersFrom(NumberIn(in), 1);
      },
      {.spec = ElementSpec::OfTensor(DType::kInt64, PartialShape::Unknown())});
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(3)->Map(mixed))->Unbatch()));
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_EQ(Next(*iterator),
            "!unbatch: element 1: expected tensors of rank 1 or more, but component 0 is int64[]");
  EXPECT_THAT(All(*iterator), ElementsAre("2"));
}

TEST_F(Unbatch, GivesViewsOfTheRows) {
  const Ref<Tensor> rows = Tensor2(1000, 1000);
  const Ref<Iterator> iterator = Iterate(Ok(Only(Value::OfTensor(rows))->Unbatch()));
  Slab slab;
  ASSERT_TRUE(iterator->NextSlab(400, CallOptions(), &slab).ok());
  ASSERT_EQ(slab.rows, 400);
  EXPECT_EQ(slab.columns[0].dense()->data(), rows->data());
  slab.Clear();
  ASSERT_TRUE(iterator->NextSlab(1, CallOptions(), &slab).ok());
  EXPECT_EQ(slab.columns[0].dense()->data(), rows->span<int64_t>().data() + 400 * 1000);
}

TEST_F(Unbatch, GivesTheRowsOfManyBatchesAtOnce) {
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(100)->Batch(5, true))->Unbatch()));
  Slab slab;
  ASSERT_TRUE(iterator->NextSlab(50, CallOptions(), &slab).ok());
  EXPECT_EQ(slab.rows, 50);
}

TEST_F(Unbatch, CallsNoFunctionForWhatIsNotWanted) {
  const Ref<TestFunction> counts = Counts();
  const Ref<Dataset> unbatched = Ok(Ok(Range(100)->Map(counts))->Unbatch());
  EXPECT_THAT(Numbers(Ok(unbatched->Take(3))), ElementsAre(10, 20, 21));
  EXPECT_EQ(counts->calls, 3);
}

TEST_F(Unbatch, PassesOverBatchesThatNobodyNeeds) {
  // Their rows would take more memory than there is.
  const Ref<Dataset> large = Ok(Ok(Ok(Range(1'000'000'000'000)->Batch(1000, true))->Unbatch())
                                    ->Skip(999'999'999'997));
  EXPECT_THAT(Numbers(large), ElementsAre(999'999'999'997, 999'999'999'998, 999'999'999'999));
}

TEST_F(Unbatch, SearchesForRowsNoLongerThanItMay) {
  const Ref<Dataset> without =
      Ok(Ok(Only(Value::OfTensor(Tensor2(0, 2)))->Repeat(-1))->Unbatch());
  const CallOptions soon{Deadline::After(environment_->clock(), kMillisecondNs), nullptr};
  EXPECT_EQ(Iterate(without)->Next(soon).status().code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace tutti
