#include "core/strategy/distributed_value.h"

#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;

Result<Ref<Value>> Join(std::vector<Ref<Value>> values, Wrap wrap = Wrap::kWhereDifferent) {
  return Regroup(values, wrap, "test");
}

TEST(Regroup, KeepsTheIdenticalObjectAsOneLeaf) {
  const Ref<Value> shared = ScalarOf(1.5f);
  const Ref<Value> joined = Join({shared, shared}).value();
  EXPECT_EQ(joined->leaf().object(), shared->leaf().object());
}

TEST(Regroup, MakesEqualTensorsDistributedBecauseStructureMustNotDependOnData) {
  const Ref<Value> joined = Join({ScalarOf(1.5f), ScalarOf(1.5f)}).value();
  EXPECT_EQ(joined->ToString(), "PerReplica:{0: 1.5, 1: 1.5}");
}

TEST(Mirrored, SaysThatItsComponentsAreEqualAndIsSelectedAsAnyDistributedLeaf) {
  const Ref<Value> mirrored = Value::OfLeaf(MirroredLeaf({ScalarOf(1.5f), ScalarOf(1.5f)}));
  EXPECT_EQ(AsDistributed(mirrored->leaf())->distribution(), Distribution::kMirrored);
  EXPECT_EQ(mirrored->ToString(), "Mirrored:{0: 1.5, 1: 1.5}");
  EXPECT_EQ(Select(*mirrored, 1, 2, "test").value()->ToString(), "1.5");
  EXPECT_FALSE(Select(*mirrored, 0, 3, "test").ok());
}

TEST(Regroup, KeepsNoneAndEqualStringsAndDistributesDifferentStrings) {
  const Ref<Value> first =
      Value::Tuple({Value::None(), Value::OfString("a"), Value::OfString("b")});
  const Ref<Value> second =
      Value::Tuple({Value::None(), Value::OfString("a"), Value::OfString("c")});
  EXPECT_EQ(Join({first, second}).value()->ToString(),
            "(None, \"a\", PerReplica:{0: \"b\", 1: \"c\"})");
}

TEST(Regroup, GoesLeafByLeafThroughNestedStructures) {
  const auto make = [](int32_t n) {
    return Value::Dict({{"x", Value::List({ScalarOf(n), Value::None()})}, {"y", ScalarOf(n + 1)}})
        .value();
  };
  EXPECT_EQ(Join({make(1), make(5)}).value()->ToString(),
            "{'x': [PerReplica:{0: 1, 1: 5}, None], 'y': PerReplica:{0: 2, 1: 6}}");
}

TEST(Regroup, NamesBothReplicasWhenStructuresDiffer) {
  const Status status =
      Join({ScalarOf(1), ScalarOf(1), Value::Tuple({ScalarOf(1)})}).status();
  EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument, {"replicas 0 and 2", "*", "(*,)"}));
}

TEST(Regroup, GivesBackTheOnlyReplicasValue) {
  const Ref<Value> only = ScalarOf(3);
  EXPECT_EQ(Join({only}).value().get(), only.get());
}

TEST(Regroup, DistributesEverythingWhenAskedTo) {
  const Ref<Value> shared = Value::Tuple({ScalarOf(1), Value::None()});
  EXPECT_EQ(Join({shared, shared}, Wrap::kAlways).value()->ToString(),
            "(PerReplica:{0: 1, 1: 1}, PerReplica:{0: None, 1: None})");
  EXPECT_EQ(Join({ScalarOf(1)}, Wrap::kAlways).value()->ToString(), "PerReplica:{0: 1}");
}

TEST(Regroup, RefusesComponentsThatAreDistributedThemselves) {
  const Ref<Value> joined = Join({ScalarOf(1), ScalarOf(2)}).value();
  EXPECT_TRUE(Fails(Join({joined, joined}, Wrap::kAlways).status(), StatusCode::kInvalidArgument,
                    {"distributed value already"}));
}

