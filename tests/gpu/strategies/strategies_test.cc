// Strategies with GPUs, by the fake driver: variables there, reductions by the plugin's kernels,
// and what goes through the host. What a strategy on CPUs gives is expected, bit for bit.
#include <map>

#include "core/strategy/built_in_ops.h"
#include "tests/gpu/strategies/strategies_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(GpuStrategies, GpusAreListedAndWhatNamesNoneTakesAll) {
  EXPECT_EQ(devices_->ListDevices(DeviceType::kGpu).size(), 2u);
  EXPECT_EQ(devices_->ListDevices().size(), 10u);
  const Ref<Strategy> all = Strategy::CreateMirrored(environment_, *devices_, {}).value();
  EXPECT_EQ(all->num_replicas_in_sync(), 2);
  EXPECT_EQ(all->device(1).short_name(), "GPU:1");
  EXPECT_EQ(*all->full_worker_device(0), "/job:localhost/replica:0/task:0/device:GPU:0");
  EXPECT_THAT(all->Explain(), HasSubstr("variables on: /job:localhost/replica:0/task:0/device:GPU:0"
                                        ", /job:localhost/replica:0/task:0/device:GPU:1"));
  const Ref<Strategy> one =
      Strategy::CreateOneDevice(environment_, *devices_, "/device:GPU:1").value();
  EXPECT_EQ(one->device(0).short_name(), "GPU:1");
  const auto central = [&](const std::vector<std::string>& compute) {
    return Strategy::CreateCentralStorage(environment_, *devices_, compute, "").value();
  };
  EXPECT_EQ(central({})->parameter_device(0).short_name(), "CPU:0");
  EXPECT_EQ(central({"GPU:1"})->parameter_device(0).short_name(), "GPU:1");
  MultiWorkerOptions alone;
  alone.num_replicas = 2;
  const Ref<Strategy> worker =
      Strategy::CreateMultiWorkerMirrored(environment_, *devices_, alone, WithinReason()).value();
  EXPECT_EQ(worker->device(1).short_name(), "GPU:1");
}

TEST_F(GpuStrategies, GpusThatAreNotThereAreRefused) {
  EXPECT_TRUE(Fails(Strategy::CreateMirrored(environment_, *devices_,
                                             std::vector<std::string>{"GPU:0", "GPU:9"})
                        .status(),
                    StatusCode::kInvalidArgument,
                    {"MirroredStrategy", "no GPU:9", "GPU:0 to GPU:1"}));
  EXPECT_TRUE(Fails(Strategy::CreateOneDevice(environment_, *devices_, "GPU:9").status(),
                    StatusCode::kNotFound, {"OneDeviceStrategy", "no GPU:9"}));
  EXPECT_TRUE(Fails(Strategy::CreateMirrored(environment_, *devices_,
                                             std::vector<std::string>{"GPU:1", "/gpu:1"})
                        .status(),
                    StatusCode::kInvalidArgument, {"are the same"}));
}

TEST_F(GpuStrategies, GpusBesideCpusAreOneWarning) {
  const Ref<Warnings> lines = MakeRef<Warnings>();
  ASSERT_TRUE(environment_->log().SetSink(lines).ok());
  On({"GPU:0", "GPU:1"});
  On({"CPU:0", "CPU:1"});
  EXPECT_THAT(lines->warnings, IsEmpty());
  const Ref<Strategy> mixed = On({"GPU:0", "CPU:0"});
  const Ref<Variable> variable = Make(mixed, Tensor::Vector<float>({1, 2}));
  const Ref<Function> add =
      ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> own, variable->Read(&replica, {}));
        TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *own, {}));
        return replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(own), {});
      });
  for (int i = 0; i < 2; ++i) MustRun(mixed, add);
  EXPECT_THAT(Copies(*variable), Each("[9 18]"));
  EXPECT_EQ(variable->copy(0).device().ToString(), "GPU:0");
  EXPECT_EQ(variable->copy(1).device().ToString(), "CPU:0");
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
  EXPECT_THAT(lines->warnings,
              ElementsAre(AllOf(HasSubstr("1 of 2 replicas are on GPUs and the rest on CPUs"),
                                HasSubstr("NCCL is not used"))));
}

