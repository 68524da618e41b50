// What happens when replicas fail, go different ways, are cancelled, or are run twice: always an
// error that says why, never a wait without end.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/host_data.h"
#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class StrategyFailureTest : public StrategyTest {
 protected:
  static Result<Ref<Value>> Sum(ReplicaContext& replica, const CallOptions& options = {}) {
    return replica.AllReduce(ReduceOp::kSum, *ScalarOf<int64_t>(replica.replica_id()), options);
  }
  static Result<Ref<Value>> Merge(ReplicaContext& replica, const CallOptions& options = {}) {
    static const char identity = 0;
    const Ref<Function> merge =
        Fn([](Context&, const Value& in) { return in.At(0); }, "first_part");
    return replica.MergeCall(*merge, &identity, Value::Tuple({ScalarOf(1)}).get(), options);
  }
  void ExpectStillWorks(const Ref<Strategy>& strategy) {
    const Ref<Value> result =
        MustRun(strategy, ReplicaFn([](ReplicaContext& replica, const Value&) {
                  (void)Merge(replica);
                  return Sum(replica);
                }));
    const auto n = static_cast<int64_t>(strategy->num_local_replicas());
    EXPECT_THAT(Local(strategy, result), testing::Each(std::to_string(n * (n - 1) / 2)));
  }
};

// Lets threads of a test wait for each other.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// ---- A replica fails. ----

TEST_F(StrategyFailureTest, AnErrorOfOneReplicaEndsAnothersAllReduce) {
  for (const int64_t failing : {0, 1}) {
    const Ref<Strategy> strategy = Mirrored(2);
    Status other;
    const Status status = RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          if (replica.replica_id() == failing) return Status(StatusCode::kDataLoss, "no luck");
          Result<Ref<Value>> sum = Sum(replica);
          other = sum.status();
          EXPECT_TRUE(replica.cancelled());
          return sum;
        }));
    EXPECT_TRUE(Fails(status, StatusCode::kDataLoss, {"no luck"}));
    ASSERT_NE(status.FindDetail("replica"), nullptr);
    EXPECT_EQ(std::get<int64_t>(status.FindDetail("replica")->value), failing);
    EXPECT_TRUE(Fails(other, StatusCode::kAborted, {"no luck"}));
    ASSERT_EQ(other.causes().size(), 1u);
    EXPECT_EQ(other.causes()[0].code(), StatusCode::kDataLoss);
    ExpectStillWorks(strategy);
  }
}

TEST_F(StrategyFailureTest, AnErrorOfOneReplicaEndsAnothersMergeCall) {
  for (const int64_t failing : {0, 2}) {
    const Ref<Strategy> strategy = Mirrored(3);
    const Status status = RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          if (replica.replica_id() == failing) return Status(StatusCode::kDataLoss, "no luck");
          Result<Ref<Value>> merged = Merge(replica);
          EXPECT_TRUE(Fails(merged.status(), StatusCode::kAborted, {"no luck"}));
          return merged;
        }));
    EXPECT_TRUE(Fails(status, StatusCode::kDataLoss, {"no luck"}));
    ExpectStillWorks(strategy);
  }
}

TEST_F(StrategyFailureTest, AHostsObjectComesBackWithTheError) {
  const Ref<Strategy> strategy = Mirrored(2);
  int exception = 0;
  const Ref<HostData> data = MakeRef<HostData>(&exception, nullptr, nullptr);
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        if (replica.replica_id() == 0) return Sum(replica);
        return Status(StatusCode::kUnknown, "raised").WithHostObject(data);
      }));
  ASSERT_NE(status.host_object(), nullptr);
  EXPECT_EQ(status.host_object()->data(), &exception);
}

TEST_F(StrategyFailureTest, AnErrorOfAMergeFunctionIsEveryReplicasError) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> merge = Fn([](Context&, const Value&) -> Result<Ref<Value>> {
    return Status(StatusCode::kNotFound, "nothing to merge");
  });
  std::atomic<int> failures{0};
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
        Result<Ref<Value>> result = replica.MergeCall(*merge, merge.get(), nullptr, {});
        if (Fails(result.status(), StatusCode::kNotFound, {"nothing to merge"})) ++failures;
        return result;
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kNotFound));
  EXPECT_EQ(failures, 2);
  ExpectStillWorks(strategy);
}

TEST_F(StrategyFailureTest, MismatchedAllReducesFailOnAllReplicasAndNameBothSides) {
  const Ref<Strategy> strategy = Mirrored(2);
  std::atomic<int> failures{0};
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
        const Ref<Value> mine =
            replica.replica_id() == 0 ? VectorOf<float>({1, 2}) : VectorOf<float>({1, 2, 3});
        Result<Ref<Value>> result = replica.AllReduce(ReduceOp::kSum, *mine, {});
        if (Fails(result.status(), StatusCode::kInvalidArgument, {"[2]", "[3]"})) ++failures;
        return result;
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument));
  EXPECT_EQ(failures, 2);
  ExpectStillWorks(strategy);
}

