// map with num_parallel_calls: calls at once and ahead, in order or not, and nothing lost.
#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <set>

#include "core/base/simulated_environment.h"
#include "core/base/thread.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/throwing_stage_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// What functions here look at: who is inside, and whom they wait for.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t calls = 0;
  int64_t inside = 0;
  int64_t most_inside = 0;
  int64_t meet = 1;           // a call goes on once so many have been inside at once
  std::set<int64_t> held;     // these rows stay until they are let go, or told to give up
  std::set<int64_t> failing;

  void LetGo() {
    std::lock_guard lock(mutex);
    held.clear();
    changed.notify_all();
  }
  bool Await(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), condition);
  }
  void AwaitCalls(int64_t count) {
    EXPECT_TRUE(Await([&] { return calls >= count; })) << calls << " calls";
  }
};

// x -> 10 x
Ref<TestFunction> Meets(Meeting* meeting) {
  return MakeFunction(
      [](Context& context, const Value& in, void* data) -> Result<Ref<Value>> {
        Meeting& meeting = *static_cast<Meeting*>(data);
        const int64_t number = NumberIn(in);
        std::unique_lock lock(meeting.mutex);
        ++meeting.calls;
        meeting.most_inside = std::max(meeting.most_inside, ++meeting.inside);
        meeting.changed.notify_all();
        const bool met = meeting.changed.wait_for(lock, std::chrono::seconds(60), [&] {
          return meeting.most_inside >= meeting.meet;
        });
        while (meeting.held.contains(number) && !context.cancelled()) {
          meeting.changed.wait_for(lock, std::chrono::milliseconds(5));
        }
        --meeting.inside;
        if (!met) return Status(StatusCode::kInternal, "nobody else came");
        if (meeting.failing.contains(number)) return Status(StatusCode::kDataLoss, "bad");
        return Number(number * 10);
      },
      {.data = meeting, .spec = Int64Scalar()});
}

MapOptions Unordered(int64_t num_parallel_calls) {
  MapOptions options = Parallel(num_parallel_calls);
  options.deterministic = false;
  return options;
}

class ParallelMap : public DatasetTest {
 protected:
  Ref<Dataset> Times(int64_t rows, const MapOptions& options) {
    return Ok(Range(rows)->Map(Meets(&meeting_), options));
  }
  static Ref<Dataset> With(const Ref<Dataset>& dataset, std::string_view key, int64_t value) {
    DatasetOptions options;
    EXPECT_TRUE((key == "deterministic" ? options.SetBool(key, value != 0)
                                        : options.SetInt(key, value))
                    .ok());
    return Ok(dataset->WithOptions(options));
  }
  static void Close(const Ref<Iterator>& iterator) {
    EXPECT_TRUE(iterator->Close(CallOptions()).ok());
  }
  // All elements; the iterator is closed, so that nobody looks at the meeting any more.
  static std::vector<std::string> Drained(const Ref<Dataset>& dataset) {
    const Ref<Iterator> iterator = Iterate(dataset);
    std::vector<std::string> all = All(*iterator);
    Close(iterator);
    return all;
  }
  CallOptions Expired() const { return CallOptions{Deadline::At(0), nullptr}; }

  Meeting meeting_;
  Ref<TestFunction> function_;
};

TEST_F(ParallelMap, CallsSeveralRowsAtOnceWhoeverAsks) {
  meeting_.meet = 4;
  EXPECT_THAT(Drained(Times(5, Parallel(4))), ElementsAre("0", "10", "20", "30", "40"));
  EXPECT_EQ(meeting_.most_inside, 4);
  meeting_.most_inside = 0;
  EXPECT_EQ(Drained(Ok(Times(5, Parallel(4))->Prefetch(1))).size(), 5u);
  meeting_.most_inside = 0;
  EXPECT_EQ(Drained(Ok(Times(5, Parallel(4))->Batch(2))).size(), 3u);
  meeting_.most_inside = 0;
  EXPECT_EQ(Drained(Ok(Ok(Times(4, Parallel(4))->Take(4))->Repeat(2))).size(), 8u);
  meeting_.most_inside = 0;
  EXPECT_EQ(Drained(Times(5, Unordered(4))).size(), 5u);
}

TEST_F(ParallelMap, CallsSeveralRowsAtOnceForTheElementThatTellsTheSpec) {
  meeting_.meet = 4;
  const auto first = MakeFunction(
      [](Context& context, const Value& in, void* data) -> Result<Ref<Value>> {
        Ref<Value> out;
        TUTTI_RETURN_IF_ERROR((*static_cast<Ref<TestFunction>*>(data))->Call(context, in, &out));
        return out;
      },
      {.data = &(function_ = Meets(&meeting_))});
  EXPECT_EQ(Drained(Ok(Range(5)->Map(first, Parallel(4)))).size(), 5u);
  EXPECT_EQ(meeting_.most_inside, 4);
}

