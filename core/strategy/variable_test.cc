#include "core/strategy/variable.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "core/strategy/strategy_test_fixture.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/copy.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

using testing::ElementsAre;

class VariableTest : public StrategyTest {
 protected:
  Ref<Variable> Make(const Ref<Strategy>& strategy, const Ref<Tensor>& initial,
                     Synchronization synchronization, Aggregation aggregation,
                     std::string name = "v") {
    VariableOptions options;
    options.name = std::move(name);
    options.synchronization = synchronization;
    options.aggregation = aggregation;
    return Variable::Create(strategy, *initial, options).value();
  }

  // Each replica writes 2 * (replica + 1).
  Status WriteFromReplicas(const Ref<Strategy>& strategy, const Ref<Variable>& variable,
                           Status (Variable::*write)(Context*, const Tensor&, const CallOptions&)) {
    return RunStatus(strategy,
                     ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                       const auto number = static_cast<float>(2 * (replica.replica_id() + 1));
                       TUTTI_RETURN_IF_ERROR(
                           (variable.get()->*write)(&replica, *Tensor::Scalar<float>(number), {}));
                       return Value::None();
                     }));
  }

  std::vector<float> Copies(const Variable& variable) {
    std::vector<float> numbers;
    for (size_t i = 0; i < variable.num_copies(); ++i) {
      numbers.push_back(variable.copy(i).item<float>());
    }
    return numbers;
  }
  static float ReadOutside(const Variable& variable) {
    return variable.Read(nullptr, {}).value()->item<float>();
  }
};

// ---- ON_WRITE. ----

TEST_F(VariableTest, OnWriteGivesEveryCopyTheSameUpdateByAggregation) {
  struct Case {
    Aggregation aggregation;
    float assigned, added, subtracted;  // from 1; replicas write 2 and 4
  };
  const Case cases[] = {{Aggregation::kSum, 6, 7, -5},
                        {Aggregation::kMean, 3, 4, -2},
                        {Aggregation::kOnlyFirstReplica, 2, 3, -1}};
  const Ref<Strategy> strategy = Mirrored(2);
  for (const Case& c : cases) {
    for (const auto& [write, expected] :
         {std::pair(&Variable::Assign, c.assigned), std::pair(&Variable::AssignAdd, c.added),
          std::pair(&Variable::AssignSub, c.subtracted)}) {
      const Ref<Variable> variable =
          Make(strategy, Tensor::Scalar<float>(1), Synchronization::kOnWrite, c.aggregation);
      ASSERT_TRUE(WriteFromReplicas(strategy, variable, write).ok());
      EXPECT_THAT(Copies(*variable), ElementsAre(expected, expected))
          << AggregationName(c.aggregation);
      EXPECT_EQ(ReadOutside(*variable), expected);
    }
  }
}

TEST_F(VariableTest, OnWriteRefusesWritesOfReplicasWithoutAnAggregation) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Scalar<float>(1), Synchronization::kOnWrite, Aggregation::kNone);
  EXPECT_TRUE(Fails(WriteFromReplicas(strategy, variable, &Variable::AssignAdd),
                    StatusCode::kInvalidArgument, {"'v'", "NONE", "SUM"}));
  EXPECT_THAT(Copies(*variable), ElementsAre(1, 1));
}

TEST_F(VariableTest, OnWriteIsWrittenOnEveryCopyFromOutside) {
  const Ref<Strategy> strategy = Mirrored(2);
  for (const Aggregation aggregation : {Aggregation::kNone, Aggregation::kSum, Aggregation::kMean,
                                        Aggregation::kOnlyFirstReplica}) {
    const Ref<Variable> variable =
        Make(strategy, Tensor::Scalar<float>(1), Synchronization::kAuto, aggregation);
    EXPECT_EQ(variable->synchronization(), Synchronization::kOnWrite);
    ASSERT_TRUE(variable->Assign(nullptr, *Tensor::Scalar<float>(10), {}).ok());
    ASSERT_TRUE(variable->AssignAdd(nullptr, *Tensor::Scalar<float>(5), {}).ok());
    ASSERT_TRUE(variable->AssignSub(nullptr, *Tensor::Scalar<float>(1), {}).ok());
    EXPECT_THAT(Copies(*variable), ElementsAre(14, 14));
  }
}

