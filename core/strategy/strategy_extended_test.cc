#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/strategy/strategy_test_fixture.h"
#include "core/strategy/variable.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ExtendedTest : public StrategyTest {
 protected:
  Ref<Strategy> Central(std::vector<std::string> compute, std::string_view parameter = {}) {
    return Strategy::CreateCentralStorage(environment_, *devices_, compute, parameter).value();
  }
  Ref<Variable> Make(const Ref<Strategy>& strategy, float number,
                     Aggregation aggregation = Aggregation::kNone,
                     Synchronization synchronization = Synchronization::kAuto) {
    VariableOptions options;
    options.name = "v";
    options.aggregation = aggregation;
    options.synchronization = synchronization;
    return Variable::Create(strategy, *Tensor::Scalar<float>(number), options).value();
  }
  static std::vector<std::string> Copies(const Ref<Variable>& variable) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < variable->num_copies(); ++i) {
      texts.push_back(Value::OfTensor(variable->copy_ref(i))->ToString());
    }
    return texts;
  }
  // Adds the argument behind the variable, and gives the number of the copy.
  static Ref<Function> Adding() {
    return Fn([](Context& context, const Value& in) -> Result<Ref<Value>> {
      EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kUpdate);
      auto* variable = in.leaf(0).object_as<Variable>();
      TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&context, in.leaf(1).tensor(), CallOptions()));
      return ScalarOf(AsUpdateContext(&context)->copy());
    });
  }
};

TEST_F(ExtendedTest, DevicesHaveTheirNamesInFull) {
  const Ref<Strategy> strategy = Mirrored(2);
  EXPECT_EQ(*strategy->full_worker_device(1), "/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(*strategy->full_parameter_device(0), "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(strategy->full_worker_device(2), nullptr);
  EXPECT_EQ(strategy->full_parameter_device(2), nullptr);
  EXPECT_EQ(strategy->device(1).short_name(), "CPU:1");
}

TEST_F(ExtendedTest, ReduceToPlacesTheResult) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> parts[] = {ScalarOf(1.0f), ScalarOf(2.0f)};
  const Ref<Value> value = strategy->CreatePerReplica(parts).value();
  EXPECT_EQ(Text(strategy->ReduceTo(ReduceOp::kSum, *value, *value, {}).value()),
            "Mirrored:{0: 3, 1: 3}");
  const Ref<Value> there = Value::OfString("CPU:1");
  EXPECT_EQ(Text(strategy->ReduceTo(ReduceOp::kMean, *value, *there, {}).value()), "1.5");
  const Ref<Value> pairs = Value::Tuple(
      {Value::Tuple({value, value}), Value::Tuple({value, Value::OfString("CPU:0")})});
  EXPECT_EQ(Text(strategy->BatchReduceTo(ReduceOp::kSum, *pairs, {}).value()),
            "(Mirrored:{0: 3, 1: 3}, 3)");
  const Ref<Value> copies = strategy->BroadcastTo(*ScalarOf(5.0f), *value, {}).value();
  EXPECT_EQ(Text(copies), "Mirrored:{0: 5, 1: 5}");
  // Mirrored values are distributed ones: run gives each replica its own, here of one tensor.
  const Ref<Value> back = MustRun(
      strategy, ReplicaFn([](ReplicaContext&, const Value& in) { return in.At(0); }),
      Value::Tuple({copies}));
  EXPECT_THAT(Local(strategy, back), ElementsAre("5"));
}

TEST_F(ExtendedTest, UpdateCallsTheFunctionOnEachDevice) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable = Make(strategy, 1);
  const Ref<Value> parts[] = {ScalarOf(10.0f), ScalarOf(20.0f)};
  const Ref<Value> value = strategy->CreatePerReplica(parts).value();
  const Ref<Value> ids =
      strategy->Update(*variable, *Adding(), Value::Tuple({value}).get(), true, {}).value();
  EXPECT_EQ(Text(ids), "PerReplica:{0: 0, 1: 1}");  // an argument differs
  EXPECT_THAT(Copies(variable), ElementsAre("11", "21"));
  const Ref<Value> again =
      strategy->Update(*variable, *Adding(), ScalarOf(1.0f).get(), true, {}).value();
  EXPECT_EQ(Text(again), "Mirrored:{0: 0, 1: 1}");
  EXPECT_EQ(Text(strategy->Update(*variable, *Adding(), ScalarOf(1.0f).get(), false, {}).value()),
            "(0, 1)");
  EXPECT_THAT(Copies(variable), ElementsAre("13", "23"));
}

