// What happens when replicas fail or go different ways: always an error that says why, never a wait
// without end.

#include <pthread.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <atomic>
#include <new>
#include <stdexcept>

#include "core/base/host_data.h"
#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using StrategyFailureTest = LockstepTest;

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

TEST_F(StrategyFailureTest, AnExceptionOnAReplicasThreadIsItsError) {
  const Ref<Strategy> strategy = Mirrored(2);
  for (const bool is_short_of_memory : {false, true}) {
    Status other;
    const Status status = RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          if (replica.replica_id() == 1) {
            if (is_short_of_memory) throw std::bad_alloc();
            throw std::runtime_error("no luck");
          }
          Result<Ref<Value>> sum = Sum(replica);
          other = sum.status();
          return sum;
        }));
    if (is_short_of_memory) {
      EXPECT_TRUE(Fails(status, StatusCode::kResourceExhausted, {"out of memory"}));
    } else {
      EXPECT_TRUE(Fails(status, StatusCode::kInternal, {"run: the function", "no luck"}));
    }
    ASSERT_NE(status.FindDetail("replica"), nullptr);
    EXPECT_EQ(std::get<int64_t>(status.FindDetail("replica")->value), 1);
    EXPECT_TRUE(Fails(other, StatusCode::kAborted));
    ExpectStillWorks(strategy);
  }
}

// ThreadSanitizer does not follow a thread that ends so.
#ifndef __SANITIZE_THREAD__
TEST_F(StrategyFailureTest, AFunctionThatEndsAReplicasThreadIsAnErrorAndTheNextRunWorks) {
  const Ref<Strategy> strategy = Mirrored(3);
  for (int round = 0; round < 2; ++round) {
    const Status status = RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          if (replica.replica_id() == 1) {
#ifdef __SANITIZE_ADDRESS__
            __asan_handle_no_return();
#endif
            pthread_exit(nullptr);
          }
          return Sum(replica);
        }));
    EXPECT_TRUE(Fails(status, StatusCode::kAborted,
                      {"run: the function", "was ended (pthread_exit) in a function"}));
    ExpectStillWorks(strategy);
  }
}
#endif

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

}  // namespace
}  // namespace tutti