TEST_F(VariableTest, UpdatesOfManyReplicasLeaveBitIdenticalCopies) {
  const Ref<Strategy> strategy = Mirrored(5);
  const Ref<Tensor> initial = Tensor::Create(DType::kFloat32, Shape({1000})).value();
  const Ref<Variable> variable =
      Make(strategy, initial, Synchronization::kOnWrite, Aggregation::kSum);
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            const Ref<Tensor> delta = Tensor::Create(DType::kFloat32, Shape({1000})).value();
            float x = 0.1f + 0.01f * static_cast<float>(replica.replica_id());
            for (float& element : delta->mutable_span<float>()) element = x *= 1.001f;
            for (int i = 0; i < 10; ++i) {
              TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *delta, {}));
            }
            return Value::None();
          }));
  EXPECT_NE(variable->copy(0).item<float>(), 0.0f);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(std::memcmp(variable->copy(0).data(), variable->copy(i).data(), 4000), 0);
  }
}

TEST_F(VariableTest, LargeUpdatesAreSharedOutAndGiveTheSameBitsAsOneFold) {
  constexpr int64_t kSize = 100'001;
  constexpr size_t kReplicas = 3;
  std::vector<Ref<Tensor>> deltas;
  std::vector<const Tensor*> pointers;
  for (size_t i = 0; i < kReplicas; ++i) {
    Ref<Tensor> delta = Tensor::Create(DType::kFloat32, Shape({kSize})).value();
    float x = 0.1f * static_cast<float>(i + 1);
    for (float& element : delta->mutable_span<float>()) element = x = x * 1.7f - std::floor(x);
    pointers.push_back(delta.get());
    deltas.push_back(std::move(delta));
  }
  const Ref<Strategy> strategy = Mirrored(kReplicas);
  const Ref<Tensor> initial = Full(DType::kFloat32, Shape({kSize}), 0.3).value();
  for (const auto& [aggregation, op] : {std::pair(Aggregation::kSum, ReduceOp::kSum),
                                        std::pair(Aggregation::kMean, ReduceOp::kMean)}) {
    const Ref<Tensor> fold = tutti::Reduce(op, pointers).value();
    const Ref<Tensor> expected = Binary(BinaryOp::kSub, *initial, *fold).value();
    const Ref<Variable> variable = Make(strategy, initial, Synchronization::kOnWrite, aggregation);
    MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
              const Tensor& mine = *deltas[static_cast<size_t>(replica.replica_id())];
              TUTTI_RETURN_IF_ERROR(variable->AssignSub(&replica, mine, {}));
              return Value::None();
            }));
    for (size_t i = 0; i < kReplicas; ++i) {
      EXPECT_EQ(std::memcmp(variable->copy(i).data(), expected->data(), expected->byte_size()), 0)
          << AggregationName(aggregation) << " copy " << i;
    }
    EXPECT_TRUE(variable->Read(nullptr, {}).value()->ContentsEqual(*expected));
  }
}

TEST_F(VariableTest, AReplicaReadsWhatItsMergedWriteLeft) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Scalar<float>(1), Synchronization::kOnWrite, Aggregation::kSum);
  const Ref<Value> seen =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *Tensor::Scalar<float>(1), {}));
                TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> value, variable->Read(&replica, {}));
                TUTTI_ASSIGN_OR_RETURN(const Tensor* data, variable->Data(&replica));
                EXPECT_EQ(data, &variable->copy(static_cast<size_t>(replica.replica_id())));
                return Value::OfTensor(std::move(value));
              }));
  EXPECT_THAT(Local(strategy, seen), ElementsAre("3", "3"));
}

TEST_F(VariableTest, ReplicasThatWriteDifferentVariablesGetAnErrorThatNamesBoth) {
  const Ref<Strategy> strategy = Mirrored(2);
  const auto one = Tensor::Scalar<float>(1);
  const Ref<Variable> variables[] = {
      Make(strategy, one, Synchronization::kOnWrite, Aggregation::kSum, "left"),
      Make(strategy, one, Synchronization::kOnWrite, Aggregation::kSum, "right")};
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        const Status status = variables[replica.replica_id()]->AssignAdd(&replica, *one, {});
        EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument, {"'left'", "'right'"}));
        return status;
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument));
  EXPECT_THAT(Copies(*variables[0]), ElementsAre(1, 1));
  EXPECT_THAT(Copies(*variables[1]), ElementsAre(1, 1));
}

