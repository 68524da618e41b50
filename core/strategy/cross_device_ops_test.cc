#include "core/strategy/cross_device_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/strategy/built_in_ops.h"
#include "core/strategy/strategy_test_fixture.h"
#include "core/strategy/variable.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Ops of a test: `reduce` of the replicas' tensors.
class OwnOps final : public CrossDeviceOps {
 public:
  using Body = std::function<Result<Ref<Value>>(const CrossDeviceCall&, const Reduction&)>;
  explicit OwnOps(Body body, bool calls_host = false)
      : body_(std::move(body)), calls_host_(calls_host) {}
  std::string Describe() const override { return "OwnOps"; }
  int calls() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }

 protected:
  bool calls_host() const override { return calls_host_; }

  Result<std::vector<Ref<Value>>> ReduceImplementation(
      const CrossDeviceCall& call, ReduceOp, bool,
      std::span<const Reduction> reductions) override {
    std::vector<Ref<Value>> results;
    for (const Reduction& reduction : reductions) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++calls_;
      }
      TUTTI_ASSIGN_OR_RETURN(Ref<Value> result, body_(call, reduction));
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  const Body body_;
  const bool calls_host_;
  mutable std::mutex mutex_;
  int calls_ = 0;
};

// The tensor of the last replica: what no fold of the library gives.
Result<Ref<Value>> LastOne(const CrossDeviceCall&, const Reduction& reduction) {
  return PlacedOn(reduction.tensors.back(), reduction.devices.size());
}

class CrossDeviceOpsTest : public StrategyTest {
 protected:
  Ref<Strategy> MirroredWith(Ref<CrossDeviceOps> ops, size_t replicas = 2) {
    std::vector<std::string> names;
    for (size_t i = 0; i < replicas; ++i) names.push_back("CPU:" + std::to_string(i));
    StrategyOptions options;
    options.cross_device_ops = std::move(ops);
    return Strategy::CreateMirrored(environment_, *devices_, names, options).value();
  }
  Ref<Value> PerReplica(const Ref<Strategy>& strategy, std::initializer_list<float> numbers) {
    std::vector<Ref<Value>> parts;
    for (const float number : numbers) parts.push_back(ScalarOf(number));
    return strategy->CreatePerReplica(parts).value();
  }
  std::vector<Ref<CrossDeviceOps>> All() {
    return {MakeAllReduce(), MakeReductionToOneDevice(*devices_, "", nullptr).value(),
            MakeReductionToOneDevice(*devices_, "CPU:1", nullptr).value(),
            MakeHierarchicalCopyAllReduce(1).value(), MakeHierarchicalCopyAllReduce(0).value(),
            MakeHierarchicalCopyAllReduce(2).value(), MakeNcclAllReduce(1).value()};
  }
  Ref<Value> Name(const char* device) { return Value::OfString(device); }
};

TEST_F(CrossDeviceOpsTest, ReduceGivesATensorOnOneDeviceAndAMirroredValueOnSeveral) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> value = PerReplica(strategy, {1, 2});
  for (const Ref<CrossDeviceOps>& ops : All()) {
    SCOPED_TRACE(ops->Describe());
    EXPECT_EQ(Text(ops->Reduce(*strategy, ReduceOp::kSum, *value, *Name("CPU:1"), {}).value()),
              "3");
    EXPECT_EQ(Text(ops->Reduce(*strategy, ReduceOp::kMean, *value, *value, {}).value()),
              "Mirrored:{0: 1.5, 1: 1.5}");
    EXPECT_EQ(Text(ops->Broadcast(*strategy, *ScalarOf(5.0f), *value, {}).value()),
              "Mirrored:{0: 5, 1: 5}");
    EXPECT_EQ(Text(ops->Broadcast(*strategy, *ScalarOf(5.0f), *Name("CPU:0"), {}).value()), "5");
  }
}

