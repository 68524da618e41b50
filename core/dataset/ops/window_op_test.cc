#include <gmock/gmock.h>

#include <limits>

#include "core/dataset/testing/op_walks_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Window : public OpWalksTest {
 protected:
  Ref<Dataset> FailsAt(int64_t stop, int64_t bad) {
    bad_ = bad;
    return Ok(Range(stop)->Map(MakeFunction(
        [](Context&, const Value& in, void* bad) -> Result<Ref<Value>> {
          if (NumberIn(in) == *static_cast<const int64_t*>(bad)) {
            return Status(StatusCode::kDataLoss, "it is bad");
          }
          return Number(NumberIn(in));
        },
        {.data = &bad_, .spec = Int64Scalar()})));
  }
  Ref<Dataset> Pairs(int64_t rows) {
    std::vector<int32_t> left;
    std::vector<std::string> right;
    for (int64_t i = 0; i < rows; ++i) {
      left.push_back(static_cast<int32_t>(10 * i));
      right.push_back(Format("{}", i));
    }
    std::vector<BytesView> views;
    for (const std::string& text : right) views.push_back({text.data(), text.size()});
    const Ref<Value> value =
        Value::Dict({{"a", Value::OfTensor(
                               Tensor::FromSpan<int32_t>(Shape({rows}), left).value())},
                     {"b", Value::OfTensor(Tensor::FromStrings(Shape({rows}), views).value())}})
            .value();
    return Ok(Dataset::FromTensorSlices(datasets_, value));
  }
  // x -> x zeros, so that a window's elements have different shapes.
  static Ref<TestFunction> Zeros() {
    return MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                                 Tensor::Create(DType::kInt64, Shape({NumberIn(in)})));
          return Value::OfTensor(std::move(out));
        },
        {.spec = ElementSpec::OfTensor(DType::kInt64,
                                       PartialShape({PartialShape::kUnknownDim}))});
  }
  static Ref<TestFunction> Itself() {
    return MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      return Value::OfLeaf(in.leaf(0));
    });
  }
  int64_t bad_ = -1;
};