TEST_F(VariableTest, ReplicasThatWriteInDifferentWaysGetAnErrorThatNamesBoth) {
  const Ref<Strategy> strategy = Mirrored(2);
  const auto one = Tensor::Scalar<float>(1);
  const Ref<Variable> variable = Make(strategy, one, Synchronization::kOnWrite, Aggregation::kSum);
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        TUTTI_RETURN_IF_ERROR(replica.replica_id() == 0 ? variable->AssignAdd(&replica, *one, {})
                                                        : variable->AssignSub(&replica, *one, {}));
        return Value::None();
      }));
  EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument, {"assign_add", "assign_sub"}));
}

// ---- ON_READ. ----

TEST_F(VariableTest, OnReadKeepsWritesOfReplicasApartAndAggregatesWhenRead) {
  const std::map<Aggregation, float> expected = {
      {Aggregation::kSum, 6}, {Aggregation::kMean, 3}, {Aggregation::kOnlyFirstReplica, 2}};
  const Ref<Strategy> strategy = Mirrored(2);
  for (const auto& [aggregation, value] : expected) {
    const Ref<Variable> variable =
        Make(strategy, Tensor::Scalar<float>(0), Synchronization::kOnRead, aggregation);
    ASSERT_TRUE(WriteFromReplicas(strategy, variable, &Variable::AssignAdd).ok());
    EXPECT_THAT(Copies(*variable), ElementsAre(2, 4));
    EXPECT_EQ(ReadOutside(*variable), value);
  }
}

TEST_F(VariableTest, OnReadWithoutAggregationHasNoCommonValueOutside) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Scalar<float>(0), Synchronization::kOnRead, Aggregation::kNone);
  ASSERT_TRUE(WriteFromReplicas(strategy, variable, &Variable::Assign).ok());
  EXPECT_TRUE(
      Fails(variable->Read(nullptr, {}).status(), StatusCode::kInvalidArgument, {"'v'", "NONE"}));
  EXPECT_THAT(Local(strategy, Value::OfLeaf(Leaf(LeafKind::kVariable, variable))),
              ElementsAre("2", "4"));
}

TEST_F(VariableTest, OnReadWithSumDividesWhatIsAssignedOutsideAndRefusesToAdd) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Scalar<float>(0), Synchronization::kOnRead, Aggregation::kSum);
  ASSERT_TRUE(variable->Assign(nullptr, *Tensor::Scalar<float>(7), {}).ok());
  EXPECT_THAT(Copies(*variable), ElementsAre(3.5f, 3.5f));
  EXPECT_EQ(ReadOutside(*variable), 7);
  EXPECT_TRUE(Fails(variable->AssignAdd(nullptr, *Tensor::Scalar<float>(1), {}),
                    StatusCode::kInvalidArgument, {"assign_add", "'v'"}));
  EXPECT_TRUE(Fails(variable->AssignSub(nullptr, *Tensor::Scalar<float>(1), {}),
                    StatusCode::kInvalidArgument, {"assign_sub"}));
}

TEST_F(VariableTest, OnReadWithMeanIsWrittenOnEveryCopyFromOutside) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Scalar<float>(0), Synchronization::kOnRead, Aggregation::kMean);
  ASSERT_TRUE(variable->Assign(nullptr, *Tensor::Scalar<float>(7), {}).ok());
  ASSERT_TRUE(variable->AssignAdd(nullptr, *Tensor::Scalar<float>(1), {}).ok());
  EXPECT_THAT(Copies(*variable), ElementsAre(8, 8));
}

// ---- Plain variables, making, checking. ----

TEST_F(VariableTest, APlainVariableIsWrittenAsItComes) {
  const Ref<Strategy> strategy =
      Strategy::CreateOneDevice(environment_, *devices_, "CPU:3").value();
  const Ref<Variable> variable =
      Make(strategy, Tensor::Scalar<float>(1), Synchronization::kNone, Aggregation::kNone);
  ASSERT_TRUE(WriteFromReplicas(strategy, variable, &Variable::AssignAdd).ok());
  EXPECT_EQ(ReadOutside(*variable), 3);
  EXPECT_EQ(variable->ToString(), "<Variable 'v' float32[] 3>");
}

