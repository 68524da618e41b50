// Folds of a strategy on GPUs by NCCL, which nobody has asked for: where its bits are the kernels',
// or need not be, and what becomes of them when it fails.
#include <dlfcn.h>

#include "tests/gpu/fakes/fake_nccl.h"
#include "tests/gpu/strategies/strategies_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(GpuStrategies, NcclFoldsByItselfWhereTheBitsAreTheSame) {
  setenv("TUTTI_NCCL_LIBRARY", TUTTI_GPU_NCCL, 1);
  fake::Machine machine;
  machine.devices = 3;
  const auto count = [] {
    return reinterpret_cast<fake::CountNcclThings>(
        dlsym(dlopen(TUTTI_GPU_NCCL, RTLD_NOW | RTLD_LOCAL), fake::kCountNcclThings))();
  };
  const auto sums = [&](const Ref<Strategy>& strategy, DType dtype, ReduceOp op) {
    const Ref<Value> all = MustRun(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const Ref<Tensor> here = Cast(*Numbers(DType::kFloat64, 20, replica.replica_id()), dtype)
                                       .value();
          TUTTI_ASSIGN_OR_RETURN(
              const Ref<Value> sum,
              replica.AllReduce(op, *Value::OfTensor(There(*here, *replica.device())), {}));
          if (!replica.device()->id().is_cpu()) {
            EXPECT_EQ(sum->leaf().tensor().device(), replica.device()->id());
          }
          return Value::OfTensor(OnHost(sum->leaf().tensor()).value());
        }));
    return Local(strategy, all);
  };
  struct Case {
    DType dtype;
    ReduceOp op;
    size_t gpus;
    bool in_replica_order;
    bool by_nccl;
  };
  for (const Case& each : {Case{DType::kFloat32, ReduceOp::kSum, 2, true, true},
                           Case{DType::kBfloat16, ReduceOp::kMean, 2, true, true},
                           Case{DType::kFloat32, ReduceOp::kMax, 2, false, false},
                           Case{DType::kInt32, ReduceOp::kMax, 3, true, true},
                           Case{DType::kInt32, ReduceOp::kBitAnd, 3, true, false},
                           Case{DType::kFloat32, ReduceOp::kSum, 3, true, false},
                           Case{DType::kFloat32, ReduceOp::kSum, 3, false, true}}) {
    Open(machine);
    const std::vector<std::string> names[] = {{"GPU:0", "GPU:1"}, {"GPU:0", "GPU:1", "GPU:2"}};
    StrategyOptions options;
    options.in_replica_order = each.in_replica_order;
    const Ref<Strategy> strategy = On(names[each.gpus - 2], options);
    const Ref<Strategy> cpus = Mirrored(each.gpus);
    for (int step = 0; step < 2; ++step) {
      EXPECT_EQ(sums(strategy, each.dtype, each.op), sums(cpus, each.dtype, each.op));
      EXPECT_EQ(count(), each.by_nccl ? static_cast<int32_t>(each.gpus) : 0)
          << DTypeName(each.dtype) << " " << each.gpus;
    }
    // What is written into variables goes the same way.
    const Ref<Variable> variable = Make(strategy, Tensor::Vector<float>({0}));
    MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              const Ref<Tensor> one = There(*Tensor::Vector<float>({1}), *replica.device());
              TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *one, {}));
              return Value::OfString("done");
            }));
    EXPECT_THAT(Copies(*variable), Each(each.gpus == 2 ? "[2]" : "[3]"));
  }
  Close();
  EXPECT_EQ(count(), 0);
}

TEST_F(GpuStrategies, KernelsFoldWhenNcclFails) {
  setenv("TUTTI_NCCL_LIBRARY", TUTTI_GPU_NCCL, 1);
  Open(fake::Machine());
  const auto set_faults = reinterpret_cast<fake::SetNcclFaults>(
      dlsym(dlopen(TUTTI_GPU_NCCL, RTLD_NOW | RTLD_LOCAL), fake::kSetNcclFaults));
  const Ref<Warnings> lines = MakeRef<Warnings>();
  ASSERT_TRUE(environment_->log().SetSink(lines).ok());
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  fake::NcclFaults faults;
  faults.refuse = 3;
  set_faults(&faults);
  for (int step = 0; step < 2; ++step) {
    const Ref<Value> sums = MustRun(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const Ref<Tensor> own = There(*Tensor::Vector<float>({2}), *replica.device());
          TUTTI_ASSIGN_OR_RETURN(const Ref<Value> sum,
                                 replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(own), {}));
          return Value::OfTensor(OnHost(sum->leaf().tensor()).value());
        }));
    EXPECT_THAT(Local(strategy, sums), Each("[4]"));
  }
  set_faults(&(faults = {}));
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
  EXPECT_THAT(lines->warnings,
              ElementsAre(AllOf(HasSubstr("go by copies and kernels from now on"),
                                HasSubstr("for NCCL has failed: "))));
}

}  // namespace
}  // namespace tutti::gpu