TEST_F(Window, WalksAsItShould) {
  ExpectAllWalks({
      {"one behind the other", [&] { return Ok(Range(7)->Window(3)); },
       {"<0 1 2>", "<3 4 5>", "<6>"}},
      {"all whole", [&] { return Ok(Range(6)->Window(3)); }, {"<0 1 2>", "<3 4 5>"}},
      {"larger than the input", [&] { return Ok(Range(3)->Window(5)); }, {"<0 1 2>"}},
      {"larger, dropped", [&] { return Ok(Range(3)->Window(5, {}, 1, true)); }, {}},
      {"overlapping", [&] { return Ok(Range(5)->Window(3, 1)); },
       {"<0 1 2>", "<1 2 3>", "<2 3 4>", "<3 4>", "<4>"}},
      {"overlapping, dropped", [&] { return Ok(Range(14)->Window(3, 1, 1, true)); },
       {"<0 1 2>", "<1 2 3>", "<2 3 4>", "<3 4 5>", "<4 5 6>", "<5 6 7>", "<6 7 8>", "<7 8 9>",
        "<8 9 10>", "<9 10 11>", "<10 11 12>", "<11 12 13>"}},
      {"apart", [&] { return Ok(Range(10)->Window(2, 4)); }, {"<0 1>", "<4 5>", "<8 9>"}},
      {"apart, dropped", [&] { return Ok(Range(9)->Window(2, 4, 1, true)); }, {"<0 1>", "<4 5>"}},
      {"with a stride", [&] { return Ok(Range(9)->Window(3, 2, 2)); },
       {"<0 2 4>", "<2 4 6>", "<4 6 8>", "<6 8>", "<8>"}},
      {"with a stride and no shift", [&] { return Ok(Range(10)->Window(3, {}, 2)); },
       {"<0 2 4>", "<3 5 7>", "<6 8>", "<9>"}},
      {"with a stride beyond the input", [&] { return Ok(Range(3)->Window(3, 1, 4)); },
       {"<0>", "<1>", "<2>"}},
      {"of nothing", [&] { return Ok(Range(0)->Window(2)); }, {}},
      {"of all there can be", [&] {
         constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
         return Ok(Range(3)->Window(kMost, kMost, kMost));
       }, {"<0>"}},
      {"of a dict", [&] { return Ok(Pairs(3)->Window(2, 1)); },
       {"<0 10>, <\"0\" \"1\">", "<10 20>, <\"1\" \"2\">", "<20>, <\"2\">"}},
      {"of batches", [&] { return Ok(Ok(Range(9)->Batch(2))->Window(2)); },
       {"<[0 1] [2 3]>", "<[4 5] [6 7]>", "<[8]>"}},
      {"of other shapes", [&] { return Ok(Ok(Range(5)->Map(Zeros()))->Window(2)); },
       {"<[] [0]>", "<[0 0] [0 0 0]>", "<[0 0 0 0]>"}},
      {"of windows", [&] { return Ok(Ok(Range(8)->Window(2))->Window(2)); },
       {"<<0 1> <2 3>>", "<<4 5> <6 7>>"}},
      {"of windows of windows, kept", [&] {
         return Ok(Ok(Ok(Ok(Range(10)->Window(2))->Window(2))->Window(2, 1))->Prefetch(2));
       }, {"<<<0 1> <2 3>> <<4 5> <6 7>>>", "<<<4 5> <6 7>> <<8 9>>>", "<<<8 9>>>"}},
      {"of a failed element", [&] { return Ok(FailsAt(9, 3)->Window(2)); },
       {"<0 1>", "!it is bad", "<4 5>", "<6 7>", "<8>"}},
      {"of a failed element in several", [&] { return Ok(FailsAt(6, 2)->Window(3, 1)); },
       {"!it is bad", "!it is bad", "!it is bad", "<3 4 5>", "<4 5>", "<5>"}},
      {"of a failed element between", [&] { return Ok(FailsAt(9, 2)->Window(2, 3)); },
       {"<0 1>", "<3 4>", "<6 7>"}},
      {"of a failed element between strides", [&] { return Ok(FailsAt(8, 3)->Window(2, 4, 2)); },
       {"<0 2>", "<4 6>"}},
      {"of the last, failed", [&] { return Ok(FailsAt(5, 4)->Window(2)); },
       {"<0 1>", "<2 3>", "!it is bad"}},
      {"of the last, failed and dropped", [&] { return Ok(FailsAt(5, 4)->Window(2, {}, 1, true)); },
       {"<0 1>", "<2 3>"}},
      {"of too few", [&] { return Ok(Ok(Range(3)->AssertCardinality(5))->Window(2, 1)); },
       {"<0 1>", "<1 2>", "!expected 5 elements, and there were 3", "<2>"}},
      {"of too few, apart", [&] { return Ok(Ok(Range(4)->AssertCardinality(9))->Window(2, 3)); },
       {"<0 1>", "!expected 9 elements, and there were 4", "<3>"}},
      {"of too many, dropped",
       [&] { return Ok(Ok(Range(9)->AssertCardinality(4))->Window(3, 1, 1, true)); },
       {"<0 1 2>", "<1 2 3>", "!expected 4 elements, and there are more"}},
      {"of too many, all between",
       [&] { return Ok(Ok(Range(9)->AssertCardinality(3))->Window(1, 5)); },
       {"<0>", "!expected 3 elements, and there are more"}},
      {"infinite", [&] { return Ok(Ok(Range(3)->Repeat(-1))->Window(2)); },
       {"<0 1>", "<2 0>", "<1 2>", "<0 1>"}, true},
      {"shuffled", [&] { return Ok(Ok(Range(8)->Window(2))->Shuffle(3, Seed(4, false))); },
       [&] {
         std::vector<std::string> all;
         const Ref<Iterator> order = Iterate(Ok(Range(4)->Shuffle(3, Seed(4, false))));
         for (const std::string& at : All(*order)) {
           const int64_t first = 2 * std::stoll(at);
           all.push_back(Format("<{} {}>", first, first + 1));
         }
         return all;
       }()},
      {"taken apart", [&] { return Ok(Ok(Range(6)->Window(3, 2))->FlatMap(Itself())); },
       {"0", "1", "2", "2", "3", "4", "4", "5"}},
      {"taken in turns", [&] { return Ok(Ok(Range(9)->Window(3))->Interleave(Itself(), 2)); },
       {"0", "3", "1", "4", "2", "5", "6", "7", "8"}},
  });
}

