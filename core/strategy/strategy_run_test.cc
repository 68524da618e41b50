// What a run gives and what replicas do together when all goes well.

#include <atomic>
#include <thread>

#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class StrategyRunTest : public StrategyTest {
 protected:
  Ref<Value> PerReplica(std::vector<Ref<Value>> components) {
    return Regroup(components, Wrap::kAlways, "test").value();
  }
  static Ref<Function> Identity() {
    return Fn([](Context&, const Value& in) -> Result<Ref<Value>> { return in.Child(0); });
  }
};

Result<Ref<Value>> Twice(const Value& in) {
  return ScalarOf(in.AsTensor()->item<float>() * 2);
}

TEST_F(StrategyRunTest, GivesEachReplicaItsComponentAndEveryOtherValueItself) {
  const Ref<Strategy> strategy = Mirrored(3);
  const Ref<Value> args =
      Value::Tuple({PerReplica({ScalarOf(1), ScalarOf(2), ScalarOf(3)}), ScalarOf(10)});
  const Ref<Function> add = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
    return ScalarOf(in.leaf(0).tensor().item<int32_t>() + in.leaf(1).tensor().item<int32_t>());
  });
  EXPECT_EQ(Text(MustRun(strategy, add, args)), "PerReplica:{0: 11, 1: 12, 2: 13}");
}

TEST_F(StrategyRunTest, DoublesAConstantOnEveryReplica) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> twice = Fn([](Context&, const Value& in) { return Twice(in); });
  EXPECT_THAT(Local(strategy, MustRun(strategy, twice, ScalarOf(3.0f))), ElementsAre("6", "6"));
}

TEST_F(StrategyRunTest, PassesNoneWhenThereAreNoArguments) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> kind = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
    return Value::OfString(LeafKindName(in.leaf().kind()));
  });
  EXPECT_EQ(Text(MustRun(strategy, kind)), "\"none\"");
}

TEST_F(StrategyRunTest, TellsEachReplicaWhoItIs) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> describe = Fn([&](Context& context, const Value&) -> Result<Ref<Value>> {
    EXPECT_EQ(context.callback_class(), CallbackClass::kReplica);
    EXPECT_EQ(context.strategy(), strategy.get());
    EXPECT_EQ(&context.environment(), environment_.get());
    EXPECT_EQ(context.num_replicas(), 2);
    EXPECT_EQ(context.global_rows(), -1);
    EXPECT_FALSE(context.cancelled());
    EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kReplica);
    return Value::Tuple({ScalarOf(context.replica_id()), Value::OfString(context.device_name())});
  });
  EXPECT_THAT(Local(strategy, MustRun(strategy, describe)),
              ElementsAre("(0, \"CPU:0\")", "(1, \"CPU:1\")"));
}

TEST_F(StrategyRunTest, RunsReplicaZeroOnTheCallersThreadAndOthersOnTheSameThreadsEachTime) {
  const Ref<Strategy> strategy = Mirrored(2);
  std::thread::id first[2], second[2];
  for (auto* ids : {first, second}) {
    MustRun(strategy, Fn([&](Context& context, const Value&) -> Result<Ref<Value>> {
              ids[context.replica_id()] = std::this_thread::get_id();
              return Value::None();
            }));
  }
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_NE(first[1], first[0]);
  EXPECT_EQ(first[1], second[1]);
}

TEST_F(StrategyRunTest, TellsReplicasTheRowsOfTheirStep) {
  const Ref<Strategy> strategy = Mirrored(2);
  const std::vector<Ref<Value>> parts = {VectorOf<int32_t>({1, 2}), VectorOf<int32_t>({3})};
  const Ref<Value> batch = Regroup(parts, Wrap::kAlways, "test", 3).value();
  const Ref<Function> rows = Fn([](Context& context, const Value&) -> Result<Ref<Value>> {
    return ScalarOf(context.global_rows());
  });
  EXPECT_THAT(Local(strategy, MustRun(strategy, rows, Value::Tuple({batch}))),
              ElementsAre("3", "3"));
}

