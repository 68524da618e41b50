#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// (state, element) -> state + element, of numbers.
Result<Ref<Value>> Add(Context&, const Value& in, void*) {
  return Number(NumberIn(*in.Child(0)) + NumberIn(*in.Child(1)));
}
Ref<Value> Vector(const std::vector<int64_t>& items) {
  return Value::OfTensor(
      Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(items.size())}), items).value());
}

class Reduce : public DatasetTest {
 protected:
  // The last state as text, or "!" and the message.
  static std::string Reduced(const Ref<Dataset>& dataset, Ref<Value> initial, Function& function,
                             const CallOptions& call = CallOptions()) {
    const Result<Ref<Value>> state = dataset->Reduce(std::move(initial), function, call);
    return state.ok() ? (*state)->ToString() : "!" + std::string(state.status().message());
  }
};

TEST_F(Reduce, HandsTheStateFromElementToElement) {
  const Ref<TestFunction> add = MakeFunction(Add);
  EXPECT_EQ(Reduced(Range(5), Number(0), *add), "10");
  EXPECT_EQ(Reduced(Range(5), Number(7), *add), "17");
  EXPECT_EQ(add->calls, 10);
  EXPECT_EQ(Reduced(Range(0), Number(7), *add), "7");
  EXPECT_EQ(add->calls, 10);
  EXPECT_EQ(Reduced(Ok(Range(10)->Skip(7)), Number(0), *add), "24");
}

TEST_F(Reduce, ATupleIsOneElement) {
  const Ref<TestFunction> add_both = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        EXPECT_EQ(in.num_children(), 2u);
        const Ref<Value> element = in.Child(1);
        return Number(NumberIn(*in.Child(0)) + NumberIn(*element->Child(0)) +
                      NumberIn(*element->Child(1)));
      });
  EXPECT_EQ(Reduced(Ok(Range(3)->Enumerate(10)), Number(0), *add_both), "36");
}

TEST_F(Reduce, AStateMayBeAStructureAndItsShapesMayChange) {
  const Ref<TestFunction> append = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const Ref<Value> state = in.Child(0);
        const std::span<const int64_t> items = state->Child(0)->AsTensor()->span<int64_t>();
        std::vector<int64_t> all(items.begin(), items.end());
        all.push_back(NumberIn(*in.Child(1)));
        return Value::Tuple({Vector(all), Number(NumberIn(*state->Child(1)) + 1)});
      });
  EXPECT_EQ(Reduced(Range(4), Value::Tuple({Vector({}), Number(0)}), *append), "([0 1 2 3], 4)");
}

TEST_F(Reduce, NamesBothStatesWhereStructureOrDTypeChange) {
  const Ref<TestFunction> to_pair =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Value::Tuple({in.Child(0), in.Child(0)});
      });
  const Result<Ref<Value>> pair = Range(3)->Reduce(Number(0), *to_pair, CallOptions());
  EXPECT_EQ(pair.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pair.status().message(),
            "reduce: element 0: the function gave the state (int64[], int64[]), and it was "
            "int64[]; a state keeps its structure and dtypes, and only its shapes may change");
  const Ref<TestFunction> to_float =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(*in.Child(1)) < 2) return in.Child(0);
        return Value::OfTensor(Tensor::Scalar(0.5f));
      });
  EXPECT_THAT(Reduced(Range(3), Number(0), *to_float),
              AllOf(HasSubstr("!reduce: element 2: "), HasSubstr("the state float32[], and it was "
                                                                 "int64[]")));
  const Ref<TestFunction> to_text =
      MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Value::OfString("x");
      });
  EXPECT_THAT(Reduced(Range(3), Number(0), *to_text), HasSubstr("the state string, and it was"));
}

TEST_F(Reduce, ResultsBecomeWhatTheFunctionDeclares) {
  const Ref<TestFunction> narrow = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(Tensor::Scalar(
            static_cast<int32_t>(NumberIn(*in.Child(0)) + NumberIn(*in.Child(1)))));
      },
      {.spec = Int64Scalar()});
  EXPECT_EQ(Reduced(Range(4), Number(1), *narrow), "7");
  const Ref<TestFunction> undeclared = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(Tensor::Scalar<int32_t>(1));
      });
  EXPECT_THAT(Reduced(Range(4), Number(1), *undeclared), HasSubstr("int32[], and it was int64[]"));
}