// ---- Replicas go different ways. ----

TEST_F(StrategyFailureTest, AReplicaThatReturnsWhileAnotherMergesIsNamed) {
  for (const int64_t returning : {0, 1}) {
    const Ref<Strategy> strategy = Mirrored(2);
    const Status status = RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          if (replica.replica_id() == returning) return ScalarOf(1);
          return Merge(replica);
        }));
    EXPECT_TRUE(Fails(status, StatusCode::kFailedPrecondition,
                      {"replica 0", "replica 1", "returned", "merge call"}));
    ExpectStillWorks(strategy);
  }
}

TEST_F(StrategyFailureTest, UnequalCountsOfMergeCallsAreAnError) {
  const Ref<Strategy> strategy = Mirrored(3);
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        for (int64_t i = 0; i < 4 + (replica.replica_id() == 2 ? 1 : 0); ++i) {
          TUTTI_RETURN_IF_ERROR(Merge(replica).status());
        }
        return ScalarOf(1);
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kFailedPrecondition, {"replica 2", "step #5", "after 4"}));
  ExpectStillWorks(strategy);
}

TEST_F(StrategyFailureTest, AReplicaThatReturnsWhileAnotherReducesIsNamed) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        TUTTI_RETURN_IF_ERROR(Sum(replica).status());
        if (replica.replica_id() == 1) return ScalarOf<int64_t>(1);
        return Sum(replica);
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kFailedPrecondition,
                    {"replica 0 is in a collective", "replica 1 returned after 1"}));
  ExpectStillWorks(strategy);
}

TEST_F(StrategyFailureTest, ACollectiveAgainstAMergeCallIsAnErrorOnBothSides) {
  for (const int64_t merging : {0, 1}) {
    const Ref<Strategy> strategy = Mirrored(2);
    std::atomic<int> failures{0};
    const Status status = RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
          Result<Ref<Value>> result =
              replica.replica_id() == merging ? Merge(replica) : Sum(replica);
          if (Fails(result.status(), StatusCode::kFailedPrecondition,
                    {"merge call", "collective", "replica 0", "replica 1"})) {
            ++failures;
          }
          return result;
        }));
    EXPECT_TRUE(Fails(status, StatusCode::kFailedPrecondition));
    EXPECT_EQ(failures, 2);
    ExpectStillWorks(strategy);
  }
}

TEST_F(StrategyFailureTest, DifferentMergeFunctionsAreAnErrorThatNamesBoth) {
  const Ref<Strategy> strategy = Mirrored(2);
  const auto body = [](Context&, const Value&) -> Result<Ref<Value>> {
    ADD_FAILURE() << "ran";
    return Value::None();
  };
  const Ref<Function> functions[] = {Fn(body, "left"), Fn(body, "right")};
  std::atomic<int> failures{0};
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
        Function* mine = functions[replica.replica_id()].get();
        Result<Ref<Value>> result = replica.MergeCall(*mine, mine, nullptr, {});
        if (Fails(result.status(), StatusCode::kInvalidArgument, {"'left'", "'right'"})) ++failures;
        return result;
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument));
  EXPECT_EQ(failures, 2);
}

TEST_F(StrategyFailureTest, AnErrorThatAReplicaSwallowsDoesNotMakeTheOthersWait) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        if (replica.replica_id() == 0) {
          // Fails before it takes part.
          EXPECT_FALSE(replica.AllReduce(ReduceOp::kSum, *ScalarOf(true), {}).ok());
          return ScalarOf<int64_t>(0);
        }
        return Sum(replica);
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kFailedPrecondition, {"replica 0 returned"}));
  ExpectStillWorks(strategy);
}

// ---- Deadlines and cancellation. ----

TEST_F(StrategyFailureTest, ADeadlineOfTheRunEndsItsWaits) {
  const Ref<Strategy> strategy = Mirrored(2);
  Gate released;
  const Ref<Function> fn =
      ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        if (replica.replica_id() == 0) {
          released.Wait();
          EXPECT_TRUE(replica.cancelled());
          return ScalarOf<int64_t>(0);
        }
        Result<Ref<Value>> sum = Sum(replica);
        released.Open();
        return sum;
      });
  const CallOptions options =
      CallOptions::WithTimeout(environment_->clock(), 20 * kMillisecondNs);
  EXPECT_TRUE(
      Fails(strategy->Run(*fn, nullptr, options).status(), StatusCode::kDeadlineExceeded));
  ExpectStillWorks(strategy);
}