TEST_F(StrategyRunTest, RefusesAValueOfAnotherStrategyBeforeAnythingRuns) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> fail = Fn([](Context&, const Value&) -> Result<Ref<Value>> {
    ADD_FAILURE() << "ran";
    return Value::None();
  });
  EXPECT_TRUE(Fails(RunStatus(strategy, fail, PerReplica({ScalarOf(1), ScalarOf(2), ScalarOf(3)})),
                    StatusCode::kInvalidArgument, {"3 components", "2 replicas"}));
}

TEST_F(StrategyRunTest, NamesTheReplicasWhoseResultsDifferInStructure) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> differ = Fn([](Context& context, const Value&) -> Result<Ref<Value>> {
    if (context.replica_id() == 0) return ScalarOf(1);
    return Value::Tuple({ScalarOf(1), ScalarOf(2)});
  });
  EXPECT_TRUE(Fails(RunStatus(strategy, differ), StatusCode::kInvalidArgument,
                    {"replica 0 *", "replica 1 (*, *)"}));
}

TEST_F(StrategyRunTest, RunsMoreReplicasThanThereAreCores) {
  const Ref<Strategy> strategy = Mirrored(8);
  const Ref<Function> sum = ReplicaFn([](ReplicaContext& replica, const Value&) {
    return replica.AllReduce(ReduceOp::kSum, *ScalarOf(replica.replica_id()), {});
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Local(strategy, MustRun(strategy, sum)), testing::Each("28"));
  }
}

// ---- Collectives. ----

TEST_F(StrategyRunTest, AllReducesReplicaIds) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> sum = ReplicaFn([](ReplicaContext& replica, const Value&) {
    return replica.AllReduce(ReduceOp::kSum, *ScalarOf(replica.replica_id()), {});
  });
  EXPECT_THAT(Local(strategy, MustRun(strategy, sum)), ElementsAre("1", "1"));
}

TEST_F(StrategyRunTest, AllReducesEveryTensorOfAStructureAndLeavesNoneAlone) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> mean = ReplicaFn([](ReplicaContext& replica, const Value&) {
    const auto n = static_cast<float>(replica.replica_id());
    const Ref<Value> value =
        Value::Dict({{"a", VectorOf<float>({n, 2 * n})},
                     {"b", Value::List({ScalarOf<double>(n), Value::None()})}})
            .value();
    return replica.AllReduce(ReduceOp::kMean, *value, {});
  });
  EXPECT_THAT(Local(strategy, MustRun(strategy, mean)),
              testing::Each("{'a': [0.5 1], 'b': [0.5, None]}"));
}

TEST_F(StrategyRunTest, AllReduceOfALargeTensorIsTheSameOnAllReplicas) {
  const Ref<Strategy> strategy = Mirrored(2);
  constexpr int64_t kSize = 300'000;
  const Ref<Function> sum = ReplicaFn([](ReplicaContext& replica, const Value&) {
    const Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({kSize})).value();
    float x = 0.1f * static_cast<float>(replica.replica_id() + 1);
    for (float& element : tensor->mutable_span<float>()) element = x *= 1.0001f;
    return replica.AllReduce(ReduceOp::kSum, *Value::OfTensor(tensor), {});
  });
  const Ref<Value> result = MustRun(strategy, sum);
  const DistributedValue& both = *AsDistributed(result->leaf());
  EXPECT_TRUE(both.component(0).ContentsEqual(both.component(1)));
  EXPECT_FLOAT_EQ(both.component(0).AsTensor()->item<float>(), 0.3f * 1.0001f);
}

TEST_F(StrategyRunTest, AllGathersUnevenParts) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> gather = ReplicaFn([](ReplicaContext& replica, const Value&) {
    const Ref<Value> mine =
        replica.replica_id() == 0 ? VectorOf<int32_t>({1, 2, 3}) : VectorOf<int32_t>({4});
    return replica.AllGather(*mine, 0, {});
  });
  EXPECT_THAT(Local(strategy, MustRun(strategy, gather)), testing::Each("[1 2 3 4]"));
}