TEST_F(CrossDeviceOpsTest, ABatchGivesAResultForEachPairWhateverThePacks) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> a = PerReplica(strategy, {1, 2});
  const Ref<Value> parts[] = {VectorOf<float>({1, 2}), VectorOf<float>({3, 4})};
  const Ref<Value> b = strategy->CreatePerReplica(parts).value();
  const Ref<Value> integers[] = {VectorOf<int32_t>({1}), VectorOf<int32_t>({10})};
  const Ref<Value> c = strategy->CreatePerReplica(integers).value();
  const Ref<Value> pairs = Value::Tuple({Value::Tuple({a, a}), Value::Tuple({b, Name("CPU:0")}),
                                         Value::List({c, c})});
  for (const Ref<CrossDeviceOps>& ops : All()) {
    EXPECT_EQ(Text(ops->BatchReduce(*strategy, ReduceOp::kSum, *pairs, {}).value()),
              "(Mirrored:{0: 3, 1: 3}, [4 6], Mirrored:{0: [11], 1: [11]})")
        << ops->Describe();
  }
}

TEST_F(CrossDeviceOpsTest, AVariableIsADestinationAndIsNotUpdated) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Variable::Create(strategy, *Tensor::Scalar<float>(7), {}).value();
  const Ref<Value> where = Value::OfLeaf(Leaf(LeafKind::kVariable, variable));
  const Ref<Value> value = PerReplica(strategy, {1, 2});
  EXPECT_EQ(Text(MakeAllReduce()->Reduce(*strategy, ReduceOp::kSum, *value, *where, {}).value()),
            "Mirrored:{0: 3, 1: 3}");
  EXPECT_EQ(variable->Read(nullptr, {}).value()->ToString(), Tensor::Scalar<float>(7)->ToString());
  // And it can be what is reduced.
  EXPECT_EQ(Text(MakeAllReduce()->Reduce(*strategy, ReduceOp::kSum, *where, *where, {}).value()),
            "Mirrored:{0: 14, 1: 14}");
}

TEST_F(CrossDeviceOpsTest, OneTensorForAllReplicasHasAMeanAndNoSum) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<CrossDeviceOps> ops = MakeAllReduce();
  EXPECT_EQ(Text(ops->Reduce(*strategy, ReduceOp::kMean, *ScalarOf(4.0f), *Name("CPU:0"), {})
                     .value()),
            "4");
  EXPECT_TRUE(Fails(
      ops->Reduce(*strategy, ReduceOp::kSum, *ScalarOf(4.0f), *Name("CPU:0"), {}).status(),
      StatusCode::kInvalidArgument, {"one value for all 2 replicas"}));
}