TEST_F(VariableTest, NamesItsCopiesAndKeepsThemApartFromTheInitialValue) {
  const Ref<Strategy> strategy = Mirrored(3);
  const Ref<Tensor> initial = Tensor::Vector<int32_t>({1, 2});
  const Ref<Variable> variable =
      Make(strategy, initial, Synchronization::kOnWrite, Aggregation::kSum, "w");
  initial->mutable_span<int32_t>()[0] = 9;
  EXPECT_EQ(variable->copy_name(0), "w");
  EXPECT_EQ(variable->copy_name(1), "w/replica_1");
  EXPECT_EQ(variable->copy_name(2), "w/replica_2");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(variable->copy(i).ToString(), "int32[2] [1 2]");
    EXPECT_TRUE(variable->copy(i).read_only());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(variable->copy(i).data()) % 64, 0u);
    EXPECT_NE(variable->copy(i).data(), initial->data());
  }
  EXPECT_TRUE(variable->trainable());
  EXPECT_EQ(variable->ToString(),
            "MirroredVariable:{0: <Variable 'w' int32[2] [1 2]>, 1: <Variable 'w/replica_1' "
            "int32[2] [1 2]>, 2: <Variable 'w/replica_2' int32[2] [1 2]>}");
}

TEST_F(VariableTest, DataShowsLaterWritesAndReadDoesNot) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Scalar<float>(1), Synchronization::kOnWrite, Aggregation::kSum);
  const Tensor* live = variable->Data(nullptr).value();
  const Ref<Tensor> read = variable->Read(nullptr, {}).value();
  ASSERT_TRUE(variable->Assign(nullptr, *Tensor::Scalar<float>(5), {}).ok());
  EXPECT_EQ(live->item<float>(), 5);
  EXPECT_EQ(read->item<float>(), 1);
}

TEST_F(VariableTest, AVariableCanBeAddedToItselfFromItsOwnMemory) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Vector<float>({1, 2}), Synchronization::kOnWrite, Aggregation::kSum);
  ASSERT_TRUE(variable->AssignAdd(nullptr, variable->copy(0), {}).ok());
  EXPECT_EQ(variable->copy(0).ToString(), "float32[2] [2 4]");
  EXPECT_EQ(variable->copy(1).ToString(), "float32[2] [2 4]");
  const int64_t begin[] = {1}, size[] = {2}, step[] = {-1};
  const Ref<Tensor> reversed = variable->copy(1).SliceGeneral(begin, size, step).value();
  ASSERT_TRUE(variable->Assign(nullptr, *reversed, {}).ok());
  EXPECT_EQ(variable->copy(0).ToString(), "float32[2] [4 2]");
  EXPECT_EQ(variable->copy(1).ToString(), "float32[2] [4 2]");
}

TEST_F(VariableTest, NamesBothDTypesAndBothShapes) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Vector<float>({1, 2}), Synchronization::kOnWrite, Aggregation::kSum);
  EXPECT_TRUE(Fails(variable->Assign(nullptr, *Tensor::Vector<int32_t>({1, 2}), {}),
                    StatusCode::kInvalidArgument, {"'v'", "float32", "int32"}));
  EXPECT_TRUE(Fails(variable->AssignSub(nullptr, *Tensor::Vector<float>({1, 2, 3}), {}),
                    StatusCode::kInvalidArgument, {"'v'", "[2]", "[3]"}));
}

TEST_F(VariableTest, ABoolVariableIsAssignedButNotAddedTo) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable = Make(strategy, Tensor::Scalar<bool>(false),
                                      Synchronization::kOnWrite, Aggregation::kOnlyFirstReplica);
  ASSERT_TRUE(variable->Assign(nullptr, *Tensor::Scalar<bool>(true), {}).ok());
  EXPECT_TRUE(variable->copy(1).item<bool>());
  EXPECT_TRUE(Fails(variable->AssignAdd(nullptr, *Tensor::Scalar<bool>(true), {}),
                    StatusCode::kInvalidArgument, {"bool"}));
}

