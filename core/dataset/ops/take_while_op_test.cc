#include <gmock/gmock.h>

#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kFour = 4;
constexpr int64_t kFive = 5;
constexpr int64_t kZero = 0;

// x -> x < *data.
Ref<TestFunction> Less(const int64_t* limit) {
  return MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        return Value::OfTensor(
            Tensor::Scalar(in.leaf(0).tensor().item<int64_t>() < *static_cast<int64_t*>(data)));
      },
      {.data = const_cast<int64_t*>(limit)});
}

// The same by slab; a row of 2 fails when it is told so.
Ref<TestFunction> LessBySlab(bool fails_at_two) {
  return MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        const std::span<const int64_t> numbers = in.AsTensor()->span<int64_t>();
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                               Tensor::Create(DType::kBool, in.AsTensor()->shape()));
        for (size_t i = 0; i < numbers.size(); ++i) {
          if (data != nullptr && numbers[i] == 2) {
            return Status(StatusCode::kDataLoss, "two is bad").With("row", i);
          }
          out->mutable_span<bool>()[i] = numbers[i] < kFour;
        }
        return Value::OfTensor(std::move(out));
      },
      {.data = fails_at_two ? const_cast<int64_t*>(&kFour) : nullptr,
       .granularity = Granularity::kSlab});
}

// x; fails for 2.
Ref<TestFunction> FailsAtTwo() {
  return MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 2) return Status(StatusCode::kInvalidArgument, "two is bad");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
}

class TakeWhile : public DatasetTest {
 protected:
  Ref<Dataset> Slices(std::initializer_list<int64_t> numbers) {
    return Ok(Dataset::FromTensorSlices(datasets_,
                                        Value::OfTensor(Tensor::Vector<int64_t>(numbers))));
  }
};

TEST_F(TakeWhile, EndsBeforeTheFirstElementThatIsRefused) {
  const Ref<Dataset> taken = Ok(Range(10)->TakeWhile(Less(&kFour)));
  EXPECT_THAT(Numbers(taken), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(All(Ok(taken->Batch(3))), ElementsAre("[0 1 2]", "[3]"));
  EXPECT_EQ(taken->cardinality(), kUnknownCardinality);
  EXPECT_EQ(SpecText(taken), "int64[]");
}

TEST_F(TakeWhile, EndsForGoodAlsoWhenWhatFollowsWouldBeTaken) {
  const Ref<TestFunction> less = Less(&kFive);
  const Ref<Iterator> iterator = Iterate(Ok(Slices({1, 2, 9, 1, 2})->TakeWhile(less)));
  EXPECT_THAT(All(*iterator), ElementsAre("1", "2"));
  EXPECT_EQ(Next(*iterator), ".");
  EXPECT_EQ(Next(*iterator), ".");
  EXPECT_EQ(less->calls, 3);
}

TEST_F(TakeWhile, MayTakeNothingOrEverything) {
  EXPECT_THAT(Numbers(Ok(Range(3)->TakeWhile(Less(&kZero)))), IsEmpty());
  EXPECT_THAT(Numbers(Ok(Range(3)->TakeWhile(Less(&kFour)))), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(Range(0)->TakeWhile(Less(&kFour)))), IsEmpty());
}

TEST_F(TakeWhile, EndsAnInfiniteDatasetAndBeginsAnewWhenRepeated) {
  const Ref<Dataset> endless = Ok(Range(6)->Repeat(-1));
  EXPECT_THAT(Numbers(Ok(endless->TakeWhile(Less(&kFour)))), ElementsAre(0, 1, 2, 3));
  const Ref<Dataset> repeated = Ok(Ok(Range(9)->TakeWhile(Less(&kFour)))->Repeat(2));
  EXPECT_THAT(Numbers(repeated), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
}

TEST_F(TakeWhile, BySlabTakesTheSame) {
  EXPECT_THAT(All(Ok(Ok(Range(10)->TakeWhile(LessBySlab(false)))->Batch(3))),
              ElementsAre("[0 1 2]", "[3]"));
  const Ref<Iterator> iterator =
      Iterate(Ok(Ok(Range(10)->TakeWhile(LessBySlab(true)))->Batch(10)));
  EXPECT_THAT(Next(*iterator), HasSubstr("take_while: element 2: two is bad"));
}

TEST_F(TakeWhile, GoesOnBehindAnElementThatFailed) {
  const Ref<Iterator> iterator =
      Iterate(Ok(Ok(Range(9)->Map(FailsAtTwo()))->TakeWhile(Less(&kFive))));
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_EQ(Next(*iterator), "1");
  EXPECT_THAT(Next(*iterator), HasSubstr("two is bad"));
  EXPECT_THAT(All(*iterator), ElementsAre("3", "4"));
}

TEST_F(TakeWhile, GoesOnBehindAPredicateThatFailed) {
  const Ref<TestFunction> predicate =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 1) return Status(StatusCode::kDataLoss, "cannot say");
        return Value::OfTensor(Tensor::Scalar(NumberIn(in) < 3));
      });
  const Ref<Iterator> iterator = Iterate(Ok(Range(9)->TakeWhile(predicate)));
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_EQ(Next(*iterator), "!take_while: element 1: cannot say");
  EXPECT_THAT(All(*iterator), ElementsAre("2"));
}

TEST_F(TakeWhile, WantsABooleanScalar) {
  EXPECT_THAT(
      Next(*Iterate(Ok(Range(3)->TakeWhile(AddOne(nullptr))))),
      HasSubstr("!take_while: element 0: the function's result: expected bool[], found int64[]"));
  const Status refused = Range(3)->TakeWhile(AddOne()).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("must give a boolean scalar, and gives int64[]"));
}

TEST_F(TakeWhile, NeverCallsBeyondTheDemand) {
  const Ref<TestFunction> less = Less(&kFive);
  EXPECT_THAT(Numbers(Ok(Ok(Range(100)->TakeWhile(less))->Take(2))), ElementsAre(0, 1));
  EXPECT_EQ(less->calls, 2);
}

TEST_F(TakeWhile, IsRestoredBeforeAndBehindItsEnd) {
  const Ref<Dataset> dataset = Ok(Ok(Range(9)->TakeWhile(Less(&kFour)))->Repeat(2));
  const Ref<Iterator> iterator = Iterate(dataset);
  const Ref<Iterator> other = Iterate(dataset);
  const std::vector<std::string> all = All(dataset);
  for (size_t i = 0; i <= all.size(); ++i) {
    const std::string state = iterator->Save(CallOptions()).value();
    ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
    EXPECT_EQ(All(*other), std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(i),
                                                    all.end()));
    Next(*iterator);
  }
  const std::string at_the_end = iterator->Save(CallOptions()).value();
  ASSERT_TRUE(other->Restore(at_the_end, CallOptions()).ok());
  EXPECT_EQ(Next(*other), ".");
}

}  // namespace
}  // namespace tutti