TEST_F(CrossDeviceOpsTest, BadInputIsRefusedByName) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Strategy> other = Mirrored(3);
  const Ref<CrossDeviceOps> ops = MakeAllReduce();
  const Ref<Value> value = PerReplica(strategy, {1, 2});
  const Ref<Value> three = PerReplica(other, {1, 2, 3});
  const auto reduce = [&](const Ref<Value>& what, const Ref<Value>& where,
                          ReduceOp op = ReduceOp::kSum) {
    return ops->Reduce(*strategy, op, *what, *where, {}).status();
  };
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
  EXPECT_TRUE(Fails(reduce(three, Name("CPU:0")), kInvalid, {"3 components", "2 replicas"}));
  EXPECT_TRUE(Fails(reduce(value, three), kInvalid, {"destinations", "3 components"}));
  EXPECT_TRUE(Fails(reduce(value, Name("CPU:5000")), kInvalid, {"CPU:5000"}));
  EXPECT_TRUE(Fails(reduce(value, Name("nonsense")), kInvalid, {"nonsense"}));
  EXPECT_TRUE(Fails(reduce(value, Value::None()), kInvalid, {"destinations", "none"}));
  EXPECT_TRUE(Fails(reduce(value, Value::Tuple({value, value})), kInvalid, {"destinations"}));
  EXPECT_TRUE(Fails(reduce(Value::Tuple({value}), value), kInvalid, {"one tensor for each"}));
  EXPECT_TRUE(Fails(strategy->ReduceTo(ReduceOp::kMax, *value, *value, {}).status(), kInvalid,
                    {"SUM or MEAN", "MAX"}));
  EXPECT_TRUE(Fails(reduce(Value::OfTensor(Tensor::Scalar<float>(1)), value, ReduceOp::kProd),
                    kInvalid, {"its PROD is not defined"}));
  const Ref<Variable> foreign = Variable::Create(other, *Tensor::Scalar<float>(7), {}).value();
  const Ref<Value> leaf = Value::OfLeaf(Leaf(LeafKind::kVariable, foreign));
  EXPECT_TRUE(Fails(reduce(value, leaf), kInvalid, {"belongs to strategy"}));
  EXPECT_TRUE(Fails(reduce(leaf, value), kInvalid, {"belongs to strategy"}));
  const Ref<Value> uneven[] = {VectorOf<float>({1}), VectorOf<float>({1, 2})};
  EXPECT_TRUE(Fails(reduce(strategy->CreatePerReplica(uneven).value(), value), kInvalid,
                    {"[1]", "[2]"}));
  const Ref<Value> mixed[] = {ScalarOf(1.0f), ScalarOf<int64_t>(1)};
  EXPECT_TRUE(Fails(reduce(strategy->CreatePerReplica(mixed).value(), value), kInvalid,
                    {"float32", "int64"}));
  for (const Ref<Value>& pairs : {value, Value::Tuple({value, value}),
                                  Value::Tuple({Value::Tuple({value})})}) {
    EXPECT_TRUE(Fails(ops->BatchReduce(*strategy, ReduceOp::kSum, *pairs, {}).status(), kInvalid,
                      {"pairs (value, destinations)"}));
  }
}

TEST_F(CrossDeviceOpsTest, NegativePacksAndUnknownDevicesAreRefusedWhenOpsAreMade) {
  EXPECT_TRUE(Fails(MakeHierarchicalCopyAllReduce(-1).status(), StatusCode::kInvalidArgument,
                    {"num_packs is -1"}));
  EXPECT_TRUE(Fails(MakeNcclAllReduce(-2).status(), StatusCode::kInvalidArgument,
                    {"num_packs is -2"}));
  EXPECT_TRUE(Fails(MakeReductionToOneDevice(*devices_, "CPU:4000", nullptr).status(),
                    StatusCode::kNotFound, {"ReductionToOneDevice"}));
}

TEST_F(CrossDeviceOpsTest, NcclWithoutItsPluginFallsBackWithOneWarning) {
  class Lines final : public LogSink {
   public:
    void Write(const LogRecord& record) override {
      if (record.level == LogLevel::kWarning) warnings.emplace_back(record.message);
    }
    std::vector<std::string> warnings;
  };
  const Ref<Lines> lines = MakeRef<Lines>();
  ASSERT_TRUE(environment_->log().SetSink(lines).ok());
  const Ref<Strategy> strategy = MirroredWith(MakeNcclAllReduce(1).value());
  EXPECT_THAT(lines->warnings, testing::IsEmpty());
  const Ref<Value> value = PerReplica(strategy, {1, 2});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Text(strategy->Reduce(ReduceOp::kSum, *value, std::nullopt, {}).value()), "3");
  }
  EXPECT_THAT(lines->warnings, ElementsAre(testing::AllOf(HasSubstr("NcclAllReduce"),
                                                          HasSubstr("NCCL reduces between GPUs"))));
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
}

