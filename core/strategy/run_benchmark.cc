// What a run costs beside the replicas' own work: an empty function on 2 replicas, hot (the replica
// threads are still spinning) and cold (they sleep), and the steps that replicas take together.

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/base/real_environment.h"
#include "core/device/device.h"
#include "core/function/callback.h"
#include "core/strategy/parking_spot.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/strategy.h"
#include "core/strategy/variable.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/copy.h"
#include "core/tensor/value.h"

namespace tutti {
namespace {

struct World {
  explicit World(size_t replicas) {
    std::vector<std::string> names;
    for (size_t i = 0; i < replicas; ++i) names.push_back("CPU:" + std::to_string(i));
    devices = DeviceSet::Create(static_cast<int>(replicas), nullptr).value();
    strategy = Strategy::CreateMirrored(environment, *devices, names).value();
  }
  ~World() {
    (void)strategy->Close({});
    (void)environment->Shutdown({});
  }

  Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  Ref<DeviceSet> devices;
  Ref<Strategy> strategy;
};

const StatusRep* Nothing(Context*, const Value*, Value**, void*) { return nullptr; }

void RunOnce(benchmark::State& state, World& world, Function& fn) {
  const Status status = world.strategy->Run(fn, nullptr, {}).status();
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

// Argument: replicas.
void EmptyFunctionHot(benchmark::State& state) {
  World world(static_cast<size_t>(state.range(0)));
  BorrowedCallback fn(&Nothing, nullptr);
  for (auto _ : state) RunOnce(state, world, fn);
}
BENCHMARK(EmptyFunctionHot)->Arg(1)->Arg(2)->Arg(4)->UseRealTime();

void EmptyFunctionCold(benchmark::State& state) {
  World world(static_cast<size_t>(state.range(0)));
  BorrowedCallback fn(&Nothing, nullptr);
  for (auto _ : state) {
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::nanoseconds(10 * ParkingSpot::kSpinNs));
    state.ResumeTiming();
    RunOnce(state, world, fn);
  }
}
BENCHMARK(EmptyFunctionCold)->Arg(2)->Iterations(2000)->UseRealTime();

constexpr int kStepsPerRun = 1000;

const StatusRep* AllReduceMany(Context* context, const Value*, Value**, void* data) {
  ReplicaContext* replica = AsReplicaContext(context);
  for (int i = 0; i < kStepsPerRun; ++i) {
    Status status =
        replica->AllReduce(ReduceOp::kSum, *static_cast<Value*>(data), {}).status();
    if (!status.ok()) return status.release();
  }
  return nullptr;
}

// Argument: floats. One item is one all_reduce inside a run.
void ReplicaAllReduce(benchmark::State& state) {
  World world(2);
  const Ref<Value> value =
      Value::OfTensor(Tensor::Create(DType::kFloat32, Shape({state.range(0)})).value());
  BorrowedCallback fn(&AllReduceMany, value.get());
  for (auto _ : state) RunOnce(state, world, fn);
  state.SetItemsProcessed(state.iterations() * kStepsPerRun);
}
BENCHMARK(ReplicaAllReduce)->Arg(1)->Arg(256)->Arg(1024)->UseRealTime();

struct Update {
  Ref<Variable> variable;
  Ref<Tensor> delta;
};

const StatusRep* AssignMany(Context* context, const Value*, Value**, void* data) {
  auto* update = static_cast<Update*>(data);
  for (int i = 0; i < kStepsPerRun; ++i) {
    Status status = update->variable->AssignAdd(context, *update->delta, {});
    if (!status.ok()) return status.release();
  }
  return nullptr;
}

// Argument: floats. One item is one assign_add of a mirrored variable from 2 replicas.
void ReplicaAssignAdd(benchmark::State& state) {
  World world(2);
  VariableOptions options;
  options.aggregation = Aggregation::kSum;
  Update update;
  update.delta = Tensor::Create(DType::kFloat32, Shape({state.range(0)})).value();
  update.variable = Variable::Create(world.strategy, *update.delta, options).value();
  BorrowedCallback fn(&AssignMany, &update);
  for (auto _ : state) RunOnce(state, world, fn);
  state.SetItemsProcessed(state.iterations() * kStepsPerRun);
}
BENCHMARK(ReplicaAssignAdd)->Arg(1)->Arg(1024)->Arg(262144)->UseRealTime();

// ---- Central storage: an update of a large variable beside what it cannot do without. ----

constexpr int64_t kLargeFloats = int64_t{16} << 20;  // 64 MiB

const StatusRep* AssignOnce(Context* context, const Value*, Value**, void* data) {
  auto* update = static_cast<Update*>(data);
  return update->variable->AssignAdd(context, *update->delta, {}).release();
}

// One assign_add of 64 MiB from 2 replicas to the one copy.
void CentralAssignAdd(benchmark::State& state) {
  Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<DeviceSet> devices = DeviceSet::Create(2, nullptr).value();
  const std::vector<std::string> names = {"CPU:0", "CPU:1"};
  const Ref<Strategy> strategy =
      Strategy::CreateCentralStorage(environment, *devices, names, "CPU:0").value();
  VariableOptions options;
  options.aggregation = Aggregation::kSum;
  Update update;
  update.delta = Full(DType::kFloat32, Shape({kLargeFloats}), 1).value();
  update.variable = Variable::Create(strategy, *update.delta, options).value();
  BorrowedCallback fn(&AssignOnce, &update);
  for (auto _ : state) {
    const Status status = strategy->Run(fn, nullptr, {}).status();
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
  state.SetBytesProcessed(state.iterations() * kLargeFloats * 4);
  (void)strategy->Close({});
  (void)environment->Shutdown({});
}
BENCHMARK(CentralAssignAdd)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

// One memcpy and one add of as many bytes, on one thread.
void CopyAndAdd(benchmark::State& state) {
  const Ref<Tensor> delta = Full(DType::kFloat32, Shape({kLargeFloats}), 1).value();
  const Ref<Tensor> copy = Full(DType::kFloat32, Shape({kLargeFloats}), 2).value();
  const Ref<Tensor> target = Full(DType::kFloat32, Shape({kLargeFloats}), 3).value();
  for (auto _ : state) {
    std::memcpy(copy->mutable_data(), delta->data(), copy->byte_size());
    (void)BinaryElements(BinaryOp::kAdd, DType::kFloat32, target->data(), copy->data(),
                         target->mutable_data(), kLargeFloats);
  }
  state.SetBytesProcessed(state.iterations() * kLargeFloats * 4);
}
BENCHMARK(CopyAndAdd)->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);

// ---- merge_call. ----

const StatusRep* MergeNothing(Context*, const Value*, Value**, void*) { return nullptr; }

const StatusRep* MergeMany(Context* context, const Value*, Value**, void* data) {
  ReplicaContext* replica = AsReplicaContext(context);
  BorrowedCallback merge(&MergeNothing, nullptr);
  for (int i = 0; i < kStepsPerRun; ++i) {
    Status status =
        replica->MergeCall(merge, data, static_cast<Value*>(data), {}).status();
    if (!status.ok()) return status.release();
  }
  return nullptr;
}

// Argument: floats. One item is one merge_call inside a run.
void ReplicaMergeCall(benchmark::State& state) {
  World world(2);
  const Ref<Value> value =
      Value::OfTensor(Tensor::Create(DType::kFloat32, Shape({state.range(0)})).value());
  BorrowedCallback fn(&MergeMany, value.get());
  for (auto _ : state) RunOnce(state, world, fn);
  state.SetItemsProcessed(state.iterations() * kStepsPerRun);
}
BENCHMARK(ReplicaMergeCall)->Arg(256)->UseRealTime();

}  // namespace
}  // namespace tutti
