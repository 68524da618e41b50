// Indexed slices among replicas: sparse updates of variables, all_reduce, reduce.

#include "core/strategy/strategy_test_fixture.h"
#include "core/strategy/variable.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

Ref<Value> SlicesOf(const Ref<Tensor>& values, std::initializer_list<int64_t> indices) {
  return MakeIndexedSlices(values, Tensor::Vector<int64_t>(indices), nullptr).value();
}

class SparseUpdateTest : public StrategyTest {
 protected:
  Ref<Variable> Table(const Ref<Strategy>& strategy, Aggregation aggregation,
                      Synchronization synchronization = Synchronization::kAuto) {
    VariableOptions options;
    options.name = "table";
    options.aggregation = aggregation;
    options.synchronization = synchronization;
    return Variable::Create(strategy, *Tensor::Vector<float>({1, 2, 3, 4}), options).value();
  }

  // Each replica r brings (r + 1) * 10 for row r and for row 3.
  Status FromReplicas(const Ref<Strategy>& strategy, const Ref<Variable>& table, ScatterOp op) {
    return RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          const int64_t r = replica.replica_id();
          const auto number = static_cast<float>((r + 1) * 10);
          const IndexedSlices slices =
              ReadIndexedSlices(*SlicesOf(Tensor::Vector<float>({number, number}), {r, 3}), "test")
                  .value();
          TUTTI_RETURN_IF_ERROR(table->Scatter(op, &replica, slices, {}));
          return Value::None();
        }));
  }

  static std::vector<std::string> Copies(const Variable& variable) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < variable.num_copies(); ++i) {
      texts.push_back(variable.copy(i).ContentsToString());
    }
    return texts;
  }
};

TEST_F(SparseUpdateTest, ReplicasSlicesMeetByAggregation) {
  const Ref<Strategy> strategy = Mirrored(2);
  struct Case {
    Aggregation aggregation;
    ScatterOp op;
    const char* expected;
  };
  for (const Case& test : {Case{Aggregation::kSum, ScatterOp::kAdd, "[11 22 3 34]"},
                           Case{Aggregation::kSum, ScatterOp::kSub, "[-9 -18 3 -26]"},
                           Case{Aggregation::kMean, ScatterOp::kAdd, "[6 12 3 19]"},
                           Case{Aggregation::kOnlyFirstReplica, ScatterOp::kAdd, "[11 2 3 14]"},
                           Case{Aggregation::kOnlyFirstReplica, ScatterOp::kUpdate, "[10 2 3 10]"},
                           Case{Aggregation::kOnlyFirstReplica, ScatterOp::kMax, "[10 2 3 10]"}}) {
    const Ref<Variable> table = Table(strategy, test.aggregation);
    const Status status = FromReplicas(strategy, table, test.op);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_THAT(Copies(*table), testing::Each(test.expected)) << ScatterOpName(test.op);
  }
}

TEST_F(SparseUpdateTest, WhatHasNoMeaningIsRefusedBeforeAnythingIsWritten) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> none = Table(strategy, Aggregation::kNone);
  EXPECT_TRUE(Fails(FromReplicas(strategy, none, ScatterOp::kAdd), StatusCode::kInvalidArgument,
                    {"scatter_add", "'table'", "aggregation NONE"}));
  const Ref<Variable> sum = Table(strategy, Aggregation::kSum);
  EXPECT_TRUE(Fails(FromReplicas(strategy, sum, ScatterOp::kUpdate), StatusCode::kUnimplemented,
                    {"scatter_update", "aggregation SUM", "ONLY_FIRST_REPLICA"}));
  const IndexedSlices outside =
      ReadIndexedSlices(*SlicesOf(Tensor::Vector<float>({1, 1}), {0, 4}), "test").value();
  EXPECT_TRUE(Fails(sum->Scatter(ScatterOp::kAdd, nullptr, outside, {}),
                    StatusCode::kInvalidArgument, {"'table'", "index 4", "4 rows"}));
  EXPECT_TRUE(Fails(
      RunStatus(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&)
                                        -> Result<Ref<Value>> {
                  const IndexedSlices mine =
                      replica.replica_id() == 1
                          ? outside
                          : ReadIndexedSlices(*SlicesOf(Tensor::Vector<float>({1}), {0}), "test")
                                .value();
                  TUTTI_RETURN_IF_ERROR(sum->Scatter(ScatterOp::kAdd, &replica, mine, {}));
                  return Value::None();
                })),
      StatusCode::kInvalidArgument, {"index 4"}));
  EXPECT_THAT(Copies(*sum), testing::Each("[1 2 3 4]"));
}