TEST_F(CrossDeviceOpsTest, AnAccumulationFunctionTakesTheTensorsOfAllReplicas) {
  const Ref<Function> larger = Fn([](Context& context, const Value& in) -> Result<Ref<Value>> {
    EXPECT_EQ(context.callback_class(), CallbackClass::kUpdate);
    EXPECT_EQ(in.num_leaves(), 2u);
    return in.Child(1);
  });
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> value = PerReplica(strategy, {1, 6});
  const Ref<CrossDeviceOps> ops = MakeReductionToOneDevice(*devices_, "CPU:0", larger).value();
  EXPECT_EQ(Text(ops->Reduce(*strategy, ReduceOp::kSum, *value, *value, {}).value()),
            "Mirrored:{0: 6, 1: 6}");
  EXPECT_EQ(Text(ops->Reduce(*strategy, ReduceOp::kMean, *value, *Name("CPU:0"), {}).value()),
            "3");
  const Ref<Function> wrong =
      Fn([](Context&, const Value&) -> Result<Ref<Value>> { return VectorOf<float>({1, 2}); });
  EXPECT_TRUE(Fails(MakeReductionToOneDevice(*devices_, "", wrong)
                        .value()
                        ->Reduce(*strategy, ReduceOp::kSum, *value, *value, {})
                        .status(),
                    StatusCode::kInvalidArgument, {"accumulation_fn", "float32[2]"}));
}

TEST_F(CrossDeviceOpsTest, WhatAStrategyIsGivenReducesEverywhere) {
  const auto ops = MakeRef<OwnOps>(&LastOne);
  const Ref<Strategy> strategy = MirroredWith(ops);
  const Ref<Value> value = PerReplica(strategy, {1, 2});
  EXPECT_EQ(Text(strategy->Reduce(ReduceOp::kSum, *value, std::nullopt, {}).value()), "2");
  const Ref<Value> rows[] = {VectorOf<float>({1, 2}), VectorOf<float>({3, 4, 5})};
  const Ref<Value> batch = strategy->CreatePerReplica(rows).value();
  EXPECT_EQ(Text(strategy->Reduce(ReduceOp::kSum, *batch, 0, {}).value()), "12");
  EXPECT_EQ(Text(strategy->ReduceTo(ReduceOp::kSum, *value, *value, {}).value()),
            "Mirrored:{0: 2, 1: 2}");
  EXPECT_EQ(ops->calls(), 3);

  // all_reduce of replicas, and what they write into a variable.
  VariableOptions options;
  options.aggregation = Aggregation::kSum;
  options.name = "w";
  const Ref<Variable> variable =
      Variable::Create(strategy, *Tensor::Scalar<float>(0), options).value();
  const Ref<Value> sums =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const Ref<Value> own = ScalarOf(static_cast<float>(replica.replica_id() + 1));
                TUTTI_RETURN_IF_ERROR(
                    variable->AssignAdd(&replica, own->leaf().tensor(), CallOptions()));
                TUTTI_RETURN_IF_ERROR(
                    replica.AllReduce(ReduceOp::kMax, *own, CollectiveOptions()).status());
                return replica.AllReduce(ReduceOp::kSum, *own, CollectiveOptions());
              }));
  EXPECT_THAT(Local(strategy, sums), ElementsAre("2", "2"));
  EXPECT_EQ(ops->calls(), 6);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(variable->copy(i).ToString(), Tensor::Scalar<float>(2)->ToString());
  }
  const std::string told = strategy->Explain();
  EXPECT_THAT(told, HasSubstr("OwnOps, as given"));
  EXPECT_THAT(told, HasSubstr("reduce SUM of float32[]: 2 times"));
  EXPECT_THAT(told, HasSubstr("all_reduce SUM of float32[]: 1 time"));
  EXPECT_THAT(told, HasSubstr("all_reduce MAX of float32[]: 1 time"));
  EXPECT_THAT(told, HasSubstr("gathers, of indexed slices and texts too: by the library"));
  EXPECT_THAT(told, HasSubstr("assign_add of variable 'w' SUM of float32[]: 1 time"));
  EXPECT_THAT(Mirrored(2)->Explain(), HasSubstr("AllReduce, for all tensors"));
}