TEST_F(GpuStrategies, VariablesLieOnTheReplicasGpus) {
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  const Ref<Variable> variable = Make(strategy, Tensor::Vector<float>({1, 2}));
  EXPECT_EQ(variable->copy(0).device().ToString(), "GPU:0");
  EXPECT_EQ(variable->copy(1).device().ToString(), "GPU:1");
  EXPECT_EQ(variable->copy_device(1), "/job:localhost/replica:0/task:0/device:GPU:1");
  EXPECT_EQ(StreamOf(variable->copy(1))->handle(),
            GpuMemoryOf(strategy->device(1))->stream().value()->handle());
  EXPECT_THAT(variable->ToString(), HasSubstr("1: <Variable 'v/replica_1' float32[2] <on GPU:1>>"));
  // From outside, by tensors of the host, of a GPU, and of the variable itself.
  ASSERT_TRUE(variable->Assign(nullptr, *Tensor::Vector<float>({3, 4}), {}).ok());
  const Ref<Tensor> there = There(*Tensor::Vector<float>({0.5, 0.25}), strategy->device(1));
  ASSERT_TRUE(variable->AssignSub(nullptr, *there, {}).ok());
  EXPECT_THAT(Copies(*variable), Each("[2.5 3.75]"));
  ASSERT_TRUE(variable->AssignAdd(nullptr, variable->copy(0), {}).ok());
  EXPECT_THAT(Copies(*variable), Each("[5 7.5]"));
  EXPECT_EQ(strategy->FindVariable(variable->copy(1)).value(), variable);
  EXPECT_EQ(variable->Read(nullptr, {}).value()->device().ToString(), "GPU:0");
  EXPECT_TRUE(Fails(variable->Assign(nullptr, *Tensor::Vector<float>({1}), {}),
                    StatusCode::kInvalidArgument, {"shape"}));
  // In replicas: each reads its own copy.
  const Ref<Value> devices =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> own, variable->Read(&replica, {}));
                TUTTI_RETURN_IF_ERROR(variable->Assign(&replica, *own, {}));
                TUTTI_ASSIGN_OR_RETURN(const Tensor* live, variable->Data(&replica));
                EXPECT_EQ(live->device(), own->device());
                return Value::OfString(own->device().ToString());
              }));
  EXPECT_THAT(Local(strategy, devices), ElementsAre(HasSubstr("GPU:0"), HasSubstr("GPU:1")));
  EXPECT_THAT(Copies(*variable), Each("[10 15]"));
}

TEST_F(GpuStrategies, EveryWriteGivesTheBitsOfCpus) {
  const Ref<Strategy> gpus = On({"GPU:0", "GPU:1"});
  const Ref<Strategy> cpus = On({"CPU:0", "CPU:1"});
  constexpr int64_t kCount = 1001;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16,
                            DType::kInt8, DType::kInt64, DType::kUint32}) {
    for (const Aggregation aggregation :
         {Aggregation::kSum, Aggregation::kMean, Aggregation::kOnlyFirstReplica}) {
      std::vector<std::vector<Ref<Tensor>>> results;
      for (const Ref<Strategy>& strategy : {cpus, gpus}) {
        const Ref<Variable> variable = Make(strategy, Numbers(dtype, kCount, 7), aggregation);
        const Ref<Function> write =
            ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              const Ref<Tensor> own = Numbers(dtype, kCount, replica.replica_id());
              // Of GPUs one brings a tensor of its own, the other one of the host.
              const Ref<Tensor> given =
                  replica.replica_id() == 0 ? There(*own, *replica.device()) : own;
              TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *given, {}));
              TUTTI_RETURN_IF_ERROR(variable->AssignSub(&replica, *own, {}));
              TUTTI_RETURN_IF_ERROR(variable->AssignSub(&replica, *given, {}));
              return Value::None();
            });
        MustRun(strategy, write);
        std::vector<Ref<Tensor>> copies;
        for (size_t i = 0; i < 2; ++i) {
          copies.push_back(OnHost(*variable->ReadCopy(i).value()).value());
        }
        results.push_back(copies);
      }
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(std::memcmp(results[0][i]->data(), results[1][i]->data(),
                              results[0][i]->byte_size()),
                  0)
            << DTypeName(dtype) << " " << AggregationName(aggregation) << ", copy " << i;
      }
    }
  }
}