TEST_F(VariableTest, RefusesOptionsThatCannotBe) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Tensor> one = Tensor::Scalar<float>(1);
  VariableOptions options;
  options.synchronization = Synchronization::kNone;
  EXPECT_TRUE(Fails(Variable::Create(strategy, *one, options).status(),
                    StatusCode::kInvalidArgument, {"NONE", "2 replicas"}));
  options.synchronization = Synchronization::kOnRead;
  options.trainable = true;
  EXPECT_TRUE(Fails(Variable::Create(strategy, *one, options).status(),
                    StatusCode::kInvalidArgument, {"trainable", "ON_READ"}));
  options.trainable.reset();
  EXPECT_FALSE(Variable::Create(strategy, *one, options).value()->trainable());
  options.aggregation = static_cast<Aggregation>(9);
  EXPECT_TRUE(Fails(Variable::Create(strategy, *one, options).status(),
                    StatusCode::kInvalidArgument, {"9"}));
}

TEST_F(VariableTest, AReplicaMustPassItsOwnContext) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Strategy> other = Mirrored(2);
  const Ref<Tensor> one = Tensor::Scalar<float>(1);
  const Ref<Variable> variable = Make(strategy, one, Synchronization::kOnRead, Aggregation::kSum);
  const Ref<Variable> foreign = Make(other, one, Synchronization::kOnRead, Aggregation::kSum);
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            EXPECT_TRUE(Fails(variable->Assign(nullptr, *one, {}), StatusCode::kFailedPrecondition,
                              {"context"}));
            EXPECT_TRUE(Fails(foreign->Assign(&replica, *one, {}), StatusCode::kFailedPrecondition,
                              {"strategy"}));
            EXPECT_TRUE(Fails(Variable::Create(strategy, *one, {}).status(),
                              StatusCode::kFailedPrecondition));
            return Value::None();
          }));
}

TEST_F(VariableTest, AMergeFunctionWritesFromOutsideAndNotWithAReplicasContext) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Tensor> one = Tensor::Scalar<float>(1);
  const Ref<Variable> variable = Make(strategy, one, Synchronization::kOnWrite, Aggregation::kSum);
  MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
            const Ref<Function> merge =
                Fn([&](Context& context, const Value&) -> Result<Ref<Value>> {
                  EXPECT_TRUE(Fails(variable->AssignAdd(&replica, *one, {}),
                                    StatusCode::kFailedPrecondition, {"assign_add"}));
                  TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&context, *one, {}));
                  return Value::None();
                });
            return replica.MergeCall(*merge, nullptr, nullptr, {});
          }));
  EXPECT_THAT(Copies(*variable), ElementsAre(2, 2));
}

TEST_F(VariableTest, CanBeReadAndWrittenFromSeveralThreads) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable = Make(strategy, Tensor::Vector<int64_t>({0, 0, 0}),
                                      Synchronization::kOnWrite, Aggregation::kSum);
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      EXPECT_TRUE(variable->AssignAdd(nullptr, *Tensor::Vector<int64_t>({1, 1, 1}), {}).ok());
      const Ref<Tensor> read = variable->Read(nullptr, {}).value();
      EXPECT_EQ(read->span<int64_t>()[0], read->span<int64_t>()[2]);
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(variable->copy(1).item<int64_t>(), 1000);
}

class MapStore final : public SaveSink, public RestoreSource {
 public:
  Status PutTensor(std::string_view name, Ref<Tensor> tensor) override {
    tensors_[std::string(name)] = std::move(tensor);
    return OkStatus();
  }
  Status PutSlice(std::string_view, Ref<Tensor>, const TensorSlice&) override {
    return Status(StatusCode::kUnimplemented, "slices");
  }
  Result<TensorSpec> GetSpec(std::string_view name) override {
    return tensors_.at(std::string(name))->spec();
  }
  Result<Ref<Tensor>> GetTensor(std::string_view name) override {
    return tensors_.at(std::string(name));
  }
  Result<Ref<Tensor>> GetSlice(std::string_view, const TensorSlice&, const Shape&) override {
    return Status(StatusCode::kUnimplemented, "slices");
  }

 private:
  std::map<std::string, Ref<Tensor>> tensors_;
};