TEST_F(ParallelMap, RunsAheadBeyondWhatFailsBelowWhereNothingIsPassedOver) {
  const Ref<TestFunction> first_fails = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 1) return Status(StatusCode::kDataLoss, "one");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<Dataset> rows =
      Ok(Ok(Range(100)->Map(first_fails))->Map(Meets(&meeting_), Parallel(4)));
  // 0, and of the window 2, 3 and 4.
  const Ref<Iterator> all = Iterate(Ok(Ok(rows->Batch(1))->Take(9)));
  EXPECT_EQ(Next(*all), "[0]");
  meeting_.AwaitCalls(4);
  Close(all);
  // Of a shard several at once, too, up to there and from there on.
  meeting_.most_inside = 0;
  meeting_.meet = 3;
  const Ref<Iterator> shard = Iterate(Ok(Ok(rows->Skip(1))->Shard(5, 1)));
  EXPECT_EQ(Next(*shard), "20");
  EXPECT_EQ(Next(*shard), "70");
  Close(shard);
}

TEST_F(ParallelMap, RunsAheadByAsManyRowsAsItMayCallAndNoFurther) {
  const Ref<Iterator> iterator = Iterate(Times(100, Parallel(4)));
  EXPECT_EQ(meeting_.calls, 0);
  EXPECT_EQ(Next(*iterator), "0");
  meeting_.AwaitCalls(5);
  Close(iterator);
  EXPECT_EQ(meeting_.calls, 5);

  meeting_.calls = 0;
  const Ref<Iterator> batches = Iterate(Ok(Times(100, Parallel(4))->Batch(10)));
  EXPECT_EQ(Next(*batches), "[0 10 20 30 40 50 60 70 80 90]");
  meeting_.AwaitCalls(14);
  Close(batches);
  EXPECT_EQ(meeting_.calls, 14);
}

TEST_F(ParallelMap, CallsNothingBeyondWhatATakeLeaves) {
  const auto calls = [&](const Ref<Dataset>& dataset) {
    meeting_.calls = 0;
    Drained(dataset);
    return meeting_.calls;
  };
  const Ref<Dataset> mapped = Times(100, Parallel(4));
  EXPECT_EQ(calls(Ok(mapped->Take(7))), 7);
  EXPECT_EQ(calls(Ok(Ok(mapped->Batch(5))->Take(2))), 10);
  EXPECT_EQ(calls(Ok(Ok(mapped->Skip(90))->Take(3))), 3);
  EXPECT_EQ(calls(Ok(Ok(mapped->Prefetch(4))->Take(2))), 2);
  EXPECT_EQ(calls(Ok(Ok(mapped->Shuffle(4, Seed(1)))->Take(2))), 5);
  EXPECT_EQ(calls(Ok(Ok(mapped->Take(3))->Repeat(2))), 6);
  EXPECT_EQ(calls(Ok(Ok(Range(3)->Concatenate(*mapped))->Take(5))), 2);
  EXPECT_EQ(calls(Ok(mapped->Take(0))), 0);
}

TEST_F(ParallelMap, WithoutParallelCallsNothingIsCalledBeyondTheDemand) {
  const Ref<Iterator> iterator = Iterate(Ok(Times(100, MapOptions())->Batch(3)));
  EXPECT_EQ(Next(*iterator), "[0 10 20]");
  Close(iterator);
  EXPECT_EQ(meeting_.calls, 3);
  EXPECT_EQ(meeting_.most_inside, 1);
}

TEST_F(ParallelMap, KeepsTheOrderAndThePlacesOfErrors) {
  meeting_.failing = {2, 3, 7};
  for (int64_t calls : {1, 2, 4, 50}) {
    EXPECT_THAT(Drained(Times(9, Parallel(calls))),
                ElementsAre("0", "10", "!map: element 2: bad", "!map: element 3: bad", "40", "50",
                            "60", "!map: element 7: bad", "80"));
    EXPECT_THAT(Drained(Ok(Times(9, Parallel(calls))->Batch(4))),
                ElementsAre("!map: element 2: bad", "!map: element 3: bad", "[0 10 40 50]",
                            "!map: element 7: bad", "[60 80]"));
  }
}

