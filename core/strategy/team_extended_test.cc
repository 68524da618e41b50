// Values on devices and updates under several workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/strategy/built_in_ops.h"
#include "core/strategy/team_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;

TEST(TeamExtendedTest, ReduceToGoesOverTheReplicasOfAllWorkers) {
  TestJob job(2, 2);
  job.OnWorkers([](TestWorker& worker) {
    Strategy& strategy = *worker.strategy;
    EXPECT_EQ(*strategy.full_worker_device(1),
              Format("/job:worker/replica:0/task:{}/device:CPU:1", worker.index));
    const Ref<Value> numbers =
        worker.Run(ReplicaFn([](ReplicaContext& replica, const Value&) {
                return Result<Ref<Value>>(ScalarOf(static_cast<float>(replica.replica_id() + 1)));
              }))
            .value();
    const CollectiveOptions wait(worker.Hang());
    EXPECT_EQ(strategy.ReduceTo(ReduceOp::kSum, *numbers, *numbers, wait).value()->ToString(),
              "Mirrored:{0: 10, 1: 10}");
    const Ref<Value> pairs = Value::Tuple({Value::Tuple({numbers, Value::OfString("CPU:0")}),
                                           Value::Tuple({numbers, numbers})});
    EXPECT_EQ(strategy.BatchReduceTo(ReduceOp::kMean, *pairs, wait).value()->ToString(),
              "(2.5, Mirrored:{0: 2.5, 1: 2.5})");
    EXPECT_EQ(strategy.BroadcastTo(*ScalarOf(5.0f), *numbers, wait).value()->ToString(),
              "Mirrored:{0: 5, 1: 5}");
    // Ops alone reduce over one process.
    EXPECT_TRUE(Fails(MakeAllReduce()
                          ->Reduce(strategy, ReduceOp::kSum, *numbers, *numbers, wait)
                          .status(),
                      StatusCode::kFailedPrecondition, {"2 workers", "reduce_to"}));
  });
}

TEST(TeamExtendedTest, AnUpdateIsOneOfTheWorkersOwnCopies) {
  TestJob job(2, 2);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Variable> variable =
        worker.MakeVariable(Tensor::Scalar<float>(0), Aggregation::kNone);
    const Ref<Function> assign = Fn([](Context& context, const Value& in) -> Result<Ref<Value>> {
      const auto copy = static_cast<float>(AsUpdateContext(&context)->copy());
      TUTTI_RETURN_IF_ERROR(in.leaf(0).object_as<Variable>()->Assign(
          &context, *Tensor::Scalar<float>(copy + 1), CallOptions()));
      return Value::None();
    });
    EXPECT_TRUE(
        worker.strategy->Update(*variable, *assign, nullptr, true, worker.Hang()).ok());
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(variable->copy(i).ToString(),
                Tensor::Scalar<float>(static_cast<float>(i + 1))->ToString());
    }
  });
}

TEST(TeamExtendedTest, AWorkerThatNamesAWrongDestinationEndsTheCallOfAll) {
  TestJob job(2, 2);
  std::vector<Status> statuses(2);
  job.OnWorkers([&](TestWorker& worker) {
    Strategy& strategy = *worker.strategy;
    const Ref<Value> parts[] = {ScalarOf(1.0f), ScalarOf(2.0f)};
    const Ref<Value> value = strategy.CreatePerReplica(parts).value();
    const Ref<Value> where =
        worker.index == 1 ? Value::OfString("CPU:6000") : Value::OfString("CPU:0");
    const CollectiveOptions wait(worker.Hang());
    statuses[static_cast<size_t>(worker.index)] =
        strategy.ReduceTo(ReduceOp::kSum, *value, *where, wait).status();
    // The next call is as good as new.
    EXPECT_EQ(strategy.ReduceTo(ReduceOp::kSum, *value, *value, wait).value()->ToString(),
              "Mirrored:{0: 6, 1: 6}");
  });
  EXPECT_TRUE(Fails(statuses[0], StatusCode::kAborted, {"CPU:6000"}));
  EXPECT_TRUE(Fails(statuses[1], StatusCode::kInvalidArgument, {"CPU:6000"}));
}

}  // namespace
}  // namespace tutti