TEST_F(CrossDeviceOpsTest, AReadThatAggregatesGoesByTheGivenOps) {
  const auto ops = MakeRef<OwnOps>(&LastOne);
  const Ref<Strategy> strategy = MirroredWith(ops);
  VariableOptions options;
  options.aggregation = Aggregation::kSum;
  options.synchronization = Synchronization::kOnRead;
  options.name = "r";
  const Ref<Variable> variable =
      Variable::Create(strategy, *Tensor::Scalar<float>(0), options).value();
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            TUTTI_RETURN_IF_ERROR(variable->Assign(
                &replica, *Tensor::Scalar<float>(static_cast<float>(replica.replica_id() + 4)),
                CallOptions()));
            return Value::None();
          }));
  EXPECT_EQ(variable->Read(nullptr, {}).value()->ToString(), Tensor::Scalar<float>(5)->ToString());
  EXPECT_THAT(strategy->Explain(), HasSubstr("read of variable 'r' SUM of float32[]: 1 time"));
}

TEST_F(CrossDeviceOpsTest, ReplicasGetTheSameBitsByAllTheLibrarysOps) {
  for (const Ref<CrossDeviceOps>& ops : All()) {
    const Ref<Strategy> strategy = MirroredWith(ops, 3);
    const Ref<Value> sums = MustRun(
        strategy, ReplicaFn([](ReplicaContext& replica, const Value&) {
          const auto number = static_cast<float>(replica.replica_id());
          return replica.AllReduce(
              ReduceOp::kSum,
              *Value::Tuple({ScalarOf(number), Value::OfTensor(Tensor::Vector<float>(
                                                   {number, 2 * number}))}),
              CollectiveOptions());
        }));
    EXPECT_THAT(Local(strategy, sums), testing::Each("(3, [3 6])")) << ops->Describe();
    const Ref<Value> others = MustRun(
        strategy, ReplicaFn([](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const Ref<Value> number = ScalarOf(replica.replica_id() + 1);
          std::vector<Ref<Value>> results;
          for (const ReduceOp op :
               {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd, ReduceOp::kBitOr}) {
            TUTTI_ASSIGN_OR_RETURN(Ref<Value> one,
                                   replica.AllReduce(op, *number, CollectiveOptions()));
            results.push_back(std::move(one));
          }
          return Value::Tuple(results);
        }));
    EXPECT_THAT(Local(strategy, others), testing::Each("(1, 3, 6, 3)")) << ops->Describe();
    EXPECT_THAT(strategy->Explain(), HasSubstr("all_reduce PROD of int64[]: 1 time"));
  }
}

TEST_F(CrossDeviceOpsTest, OpsThatFailEndTheStepAndLeaveNothing) {
  const auto refuse = [](const CrossDeviceCall&, const Reduction&) -> Result<Ref<Value>> {
    return DataLoss("the ops have had enough");
  };
  const Ref<Strategy> strategy = MirroredWith(MakeRef<OwnOps>(refuse));
  const auto sum = [](ReplicaContext& replica, const Value&) {
    return replica.AllReduce(ReduceOp::kSum, *ScalarOf(1.0f), CollectiveOptions());
  };
  EXPECT_TRUE(Fails(RunStatus(strategy, ReplicaFn(sum)), StatusCode::kDataLoss, {"had enough"}));
  EXPECT_TRUE(Fails(
      strategy->Reduce(ReduceOp::kSum, *PerReplica(strategy, {1, 2}), std::nullopt, {}).status(),
      StatusCode::kDataLoss, {"had enough"}));
  // The next run is as good as new.
  const Ref<Value> ids = MustRun(strategy, ReplicaFn([](ReplicaContext& replica, const Value&) {
                                   return Result<Ref<Value>>(ScalarOf(replica.replica_id()));
                                 }));
  EXPECT_THAT(Local(strategy, ids), ElementsAre("0", "1"));
}