TEST_F(GpuStrategies, VariablesOfOtherKindsLieThereToo) {
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  // ON_READ: each replica's own, aggregated by a read from outside.
  const Ref<Variable> on_read = Make(strategy, Tensor::Vector<float>({0, 0}), Aggregation::kSum,
                                     Synchronization::kOnRead);
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            const auto number = static_cast<float>(replica.replica_id() + 1);
            TUTTI_RETURN_IF_ERROR(
                on_read->AssignAdd(&replica, *Tensor::Vector<float>({number, 10}), {}));
            return Value::None();
          }));
  EXPECT_THAT(Copies(*on_read), ElementsAre("[1 10]", "[2 10]"));
  EXPECT_EQ(Host(*on_read->Read(nullptr, {}).value()), "[3 20]");
  ASSERT_TRUE(on_read->Assign(nullptr, *on_read->Read(nullptr, {}).value(), {}).ok());
  EXPECT_THAT(Copies(*on_read), Each("[1.5 10]"));
  // Of open shape: each write is new memory.
  VariableOptions options;
  options.shape = PartialShape::Unknown();
  options.aggregation = Aggregation::kMean;
  const Ref<Variable> open =
      Variable::Create(strategy, *Tensor::Vector<double>({1, 2}), options).value();
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            const auto number = static_cast<double>(replica.replica_id());
            TUTTI_RETURN_IF_ERROR(open->Assign(&replica, *Tensor::Vector<double>({number}), {}));
            TUTTI_RETURN_IF_ERROR(open->AssignAdd(&replica, *Tensor::Vector<double>({number}), {}));
            return Value::None();
          }));
  EXPECT_THAT(Copies(*open), Each("[1]"));
  EXPECT_EQ(open->copy_ref(1)->device().ToString(), "GPU:1");
  EXPECT_TRUE(Fails(open->AssignAdd(nullptr, *Tensor::Vector<double>({1, 2}), {}),
                    StatusCode::kInvalidArgument, {"holds a value of shape [1]"}));
  // Byte strings stay on the host.
  const Ref<Variable> text = Make(strategy, Tensor::Bytes("text"), Aggregation::kOnlyFirstReplica);
  EXPECT_EQ(text->copy_device(1), "/job:localhost/replica:0/task:0/device:CPU:0");
  ASSERT_TRUE(text->Assign(nullptr, *Tensor::Bytes("other"), {}).ok());
  EXPECT_EQ(text->Read(nullptr, {}).value()->ContentsToString(), "\"other\"");
  // Central storage: one copy on the CPU, which replicas on GPUs write.
  const Ref<Strategy> central =
      Strategy::CreateCentralStorage(environment_, *devices_, {}, "").value();
  const Ref<Variable> shared = Make(central, Tensor::Vector<float>({1}));
  MustRun(central, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            const Ref<Tensor> own = There(*Tensor::Vector<float>({2}), *replica.device());
            TUTTI_RETURN_IF_ERROR(shared->AssignAdd(&replica, *own, {}));
            return Value::None();
          }));
  EXPECT_EQ(shared->copy(0).device().ToString(), "CPU:0");
  EXPECT_THAT(Copies(*shared), ElementsAre("[5]"));
}