TEST_F(Reduce, FailuresComeOutWithTheElementsNumber) {
  const Ref<TestFunction> fails_at_three = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 3) return Status(StatusCode::kDataLoss, "bad");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<TestFunction> add = MakeFunction(Add);
  const Ref<Dataset> failing = Ok(Range(6)->Map(fails_at_three));
  const Status element = failing->Reduce(Number(0), *add, CallOptions()).status();
  EXPECT_EQ(element.code(), StatusCode::kDataLoss);
  EXPECT_EQ(element.message(), "reduce: element 3: map: element 3: bad");
  EXPECT_EQ(std::get<int64_t>(element.FindDetail("index")->value), 3);
  EXPECT_EQ(add->calls, 3);
  EXPECT_EQ(fails_at_three->calls, 4);

  const Ref<TestFunction> refuses = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(*in.Child(1)) == 2) return Status(StatusCode::kNotFound, "no two");
        return in.Child(0);
      });
  const Ref<TestFunction> one_more = AddOne();
  const Status own = Ok(Range(6)->Map(one_more))->Reduce(Number(0), *refuses, CallOptions())
                         .status();
  EXPECT_EQ(own.code(), StatusCode::kNotFound);
  EXPECT_EQ(own.message(), "reduce: element 1: no two");
  EXPECT_EQ(std::get<int64_t>(own.FindDetail("index")->value), 1);
  // Nothing is made for elements that it does not get to.
  EXPECT_EQ(one_more->calls, 2);
  const Ref<TestFunction> throws = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> { throw std::runtime_error("oh"); });
  EXPECT_THAT(Reduced(Range(2), Number(0), *throws), HasSubstr("reduce: element 0: the function"));
}

TEST_F(Reduce, OfAnEndlessDatasetEndsWithItsCall) {
  const Ref<TestFunction> add = MakeFunction(Add);
  const Ref<Dataset> endless = Ok(Range(5)->Repeat(-1));
  const CallOptions soon =
      CallOptions::WithTimeout(environment_->clock(), 20 * kMillisecondNs);
  EXPECT_EQ(endless->Reduce(Number(0), *add, soon).status().code(),
            StatusCode::kDeadlineExceeded);
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  const Ref<TestFunction> cancels = MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        static_cast<Cancellation*>(data)->Cancel();
        return in.Child(0);
      },
      {.data = cancellation.get()});
  EXPECT_EQ(endless->Reduce(Number(0), *cancels, CallOptions{Deadline(), cancellation.get()})
                .status()
                .code(),
            StatusCode::kCancelled);
  EXPECT_EQ(cancels->calls, 1);
  // The host is asked, though nobody waits.
  const Ref<Cancellation> pressed =
      MakeRef<Cancellation>([](void*) { return true; }, nullptr, nullptr);
  EXPECT_EQ(endless->Reduce(Number(0), *add, CallOptions{Deadline(), pressed.get()})
                .status()
                .code(),
            StatusCode::kCancelled);
  // A function that gives up by itself failed for its element.
  const Ref<TestFunction> gives_up = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Status(StatusCode::kCancelled, "enough");
      });
  EXPECT_EQ(endless->Reduce(Number(0), *gives_up, CallOptions()).status().code(),
            StatusCode::kAborted);
}

TEST_F(Reduce, EndsTheThreadsOfItsDataset) {
  const Ref<TestFunction> add = MakeFunction(Add);
  const Ref<TestFunction> one_more = AddOne();
  const Ref<Dataset> ahead = Ok(Ok(Range(100)->Map(one_more, Parallel(3)))->Prefetch(4));
  EXPECT_EQ(Reduced(ahead, Number(0), *add), "5050");
  EXPECT_EQ(one_more->calls, 100);
}

TEST_F(Reduce, IsRefusedInAFunctionOfADataset) {
  struct Given {
    Ref<Dataset> dataset;
    Ref<TestFunction> add;
  } given = {Range(3), MakeFunction(Add)};
  const Ref<TestFunction> reduces = MakeFunction(
      [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        const auto& [dataset, add] = *static_cast<const Given*>(data);
        return dataset->Reduce(Number(0), *add, CallOptions());
      },
      {.data = &given, .spec = Int64Scalar()});
  EXPECT_THAT(Next(*Iterate(Ok(Range(2)->Map(reduces)))), HasSubstr("making an iterator"));
}

TEST_F(Reduce, RefusesAFunctionOfManyRows) {
  const Ref<TestFunction> slab = MakeFunction(Add, {.granularity = Granularity::kSlab});
  EXPECT_THAT(Reduced(Range(2), Number(0), *slab), HasSubstr("takes many rows at once"));
}

}  // namespace
}  // namespace tutti