TEST_F(CrossDeviceOpsTest, OpsThatGiveAnotherShapeOrNoTensorAreNamed) {
  const Ref<Value> wrong[] = {VectorOf<float>({1, 2}), ScalarOf<int64_t>(1), Value::None(),
                              Value::Tuple({ScalarOf(1.0f)})};
  for (const Ref<Value>& result : wrong) {
    const auto give = [&](const CrossDeviceCall&, const Reduction&) -> Result<Ref<Value>> {
      return result;
    };
    const Ref<Strategy> strategy = MirroredWith(MakeRef<OwnOps>(give));
    const Ref<Value> value = PerReplica(strategy, {1, 2});
    EXPECT_TRUE(Fails(strategy->ReduceTo(ReduceOp::kSum, *value, *value, {}).status(),
                      StatusCode::kInvalidArgument, {"OwnOps gave", "expected float32[]"}));
  }
}

TEST_F(CrossDeviceOpsTest, OpsThatComeBackAfterTheDeadlineHaveFailed) {
  const auto late = [&](const CrossDeviceCall& call, const Reduction& reduction) {
    while (call.options.deadline.RemainingNs(environment_->clock()) > 0) {
    }
    return LastOne(call, reduction);
  };
  const Ref<Strategy> strategy = MirroredWith(MakeRef<OwnOps>(late));
  CollectiveOptions options(CallOptions::WithTimeout(environment_->clock(), 5'000'000));
  EXPECT_TRUE(Fails(strategy
                        ->Reduce(ReduceOp::kSum, *PerReplica(strategy, {1, 2}), std::nullopt,
                                 options)
                        .status(),
                    StatusCode::kDeadlineExceeded, {"OwnOps"}));
}

TEST_F(CrossDeviceOpsTest, OpsThatDoNotComeBackFreeTheirCallersAtTheDeadline) {
  Gate gate;
  std::atomic<int> entered{0};
  std::atomic<int> came_back{0};
  const auto never = [&](const CrossDeviceCall& call,
                         const Reduction& reduction) -> Result<Ref<Value>> {
    UpdateContext context(call.strategy, UpdateContext::kNoCopy, nullptr, call.options);
    ++entered;
    gate.Wait();
    EXPECT_TRUE(context.cancelled());
    EXPECT_TRUE(call.options.cancellation->cancelled());
    ++came_back;
    return LastOne(call, reduction);
  };
  const auto ops = MakeRef<OwnOps>(never, /*calls_host=*/true);
  const Ref<Strategy> strategy = MirroredWith(ops);
  const CollectiveOptions soon(CallOptions::WithTimeout(environment_->clock(), 20'000'000));
  const Ref<Value> value = PerReplica(strategy, {1, 2});
  EXPECT_TRUE(Fails(strategy->ReduceTo(ReduceOp::kSum, *value, *value, soon).status(),
                    StatusCode::kDeadlineExceeded, {"reduce_to: OwnOps"}));
  // In replicas, by the time of one replica's call, of the run, and in a write of a variable. Where
  // the replicas have not met by then, the message is about that.
  const auto in_time = [&](int64_t wait_ns) {
    return CollectiveOptions(CallOptions::WithTimeout(environment_->clock(), wait_ns));
  };
  const auto ends_in = [&](const char* name, const std::function<Status(int64_t)>& call) {
    Status status;
    for (int64_t wait_ns = 20'000'000; wait_ns < kHangNs; wait_ns *= 2) {
      status = call(wait_ns);
      if (status.message().find(name) != std::string_view::npos) break;
    }
    EXPECT_TRUE(Fails(status, StatusCode::kDeadlineExceeded, {name}));
  };
  ends_in("all_reduce: OwnOps", [&](int64_t wait_ns) {
    return RunStatus(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
                       return replica.AllReduce(
                           ReduceOp::kMax, *ScalarOf(1.0f),
                           replica.replica_id() == 1 ? in_time(wait_ns) : CollectiveOptions());
                     }));
  });
  VariableOptions options;
  options.aggregation = Aggregation::kSum;
  options.name = "w";
  const Ref<Variable> variable =
      Variable::Create(strategy, *Tensor::Scalar<float>(3), options).value();
  ends_in("assign_add of variable 'w': OwnOps", [&](int64_t wait_ns) {
    const Ref<Function> write =
        ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          TUTTI_RETURN_IF_ERROR(
              variable->AssignAdd(&replica, *Tensor::Scalar<float>(1), CallOptions()));
          return Value::None();
        });
    return strategy->Run(*write, nullptr, in_time(wait_ns)).status();
  });
  // Nobody is held any more, nothing was written, and the strategy may go before its ops do.
  EXPECT_EQ(variable->copy(0).ToString(), Tensor::Scalar<float>(3)->ToString());
  EXPECT_EQ(came_back, 0);
  const Status closed = strategy->Close(WithinReason());
  EXPECT_TRUE(closed.ok()) << closed.ToString();
  // Shutdown waits for them, as long as it may.
  EXPECT_TRUE(Fails(environment_->Shutdown(in_time(20'000'000)), StatusCode::kDeadlineExceeded,
                    {"tutti-ops"}));
  gate.Open();
  const Status shut = environment_->Shutdown(WithinReason());
  EXPECT_TRUE(shut.ok()) << shut.ToString();
  EXPECT_EQ(came_back, entered);
  EXPECT_GE(came_back, 1);
}