TEST_F(SparseUpdateTest, OnReadWritesTheReplicasOwnCopy) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> table = Table(strategy, Aggregation::kSum, Synchronization::kOnRead);
  ASSERT_TRUE(FromReplicas(strategy, table, ScatterOp::kAdd).ok());
  EXPECT_THAT(Copies(*table), testing::ElementsAre("[11 2 3 14]", "[1 22 3 24]"));
  const IndexedSlices slices =
      ReadIndexedSlices(*SlicesOf(Tensor::Vector<float>({1}), {0}), "test").value();
  EXPECT_TRUE(Fails(table->Scatter(ScatterOp::kAdd, nullptr, slices, {}),
                    StatusCode::kInvalidArgument, {"ON_READ with aggregation SUM"}));
}

TEST_F(SparseUpdateTest, OutsideEveryCopyIsChanged) {
  const Ref<Variable> table = Table(Mirrored(3), Aggregation::kNone);
  const IndexedSlices slices =
      ReadIndexedSlices(*SlicesOf(Tensor::Vector<float>({5, 7}), {1, 1}), "test").value();
  ASSERT_TRUE(table->Scatter(ScatterOp::kAdd, nullptr, slices, {}).ok());
  EXPECT_THAT(Copies(*table), testing::Each("[1 14 3 4]"));
}

TEST_F(SparseUpdateTest, LargeOnesAreSharedOutAndAreTheSame) {
  const Ref<Strategy> strategy = Mirrored(3);
  constexpr int64_t kRows = 1000;
  constexpr int64_t kRow = 64;
  VariableOptions options;
  options.aggregation = Aggregation::kSum;
  const Ref<Tensor> zeros = Tensor::Create(DType::kFloat32, Shape({kRows, kRow})).value();
  const Ref<Variable> table = Variable::Create(strategy, *zeros, options).value();
  ASSERT_TRUE(RunStatus(strategy,
                        ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                          IndexedSlices mine;
                          mine.values =
                              Full(DType::kFloat32, Shape({2 * kRows, kRow}),
                                   static_cast<double>(replica.replica_id() + 1))
                                  .value();
                          mine.indices =
                              Tensor::Create(DType::kInt64, Shape({2 * kRows})).value();
                          int64_t next = 0;
                          for (int64_t& index : mine.indices->mutable_span<int64_t>()) {
                            index = next++ * 7 % kRows;
                          }
                          TUTTI_RETURN_IF_ERROR(
                              table->Scatter(ScatterOp::kAdd, &replica, mine, {}));
                          return Value::None();
                        }))
                  .ok());
  const Ref<Tensor> expected = Full(DType::kFloat32, Shape({kRows, kRow}), 12).value();
  for (size_t i = 0; i < table->num_copies(); ++i) {
    EXPECT_TRUE(table->copy(i).ContentsEqual(*expected));
  }
}

TEST_F(SparseUpdateTest, AllReduceJoinsTheSlicesBesideWhatIsDense) {
  const Ref<Strategy> strategy = Mirrored(2);
  const auto reduced = [&](ReduceOp op) {
    return Local(
        strategy,
        MustRun(strategy, ReplicaFn([op](ReplicaContext& replica, const Value&) {
                  const auto number = static_cast<float>(replica.replica_id() + 1);
                  const Ref<Value> mine =
                      replica.replica_id() == 0
                          ? SlicesOf(Tensor::Vector<float>({2}), {5})
                          : SlicesOf(Tensor::Vector<float>({4, 6}), {1, 5});
                  return replica.AllReduce(op, *Value::Tuple({mine, ScalarOf(number)}), {});
                })));
  };
  EXPECT_THAT(reduced(ReduceOp::kSum),
              testing::Each("(tutti.IndexedSlices(values=[2 4 6], indices=[5 1 5], "
                            "dense_shape=None), 3)"));
  EXPECT_THAT(reduced(ReduceOp::kMean),
              testing::Each("(tutti.IndexedSlices(values=[1 2 3], indices=[5 1 5], "
                            "dense_shape=None), 1.5)"));
  EXPECT_TRUE(Fails(RunStatus(strategy, ReplicaFn([](ReplicaContext& replica, const Value&) {
                                return replica.AllReduce(
                                    ReduceOp::kMax, *SlicesOf(Tensor::Vector<float>({2}), {5}), {});
                              })),
                    StatusCode::kInvalidArgument, {"SUM and a MEAN", "MAX"}));
}

