// Making strategies, and what they do with values outside of runs.

#include "core/strategy/strategy.h"

#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;

class ValuesTest : public StrategyTest {
 protected:
  Result<Ref<Value>> Reduce(const Ref<Strategy>& strategy, ReduceOp op, const Ref<Value>& value,
                            std::optional<int64_t> axis = std::nullopt) {
    return strategy->Reduce(op, *value, axis, WithinReason());
  }
  static Ref<Value> PerReplica(const Ref<Strategy>& strategy, std::vector<Ref<Value>> components) {
    return strategy->CreatePerReplica(components).value();
  }
  static Ref<Function> FromId() {
    return Fn([](Context& context, const Value& in) -> Result<Ref<Value>> {
      EXPECT_EQ(context.callback_class(), CallbackClass::kCrossReplica);
      EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kCrossReplica);
      return in.Find("replica_id_in_sync_group");
    });
  }
};

using CreateStrategyTest = StrategyTest;

TEST_F(CreateStrategyTest, AMirroredStrategyHasAReplicaPerDevice) {
  const std::string names[] = {"CPU:1", "/device:CPU:0", "cpu:2"};
  const Ref<Strategy> strategy =
      Strategy::CreateMirrored(environment_, *devices_, names).value();
  EXPECT_EQ(strategy->num_replicas_in_sync(), 3);
  EXPECT_EQ(strategy->num_local_replicas(), 3u);
  EXPECT_EQ(strategy->device(0).name(), "/device:CPU:1");
  EXPECT_EQ(strategy->device(1).name(), "/device:CPU:0");
  EXPECT_STREQ(strategy->type_name(), "MirroredStrategy");
}

TEST_F(CreateStrategyTest, WithoutDevicesAMirroredStrategyRunsOnTheCpu) {
  const Ref<Strategy> strategy = Strategy::CreateMirrored(environment_, *devices_, {}).value();
  EXPECT_EQ(strategy->num_replicas_in_sync(), 1);
  EXPECT_EQ(strategy->device(0).short_name(), "CPU:0");
}

TEST_F(CreateStrategyTest, RefusesADeviceThatComesTwice) {
  const std::string names[] = {"CPU:0", "CPU:1", "/device:CPU:0"};
  EXPECT_TRUE(Fails(Strategy::CreateMirrored(environment_, *devices_, names).status(),
                    StatusCode::kInvalidArgument, {"\"CPU:0\"", "\"/device:CPU:0\"", "same"}));
}

TEST_F(CreateStrategyTest, RefusesADeviceThatIsNotThere) {
  const std::string names[] = {"CPU:0", "GPU:0"};
  EXPECT_TRUE(Fails(Strategy::CreateMirrored(environment_, *devices_, names).status(),
                    StatusCode::kInvalidArgument, {"GPU:0"}));
  EXPECT_TRUE(Fails(Strategy::CreateOneDevice(environment_, *devices_, "GPU:0").status(),
                    StatusCode::kNotFound, {"GPU:0"}));
}

TEST_F(CreateStrategyTest, IsRefusedAfterShutdown) {
  ASSERT_TRUE(environment_->Shutdown(WithinReason()).ok());
  EXPECT_TRUE(Fails(Strategy::CreateDefault(environment_, *devices_).status(),
                    StatusCode::kFailedPrecondition, {"shut down"}));
}

// ---- Values. ----

TEST_F(ValuesTest, MakesValuesFromAFunctionOncePerReplica) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> values = strategy->CreateValues(*FromId(), WithinReason()).value();
  EXPECT_EQ(Text(values), "PerReplica:{0: 0, 1: 1}");
  const Ref<Function> count = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
    return in.Find("num_replicas_in_sync");
  });
  EXPECT_THAT(Local(strategy, strategy->CreateValues(*count, WithinReason()).value()),
              ElementsAre("2", "2"));
}

TEST_F(ValuesTest, NamesTheReplicaWhoseValueCouldNotBeMade) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> fail = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> id, in.Find("replica_id_in_sync_group"));
    if (id->AsTensor()->item<int64_t>() == 1) return Status(StatusCode::kNotFound, "nothing");
    return id;
  });
  const Status status = strategy->CreateValues(*fail, WithinReason()).status();
  EXPECT_TRUE(Fails(status, StatusCode::kNotFound));
  EXPECT_EQ(std::get<int64_t>(status.FindDetail("replica")->value), 1);
}

TEST_F(ValuesTest, TakesOneValuePerReplica) {
  const Ref<Strategy> strategy = Mirrored(2);
  const std::vector<Ref<Value>> two = {ScalarOf(1), ScalarOf(2)};
  const std::vector<Ref<Value>> three = {ScalarOf(1), ScalarOf(2), ScalarOf(3)};
  EXPECT_EQ(Text(strategy->CreatePerReplica(two).value()), "PerReplica:{0: 1, 1: 2}");
  EXPECT_TRUE(Fails(strategy->CreatePerReplica(three).status(), StatusCode::kInvalidArgument,
                    {"3 values", "2 replicas"}));
}

TEST_F(ValuesTest, LocalResultsOfAPlainValueAreATupleOfOne) {
  const Ref<Strategy> strategy = Mirrored(2);
  EXPECT_EQ(Text(strategy->LocalResults(*ScalarOf(3)).value()), "(3,)");
}