TEST_F(StrategyFailureTest, ADeadlineOfAMergeCallFailsTheRun) {
  const Ref<Strategy> strategy = Mirrored(2);
  Gate released;
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        if (replica.replica_id() == 0) {
          released.Wait();
          Result<Ref<Value>> merged = Merge(replica);
          EXPECT_TRUE(Fails(merged.status(), StatusCode::kAborted));
          return merged;
        }
        Result<Ref<Value>> merged = Merge(
            replica, CallOptions::WithTimeout(environment_->clock(), 20 * kMillisecondNs));
        released.Open();
        return merged;
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kDeadlineExceeded));
  ExpectStillWorks(strategy);
}

TEST_F(StrategyFailureTest, ADeadlineOnTheWayTellsTheOthersWhileReplicaZeroWaitsForThem) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> fn =
      ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        if (replica.replica_id() == 0) return ScalarOf(1);
        while (!replica.cancelled()) std::this_thread::yield();
        return Status(StatusCode::kAborted, "gave up");
      });
  const CallOptions options =
      CallOptions::WithTimeout(environment_->clock(), 20 * kMillisecondNs);
  EXPECT_TRUE(
      Fails(strategy->Run(*fn, nullptr, options).status(), StatusCode::kDeadlineExceeded));
  ExpectStillWorks(strategy);
}

TEST_F(StrategyFailureTest, ARunWhoseTimeIsUpDoesNotStart) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> fn = Fn([](Context&, const Value&) -> Result<Ref<Value>> {
    ADD_FAILURE() << "ran";
    return Value::None();
  });
  const CallOptions options = CallOptions::WithTimeout(environment_->clock(), 0);
  EXPECT_TRUE(
      Fails(strategy->Run(*fn, nullptr, options).status(), StatusCode::kDeadlineExceeded));
}

TEST_F(StrategyFailureTest, CancellingTheRunEndsReplicasThatWait) {
  for (const bool merge : {false, true}) {
    const Ref<Strategy> strategy = Mirrored(2);
    const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    const Ref<Function> fn =
        ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          if (replica.replica_id() == 1) return merge ? Merge(replica) : Sum(replica);
          cancellation->Cancel();
          while (!replica.cancelled()) std::this_thread::yield();
          return Status(StatusCode::kAborted, "gave up");
        });
    const CallOptions options{Deadline::Infinite(), cancellation.get()};
    EXPECT_TRUE(Fails(strategy->Run(*fn, nullptr, options).status(), StatusCode::kCancelled));
    ExpectStillWorks(strategy);
  }
}

TEST_F(StrategyFailureTest, APolledCancellationIsPolledWhileReplicasWait) {
  const Ref<Strategy> strategy = Mirrored(2);
  std::atomic<int> polls{0};
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>(
      [](void* polls) { return ++*static_cast<std::atomic<int>*>(polls) > 1; }, &polls, nullptr);
  const Ref<Function> fn =
      ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        if (replica.replica_id() == 0) return ScalarOf(1);
        while (!replica.cancelled()) std::this_thread::yield();
        return Status(StatusCode::kAborted, "gave up");
      });
  const CallOptions options{Deadline::Infinite(), cancellation.get()};
  EXPECT_TRUE(Fails(strategy->Run(*fn, nullptr, options).status(), StatusCode::kCancelled));
}

// ---- One run at a time. ----

TEST_F(StrategyFailureTest, ARunInsideAReplicaIsRefused) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Strategy> other = Mirrored(2);
  const Ref<Function> nothing =
      Fn([](Context&, const Value&) -> Result<Ref<Value>> { return Value::None(); });
  MustRun(strategy, Fn([&](Context&, const Value&) -> Result<Ref<Value>> {
            EXPECT_TRUE(Fails(RunStatus(strategy, nothing), StatusCode::kFailedPrecondition,
                              {"run", "replica"}));
            EXPECT_TRUE(Fails(RunStatus(other, nothing), StatusCode::kFailedPrecondition));
            return Value::None();
          }));
}

TEST_F(StrategyFailureTest, ARunOfTheSameStrategyInsideAMergeFunctionIsRefused) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Strategy> other = Mirrored(2);
  const Ref<Function> nothing =
      Fn([](Context&, const Value&) -> Result<Ref<Value>> { return Value::None(); });
  const Ref<Function> merge = Fn([&](Context&, const Value&) -> Result<Ref<Value>> {
    EXPECT_TRUE(Fails(RunStatus(strategy, nothing), StatusCode::kFailedPrecondition,
                      {"MirroredStrategy", "one at a time"}));
    EXPECT_TRUE(Fails(strategy->Close({}), StatusCode::kFailedPrecondition));
    EXPECT_TRUE(RunStatus(other, nothing).ok());
    return Value::None();
  });
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
            return replica.MergeCall(*merge, merge.get(), nullptr, {});
          }));
}

