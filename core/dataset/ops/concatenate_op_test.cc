// Long chains of concatenate, whose parts are made when their turn comes: they give what short ones
// give, and threads of their parts end with them.
#include <gmock/gmock.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Holds up a function's call for elements from `first` on, whatever cancels it.
struct Gate {
  int64_t first = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  bool reached = false;

  void Pass(int64_t element) {
    if (element < first) return;
    std::unique_lock lock(mutex);
    reached = true;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
  }
  void AwaitReached() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  void Open() {
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

class LongConcatenation : public DatasetTest {
 protected:
  // `dataset` between so many empty parts that their stages are not made all at once.
  Ref<Dataset> InLongChain(Ref<Dataset> dataset) {
    Ref<Dataset> empty = Range(0);
    for (int i = 0; i < 6; ++i) empty = Ok(empty->Concatenate(*empty));
    for (int i = 0; i < 3; ++i) {
      dataset = Ok(Ok(empty->Concatenate(*dataset))->Concatenate(*empty));
    }
    EXPECT_TRUE(dataset->node().makes_parts_late());
    return dataset;
  }
  // x -> x; 3, 7, 11 ... fail.
  static Ref<TestFunction> FailsSometimes() {
    return MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          if (NumberIn(in) % 4 == 3) return Status(StatusCode::kDataLoss, "a bad one");
          return Number(NumberIn(in));
        },
        {.spec = Int64Scalar()});
  }
  static Ref<TestFunction> Gated(Gate* gate) {
    return MakeFunction(
        [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
          static_cast<Gate*>(data)->Pass(NumberIn(in));
          return Number(NumberIn(in));
        },
        {.data = gate, .spec = Int64Scalar()});
  }
  CallOptions Expired() { return CallOptions{Deadline::At(1), nullptr}; }

  // Every position can be saved, and gives the rest in this iterator and in another.
  void ExpectResumesEverywhere(const Ref<Dataset>& dataset) {
    const Ref<Iterator> iterator = Iterate(dataset);
    const std::vector<std::string> all = All(*Iterate(dataset));
    for (size_t i = 0; i <= all.size(); ++i) {
      const Result<std::string> state = iterator->Save(CallOptions());
      ASSERT_TRUE(state.ok()) << state.status().ToString();
      const Ref<Iterator> other = Iterate(dataset);
      const Status restored = other->Restore(*state, CallOptions());
      ASSERT_TRUE(restored.ok()) << i << ": " << restored.ToString();
      EXPECT_EQ(All(*other), std::vector<std::string>(all.begin() + static_cast<int64_t>(i),
                                                      all.end()));
      Next(*iterator);
    }
  }
};

TEST_F(LongConcatenation, GivesWhatAShortOneGives) {
  const Ref<Dataset> bad = Ok(Range(3, 9)->Map(FailsSometimes()));
  for (const Ref<Dataset>& one :
       {Range(5), bad, Ok(bad->Prefetch(2)), Ok(Range(5)->Cache()),
        Ok(Ok(Range(4)->Repeat(2))->Shuffle(3, Seed(1, false)))}) {
    const Ref<Dataset> with_more = Ok(Ok(one->Concatenate(*Range(20, 23)))->Concatenate(*one));
    const Ref<Dataset> chain = InLongChain(with_more);
    EXPECT_EQ(chain->cardinality(), with_more->cardinality());
    EXPECT_EQ(All(chain), All(with_more));
    EXPECT_EQ(All(Ok(chain->Repeat(3))), All(Ok(with_more->Repeat(3))));
    EXPECT_EQ(All(Ok(Ok(chain->Skip(4))->Take(5))), All(Ok(Ok(with_more->Skip(4))->Take(5))));
  }
  EXPECT_THAT(All(InLongChain(Range(0))), IsEmpty());
}

TEST_F(LongConcatenation, EveryPartIsFoundFromItsNumber) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<Ref<Dataset>> chains;
    for (int64_t i = 0; i < 150; ++i) chains.push_back(Range(10 * i, 10 * i + i % 3));
    // Neighbours become one in any order, so that the chain grows to both sides.
    while (chains.size() > 1) {
      const size_t i = random() % (chains.size() - 1);
      chains[i] = Ok(chains[i]->Concatenate(*chains[i + 1]));
      chains.erase(chains.begin() + static_cast<int64_t>(i) + 1);
    }
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < 150; ++i) {
      for (int64_t k = 0; k < i % 3; ++k) expected.push_back(10 * i + k);
    }
    EXPECT_TRUE(chains[0]->node().makes_parts_late());
    EXPECT_EQ(chains[0]->node().num_parts(), 150);
    EXPECT_EQ(Numbers(chains[0]), expected);
    if (round == 0) ExpectResumesEverywhere(chains[0]);
  }
}

TEST_F(LongConcatenation, ResumesAtEveryElement) {
  const Ref<Dataset> bad = Ok(Range(3, 9)->Map(FailsSometimes()));
  const Ref<Dataset> shuffled = Ok(Range(6)->Shuffle(3, Seed(5, false)));
  ExpectResumesEverywhere(InLongChain(Ok(bad->Concatenate(*shuffled))));
  ExpectResumesEverywhere(Ok(Ok(InLongChain(bad)->Repeat(2))->Prefetch(2)));
  ExpectResumesEverywhere(Ok(InLongChain(Ok(bad->Prefetch(3)))->Batch(2)));
}

