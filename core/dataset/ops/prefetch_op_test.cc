#include <gmock/gmock.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/simulated_environment.h"
#include "core/base/thread.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/throwing_stage_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Prefetch : public DatasetTest {};

// A function that counts its calls and can be held up.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = true;
  int64_t calls = 0;

  void Set(bool is_open) {
    std::lock_guard lock(mutex);
    open = is_open;
    changed.notify_all();
  }
  void AwaitCalls(int64_t count) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return calls >= count; }));
  }
};

Ref<TestFunction> Gated(Gate* gate) {
  return MakeFunction(
      [](Context& context, const Value& in, void* data) -> Result<Ref<Value>> {
        auto* gate = static_cast<Gate*>(data);
        std::unique_lock lock(gate->mutex);
        ++gate->calls;
        gate->changed.notify_all();
        while (!gate->open && !context.cancelled()) {
          gate->changed.wait_for(lock, std::chrono::milliseconds(5));
        }
        if (context.cancelled()) return Status(StatusCode::kCancelled, "gave up");
        return Number(NumberIn(in));
      },
      {.data = gate, .spec = Int64Scalar()});
}

TEST_F(Prefetch, YieldsTheSameElements) {
  EXPECT_THAT(Numbers(Ok(Range(3)->Prefetch(2))), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(Range(3)->Prefetch(0))), ElementsAre(0, 1, 2));
  EXPECT_EQ(Numbers(Ok(Range(10'000)->Prefetch(kAutotune))), Numbers(Range(10'000)));
  EXPECT_THAT(All(Ok(Ok(Range(7)->Prefetch(5))->Batch(3))),
              ElementsAre("[0 1 2]", "[3 4 5]", "[6]"));
  EXPECT_EQ(Range(3)->Prefetch(-2).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(Prefetch, MakesElementsAheadAndNoMoreThanItsBuffer) {
  Gate gate;
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(100)->Map(Gated(&gate)))->Prefetch(4)));
  EXPECT_EQ(Next(*iterator), "0");
  gate.AwaitCalls(5);
  ASSERT_TRUE(iterator->Close(CallOptions()).ok());
  EXPECT_EQ(gate.calls, 5);
}

// When function calls began, and a consumer that lets what is ready lie.
TEST_F(Prefetch, PausesAfterAStepForAPartOfTheTimeThatItsLastElementLayReady) {
  struct Times {
    std::mutex mutex;
    std::vector<int64_t> begun_ns;
  } times;
  const Ref<TestFunction> noted = MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        auto* times = static_cast<Times*>(data);
        std::lock_guard lock(times->mutex);
        times->begun_ns.push_back(RealClock().NowNs());
        return Number(NumberIn(in));
      },
      {.data = &times, .spec = Int64Scalar()});
  DatasetOptions options;
  ASSERT_TRUE(options.SetBool("experimental_slack", true).ok());
  ASSERT_TRUE(options.SetInt("experimental_distribute.num_devices", 2).ok());
  const Ref<Dataset> dataset = Ok(Ok(Range(9)->Map(noted))->Prefetch(2));
  const Ref<Iterator> iterator = Iterate(Ok(dataset->WithOptions(options)));
  EXPECT_EQ(Next(*iterator), "0");
  const auto begun = [&](size_t count) {
    for (int milliseconds = 0; milliseconds < 60'000; ++milliseconds) {
      {
        std::lock_guard lock(times.mutex);
        if (times.begun_ns.size() >= count) return times.begun_ns[count - 1];
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "the function was not called " << count << " times";
    return int64_t{0};
  };
  begun(3);  // the second element of the first step lies ready
  const int64_t lies_ns = 50 * kMillisecondNs;
  std::this_thread::sleep_for(std::chrono::nanoseconds(lies_ns));
  EXPECT_EQ(Next(*iterator), "1");
  // The fourth ends the second step, and the fifth begins after a pause.
  EXPECT_EQ(Next(*iterator), "2");
  EXPECT_EQ(Next(*iterator), "3");
  EXPECT_GE(begun(5) - begun(4), lies_ns / 5);
  EXPECT_EQ(Next(*iterator), "4");
  ASSERT_TRUE(iterator->Close(CallOptions()).ok());
}

TEST_F(Prefetch, StartsANewPassForEachRepetition) {
  const Ref<Dataset> twice = Ok(Ok(Ok(Range(20)->Shuffle(20, Seed(1)))->Prefetch(3))->Repeat(3));
  const std::vector<int64_t> numbers = Numbers(twice);
  EXPECT_EQ(numbers, Numbers(Ok(Ok(Range(20)->Shuffle(20, Seed(1)))->Repeat(3))));
}

TEST_F(Prefetch, PassesErrorsOnInTheirPlace) {
  const Ref<TestFunction> fails_at_two = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 2) return Status(StatusCode::kDataLoss, "bad");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  EXPECT_THAT(All(Ok(Ok(Range(5)->Map(fails_at_two))->Prefetch(4))),
              ElementsAre("0", "1", "!map: element 2: bad", "3", "4"));
}

