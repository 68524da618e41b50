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

TEST(GlobalRows, AreThoseThatTheBatchesAgreeOn) {
  const auto batch = [](int64_t rows) {
    const std::vector<Ref<Value>> parts = {ScalarOf(1), ScalarOf(2)};
    return Regroup(parts, Wrap::kAlways, "test", rows).value();
  };
  EXPECT_EQ(GlobalRows(*ScalarOf(1)), -1);
  EXPECT_EQ(GlobalRows(*Value::Tuple({ScalarOf(1), batch(5)})), 5);
  EXPECT_EQ(GlobalRows(*Value::Tuple({batch(5), batch(5)})), 5);
  EXPECT_EQ(GlobalRows(*Value::Tuple({batch(5), batch(4)})), -1);
}

}  // namespace
}  // namespace tutti