TEST_F(Window, SaysWhatItKnowsOfItsElements) {
  EXPECT_EQ(Ok(Range(10)->Window(3))->cardinality(), 4);
  EXPECT_EQ(Ok(Range(10)->Window(3, 2, 2))->cardinality(), 5);
  EXPECT_EQ(Ok(Range(10)->Window(3, 2, 2, true))->cardinality(), 3);
  EXPECT_EQ(Ok(Range(4)->Window(3, 2, 2, true))->cardinality(), 0);
  EXPECT_EQ(Ok(Range(9)->Window(std::numeric_limits<int64_t>::max(), 1, 3, true))->cardinality(),
            0);
  EXPECT_EQ(Ok(Ok(Range(3)->Repeat(-1))->Window(2))->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Ok(Ok(Range(3)->Unique())->Window(2))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(SpecText(Ok(Pairs(3)->Window(2))), "{'a': dataset(int32[]), 'b': dataset(bytes[])}");
  EXPECT_EQ(SpecText(Ok(Ok(Range(3)->Window(2))->Window(2))), "dataset(dataset(int64[]))");
}

TEST_F(Window, TakesPositiveNumbersOnly) {
  const auto refused = [](const Result<Ref<Dataset>>& made) {
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  };
  EXPECT_EQ(refused(Range(8)->Window(0)), "window: size must be positive, got 0");
  EXPECT_EQ(refused(Range(8)->Window(2, 0)), "window: shift must be positive, got 0");
  EXPECT_EQ(refused(Range(8)->Window(2, 1, -1)), "window: stride must be positive, got -1");
}

TEST_F(Window, HoldsItsElementsWhenItsIteratorIsGone) {
  std::vector<Ref<Value>> windows;
  {
    const Ref<Iterator> iterator = Iterate(Ok(Pairs(5)->Window(2)));
    for (int i = 0; i < 3; ++i) windows.push_back(iterator->Next(CallOptions()).value());
    Close(*iterator);
  }
  const auto dataset = [&](size_t window, size_t component) {
    return Ref<Dataset>::Retain(windows[window]->leaf(component).object_as<Dataset>());
  };
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_THAT(All(dataset(0, 0)), ElementsAre("0", "10"));
    EXPECT_THAT(All(dataset(1, 1)), ElementsAre("\"2\"", "\"3\""));
    EXPECT_THAT(All(dataset(2, 0)), ElementsAre("40"));
  }
  EXPECT_EQ(dataset(0, 0)->cardinality(), 2);
  EXPECT_EQ(dataset(2, 1)->cardinality(), 1);
  EXPECT_EQ(SpecText(dataset(2, 1)), "bytes[]");
}

TEST_F(Window, SharesTheMemoryOfElementsThatLieInOnePiece) {
  const Ref<Tensor> rows = Tensor::Create(DType::kInt64, Shape({100, 100})).value();
  const Ref<Iterator> iterator = Iterate(
      Ok(Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(rows)))->Window(10)));
  for (int i = 0; i < 2; ++i) {
    const Ref<Value> window = iterator->Next(CallOptions()).value();
    Slab slab;
    const Ref<Iterator> inner =
        Iterate(Ref<Dataset>::Retain(window->leaf(0).object_as<Dataset>()));
    ASSERT_TRUE(inner->NextSlab(10, CallOptions(), &slab).ok());
    EXPECT_EQ(slab.columns[0].dense()->data(), rows->span<int64_t>().data() + i * 1000);
  }
}

TEST_F(Window, CallsNoFunctionForWhatLiesBetweenOrBehind) {
  const Ref<TestFunction> function = AddOne();
  EXPECT_THAT(All(Ok(Ok(Ok(Ok(Range(100)->Map(function))->Window(2, 10))->Take(3))
                         ->FlatMap(Itself()))),
              ElementsAre("1", "2", "11", "12", "21", "22"));
  EXPECT_EQ(function->calls, 6);
}

TEST_F(Window, IsNotSavedWithDatasetsThatHaveNoForm) {
  // Other datasets than windows, which a function made of them.
  const Ref<TestFunction> batched =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, in.leaf(0).object_as<Dataset>()->Batch(2));
        return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
      });
  const Ref<Iterator> iterator =
      Iterate(Ok(Ok(Ok(Range(20)->Window(4))->Map(batched))->Window(2, 1)));
  ASSERT_TRUE(iterator->Next(CallOptions()).ok());
  const Status refused = iterator->Save(CallOptions()).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("an element in flight holds a dataset that 'batch' gives"));
  // And goes on.
  EXPECT_TRUE(iterator->Next(CallOptions()).ok());
}

TEST_F(Window, IsRefusedWhereItsStateIsTorn) {
  const auto build = [&] {
    return Ok(Ok(Ok(Range(20)->Window(2))->Window(2, 1))->Prefetch(2));
  };
  const Ref<Iterator> iterator = Iterate(build());
  ASSERT_TRUE(iterator->Next(CallOptions()).ok());
  const std::string state = iterator->Save(CallOptions()).value();
  const Ref<Iterator> other = Iterate(build());
  for (size_t i = 0; i < state.size(); ++i) {
    std::string torn = state.substr(0, i);
    EXPECT_FALSE(other->Restore(torn, CallOptions()).ok());
    torn = state;
    torn[i] = static_cast<char>(torn[i] ^ 0x55);
    EXPECT_FALSE(other->Restore(torn, CallOptions()).ok());
  }
  EXPECT_TRUE(other->Restore(state, CallOptions()).ok());
  Close(*iterator);
  Close(*other);
}

TEST_F(Window, OfOtherElementsIsAnotherDefinition) {
  // What a function gives is known again by its elements, windows in windows, too.
  const auto saved_of = [&](int64_t first) {
    const Ref<Iterator> iterator =
        Iterate(Ok(Ok(Ok(Range(first, first + 8)->Window(2))->Window(2))->FlatMap(Itself())));
    EXPECT_TRUE(iterator->Next(CallOptions()).ok());
    return iterator->Save(CallOptions()).value();
  };
  EXPECT_NE(saved_of(0), saved_of(1));
}

}  // namespace
}  // namespace tutti