TEST_F(GpuStrategies, RowsAreScatteredThroughTheHost) {
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  const Ref<Tensor> rows =
      Tensor::FromSpan<float>(Shape({3, 1}), std::vector<float>{1, 2, 3}).value();
  const Ref<Variable> variable = Make(strategy, rows);
  IndexedSlices slices;
  slices.values = Tensor::FromSpan<float>(Shape({2, 1}), std::vector<float>{10, 20}).value();
  slices.indices = Tensor::Vector<int64_t>({0, 2});
  ASSERT_TRUE(variable->Scatter(ScatterOp::kUpdate, nullptr, slices, {}).ok());
  EXPECT_THAT(Copies(*variable), Each("[[10] [2] [20]]"));
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            TUTTI_RETURN_IF_ERROR(variable->Scatter(ScatterOp::kAdd, &replica, slices, {}));
            return Value::None();
          }));
  EXPECT_THAT(Copies(*variable), Each("[[30] [2] [60]]"));
  slices.indices = Tensor::Vector<int64_t>({0, 3});
  EXPECT_TRUE(Fails(variable->Scatter(ScatterOp::kAdd, nullptr, slices, {}),
                    StatusCode::kInvalidArgument, {"3"}));
  EXPECT_THAT(Copies(*variable), Each("[[30] [2] [60]]"));
}

TEST_F(GpuStrategies, VariablesAreSavedAndRestored) {
  class Held final : public SaveSink, public RestoreSource {
   public:
    Status PutTensor(std::string_view name, Ref<Tensor> tensor) override {
      tensors_[std::string(name)] = std::move(tensor);
      return OkStatus();
    }
    Status PutSlice(std::string_view, Ref<Tensor>, const TensorSlice&) override {
      return OkStatus();
    }
    Result<TensorSpec> GetSpec(std::string_view name) override {
      return tensors_.at(std::string(name))->spec();
    }
    Result<Ref<Tensor>> GetTensor(std::string_view name) override {
      return tensors_.at(std::string(name));
    }
    Result<Ref<Tensor>> GetSlice(std::string_view name, const TensorSlice&,
                                 const Shape&) override {
      return tensors_.at(std::string(name));
    }
    std::map<std::string, Ref<Tensor>> tensors_;
  };
  Held held;
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  const Ref<Variable> variable = Make(strategy, Tensor::Vector<float>({1, 2}));
  ASSERT_TRUE(variable->Save("v", &held).ok());
  EXPECT_TRUE(held.tensors_.at("v")->device().is_cpu());
  ASSERT_TRUE(variable->AssignAdd(nullptr, *Tensor::Vector<float>({5, 5}), {}).ok());
  EXPECT_THAT(Copies(*variable), Each("[6 7]"));
  ASSERT_TRUE(variable->Restore("v", &held).ok());
  EXPECT_THAT(Copies(*variable), Each("[1 2]"));
}