TEST_F(ParallelMap, AResultWaitsForNoSlowerRowUnlessItComesFirst) {
  meeting_.held = {0};
  const Ref<Iterator> ordered = Iterate(Times(6, Parallel(3)));
  const CallOptions soon =
      CallOptions::WithTimeout(environment_->clock(), 20 * kMillisecondNs);
  EXPECT_EQ(ordered->Next(soon).status().code(), StatusCode::kDeadlineExceeded);
  meeting_.LetGo();
  EXPECT_THAT(All(*ordered), ElementsAre("0", "10", "20", "30", "40", "50"));
  Close(ordered);

  meeting_.held = {0};
  const Ref<Iterator> unordered = Iterate(Times(6, Unordered(3)));
  EXPECT_THAT(Take(*unordered, 5), UnorderedElementsAre("10", "20", "30", "40", "50"));
  meeting_.LetGo();
  EXPECT_THAT(All(*unordered), ElementsAre("0"));
  Close(unordered);
}

TEST_F(ParallelMap, ArgumentWinsOverTheOptionDeterministic) {
  // Whether row 1 comes while row 0 is held, for which `wait_ms` are given.
  const auto overtakes = [&](const Ref<Dataset>& dataset, int64_t wait_ms) {
    meeting_.held = {0};
    const Ref<Iterator> iterator = Iterate(dataset);
    const bool first =
        iterator->Next(CallOptions::WithTimeout(environment_->clock(), wait_ms * kMillisecondNs))
            .ok();
    meeting_.LetGo();
    EXPECT_EQ(All(*iterator).size(), first ? 3u : 4u);
    Close(iterator);
    return first;
  };
  MapOptions ordered = Parallel(2);
  ordered.deterministic = true;
  EXPECT_FALSE(overtakes(Times(4, Parallel(2)), 20));
  EXPECT_FALSE(overtakes(With(Times(4, Parallel(2)), "deterministic", 1), 20));
  EXPECT_TRUE(overtakes(With(Times(4, Parallel(2)), "deterministic", 0), 60'000));
  EXPECT_FALSE(overtakes(With(Times(4, ordered), "deterministic", 0), 20));
  EXPECT_TRUE(overtakes(With(Times(4, Unordered(2)), "deterministic", 1), 60'000));
}

TEST_F(ParallelMap, AReadyResultWaitsForNoInput) {
  Meeting input;
  input.held = {1};
  const Ref<Dataset> slow = Ok(Range(3)->Map(Meets(&input)));
  const Ref<Iterator> iterator = Iterate(Ok(slow->Map(Meets(&meeting_), Parallel(4))));
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_EQ(iterator->Next(Expired()).status().code(), StatusCode::kDeadlineExceeded);
  input.LetGo();
  EXPECT_THAT(All(*iterator), ElementsAre("100", "200"));
  Close(iterator);
}

TEST_F(ParallelMap, SavesRowsInFlightAsInputsAndWaitsForNone) {
  const Ref<Dataset> dataset = Times(8, Parallel(3));
  meeting_.failing = {3};
  const std::vector<std::string> all = Drained(dataset);
  ASSERT_EQ(all.size(), 8u);
  meeting_.held = {2};
  const Ref<Iterator> iterator = Iterate(dataset);
  EXPECT_THAT(Take(*iterator, 2), ElementsAre("0", "10"));
  EXPECT_TRUE(meeting_.Await([&] { return meeting_.inside == 1; }));
  const std::string state = iterator->Save(CallOptions()).value();
  meeting_.LetGo();
  for (int64_t calls : {3, 1, 0}) {
    const Ref<Iterator> restored = Iterate(Times(8, Parallel(calls)));
    ASSERT_TRUE(restored->Restore(state, CallOptions()).ok());
    EXPECT_EQ(All(*restored), std::vector<std::string>(all.begin() + 2, all.end()));
    Close(restored);
  }
  EXPECT_EQ(All(*iterator), std::vector<std::string>(all.begin() + 2, all.end()));
  Close(iterator);
}

TEST_F(ParallelMap, UnorderedGivesEveryElementOnceAcrossSaveAndRestore) {
  const Ref<Dataset> dataset = Times(40, Unordered(4));
  meeting_.failing = {6, 17};
  for (int64_t first : {0, 1, 5, 20, 39}) {
    meeting_.held = {first};
    const Ref<Iterator> iterator = Iterate(dataset);
    std::vector<std::string> got = Take(*iterator, 8);
    const std::string state = iterator->Save(CallOptions()).value();
    meeting_.LetGo();
    Close(iterator);
    const Ref<Iterator> restored = Iterate(dataset);
    ASSERT_TRUE(restored->Restore(state, CallOptions()).ok());
    for (std::string& text : All(*restored)) got.push_back(std::move(text));
    Close(restored);
    std::vector<std::string> all;
    for (int64_t i = 0; i < 40; ++i) {
      const bool fails = meeting_.failing.contains(i);
      all.push_back((fails ? "!map: element " : "") + std::to_string(fails ? i : i * 10) +
                    (fails ? ": bad" : ""));
    }
    std::sort(got.begin(), got.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(got, all);
  }
}

TEST_F(ParallelMap, DeadlineAndCancellationLoseNothing) {
  const Ref<Iterator> iterator = Iterate(Times(30, Parallel(4)));
  std::vector<std::string> got;
  while (got.size() < 30) {
    const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    cancellation->Cancel();
    for (const CallOptions& call : {Expired(), CallOptions{Deadline(), cancellation.get()}}) {
      const Result<Ref<Value>> element = iterator->Next(call);
      if (element.ok() && *element) got.push_back((*element)->ToString());
    }
    if (got.size() < 30) got.push_back(Next(*iterator));
  }
  EXPECT_EQ(Next(*iterator), ".");
  Close(iterator);
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(got[i], std::to_string(i * 10));
}

TEST_F(ParallelMap, RowsThatArePassedOverCountWhateverBecomesOfThem) {
  meeting_.failing = {1, 2};
  // Element 0, then three that are passed over though they may have been called already.
  EXPECT_THAT(Drained(Ok(Times(9, Parallel(4))->Shard(4, 0))), ElementsAre("0", "40", "80"));
  EXPECT_THAT(Drained(Ok(Times(5, Parallel(4))->Skip(2))),
              ElementsAre("!map: element 2: bad", "30", "40"));
}

TEST_F(ParallelMap, CloseFromAnotherThreadEndsACallThatWaits) {
  meeting_.held = {0, 1, 2};
  const Ref<Iterator> iterator = Iterate(Times(9, Parallel(3)));
  std::future<Status> waiting = std::async(
      std::launch::async, [&] { return iterator->Next(CallOptions()).status(); });
  meeting_.AwaitCalls(3);
  Close(iterator);
  EXPECT_EQ(waiting.get().message(), "map: the iterator was closed");
  EXPECT_EQ(meeting_.inside, 0);
  EXPECT_EQ(meeting_.calls, 3);
}

TEST_F(ParallelMap, OptionsBoundTheCallsAtOnce) {
  const Ref<Dataset> two = Ok(Times(20, Parallel(4))->Map(Meets(&meeting_), Parallel(4)));
  EXPECT_EQ(Drained(With(two, "threading.private_threadpool_size", 1)).size(), 20u);
  EXPECT_EQ(meeting_.most_inside, 1);
  EXPECT_EQ(Drained(With(two, "threading.private_threadpool_size", 3)).size(), 20u);
  EXPECT_LE(meeting_.most_inside, 3);
  // Of each operation.
  meeting_.most_inside = 0;
  EXPECT_EQ(Drained(With(Times(20, Parallel(4)), "threading.max_intra_op_parallelism", 1)).size(),
            20u);
  EXPECT_EQ(meeting_.most_inside, 1);
  meeting_.most_inside = 0;
  meeting_.meet = 2;
  EXPECT_EQ(Drained(With(Times(20, Parallel(4)), "threading.max_intra_op_parallelism", 2)).size(),
            20u);
  EXPECT_EQ(meeting_.most_inside, 2);
}

TEST_F(ParallelMap, AnExceptionOfTheInputIsTheStatusBehindWhatCameBefore) {
  const Ref<Iterator> iterator =
      Iterate(Ok(Throwing(*Range(9), "next", 3)->Map(Meets(&meeting_), Parallel(2))));
  EXPECT_THAT(Take(*iterator, 3), ElementsAre("0", "10", "20"));
  EXPECT_EQ(iterator->Next(CallOptions()).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(iterator->Save(CallOptions()).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(iterator->Next(CallOptions()).status().code(), StatusCode::kResourceExhausted);
  Close(iterator);
}

TEST_F(ParallelMap, InASimulationCallsWhenItIsAsked) {
  const Ref<SimulatedEnvironment> world = MakeRef<SimulatedEnvironment>(1);
  const Ref<DatasetEnvironment> datasets = DatasetEnvironment::Create(world, nullptr);
  {
    const Ref<Dataset> dataset =
        Ok(Ok(Dataset::Range(datasets, 0, 3, 1))->Map(Meets(&meeting_), Parallel(4)));
    const Ref<Iterator> iterator = Iterate(dataset);
    EXPECT_THAT(All(*iterator), ElementsAre("0", "10", "20"));
    Close(iterator);
  }
  EXPECT_TRUE(world->Shutdown(CallOptions()).ok());
}

}  // namespace
}  // namespace tutti