TEST_F(StrategyRunTest, AllReduceNamesALeafThatIsNoTensor) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> reduce = ReplicaFn([](ReplicaContext& replica, const Value&) {
    const Ref<Value> optional = Value::OfLeaf(Leaf::OfOptional(nullptr));
    return replica.AllReduce(ReduceOp::kSum, *Value::Tuple({ScalarOf(1), optional}), {});
  });
  EXPECT_TRUE(
      Fails(RunStatus(strategy, reduce), StatusCode::kInvalidArgument, {"[1]", "optional"}));
}

// ---- Merge calls. ----

TEST_F(StrategyRunTest, MergesOnceOnTheCallersThreadAndSplitsTheResult) {
  const Ref<Strategy> strategy = Mirrored(3);
  std::atomic<int> calls{0};
  const std::thread::id caller = std::this_thread::get_id();
  const Ref<Function> merge = Fn([&](Context& context, const Value& in) -> Result<Ref<Value>> {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(context.callback_class(), CallbackClass::kCrossReplica);
    EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kCrossReplica);
    EXPECT_EQ(context.replica_id(), -1);
    EXPECT_EQ(in.ToString(), "(PerReplica:{0: 0, 1: 1, 2: 2}, \"same\")");
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> sum, strategy->Reduce(ReduceOp::kSum, *in.Child(0),
                                                                  std::nullopt, {}));
    return Value::Tuple({sum, in.Child(0)});
  });
  const Ref<Function> fn = ReplicaFn([&](ReplicaContext& replica, const Value&) {
    const Ref<Value> args =
        Value::Tuple({ScalarOf(replica.replica_id()), Value::OfString("same")});
    return replica.MergeCall(*merge, merge.get(), args.get(), {});
  });
  EXPECT_THAT(Local(strategy, MustRun(strategy, fn)), ElementsAre("(3, 0)", "(3, 1)", "(3, 2)"));
  EXPECT_EQ(calls, 1);
}

TEST_F(StrategyRunTest, MixesManyMergesAndCollectives) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> merge = Fn([&](Context&, const Value& in) {
    return strategy->Reduce(ReduceOp::kSum, in, std::nullopt, {});
  });
  const Ref<Function> fn =
      ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        Ref<Value> x = ScalarOf<int64_t>(replica.replica_id());
        for (int i = 0; i < 50; ++i) {
          if (i % 3 == 0) {
            TUTTI_ASSIGN_OR_RETURN(x, replica.MergeCall(*merge, merge.get(), x.get(), {}));
          } else {
            TUTTI_ASSIGN_OR_RETURN(x, replica.AllReduce(ReduceOp::kMax, *x, {}));
          }
          x = ScalarOf<int64_t>((x->AsTensor()->item<int64_t>() + replica.replica_id()) % 1000);
        }
        return replica.AllReduce(ReduceOp::kSum, *x, {});
      });
  const std::vector<std::string> results = Local(strategy, MustRun(strategy, fn));
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(StrategyRunTest, ADefaultStrategyHasOneReplicaAndGivesPlainResults) {
  const Ref<Strategy> strategy = Strategy::CreateDefault(environment_, *devices_).value();
  const Ref<Function> fn =
      ReplicaFn([&](ReplicaContext& replica, const Value& in) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(Ref<Value> sum, replica.AllReduce(ReduceOp::kSum, in, {}));
        TUTTI_ASSIGN_OR_RETURN(sum, replica.AllGather(*sum, 0, {}));
        const Ref<Function> merge =
            Fn([](Context&, const Value& merged) -> Result<Ref<Value>> {
              return merged.Child(0);
            });
        return replica.MergeCall(*merge, nullptr, Value::Tuple({sum}).get(), {});
      });
  EXPECT_EQ(Text(MustRun(strategy, fn, VectorOf<int32_t>({1, 2}))), "[1 2]");
  EXPECT_STREQ(strategy->type_name(), "DefaultStrategy");
}

}  // namespace
}  // namespace tutti