TEST_F(ExtendedTest, ReadsInAnUpdateAreThoseOfTheCopyThere) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> local = Make(strategy, 0, Aggregation::kSum, Synchronization::kOnRead);
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            TUTTI_RETURN_IF_ERROR(local->Assign(
                &replica, *Tensor::Scalar<float>(static_cast<float>(replica.replica_id() + 1)),
                CallOptions()));
            return Value::None();
          }));
  const Ref<Function> read = Fn([](Context& context, const Value& in) -> Result<Ref<Value>> {
    auto* variable = in.leaf(0).object_as<Variable>();
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> own, variable->Read(&context, CallOptions()));
    return Value::OfTensor(std::move(own));
  });
  EXPECT_EQ(Text(strategy->Update(*local, *read, nullptr, false, {}).value()), "(1, 2)");
}

TEST_F(ExtendedTest, UpdateInAMergeCallIsTheOptimizersWay) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable = Make(strategy, 0);
  const Ref<Function> merge = Fn([&](Context&, const Value& in) -> Result<Ref<Value>> {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> sum,
                           strategy->ReduceTo(ReduceOp::kSum, *in.Child(0), *in.Child(0), {}));
    return strategy->Update(*variable, *Adding(), Value::Tuple({sum}).get(), true, {});
  });
  static const char identity = 0;
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
            const Ref<Value> own = ScalarOf(static_cast<float>(replica.replica_id() + 1));
            return replica.MergeCall(*merge, &identity, Value::Tuple({own}).get(), CallOptions());
          }));
  EXPECT_THAT(Copies(variable), ElementsAre("3", "3"));
}

TEST_F(ExtendedTest, RunAndCollectivesAreRefusedInAnUpdate) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable = Make(strategy, 0);
  const std::vector<Ref<Communicator>> ranks =
      Communicator::CreateLocal(environment_.get(), 1).value();
  int refused = 0;
  const Ref<Function> nested = Fn([&](Context&, const Value&) -> Result<Ref<Value>> {
    const Ref<Function> fn = Fn([](Context&, const Value&) { return ScalarOf(1.0f); });
    const Ref<Tensor> tensor = Tensor::Scalar<float>(1);
    for (const Status& status :
         {strategy->Run(*fn, nullptr, {}).status(),
          strategy->Update(*variable, *fn, nullptr, true, {}).status(),
          strategy->ReduceTo(ReduceOp::kMean, *ScalarOf(1.0f), *Value::OfString("CPU:0"), {})
              .status(),
          ranks[0]->Barrier(CollectiveOptions()), variable->Assign(nullptr, *tensor, {})}) {
      EXPECT_TRUE(Fails(status, StatusCode::kFailedPrecondition, {"an update function"}));
      ++refused;
    }
    return Value::None();
  });
  EXPECT_TRUE(strategy->Update(*variable, *nested, nullptr, true, {}).ok());
  EXPECT_EQ(refused, 10);
  EXPECT_TRUE(Fails(RunStatus(strategy, ReplicaFn([&](ReplicaContext&, const Value&) {
                                return strategy->Update(*variable, *nested, nullptr, true, {});
                              })),
                    StatusCode::kFailedPrecondition, {"update", "a replica callback"}));
}

TEST_F(ExtendedTest, TheFirstErrorEndsAnUpdateAndNamesTheDevice) {
  const Ref<Strategy> strategy = Mirrored(3);
  const Ref<Variable> variable = Make(strategy, 0);
  int calls = 0;
  const Ref<Function> fails = Fn([&](Context& context, const Value&) -> Result<Ref<Value>> {
    ++calls;
    if (AsUpdateContext(&context)->copy() == 1) return DataLoss("no update here");
    return Value::None();
  });
  const Status status = strategy->Update(*variable, *fails, nullptr, true, {}).status();
  EXPECT_TRUE(Fails(status, StatusCode::kDataLoss, {"no update here"}));
  ASSERT_NE(status.FindDetail("device"), nullptr);
  EXPECT_EQ(calls, 2);
}

TEST_F(ExtendedTest, AVariableOfAnotherStrategyIsRefused) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> foreign = Make(Mirrored(2), 0);
  EXPECT_TRUE(Fails(strategy->Update(*foreign, *Adding(), nullptr, true, {}).status(),
                    StatusCode::kInvalidArgument, {"update", "belongs to strategy"}));
  const Ref<Variable> own = Make(strategy, 0);
  const Ref<Function> writes_foreign =
      Fn([&](Context& context, const Value&) -> Result<Ref<Value>> {
        TUTTI_RETURN_IF_ERROR(
            foreign->Assign(&context, *Tensor::Scalar<float>(1), CallOptions()));
        return Value::None();
      });
  EXPECT_TRUE(Fails(strategy->Update(*own, *writes_foreign, nullptr, true, {}).status(),
                    StatusCode::kFailedPrecondition, {"belongs to strategy"}));
}