TEST_F(GpuStrategies, AllReduceGivesTheBitsOfCpusWhereTheTensorsLie) {
  for (const size_t replicas : {2, 4, 8}) {
    fake::Machine machine;
    machine.devices = static_cast<int32_t>(replicas);
    Open(machine);
    std::vector<std::string> names;
    for (size_t i = 0; i < replicas; ++i) names.push_back(Format("GPU:{}", i));
    const Ref<Strategy> gpus = On(names);
    const Ref<Strategy> cpus = Mirrored(replicas);
    // Less than a part for each device, and more, in odd numbers.
    for (const int64_t count : {int64_t{37}, kDevicePartBytes / 4 + 77}) {
      for (const auto& [op, dtype] : std::vector<std::pair<ReduceOp, DType>>{
               {ReduceOp::kSum, DType::kFloat32}, {ReduceOp::kMean, DType::kFloat16},
               {ReduceOp::kMin, DType::kFloat64}, {ReduceOp::kMax, DType::kBfloat16},
               {ReduceOp::kProd, DType::kInt32}, {ReduceOp::kMean, DType::kInt64}}) {
        if (count > 1000 && dtype != DType::kFloat32) continue;
        std::vector<std::vector<Ref<Tensor>>> results(2, std::vector<Ref<Tensor>>(replicas));
        const Ref<Strategy> both[] = {cpus, gpus};
        for (size_t s = 0; s < 2; ++s) {
          MustRun(both[s],
                  ReplicaFn([&, s](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                    const Ref<Tensor> own = There(*Numbers(dtype, count, replica.replica_id()),
                                                  *replica.device());
                    TUTTI_ASSIGN_OR_RETURN(
                        const Ref<Value> all,
                        replica.AllReduce(op, *Value::OfTensor(own), {}));
                    EXPECT_EQ(all->leaf().tensor().device(), own->device());
                    results[s][replica.local_replica()] =
                        OnHost(all->leaf().tensor()).value();
                    return Value::None();
                  }));
        }
        for (size_t i = 0; i < replicas; ++i) {
          ASSERT_TRUE(results[0][i] && results[1][i]);
          EXPECT_EQ(std::memcmp(results[0][i]->data(), results[1][i]->data(),
                                results[0][i]->byte_size()),
                    0)
              << ReduceOpName(op) << " of " << count << " " << DTypeName(dtype) << ", replica "
              << i << " of " << replicas;
        }
      }
    }
  }
}

TEST_F(GpuStrategies, ReplicasDoTogetherWhatTheyDoOnCpus) {
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  // Tensors of the host, as NumPy's are, come back on the host, and are the replica's own.
  const Ref<Value> sums =
      MustRun(strategy, ReplicaFn([](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const auto number = static_cast<int32_t>(replica.replica_id() + 1);
                TUTTI_ASSIGN_OR_RETURN(
                    const Ref<Value> sum,
                    replica.AllReduce(ReduceOp::kSum,
                                      *Value::OfTensor(Tensor::Vector<int32_t>({number})), {}));
                EXPECT_TRUE(sum->leaf().tensor().device().is_cpu());
                EXPECT_FALSE(sum->leaf().tensor().read_only());
                return sum;
              }));
  EXPECT_THAT(Local(strategy, sums), Each("[3]"));
  const DistributedValue* const each = AsDistributed(sums->leaf());
  EXPECT_NE(each->component(0).leaf().tensor().data(), each->component(1).leaf().tensor().data());
  // A gather goes through the host, and comes back.
  const Ref<Value> joined =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const auto number = static_cast<int32_t>(replica.replica_id());
                const Ref<Tensor> own =
                    There(*Tensor::Vector<int32_t>({number}), *replica.device());
                TUTTI_ASSIGN_OR_RETURN(const Ref<Value> all,
                                       replica.AllGather(*Value::OfTensor(own), 0, {}));
                EXPECT_EQ(all->leaf().tensor().device(), own->device());
                return Value::OfTensor(OnHost(all->leaf().tensor()).value());
              }));
  EXPECT_THAT(Local(strategy, joined), Each("[0 1]"));
  // On another replica's GPU, and with other shapes.
  EXPECT_TRUE(Fails(
      RunStatus(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
                  const Ref<Tensor> wrong =
                      There(*Tensor::Vector<float>({1}), strategy->device(1));
                  return replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(wrong), {});
                })),
      StatusCode::kInvalidArgument,
      {"all_reduce: replica 0 is on GPU:0, and its tensor float32[1] lies on GPU:1; copy it to"}));
  EXPECT_TRUE(Fails(
      RunStatus(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
                  const Ref<Tensor> own =
                      Tensor::Create(DType::kFloat32, Shape({replica.replica_id() + 1})).value();
                  return replica.AllReduce(ReduceOp::kSum,
                                           *Value::OfTensor(There(*own, *replica.device())), {});
                })),
      StatusCode::kInvalidArgument, {"replica 0 has float32[1], replica 1 has float32[2]"}));
  MustRun(strategy, ReplicaFn([](ReplicaContext& replica, const Value&) {
            return replica.AllReduce(ReduceOp::kSum, *ScalarOf<float>(1), {});
          }));
}