TEST_F(VariableTest, RestoresAnOnReadSumSoThatItsSumIsWhatWasSaved) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> variable =
      Make(strategy, Tensor::Scalar<float>(0), Synchronization::kOnRead, Aggregation::kSum);
  ASSERT_TRUE(WriteFromReplicas(strategy, variable, &Variable::Assign).ok());
  MapStore store;
  ASSERT_TRUE(variable->Save("v", &store).ok());
  ASSERT_TRUE(variable->Assign(nullptr, *Tensor::Scalar<float>(0), {}).ok());
  ASSERT_TRUE(variable->Restore("v", &store).ok());
  EXPECT_EQ(ReadOutside(*variable), 6);
  EXPECT_THAT(Copies(*variable), ElementsAre(3, 3));
}

// ---- Byte strings, shapes, places. ----

Ref<Tensor> Strings(std::initializer_list<std::string_view> texts) {
  std::vector<BytesView> views;
  for (const std::string_view text : texts) views.push_back({text.data(), text.size()});
  return Tensor::FromStrings(Shape({static_cast<int64_t>(views.size())}), views).value();
}

TEST_F(VariableTest, ByteStringsAreAssignedAndReadNotAdded) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Variable> names = Make(strategy, Strings({"a", "bc"}), Synchronization::kAuto,
                                   Aggregation::kOnlyFirstReplica, "names");
  const Ref<Tensor> before = names->Read(nullptr, {}).value();
  ASSERT_TRUE(names->Assign(nullptr, *Strings({"def", ""}), {}).ok());
  EXPECT_EQ(before->ContentsToString(), Strings({"a", "bc"})->ContentsToString());
  EXPECT_THAT(Local(strategy, Value::OfLeaf(Leaf(LeafKind::kVariable, names))),
              testing::Each(Strings({"def", ""})->ContentsToString()));
  const Status status = RunStatus(
      strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
        const Ref<Tensor> mine =
            replica.replica_id() == 0 ? Strings({"x", "y"}) : Strings({"z", "z"});
        TUTTI_RETURN_IF_ERROR(names->Assign(&replica, *mine, {}));
        return Value::OfTensor(names->Read(&replica, {}).value());
      }));
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(names->Read(nullptr, {}).value()->ContentsToString(),
            Strings({"x", "y"})->ContentsToString());
  EXPECT_TRUE(Fails(names->AssignAdd(nullptr, *Strings({"x", "y"}), {}),
                    StatusCode::kInvalidArgument, {"assign_add", "'names'", "assigned only"}));
  EXPECT_TRUE(Fails(names->Data(nullptr).status(), StatusCode::kInvalidArgument, {"byte strings"}));
  EXPECT_EQ(names->ToString().find("MirroredVariable:{0: <Variable 'names' bytes[2]"), 0U)
      << names->ToString();
}

TEST_F(VariableTest, TheInitialValueFitsTheShapeThatIsGiven) {
  VariableOptions options;
  options.name = "w";
  options.shape = PartialShape({-1, 2});
  const Ref<Tensor> fits = Tensor::Create(DType::kFloat32, Shape({3, 2})).value();
  const Ref<Variable> variable = Variable::Create(Mirrored(2), *fits, options).value();
  EXPECT_EQ(variable->shape(), PartialShape({-1, 2}));
  const Ref<Tensor> other = Tensor::Create(DType::kFloat32, Shape({4, 3})).value();
  EXPECT_TRUE(Fails(variable->Assign(nullptr, *other, {}), StatusCode::kInvalidArgument,
                    {"[?,2]", "[4,3]", "keeps the shape"}));
  EXPECT_TRUE(Fails(Variable::Create(Mirrored(2), *Tensor::Vector<float>({1}), options).status(),
                    StatusCode::kInvalidArgument, {"'w'", "[1]", "[?,2]"}));
}