TEST_F(ExtendedTest, UpdateNonSlotGoesToDestinationsAndToNames) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable = Make(strategy, 0);
  const Ref<Function> device = Fn([](Context& context, const Value&) -> Result<Ref<Value>> {
    return Value::OfString(context.device_name());
  });
  const Ref<Value> leaf = Value::OfLeaf(Leaf(LeafKind::kVariable, variable));
  EXPECT_EQ(Text(strategy->UpdateNonSlot(*leaf, *device, nullptr, false, {}).value()),
            "(\"CPU:0\", \"CPU:1\")");
  const Ref<Value> names = Value::Tuple({Value::OfString(*strategy->full_parameter_device(1))});
  EXPECT_EQ(Text(strategy->UpdateNonSlot(*names, *device, nullptr, true, {}).value()),
            "\"CPU:1\"");
  EXPECT_TRUE(
      Fails(strategy->UpdateNonSlot(*Value::Tuple({}), *device, nullptr, true, {}).status(),
            StatusCode::kInvalidArgument, {"names no device"}));
}

// ---- Central storage. ----

TEST_F(ExtendedTest, ACentralVariableHasOneCopyThatIsUpdatedOnce) {
  const Ref<Strategy> strategy = Central({"CPU:0", "CPU:1"}, "CPU:2");
  EXPECT_STREQ(strategy->type_name(), "CentralStorageStrategy");
  EXPECT_EQ(strategy->num_replicas_in_sync(), 2);
  EXPECT_EQ(*strategy->full_parameter_device(0), "/job:localhost/replica:0/task:0/device:CPU:2");
  EXPECT_EQ(strategy->full_parameter_device(1), nullptr);
  const Ref<Variable> variable = Make(strategy, 1, Aggregation::kSum);
  ASSERT_EQ(variable->num_copies(), 1u);
  const Ref<Value> seen =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                TUTTI_RETURN_IF_ERROR(variable->AssignAdd(
                    &replica, *Tensor::Scalar<float>(static_cast<float>(replica.replica_id() + 1)),
                    CallOptions()));
                TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> now, variable->Read(&replica, CallOptions()));
                return Value::OfTensor(std::move(now));
              }));
  EXPECT_THAT(Local(strategy, seen), ElementsAre("4", "4"));
  EXPECT_THAT(Copies(variable), ElementsAre("4"));
  EXPECT_THAT(variable->ToString(), HasSubstr("<Variable 'v' "));
  EXPECT_THAT(variable->ToString(), testing::Not(HasSubstr("Mirrored")));
  const Ref<Value> leaf = Value::OfLeaf(Leaf(LeafKind::kVariable, variable));
  EXPECT_THAT(Local(strategy, leaf), ElementsAre("4"));
  EXPECT_EQ(Text(strategy->Reduce(ReduceOp::kMean, *leaf, std::nullopt, {}).value()), "4");
  EXPECT_TRUE(Fails(strategy->Reduce(ReduceOp::kSum, *leaf, std::nullopt, {}).status(),
                    StatusCode::kInvalidArgument, {"one value for all 2 replicas"}));
}

TEST_F(ExtendedTest, ACentralVariableIsUpdatedOnItsDeviceAlone) {
  const Ref<Strategy> strategy = Central({"CPU:0", "CPU:1"});
  const Ref<Variable> variable = Make(strategy, 1);
  EXPECT_EQ(Text(strategy->Update(*variable, *Adding(), ScalarOf(2.0f).get(), true, {}).value()),
            "0");
  EXPECT_THAT(Copies(variable), ElementsAre("3"));
  const Ref<Value> parts[] = {ScalarOf(1.0f), ScalarOf(2.0f)};
  const Ref<Value> value = strategy->CreatePerReplica(parts).value();
  EXPECT_TRUE(Fails(strategy->Update(*variable, *Adding(), value.get(), true, {}).status(),
                    StatusCode::kInvalidArgument, {"there is one device, CPU:0"}));
  const Ref<Value> leaf = Value::OfLeaf(Leaf(LeafKind::kVariable, variable));
  EXPECT_EQ(Text(strategy->ReduceTo(ReduceOp::kSum, *value, *leaf, {}).value()), "3");
}

TEST_F(ExtendedTest, ACentralVariableThatIsOnReadHasACopyPerReplica) {
  const Ref<Strategy> strategy = Central({"CPU:0", "CPU:1"});
  const Ref<Variable> variable = Make(strategy, 0, Aggregation::kSum, Synchronization::kOnRead);
  EXPECT_EQ(variable->num_copies(), 2u);
}

TEST_F(ExtendedTest, CentralStorageWithoutReplicationIsPlain) {
  const Ref<Strategy> strategy = Central({});
  EXPECT_EQ(strategy->num_replicas_in_sync(), 1);
  const Ref<Variable> variable = Make(strategy, 1);
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            TUTTI_RETURN_IF_ERROR(
                variable->AssignAdd(&replica, *Tensor::Scalar<float>(1), CallOptions()));
            return Value::None();
          }));
  EXPECT_THAT(Copies(variable), ElementsAre("2"));
  EXPECT_TRUE(Fails(
      Strategy::CreateCentralStorage(environment_, *devices_, {}, "CPU:3000").status(),
      StatusCode::kInvalidArgument, {"parameter device", "CPU:3000"}));
}

}  // namespace
}  // namespace tutti