TEST_F(GpuStrategies, LogicalGpusOfOneTakeEachOthersTensors) {
  // Other libraries know the physical device alone: whatever they give lies on the first one.
  const LogicalDevice two[] = {{}, {}};
  ASSERT_TRUE(devices_->SetLogicalDevices("GPU:0", two).ok());
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  const Ref<Value> sums =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const auto number = static_cast<float>(replica.replica_id() + 1);
                const Ref<Tensor> first =
                    There(*Tensor::Vector<float>({number}), strategy->device(0));
                TUTTI_ASSIGN_OR_RETURN(
                    const Ref<Value> sum,
                    replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(first), {}));
                EXPECT_EQ(sum->leaf().tensor().device(), replica.device()->id());
                return Value::OfTensor(OnHost(sum->leaf().tensor()).value());
              }));
  EXPECT_THAT(Local(strategy, sums), Each("[3]"));
}

TEST_F(GpuStrategies, ReductionsFromOutsideEndWhereTheyAreSaidTo) {
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  const Ref<Value> losses =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const auto number = static_cast<float>(replica.replica_id() + 1);
                return Value::OfTensor(
                    There(*Tensor::Vector<float>({number, 10}), *replica.device()));
              }));
  const CollectiveOptions options;
  const auto reduced = [&](ReduceOp op, std::optional<int64_t> axis) {
    const Ref<Value> value = strategy->Reduce(op, *losses, axis, options).value();
    EXPECT_TRUE(value->leaf().tensor().device().is_cpu());
    return value->leaf().tensor().ContentsToString();
  };
  EXPECT_EQ(reduced(ReduceOp::kSum, std::nullopt), "[3 20]");
  EXPECT_EQ(reduced(ReduceOp::kMean, std::nullopt), "[1.5 10]");
  EXPECT_EQ(reduced(ReduceOp::kSum, 0), "23");
  const Ref<Value> gathered = strategy->Gather(*losses, 0, options).value();
  EXPECT_EQ(gathered->leaf().tensor().ContentsToString(), "[1 10 2 10]");
  // To the replicas' devices, to one, to the host.
  const auto to = [&](const Ref<Value>& destinations) {
    return strategy->ReduceTo(ReduceOp::kSum, *losses, *destinations, options).value();
  };
  const Ref<Value> mirrored = to(losses);
  const DistributedValue* const each = AsDistributed(mirrored->leaf());
  ASSERT_NE(each, nullptr);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(each->component(i).leaf().tensor().device(), strategy->device(i).id());
    EXPECT_EQ(Host(each->component(i).leaf().tensor()), "[3 20]");
  }
  EXPECT_EQ(to(Value::OfString("GPU:1"))->leaf().tensor().device().ToString(), "GPU:1");
  EXPECT_TRUE(to(Value::OfString("CPU:0"))->leaf().tensor().device().is_cpu());
  const Ref<Value> copied =
      strategy->BroadcastTo(*VectorOf<float>({7}), *losses, options).value();
  EXPECT_EQ(AsDistributed(copied->leaf())->component(1).leaf().tensor().device().ToString(),
            "GPU:1");
  EXPECT_TRUE(Fails(strategy->ReduceTo(ReduceOp::kSum, *losses, *Value::OfString("GPU:9"), options)
                        .status(),
                    StatusCode::kInvalidArgument, {"no GPU:9"}));
  // A strategy on CPUs takes them, too: what it gives is on the host.
  EXPECT_EQ(Host(Mirrored(2)->Reduce(ReduceOp::kSum, *losses, std::nullopt, options).value()
                     ->leaf().tensor()),
            "[3 20]");
}