TEST_F(LongConcatenation, AnIterationHasItsOrdersWhateverElseIsIteratedOver) {
  const auto make = [this] {
    const Ref<Dataset> shuffled = Ok(Range(50)->Shuffle(50, Seed(3)));
    return Ok(InLongChain(Ok(shuffled->Concatenate(*shuffled)))->Repeat(2));
  };
  const Ref<Dataset> alone = make();
  const std::vector<std::string> first = All(alone);
  const std::vector<std::string> second = All(alone);
  EXPECT_EQ(first.size(), 200u);
  EXPECT_NE(first, second);
  // Neither parts nor passes nor iterators have the same order.
  const auto quarter = [&](int64_t i) {
    return std::vector<std::string>(first.begin() + 50 * i, first.begin() + 50 * (i + 1));
  };
  EXPECT_NE(quarter(0), quarter(1));
  EXPECT_NE(quarter(0), quarter(2));
  EXPECT_NE(quarter(1), quarter(3));

  const Ref<Dataset> mixed = make();
  const Ref<Iterator> a = Iterate(mixed);
  const Ref<Iterator> b = Iterate(mixed);
  std::vector<std::string> of_a;
  std::vector<std::string> of_b;
  for (int i = 0; i < 200; ++i) {
    of_b.push_back(Next(*b));
    of_a.push_back(Next(*a));
  }
  EXPECT_EQ(of_a, first);
  EXPECT_EQ(of_b, second);

  // In another process, where nothing has been iterated over before.
  const Ref<Iterator> third = Iterate(alone);
  Take(*third, 70);
  const Result<std::string> state = third->Save(CallOptions());
  ASSERT_TRUE(state.ok());
  const Ref<Iterator> elsewhere = Iterate(make());
  ASSERT_TRUE(elsewhere->Restore(*state, CallOptions()).ok());
  EXPECT_EQ(All(*elsewhere), All(*third));
}

TEST_F(LongConcatenation, RefusesStatesThatDoNotFit) {
  const Ref<Dataset> chain = InLongChain(Range(4));
  const Ref<Iterator> iterator = Iterate(chain);
  const Ref<Dataset> other = InLongChain(Range(5));
  const Result<std::string> state = Iterate(other)->Save(CallOptions());
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(iterator->Restore(*state, CallOptions()).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(All(*iterator), ElementsAre("0", "1", "2", "3"));
}

TEST_F(LongConcatenation, CloseFromAnotherThreadEndsThePartThatIsRunning) {
  Gate gate;
  const Ref<Dataset> part = Ok(Ok(Range(3)->Map(Gated(&gate)))->Prefetch(2));
  const Ref<Iterator> iterator = Iterate(InLongChain(part));
  std::future<Status> waiting = std::async(
      std::launch::async, [&] { return iterator->Next(CallOptions()).status(); });
  gate.AwaitReached();
  // The function has not returned: its thread cannot be joined yet.
  EXPECT_EQ(iterator->Close(Expired()).code(), StatusCode::kDeadlineExceeded);
  const Status ended = waiting.get();
  EXPECT_EQ(ended.code(), StatusCode::kCancelled) << ended.ToString();
  gate.Open();
  EXPECT_TRUE(iterator->Close(CallOptions()).ok());
}

TEST_F(LongConcatenation, ANewPassWaitsForThreadsOfTheLastOneWithTheCallersDeadline) {
  Gate gate;
  gate.first = 1;
  const Ref<Dataset> part = Ok(Ok(Range(3)->Map(Gated(&gate)))->Prefetch(2));
  // A take that stood on the chain would keep the thread from making an element too many.
  const Ref<TestFunction> all = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(Tensor::Scalar(true));
      });
  const Ref<Iterator> iterator =
      Iterate(Ok(Ok(Ok(InLongChain(part)->Filter(all))->Take(1))->Repeat(2)));
  EXPECT_EQ(Next(*iterator), "0");
  gate.AwaitReached();
  EXPECT_EQ(iterator->Next(Expired()).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(iterator->Next(Expired()).status().code(), StatusCode::kDeadlineExceeded);
  gate.Open();
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_EQ(Next(*iterator), ".");
  // Its threads look at the gate.
  EXPECT_TRUE(iterator->Close(CallOptions()).ok());
}

TEST_F(LongConcatenation, PartsWithoutElementsCanBeInterrupted) {
  Ref<Dataset> empty = Range(0);
  for (int i = 0; i < 62; ++i) empty = Ok(empty->Concatenate(*empty));
  const Ref<Iterator> iterator = Iterate(empty);
  EXPECT_EQ(iterator->Next(Expired()).status().code(), StatusCode::kDeadlineExceeded);
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  std::future<Status> waiting = std::async(std::launch::async, [&] {
    return iterator->Next(CallOptions{Deadline::Infinite(), cancellation.get()}).status();
  });
  cancellation->Cancel();
  EXPECT_EQ(waiting.get().code(), StatusCode::kCancelled);
  std::future<Status> until_closed =
      std::async(std::launch::async, [&] { return iterator->Next(CallOptions()).status(); });
  EXPECT_TRUE(iterator->Close(CallOptions()).ok());
  EXPECT_FALSE(until_closed.get().ok());
}

TEST_F(LongConcatenation, ACallWhoseTimeIsUpStillGetsWhatIsThere) {
  const Ref<Dataset> one = Range(2);
  Ref<Dataset> chain = one;
  for (int i = 0; i < 300; ++i) chain = Ok(chain->Concatenate(*one));
  const Ref<Iterator> iterator = Iterate(chain);
  for (int i = 0; i < 602; ++i) {
    Result<Ref<Value>> element = iterator->Next(Expired());
    // Behind the last element of a part it may take one call to get to the next part.
    if (element.status().code() == StatusCode::kDeadlineExceeded) {
      element = iterator->Next(Expired());
    }
    ASSERT_TRUE(element.ok()) << element.status().ToString();
    EXPECT_EQ(NumberIn(**element), i % 2);
  }
}

}  // namespace
}  // namespace tutti
