// What ends a run from outside, and what is refused: deadlines, cancellation, a second run, close,
// shutdown, fork.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using StrategyInterruptionTest = LockstepTest;

// ---- Deadlines and cancellation. ----

TEST_F(StrategyInterruptionTest, ADeadlineOfTheRunEndsItsWaits) {
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

// Whether or not a replica has to wait for another one.
TEST_F(StrategyInterruptionTest, ADeadlineIsLookedAtWhenACollectiveIsEnteredAndAtTheEnd) {
  const Ref<Strategy> alone = Mirrored(1);
  Clock& clock = environment_->clock();
  const CallOptions options = CallOptions::WithTimeout(clock, 20 * kMillisecondNs);
  bool summed = false;
  const Ref<Function> late = ReplicaFn([&](ReplicaContext& replica, const Value&) {
    while (!options.deadline.Expired(clock)) std::this_thread::yield();
    Result<Ref<Value>> sum = Sum(replica);
    summed = sum.ok();
    return sum;
  });
  EXPECT_TRUE(Fails(alone->Run(*late, nullptr, options).status(), StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(summed);
  const CallOptions again = CallOptions::WithTimeout(clock, 20 * kMillisecondNs);
  const Ref<Function> without = ReplicaFn([&](ReplicaContext&, const Value&) {
    while (!again.deadline.Expired(clock)) std::this_thread::yield();
    return ScalarOf<int64_t>(0);
  });
  EXPECT_TRUE(Fails(alone->Run(*without, nullptr, again).status(), StatusCode::kDeadlineExceeded));
  ExpectStillWorks(alone);
}

TEST_F(StrategyInterruptionTest, AReplicaThatGivesUpInTimeDoesNotHideTheDeadline) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> fn =
      ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        if (replica.replica_id() == 0) return Sum(replica);
        while (!replica.cancelled()) std::this_thread::yield();
        return ScalarOf<int64_t>(0);
      });
  const CallOptions options =
      CallOptions::WithTimeout(environment_->clock(), 20 * kMillisecondNs);
  EXPECT_TRUE(
      Fails(strategy->Run(*fn, nullptr, options).status(), StatusCode::kDeadlineExceeded));
  ExpectStillWorks(strategy);
}

TEST_F(StrategyInterruptionTest, ADeadlineOfAMergeCallFailsTheRun) {
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

TEST_F(StrategyInterruptionTest, ADeadlineOnTheWayTellsTheOthersWhileReplicaZeroWaitsForThem) {
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

TEST_F(StrategyInterruptionTest, ARunWhoseTimeIsUpDoesNotStart) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> fn = Fn([](Context&, const Value&) -> Result<Ref<Value>> {
    ADD_FAILURE() << "ran";
    return Value::None();
  });
  const CallOptions options = CallOptions::WithTimeout(environment_->clock(), 0);
  EXPECT_TRUE(
      Fails(strategy->Run(*fn, nullptr, options).status(), StatusCode::kDeadlineExceeded));
}

TEST_F(StrategyInterruptionTest, CancellingTheRunEndsReplicasThatWait) {
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

TEST_F(StrategyInterruptionTest, APolledCancellationIsPolledWhileReplicasWait) {
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

TEST_F(StrategyInterruptionTest, AHostThatThrowsWhileReplicasRunWaitsForThemAndCanRunAgain) {
  const Ref<Strategy> strategy = Mirrored(2);
  std::atomic<bool> runs{false};
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>(
      [](void*) -> bool { throw std::runtime_error("the host's own"); }, nullptr, nullptr);
  const Ref<Function> fn =
      ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        if (replica.replica_id() == 0) return ScalarOf(1);
        runs.store(true);
        while (!replica.cancelled()) std::this_thread::yield();
        runs.store(false);
        return Status(StatusCode::kAborted, "gave up");
      });
  const CallOptions options{Deadline::Infinite(), cancellation.get()};
  EXPECT_THROW(strategy->Run(*fn, nullptr, options).status().rep(), std::runtime_error);
  EXPECT_FALSE(runs.load());
  ExpectStillWorks(strategy);
}

// ---- One run at a time. ----

TEST_F(StrategyInterruptionTest, ARunInsideAReplicaIsRefused) {
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

TEST_F(StrategyInterruptionTest, ARunOfTheSameStrategyInsideAMergeFunctionIsRefused) {
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

TEST_F(StrategyInterruptionTest, OfTwoRunsAtOnceTheLaterIsRefused) {
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

TEST_F(StrategyInterruptionTest, RacingRunsWinOrAreRefusedAndNeverHang) {
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

TEST_F(StrategyInterruptionTest, AClosedStrategyRefusesWithItsName) {
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

TEST_F(StrategyInterruptionTest, ClosingEndsTheRunThatIsRunning) {
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

TEST_F(StrategyInterruptionTest, AStrategyThatWasNotClosedIsReaped) {
  ExpectStillWorks(Mirrored(3));  // shutdown in TearDown joins the reaper
}

TEST_F(StrategyInterruptionTest, ShutdownClosesAStrategy) {
  const Ref<Strategy> strategy = Mirrored(2);
  ExpectStillWorks(strategy);
  ASSERT_TRUE(environment_->Shutdown(WithinReason()).ok());
  EXPECT_TRUE(strategy->closed());
  EXPECT_TRUE(Fails(
      RunStatus(strategy,
                Fn([](Context&, const Value&) -> Result<Ref<Value>> { return Value::None(); })),
      StatusCode::kFailedPrecondition, {"shut down"}));
}

TEST_F(StrategyInterruptionTest, AForkedChildIsRefused) {
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