TEST_F(VariableTest, KnowsItsDistributionAndWhereItsCopiesArePlaced) {
  const Ref<Variable> mirrored = Make(Mirrored(2), Tensor::Scalar(1.0f), Synchronization::kAuto,
                                      Aggregation::kNone);
  EXPECT_EQ(mirrored->distribution(), Distribution::kMirrored);
  EXPECT_EQ(mirrored->copy_device(1), "/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(Make(Mirrored(2), Tensor::Scalar(1.0f), Synchronization::kOnRead, Aggregation::kSum)
                ->distribution(),
            Distribution::kSyncOnRead);
  const Ref<Strategy> one = Strategy::CreateOneDevice(environment_, *devices_, "CPU:0").value();
  EXPECT_EQ(
      Make(one, Tensor::Scalar(1.0f), Synchronization::kAuto, Aggregation::kNone)->distribution(),
      Distribution::kNone);
}

// ---- In replicas. ----

TEST_F(VariableTest, ReplicasMakeOneVariableTogether) {
  const Ref<Strategy> strategy = Mirrored(3);
  const Ref<Value> made =
      MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
                VariableOptions options;
                options.aggregation = Aggregation::kSum;
                const auto number = static_cast<float>(replica.replica_id() + 5);
                TUTTI_ASSIGN_OR_RETURN(
                    Ref<Variable> variable,
                    Variable::CreateIn(replica, *Tensor::Scalar(number), options, {}));
                TUTTI_RETURN_IF_ERROR(variable->AssignAdd(&replica, *Tensor::Scalar(1.0f), {}));
                return Value::OfLeaf(Leaf(LeafKind::kVariable, std::move(variable)));
              }));
  ASSERT_EQ(made->leaf().kind(), LeafKind::kVariable);
  EXPECT_THAT(Copies(*made->leaf().object_as<Variable>()), ElementsAre(8, 8, 8));
}

TEST_F(VariableTest, UnequalVariablesOfReplicasAreAnErrorThatNamesBoth) {
  const Ref<Strategy> strategy = Mirrored(2);
  const auto make = [&](const std::function<void(bool, VariableOptions*, Ref<Tensor>*)>& differ) {
    return RunStatus(
        strategy, ReplicaFn([&](ReplicaContext& replica, const Value&) -> Result<Ref<Value>> {
          VariableOptions options;
          options.name = "w";
          Ref<Tensor> initial = Tensor::Vector<float>({1, 2});
          differ(replica.replica_id() == 1, &options, &initial);
          TUTTI_RETURN_IF_ERROR(Variable::CreateIn(replica, *initial, options, {}).status());
          return Value::None();
        }));
  };
  EXPECT_TRUE(make([](bool, VariableOptions*, Ref<Tensor>*) {}).ok());
  EXPECT_TRUE(Fails(make([](bool second, VariableOptions*, Ref<Tensor>* initial) {
                      if (second) *initial = Tensor::Vector<double>({1, 2});
                    }),
                    StatusCode::kInvalidArgument,
                    {"replica 0 makes 'w' float32[2]", "replica 1 makes 'w' float64[2]"}));
  EXPECT_TRUE(Fails(make([](bool second, VariableOptions*, Ref<Tensor>* initial) {
                      if (second) *initial = Tensor::Vector<float>({1});
                    }),
                    StatusCode::kInvalidArgument, {"float32[2]", "float32[1]"}));
  EXPECT_TRUE(Fails(make([](bool second, VariableOptions* options, Ref<Tensor>*) {
                      if (second) options->name = "v";
                    }),
                    StatusCode::kInvalidArgument, {"'w'", "'v'"}));
  EXPECT_TRUE(Fails(make([](bool second, VariableOptions* options, Ref<Tensor>*) {
                      if (second) options->aggregation = Aggregation::kMean;
                    }),
                    StatusCode::kInvalidArgument, {"aggregation NONE", "aggregation MEAN"}));
}

TEST_F(VariableTest, AReplicaThatMakesNoneWhereOthersDoStopsTheRun) {
  const Ref<Strategy> strategy = Mirrored(2);
  EXPECT_TRUE(Fails(
      RunStatus(strategy, ReplicaFn([&](ReplicaContext& replica, const Value&)
                                        -> Result<Ref<Value>> {
                  if (replica.replica_id() == 1) return Value::None();
                  TUTTI_RETURN_IF_ERROR(
                      Variable::CreateIn(replica, *Tensor::Scalar(1.0f), {}, {}).status());
                  return Value::None();
                })),
      StatusCode::kFailedPrecondition, {"replica 1 returned after 0"}));
}

}  // namespace
}  // namespace tutti