TEST(Select, TakesOneReplicasPartOut) {
  const Ref<Value> joined = Value::Tuple(
      {Join({ScalarOf(1), ScalarOf(2)}).value(), ScalarOf(7), Value::OfString("a")});
  EXPECT_EQ(Select(*joined, 0, 2, "test").value()->ToString(), "(1, 7, \"a\")");
  EXPECT_EQ(Select(*joined, 1, 2, "test").value()->ToString(), "(2, 7, \"a\")");
}

TEST(Select, GivesTheSameValueWhenNothingIsDistributed) {
  const Ref<Value> plain = Value::Tuple({ScalarOf(1), Value::None()});
  EXPECT_EQ(Select(*plain, 1, 2, "test").value().get(), plain.get());
}

TEST(Select, NamesBothCountsForAValueOfAnotherStrategy) {
  const Ref<Value> joined = Join({ScalarOf(1), ScalarOf(2)}).value();
  EXPECT_TRUE(Fails(Select(*joined, 0, 3, "run").status(), StatusCode::kInvalidArgument,
                    {"run", "2 components", "3 replicas"}));
}

TEST(JoinStep, GivesSeveralReplicasDistributedLeavesAndOneItsPartAsItIs) {
  const std::vector<Ref<Value>> parts = {Value::List({VectorOf<int64_t>({1, 2}), Value::None()}),
                                         Value::List({VectorOf<int64_t>({3}), Value::None()})};
  EXPECT_EQ(JoinStep(parts, "test", 3).value()->ToString(),
            "[PerReplica:{0: [1 2], 1: [3]}, PerReplica:{0: None, 1: None}]");
  const Ref<Value> one = JoinStep({parts.data(), 1}, "test", 3).value();
  EXPECT_EQ(one->ToString(), "[[1 2], None]");
  EXPECT_EQ(one->leaf(0).tensor().step_rows(), 3);
  EXPECT_EQ(one->leaf(0).tensor().data(), parts[0]->leaf(0).tensor().data());
  EXPECT_EQ(parts[0]->leaf(0).tensor().step_rows(), -1) << "the part is not the step's alone";
}

TEST(GlobalRows, AreThoseThatTheBatchesAgreeOn) {
  for (const size_t replicas : {1, 2}) {
    const auto batch = [replicas](int64_t rows) {
      const std::vector<Ref<Value>> parts = {ScalarOf(1), ScalarOf(2)};
      return JoinStep({parts.data(), replicas}, "test", rows).value();
    };
    EXPECT_EQ(GlobalRows(*ScalarOf(1), replicas), -1);
    EXPECT_EQ(GlobalRows(*Value::Tuple({ScalarOf(1), batch(5)}), replicas), 5);
    EXPECT_EQ(GlobalRows(*Value::Tuple({batch(0), batch(0)}), replicas), 0);
    EXPECT_EQ(GlobalRows(*Value::Tuple({batch(5), batch(4)}), replicas), -1);
  }
}

TEST(GlobalRows, OfAPlainTensorAreNoneForSeveralReplicasWhichWouldAllGetIt) {
  const std::vector<Ref<Value>> part = {VectorOf<float>({1, 2})};
  EXPECT_EQ(GlobalRows(*JoinStep(part, "test", 2).value(), 2), -1);
}

TEST(Select, GivesTensorsOfNoStep) {
  const std::vector<Ref<Value>> part = {VectorOf<float>({1, 2})};
  const Ref<Value> batch = JoinStep(part, "test", 2).value();
  for (const Ref<Value>& value : {batch, Value::Tuple({batch, ScalarOf(3)}),
                                  Regroup({&batch, 1}, Wrap::kAlways, "test").value()}) {
    const Ref<Value> selected = Select(*value, 0, 1, "test").value();
    EXPECT_EQ(selected->leaf(0).tensor().step_rows(), -1);
    EXPECT_EQ(selected->leaf(0).tensor().data(), part[0]->leaf().tensor().data());
  }
}

}  // namespace
}  // namespace tutti