TEST_F(CrossDeviceOpsTest, WhatOpsThrowOnAnotherThreadIsTheirCallers) {
  const auto throwing = [](const CrossDeviceCall&, const Reduction&) -> Result<Ref<Value>> {
    throw std::runtime_error("no ops today");
  };
  const Ref<Strategy> strategy = MirroredWith(MakeRef<OwnOps>(throwing, /*calls_host=*/true));
  const Ref<Value> value = PerReplica(strategy, {1, 2});
  EXPECT_TRUE(Fails(strategy
                        ->ReduceTo(ReduceOp::kSum, *value, *value,
                                   CollectiveOptions(WithinReason()))
                        .status(),
                    StatusCode::kInternal, {"reduce_to: OwnOps", "no ops today"}));
}

TEST_F(CrossDeviceOpsTest, RunAndCollectivesAreRefusedInsideOfOps) {
  Ref<Strategy> strategy;
  std::vector<Status> refused;
  const auto nested = [&](const CrossDeviceCall& call, const Reduction& reduction) {
    const Ref<Function> fn = Fn([](Context&, const Value&) { return ScalarOf(1.0f); });
    refused.push_back(call.strategy.Run(*fn, nullptr, {}).status());
    refused.push_back(
        call.strategy.Reduce(ReduceOp::kSum, *reduction.value, std::nullopt, {}).status());
    refused.push_back(
        Variable::Create(Ref<Strategy>::Retain(&call.strategy), *reduction.tensors[0], {})
            .status());
    // Other ops are no collective.
    return MakeAllReduce()->Reduce(call.strategy, ReduceOp::kSum, *reduction.value,
                                   *reduction.destinations, {});
  };
  strategy = MirroredWith(MakeRef<OwnOps>(nested));
  const Ref<Value> value = PerReplica(strategy, {1, 2});
  EXPECT_EQ(Text(strategy->ReduceTo(ReduceOp::kSum, *value, *value, {}).value()),
            "Mirrored:{0: 3, 1: 3}");
  ASSERT_EQ(refused.size(), 3u);
  for (const Status& status : refused) {
    EXPECT_TRUE(Fails(status, StatusCode::kFailedPrecondition, {"cross-device op"}));
  }
  // And ops are none of a replica's.
  EXPECT_TRUE(Fails(RunStatus(strategy, ReplicaFn([&](ReplicaContext&, const Value&) {
                                return MakeAllReduce()->Reduce(*strategy, ReduceOp::kSum, *value,
                                                               *value, {});
                              })),
                    StatusCode::kFailedPrecondition, {"reduce", "a replica callback"}));
}

}  // namespace
}  // namespace tutti