TEST_F(GpuStrategies, AnyCrossDeviceOpsReduceThere) {
  const Ref<Warnings> lines = MakeRef<Warnings>();
  ASSERT_TRUE(environment_->log().SetSink(lines).ok());
  const Ref<CrossDeviceOps> all[] = {
      MakeReductionToOneDevice(*devices_, "GPU:1", nullptr).value(),
      MakeReductionToOneDevice(*devices_, "", nullptr).value(),
      MakeHierarchicalCopyAllReduce(1).value(), MakeNcclAllReduce(2).value()};
  for (const Ref<CrossDeviceOps>& ops : all) {
    StrategyOptions options;
    options.cross_device_ops = ops;
    const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"}, options);
    const Ref<Variable> variable = Make(strategy, Tensor::Vector<float>({0}), Aggregation::kMean);
    const Ref<Value> sums = MustRun(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const auto number = static_cast<float>(replica.replica_id() + 1);
          const Ref<Tensor> own = There(*Tensor::Vector<float>({number}), *replica.device());
          TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *own, {}));
          return replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(own), {});
        }));
    const DistributedValue* const each = AsDistributed(sums->leaf());
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(each->component(i).leaf().tensor().device(), strategy->device(i).id());
      EXPECT_EQ(Host(each->component(i).leaf().tensor()), "[3]") << ops->Describe();
    }
    EXPECT_THAT(Copies(*variable), Each("[1.5]")) << ops->Describe();
    const Ref<Value> outside =
        strategy->Reduce(ReduceOp::kMean, *sums, std::nullopt, CollectiveOptions()).value();
    EXPECT_EQ(outside->leaf().tensor().ContentsToString(), "[3]");
    EXPECT_THAT(strategy->Explain(), HasSubstr("all_reduce SUM of float32[1]: 1 time"));
  }
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
  EXPECT_THAT(lines->warnings,
              ElementsAre(AllOf(HasSubstr("NcclAllReduce"),
                                HasSubstr("copies between devices and kernels"),
                                HasSubstr("goes through copies"))));
}

TEST_F(GpuStrategies, NcclReducesWhereItIsAskedFor) {
  setenv("TUTTI_NCCL_LIBRARY", TUTTI_GPU_NCCL, 1);
  Open(fake::Machine());
  const Ref<Warnings> lines = MakeRef<Warnings>();
  ASSERT_TRUE(environment_->log().SetSink(lines).ok());
  StrategyOptions options;
  options.cross_device_ops = MakeNcclAllReduce(2).value();
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"}, options);
  for (int step = 0; step < 3; ++step) {
    const Ref<Value> sums = MustRun(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const auto number = static_cast<float>(replica.replica_id() + step);
          const Ref<Tensor> own = There(*Tensor::Vector<float>({number, 1}), *replica.device());
          TUTTI_ASSIGN_OR_RETURN(
              const Ref<Value> sum,
              replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(own), {}));
          EXPECT_EQ(sum->leaf().tensor().device(), replica.device()->id());
          return Value::OfTensor(OnHost(sum->leaf().tensor()).value());
        }));
    EXPECT_THAT(Local(strategy, sums), Each(Format("[{} 2]", 2 * step + 1)));
  }
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
  EXPECT_THAT(lines->warnings, ElementsAre());
}