TEST_F(Prefetch, AnExceptionOnItsThreadIsTheStatusBehindWhatWasMade) {
  const Ref<Dataset> dataset = Ok(Throwing(*Range(9), "next", 3)->Prefetch(2));
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_EQ(Next(*iterator), "1");
  EXPECT_EQ(Next(*iterator), "2");
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_EQ(Next(*iterator), "!out of memory");
  // The position is that behind what was delivered.
  const Ref<Iterator> other = Iterate(Ok(Throwing(*Range(9), "next", 3)->Prefetch(2)));
  ASSERT_TRUE(other->Restore(iterator->Save(CallOptions()).value(), CallOptions()).ok());
  EXPECT_EQ(Next(*other), "!out of memory");
  EXPECT_TRUE(iterator->Close(CallOptions()).ok());
}

TEST_F(Prefetch, WaitingEndsWithTheDeadlineAndLosesNothing) {
  Gate gate;
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(3)->Map(Gated(&gate)))->Prefetch(1)));
  gate.Set(false);
  const CallOptions expired{Deadline::At(0), nullptr};
  EXPECT_EQ(iterator->Next(expired).status().code(), StatusCode::kDeadlineExceeded);
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  cancellation->Cancel();
  EXPECT_EQ(iterator->Next(CallOptions{Deadline(), cancellation.get()}).status().code(),
            StatusCode::kCancelled);
  gate.Set(true);
  EXPECT_THAT(All(*iterator), ElementsAre("0", "1", "2"));
}

TEST_F(Prefetch, CloseEndsTheThreadWhileAFunctionRuns) {
  Gate gate;
  gate.Set(false);
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(3)->Map(Gated(&gate)))->Prefetch(1)));
  EXPECT_EQ(iterator->Next(CallOptions{Deadline::At(0), nullptr}).status().code(),
            StatusCode::kDeadlineExceeded);
  gate.AwaitCalls(1);
  EXPECT_TRUE(iterator->Close(CallOptions()).ok());
  EXPECT_THAT(Next(*iterator), HasSubstr("next was called after close"));
}

TEST_F(Prefetch, CloseEndsACallThatWaits) {
  Gate gate;
  gate.Set(false);
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(3)->Map(Gated(&gate)))->Prefetch(1)));
  Status status;
  Result<Thread> waiting = environment_->StartThread(
      "waiting", [&] { status = iterator->Next(CallOptions()).status(); });
  ASSERT_TRUE(waiting.ok());
  gate.AwaitCalls(1);
  EXPECT_TRUE(iterator->Close(CallOptions()).ok());
  ASSERT_TRUE(waiting->Join(CallOptions()).ok());
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "prefetch: the iterator was closed");
}

TEST_F(Prefetch, ShutdownIsWhatACallThatWaitsIsTold) {
  Gate gate;
  gate.Set(false);
  const Ref<Iterator> iterator = Iterate(Ok(Ok(Range(3)->Map(Gated(&gate)))->Prefetch(1)));
  Status status;
  std::thread waiting([&] { status = iterator->Next(CallOptions()).status(); });
  gate.AwaitCalls(1);
  EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
  waiting.join();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("next: the runtime has been shut down"));
}

TEST_F(Prefetch, IteratorThatIsReleasedUnclosedGoesToTheReaper) {
  Gate gate;
  Ref<Iterator> iterator = Iterate(Ok(Ok(Range(100)->Map(Gated(&gate)))->Prefetch(4)));
  EXPECT_EQ(Next(*iterator), "0");
  iterator.reset();
  EXPECT_TRUE(environment_->Shutdown(CallOptions()).ok());
  EXPECT_LE(gate.calls, 5);
}

TEST_F(Prefetch, WhatWasMadeAheadDoesNotCountInTheState) {
  const Ref<Dataset> dataset =
      Ok(Ok(Ok(Ok(Range(500)->Shuffle(64, Seed(3)))->Batch(7))->Prefetch(5))->Repeat(2));
  const std::vector<std::string> all = All(dataset);
  const Ref<Iterator> iterator = Iterate(dataset);
  const Ref<Iterator> other = Iterate(dataset);
  for (size_t i = 0; i <= all.size(); i += 13) {
    Take(*iterator, i == 0 ? 0 : 13);
    const std::string state = iterator->Save(CallOptions()).value();
    ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
    // Iterators over one dataset have orders of their own: compare with the saved one's.
    const Ref<Iterator> again = Iterate(dataset);
    ASSERT_TRUE(again->Restore(state, CallOptions()).ok());
    EXPECT_EQ(All(*other), All(*again));
  }
}

TEST_F(Prefetch, InASimulationMakesElementsWhenTheyAreAskedFor) {
  const Ref<SimulatedEnvironment> world = MakeRef<SimulatedEnvironment>(1);
  const Ref<DatasetEnvironment> datasets = DatasetEnvironment::Create(world, nullptr);
  {
    const Ref<Dataset> dataset = Ok(Ok(Dataset::Range(datasets, 0, 3, 1))->Prefetch(2));
    const Ref<Iterator> iterator = Iterate(dataset);
    EXPECT_THAT(All(*iterator), ElementsAre("0", "1", "2"));
    EXPECT_TRUE(iterator->Close(CallOptions()).ok());
  }
  EXPECT_TRUE(world->Shutdown(CallOptions()).ok());
}

}  // namespace
}  // namespace tutti
