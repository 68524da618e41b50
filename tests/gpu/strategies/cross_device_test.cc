// HierarchicalCopyAllReduce on fake GPUs: along a tree of their links, in packs, and to one device
// what is no all_reduce.
#include <string>
#include <utility>
#include <vector>

#include "core/strategy/built_in_ops.h"
#include "core/strategy/distributed_value.h"
#include "tests/gpu/strategies/strategies_testing.h"

namespace tutti::gpu {
namespace {

class GpuHierarchicalCopy : public GpuStrategies {
 protected:
  void SetUp() override {
    setenv("TUTTI_NCCL_LIBRARY", "/there/is/no/nccl.so", 1);
    fake::Machine machine;
    machine.devices = 4;
    machine.memory_bytes = 8 << 20;
    Open(machine);
  }
  Ref<Strategy> OnFour(int64_t num_packs) {
    StrategyOptions options;
    options.cross_device_ops = MakeHierarchicalCopyAllReduce(num_packs).value();
    return On({"GPU:0", "GPU:1", "GPU:2", "GPU:3"}, options);
  }
  fake::Done Done() {
    fake::Done done;
    FakeFunction<fake::CountDone>(fake::kCountDone)(&done);
    return done;
  }
  // A tensor of each replica on its GPU; the sum of all is 6 + 4 * `more`, 4 * `more` + 6 ...
  Ref<Value> OnEach(const Strategy& strategy, float more) {
    std::vector<Ref<Value>> components;
    for (size_t i = 0; i < strategy.num_local_replicas(); ++i) {
      const float number = static_cast<float>(i) + more;
      components.push_back(Value::OfTensor(
          There(*Tensor::Vector<float>({number, number}), strategy.device(i))));
    }
    return Value::OfLeaf(DistributedLeaf(std::move(components)));
  }
};

TEST_F(GpuHierarchicalCopy, ReducesABatchInItsPacksAndPutsResultsWhereTheyGo) {
  if (!HasKernels()) GTEST_SKIP() << "built without a CUDA toolkit";
  for (const auto& [num_packs, bytes_per_pack, folds] :
       {std::tuple(1, 0, 3), std::tuple(0, 0, 9), std::tuple(1, 16, 6)}) {
    const Ref<Strategy> strategy = OnFour(num_packs);
    CrossDeviceOps& ops = *strategy->given_ops();
    std::vector<Ref<Value>> pairs;
    for (int i = 0; i < 3; ++i) {
      const Ref<Value> value = OnEach(*strategy, static_cast<float>(i));
      pairs.push_back(Value::Tuple(std::vector<Ref<Value>>{value, value}));
    }
    // One that is no all_reduce.
    pairs.push_back(Value::Tuple(
        std::vector<Ref<Value>>{OnEach(*strategy, 10), Value::OfString("GPU:2")}));
    CollectiveOptions options;
    options.hints.bytes_per_pack = bytes_per_pack;
    const fake::Done before = Done();
    const Ref<Value> sums =
        ops.BatchReduce(*strategy, ReduceOp::kSum, *Value::Tuple(pairs), options).value();
    const std::vector<Ref<Value>> each = sums->AllChildren();
    for (size_t k = 0; k < 3; ++k) {
      const DistributedValue* const mirrored = AsDistributed(each[k]->leaf());
      ASSERT_NE(mirrored, nullptr);
      for (size_t i = 0; i < 4; ++i) {
        const Tensor& sum = mirrored->component(i).leaf().tensor();
        EXPECT_EQ(sum.device(), strategy->device(i).id());
        EXPECT_EQ(Host(sum), Format("[{} {}]", 6 + 4 * k, 6 + 4 * k));
      }
    }
    EXPECT_EQ(each[3]->leaf().tensor().device().ToString(), "GPU:2");
    EXPECT_EQ(Host(each[3]->leaf().tensor()), "[46 46]");
    EXPECT_EQ(Done().peer_reads - before.peer_reads, folds) << num_packs << " " << bytes_per_pack;
  }
}

TEST_F(GpuHierarchicalCopy, ServesReplicasAndVariablesByEveryReduction) {
  const Ref<Strategy> strategy = OnFour(1);
  const Ref<Variable> variable = Make(strategy, Tensor::Vector<float>({0}), Aggregation::kMean);
  for (const auto& [op, expected] :
       {std::pair(ReduceOp::kSum, "[10]"), std::pair(ReduceOp::kMean, "[2.5]"),
        std::pair(ReduceOp::kMax, "[4]"), std::pair(ReduceOp::kProd, "[24]")}) {
    const Ref<Value> folds = MustRun(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const auto number = static_cast<float>(replica.replica_id() + 1);
          const Ref<Tensor> own = There(*Tensor::Vector<float>({number}), *replica.device());
          TUTTI_RETURN_IF_ERROR(variable->Assign(&replica, *own, {}));
          return replica.AllReduce(op, *Value::OfTensor(own), {});
        }));
    for (size_t i = 0; i < 4; ++i) {
      const Tensor& fold = AsDistributed(folds->leaf())->component(i).leaf().tensor();
      EXPECT_EQ(fold.device(), strategy->device(i).id());
      EXPECT_EQ(Host(fold), expected);
    }
    EXPECT_THAT(Copies(*variable), testing::Each("[2.5]"));
  }
  // A mean of integers, which no tree divides, goes to one device.
  const Ref<Value> whole = MustRun(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        const auto number = static_cast<int32_t>(replica.replica_id() + 2);
        return replica.AllReduce(
            ReduceOp::kMean,
            *Value::OfTensor(There(*Tensor::Vector<int32_t>({number}), *replica.device())), {});
      }));
  EXPECT_EQ(Host(AsDistributed(whole->leaf())->component(3).leaf().tensor()), "[3]");
}

TEST_F(GpuHierarchicalCopy, GoesOverTheHostWhereGpusHaveNoKernels) {
  fake::Machine machine;
  machine.devices = 4;
  machine.compute_major = 5;
  Open(machine);
  const Ref<Strategy> strategy = OnFour(1);
  const Ref<Value> value = OnEach(*strategy, 1);
  const Ref<Value> sum =
      strategy->given_ops()->Reduce(*strategy, ReduceOp::kSum, *value, *value, {}).value();
  EXPECT_EQ(Host(AsDistributed(sum->leaf())->component(3).leaf().tensor()), "[10 10]");
}

}  // namespace
}  // namespace tutti::gpu