TEST_F(StrategyFailureTest, OfTwoRunsAtOnceTheLaterIsRefused) {
  const Ref<Strategy> strategy = Mirrored(2);
  Gate running, finish;
  std::thread first([&] {
    MustRun(strategy, Fn([&](Context& context, const Value&) -> Result<Ref<Value>> {
              if (context.replica_id() == 1) running.Open();
              finish.Wait();
              return Value::None();
            }));
  });
  running.Wait();
  EXPECT_TRUE(Fails(
      RunStatus(strategy,
                Fn([](Context&, const Value&) -> Result<Ref<Value>> { return Value::None(); })),
      StatusCode::kFailedPrecondition, {"one at a time"}));
  finish.Open();
  first.join();
  ExpectStillWorks(strategy);
}

TEST_F(StrategyFailureTest, RacingRunsWinOrAreRefusedAndNeverHang) {
  const Ref<Strategy> strategy = Mirrored(2);
  std::atomic<int> won{0}, refused{0};
  const auto race = [&] {
    for (int i = 0; i < 200; ++i) {
      const Status status =
          RunStatus(strategy, ReplicaFn([](ReplicaContext& replica, const Value&) {
                      (void)Merge(replica);
                      return Sum(replica);
                    }));
      if (status.ok()) {
        ++won;
      } else {
        EXPECT_TRUE(Fails(status, StatusCode::kFailedPrecondition));
        ++refused;
      }
    }
  };
  std::thread other(race);
  race();
  other.join();
  EXPECT_GT(won, 0);
  EXPECT_EQ(won + refused, 400);
}

// ---- The end. ----

TEST_F(StrategyFailureTest, AClosedStrategyRefusesWithItsName) {
  const Ref<Strategy> strategy = Mirrored(2);
  ExpectStillWorks(strategy);
  ASSERT_TRUE(strategy->Close(WithinReason()).ok());
  ASSERT_TRUE(strategy->Close(WithinReason()).ok());
  const Ref<Function> nothing =
      Fn([](Context&, const Value&) -> Result<Ref<Value>> { return Value::None(); });
  EXPECT_TRUE(Fails(RunStatus(strategy, nothing), StatusCode::kFailedPrecondition,
                    {"MirroredStrategy", "closed"}));
  EXPECT_TRUE(Fails(strategy->Reduce(ReduceOp::kMean, *ScalarOf(1.0f), {}, {}).status(),
                    StatusCode::kFailedPrecondition));
}

TEST_F(StrategyFailureTest, ClosingEndsTheRunThatIsRunning) {
  const Ref<Strategy> strategy = Mirrored(2);
  Gate running;
  Status status;
  std::thread runner([&] {
    status = RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          if (replica.replica_id() == 0) return Sum(replica);
          running.Open();
          while (!replica.cancelled()) std::this_thread::yield();
          return Status(StatusCode::kAborted, "gave up");
        }));
  });
  running.Wait();
  EXPECT_TRUE(strategy->Close(WithinReason()).ok());
  runner.join();
  EXPECT_TRUE(Fails(status, StatusCode::kCancelled, {"closed"}));
}

TEST_F(StrategyFailureTest, AStrategyThatWasNotClosedIsReaped) {
  ExpectStillWorks(Mirrored(3));  // shutdown in TearDown joins the reaper
}

TEST_F(StrategyFailureTest, ShutdownClosesAStrategy) {
  const Ref<Strategy> strategy = Mirrored(2);
  ExpectStillWorks(strategy);
  ASSERT_TRUE(environment_->Shutdown(WithinReason()).ok());
  EXPECT_TRUE(strategy->closed());
  EXPECT_TRUE(Fails(
      RunStatus(strategy,
                Fn([](Context&, const Value&) -> Result<Ref<Value>> { return Value::None(); })),
      StatusCode::kFailedPrecondition, {"shut down"}));
}

TEST_F(StrategyFailureTest, AForkedChildIsRefused) {
  const Ref<Strategy> strategy = Mirrored(2);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Ref<Function> nothing =
        Fn([](Context&, const Value&) -> Result<Ref<Value>> { return Value::None(); });
    const Status status = strategy->Run(*nothing, nullptr, {}).status();
    _exit(status.code() == StatusCode::kFailedPrecondition ? 0 : 1);
  }
  int exit_status = 0;
  ASSERT_EQ(waitpid(child, &exit_status, 0), child);
  EXPECT_TRUE(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0);
}

}  // namespace
}  // namespace tutti