TEST_F(GpuStrategies, WithoutMemoryNothingIsLost) {
  // The k-th allocation of the step finds no memory; each step allocates less than 20 times.
  bool finished = false;
  int failed = 0;
  for (int32_t k = 1; k < 20; ++k) {
    fake::Machine machine;
    Open(machine);
    const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
    const Ref<Variable> variable =
        Make(strategy, Numbers(DType::kFloat32, 1000, 0), Aggregation::kSum);
    const std::vector<std::string> before = Copies(*variable);
    std::vector<Ref<Tensor>> own(2);
    for (size_t i = 0; i < 2; ++i) {
      own[i] = There(*Numbers(DType::kFloat32, 1000, 3), strategy->device(i));
    }
    FakeFunction<fake::FailAllocation>(fake::kFailAllocation)(k);
    const Ref<Function> step =
        ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const Ref<Tensor>& mine = own[replica.local_replica()];
          TUTTI_RETURN_IF_ERROR(
              replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(mine), {}).status());
          TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *mine, {}));
          return Value::None();
        });
    const Status status = RunStatus(strategy, step);
    FakeFunction<fake::FailAllocation>(fake::kFailAllocation)(0);
    if (status.ok()) {
      finished = true;
      break;
    }
    ++failed;
    EXPECT_TRUE(Fails(status, StatusCode::kResourceExhausted, {"bytes"}));
    EXPECT_EQ(Copies(*variable), before);
    MustRun(strategy, step);
    EXPECT_NE(Copies(*variable), before);
    EXPECT_EQ(Copies(*variable)[0], Copies(*variable)[1]);
  }
  EXPECT_TRUE(finished);
  EXPECT_GE(failed, 4);
}

TEST_F(GpuStrategies, WithoutKernelsTheHostComputes) {
  fake::Machine machine;
  machine.compute_major = 5;
  Open(machine);
  ASSERT_FALSE(HasKernels());
  const Ref<Strategy> strategy = On({"GPU:0", "GPU:1"});
  const Ref<Variable> variable = Make(strategy, Tensor::Vector<float>({10, 20}));
  const Ref<Value> sums =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const Ref<Tensor> own = There(*Tensor::Vector<float>({1, 2}), *replica.device());
                TUTTI_RETURN_IF_ERROR(variable->AssignSub(&replica, *own, {}));
                TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *own, {}));
                TUTTI_RETURN_IF_ERROR(variable->AssignSub(&replica, *own, {}));
                return replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(own), {});
              }));
  EXPECT_THAT(Copies(*variable), Each("[8 16]"));
  EXPECT_EQ(variable->copy(1).device().ToString(), "GPU:1");
  EXPECT_EQ(Host(AsDistributed(sums->leaf())->component(1).leaf().tensor()), "[2 4]");
}

TEST_F(GpuStrategies, WorkersReduceThroughTheHost) {
  {
    TestJob job(2, std::vector<int64_t>{2, 2});
    for (size_t w = 0; w < 2; ++w) job[w].devices = devices_;
    job.OnWorkers([&](TestWorker& worker) {
      worker.strategy = worker.Make(2).value();
      EXPECT_EQ(worker.strategy->device(1).short_name(), "GPU:1");
      const Ref<Variable> variable =
          worker.MakeVariable(Tensor::Vector<float>({1, 2}), Aggregation::kSum);
      EXPECT_EQ(variable->copy(1).device().ToString(), "GPU:1");
      const Ref<Value> sums =
          worker
              .Run(ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const auto number = static_cast<float>(replica.replica_id() + 1);
                const Ref<Tensor> own =
                    There(*Tensor::Vector<float>({number, 10}), *replica.device());
                TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *own, {}));
                return replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(own), {});
              }))
              .value();
      const DistributedValue* const each = AsDistributed(sums->leaf());
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(each->component(i).leaf().tensor().device(), worker.strategy->device(i).id());
        EXPECT_EQ(Host(each->component(i).leaf().tensor()), "[10 40]");
      }
      EXPECT_THAT(Copies(*variable), Each("[11 42]"));
      const Ref<Value> total =
          worker.strategy
              ->Reduce(ReduceOp::kMean, *sums, std::nullopt, CollectiveOptions(worker.Hang()))
              .value();
      EXPECT_EQ(total->leaf().tensor().ContentsToString(), "[10 40]");
      const Ref<Value> placed =
          worker.strategy->ReduceTo(ReduceOp::kSum, *sums, *sums, CollectiveOptions(worker.Hang()))
              .value();
      EXPECT_EQ(AsDistributed(placed->leaf())->component(1).leaf().tensor().device().ToString(),
                "GPU:1");
    });
  }
}

}  // namespace
}  // namespace tutti::gpu