TEST_F(SparseUpdateTest, ReduceJoinsThemFromOutside) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> gradients =
      MustRun(strategy, ReplicaFn([](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                const int64_t r = replica.replica_id();
                return SlicesOf(Tensor::Vector<float>({2, static_cast<float>(r)}), {0, r});
              }));
  EXPECT_EQ(Text(strategy->Reduce(ReduceOp::kSum, *gradients, std::nullopt, {}).value()),
            "tutti.IndexedSlices(values=[2 0 2 1], indices=[0 0 0 1], dense_shape=None)");
  EXPECT_EQ(Text(strategy->Reduce(ReduceOp::kMean, *gradients, std::nullopt, {}).value()),
            "tutti.IndexedSlices(values=[1 0 1 0.5], indices=[0 0 0 1], dense_shape=None)");
  EXPECT_TRUE(Fails(strategy->Reduce(ReduceOp::kSum, *gradients, 0, {}).status(),
                    StatusCode::kInvalidArgument, {"axis 0"}));
  const Ref<Value> plain = SlicesOf(Tensor::Vector<float>({2}), {5});
  EXPECT_EQ(Text(strategy->Reduce(ReduceOp::kMean, *plain, std::nullopt, {}).value()), Text(plain));
  EXPECT_TRUE(Fails(strategy->Reduce(ReduceOp::kSum, *plain, std::nullopt, {}).status(),
                    StatusCode::kInvalidArgument, {"one value for all 2 replicas"}));
}

TEST_F(SparseUpdateTest, GatherTakesNoSlices) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Value> slices = SlicesOf(Tensor::Vector<float>({2}), {5});
  const Ref<Value> nested = Value::Tuple({ScalarOf(1.0f), slices});
  EXPECT_TRUE(Fails(strategy->Gather(*slices, 0, {}).status(), StatusCode::kInvalidArgument,
                    {"gather: indexed slices are not taken", "in the place of the value"}));
  EXPECT_TRUE(Fails(RunStatus(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) {
                                return replica.AllGather(*nested, 0, {});
                              })),
                    StatusCode::kInvalidArgument, {"all_gather: indexed slices", "at [1]"}));
}

TEST_F(SparseUpdateTest, AShapeThatLeavesSizesOpenLetsAssignmentsChangeThem) {
  VariableOptions options;
  options.name = "w";
  options.shape = PartialShape::Unknown();
  for (const Aggregation aggregation :
       {Aggregation::kSum, Aggregation::kMean, Aggregation::kOnlyFirstReplica}) {
    options.aggregation = aggregation;
    const Ref<Strategy> strategy = Mirrored(2);
    const Ref<Variable> variable =
        Variable::Create(strategy, *Tensor::Vector<float>({1}), options).value();
    EXPECT_EQ(variable->shape(), PartialShape::Unknown());
    const Ref<Tensor> held = variable->copy_ref(0);
    MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              const Ref<Tensor> value = Tensor::Vector<float>({2, 4});
              TUTTI_RETURN_IF_ERROR(variable->Assign(&replica, *value, CallOptions()));
              TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *value, CallOptions()));
              return Value::None();
            }));
    const char* expected =
        aggregation == Aggregation::kSum ? "float32[2] [8 16]" : "float32[2] [4 8]";
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(variable->copy_ref(i)->ToString(), expected);
    EXPECT_EQ(held->ToString(), "float32[1] [1]");
    EXPECT_TRUE(Fails(variable->AssignAdd(nullptr, *Tensor::Scalar<float>(1), {}),
                      StatusCode::kInvalidArgument, {"'w'", "[2]", "[]", "not added"}));
    EXPECT_EQ(variable->Read(nullptr, {}).value()->ToString(), expected);
    EXPECT_TRUE(Fails(variable->Data(nullptr).status(), StatusCode::kInvalidArgument,
                      {"changing shapes"}));
    IndexedSlices slices;
    slices.values = Tensor::Vector<float>({1});
    slices.indices = Tensor::Vector<int64_t>({1});
    ASSERT_TRUE(variable->Scatter(ScatterOp::kUpdate, nullptr, slices, {}).ok());
    EXPECT_EQ(variable->copy_ref(1)->Slice(1, 2)->ToString(), "float32[1] [1]");
    ASSERT_TRUE(variable->Assign(nullptr, *Tensor::Vector<float>({7}), {}).ok());
    EXPECT_TRUE(Fails(variable->Scatter(ScatterOp::kUpdate, nullptr, slices, {}),
                      StatusCode::kInvalidArgument, {"'w'", "1"}));
  }
}

TEST_F(SparseUpdateTest, CreationsInReplicasCompareTheShapesThatAreGiven) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        VariableOptions options;
        options.name = "w";
        if (replica.replica_id() == 1) options.shape = PartialShape({-1});
        TUTTI_RETURN_IF_ERROR(
            Variable::CreateIn(replica, *Tensor::Vector<float>({1}), options, CallOptions())
                .status());
        return Value::None();
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument,
                    {"replica 0 makes 'w' float32[1], ON_WRITE",
                     "replica 1 makes 'w' float32[1] of shape [?]"}));
}

}  // namespace
}  // namespace tutti