TEST_F(ValuesTest, LocalResultsOfAStructureAreOneStructurePerReplica) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> value = Value::Tuple(
      {PerReplica(strategy, {ScalarOf(1), ScalarOf(2)}), Value::OfString("a")});
  EXPECT_EQ(Text(strategy->LocalResults(*value).value()), "((1, \"a\"), (2, \"a\"))");
}

TEST_F(ValuesTest, ReducesEveryLeafOfAStructure) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> value =
      Value::Dict({{"a", PerReplica(strategy, {VectorOf<float>({0, 1}), VectorOf<float>({4, 5})})},
                   {"b", PerReplica(strategy, {ScalarOf(1.0f), ScalarOf(2.0f)})},
                   {"c", Value::None()}})
          .value();
  EXPECT_EQ(Text(Reduce(strategy, ReduceOp::kMean, value).value()),
            "{'a': [2 3], 'b': 1.5, 'c': None}");
}

TEST_F(ValuesTest, MeanOfAPlainValueIsTheValueAndItsSumIsAnError) {
  const Ref<Strategy> strategy = Mirrored(2);
  EXPECT_EQ(Text(Reduce(strategy, ReduceOp::kMean, ScalarOf(3.0f)).value()), "3");
  EXPECT_EQ(Text(Reduce(strategy, ReduceOp::kMean, VectorOf<float>({1, 2, 6}), 0).value()), "3");
  EXPECT_TRUE(Fails(Reduce(strategy, ReduceOp::kSum, ScalarOf(3.0f)).status(),
                    StatusCode::kInvalidArgument, {"SUM", "2 replicas", "MEAN"}));
}

TEST_F(ValuesTest, SumOfAPlainValueOfASingleReplicaIsTheValue) {
  const Ref<Strategy> strategy = Strategy::CreateDefault(environment_, *devices_).value();
  EXPECT_EQ(Text(Reduce(strategy, ReduceOp::kSum, ScalarOf(3.0f)).value()), "3");
  EXPECT_EQ(Text(Reduce(strategy, ReduceOp::kSum, VectorOf<int32_t>({1, 2}), 0).value()), "3");
}

TEST_F(ValuesTest, ReduceTakesSumAndMeanOnlyAndNamesLeavesThatAreNoTensors) {
  const Ref<Strategy> strategy = Mirrored(2);
  EXPECT_TRUE(Fails(Reduce(strategy, ReduceOp::kMax, ScalarOf(3.0f)).status(),
                    StatusCode::kInvalidArgument, {"MAX"}));
  const Ref<Value> text = PerReplica(strategy, {Value::OfString("a"), Value::OfString("b")});
  EXPECT_TRUE(Fails(Reduce(strategy, ReduceOp::kSum, Value::Tuple({text})).status(),
                    StatusCode::kInvalidArgument, {"[0]", "string"}));
}

TEST_F(ValuesTest, GathersDistributedLeavesAndLeavesOthersAlone) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> value = Value::Tuple(
      {PerReplica(strategy, {VectorOf<int32_t>({1, 2}), VectorOf<int32_t>({3})}), ScalarOf(7)});
  EXPECT_EQ(Text(strategy->Gather(*value, 0, WithinReason()).value()), "([1 2 3], 7)");
}

TEST_F(ValuesTest, RefusesToReduceAndGatherInsideReplicas) {
  const Ref<Strategy> strategy = Mirrored(2);
  MustRun(strategy, Fn([&](Context&, const Value&) -> Result<Ref<Value>> {
            EXPECT_TRUE(Fails(Reduce(strategy, ReduceOp::kMean, ScalarOf(1.0f)).status(),
                              StatusCode::kFailedPrecondition, {"reduce"}));
            EXPECT_TRUE(Fails(strategy->Gather(*ScalarOf(1.0f), 0, {}).status(),
                              StatusCode::kFailedPrecondition, {"gather"}));
            return Value::None();
          }));
}

TEST_F(StrategyTest, AMirroredValueIsEqualOnAllReplicas) {
  const Ref<Strategy> strategy = Mirrored(3);
  const Ref<Value> value = strategy->CreateMirroredValue(*ScalarOf(0.1f)).value();
  EXPECT_EQ(Text(value), "Mirrored:{0: 0.1, 1: 0.1, 2: 0.1}");
  EXPECT_THAT(Local(strategy, value), testing::ElementsAre("0.1", "0.1", "0.1"));
  // The mean is the value itself, and no sum that was rounded and divided.
  const Ref<Value> mean =
      strategy->Reduce(ReduceOp::kMean, *value, std::nullopt, CallOptions()).value();
  EXPECT_EQ(mean->leaf().tensor().item<float>(), 0.1f);
  const Ref<Value> sum =
      strategy->Reduce(ReduceOp::kSum, *value, std::nullopt, CallOptions()).value();
  EXPECT_FLOAT_EQ(sum->leaf().tensor().item<float>(), 0.3f);
  EXPECT_TRUE(Fails(strategy->CreateMirroredValue(*value).status(), StatusCode::kInvalidArgument,
                    {"distributed value", "component per replica already"}));
}

}  // namespace
}  // namespace tutti
