#include "core/strategy/distributed_dataset.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/crc32c.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/function/function_registry.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;

// With and without the thread that makes steps ahead.
class DistributedDatasetTest : public StrategyTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    StrategyTest::SetUp();
    datasets_ = DatasetEnvironment::Create(environment_, nullptr);
    if (!GetParam()) options_.steps_ahead = 0;
  }

  Ref<Dataset> Range(int64_t stop) {
    return Dataset::Range(datasets_, 0, stop, 1).value();
  }
  Ref<Dataset> Batches(int64_t stop, int64_t batch_size, bool drop_remainder = false) {
    return Range(stop)->Batch(batch_size, drop_remainder).value();
  }
  Ref<DistributedDataset> Distribute(const Ref<Strategy>& strategy, const Ref<Dataset>& dataset) {
    return DistributedDataset::Create(strategy, *dataset, options_, WithinReason()).value();
  }
  Ref<DistributedDataset> FromFunction(const Ref<Strategy>& strategy,
                                       const Ref<Dataset>& dataset) {
    const Ref<Function> fn = Fn([dataset](Context&, const Value&) -> Result<Ref<Value>> {
      return Value::OfLeaf(Leaf(LeafKind::kDataset, dataset));
    });
    return DistributedDataset::CreateFromFunction(strategy, *fn, options_, WithinReason()).value();
  }
  Ref<DistributedIterator> Iterate(const Ref<DistributedDataset>& dataset) {
    return DistributedIterator::Create(dataset, WithinReason()).value();
  }
  std::string NextText(const Ref<DistributedIterator>& iterator) {
    Result<Ref<Value>> step = iterator->Next(WithinReason());
    if (!step.ok()) return step.status().ToString();
    return *step ? Text(*step) : "end";
  }
  std::vector<std::string> AllSteps(const Ref<DistributedDataset>& dataset) {
    const Ref<DistributedIterator> iterator = Iterate(dataset);
    std::vector<std::string> steps;
    while (true) {
      steps.push_back(NextText(iterator));
      if (steps.back() == "end" || steps.size() > 100) break;
    }
    EXPECT_EQ(NextText(iterator), "end") << "the end must stay";
    EXPECT_TRUE(iterator->Close(WithinReason()).ok());
    return steps;
  }

  Ref<DatasetEnvironment> datasets_;
  InputOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Prefetch, DistributedDatasetTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "OnDemand"; });

TEST_P(DistributedDatasetTest, SplitsTheLastPartialBatch) {
  EXPECT_THAT(AllSteps(Distribute(Mirrored(2), Batches(6, 4))),
              ElementsAre("PerReplica:{0: [0 1], 1: [2 3]}", "PerReplica:{0: [4], 1: [5]}", "end"));
}

TEST_P(DistributedDatasetTest, GivesReplicasWithoutRowsEmptyBatches) {
  EXPECT_THAT(AllSteps(Distribute(Mirrored(5), Batches(4, 4))),
              ElementsAre("PerReplica:{0: [0], 1: [1], 2: [2], 3: [3], 4: []}", "end"));
}

TEST_P(DistributedDatasetTest, TellsOfItsRunWhatLimitedTheSteps) {
  DatasetOptions options;
  ASSERT_TRUE(options.SetBool("experimental_stats.profile", true).ok());
  const Ref<DistributedDataset> dataset =
      Distribute(Mirrored(2), Batches(12, 4)->WithOptions(options).value());
  EXPECT_EQ(dataset->Explain().find("run:"), std::string::npos);
  const Ref<DistributedIterator> iterator = Iterate(dataset);
  const std::string begin = iterator->Save(WithinReason()).value();
  for (int step = 0; step < 3; ++step) EXPECT_NE(NextText(iterator), "end");
  EXPECT_EQ(NextText(iterator), "end");
  const RunReport report = iterator->Explain();
  EXPECT_TRUE(report.measured);
  EXPECT_EQ(report.run.turns, 4);
  EXPECT_EQ(report.run.rows, 3);
  EXPECT_LE(report.run.waited_ns, report.run.elapsed_ns);
  ASSERT_EQ(report.steps.size(), 2u);
  EXPECT_EQ(report.steps[0].totals.rows, 3);
  EXPECT_EQ(report.steps[1].totals.rows, 12);
  EXPECT_FALSE(report.verdict.empty());
  EXPECT_THAT(report.ToText(), testing::HasSubstr("run: 3 rows in "));
  EXPECT_THAT(dataset->Explain(), testing::HasSubstr("run: "));
  EXPECT_EQ(dataset->ExplainRun().steps[1].totals.rows, 12);
  ASSERT_TRUE(iterator->Restore(begin, WithinReason()).ok());
  EXPECT_EQ(iterator->Explain().run.turns, 0);
  EXPECT_NE(NextText(iterator), "end");
  EXPECT_EQ(iterator->Explain().run.rows, 1);
  EXPECT_TRUE(iterator->Close(WithinReason()).ok());
  EXPECT_EQ(iterator->Explain().run.rows, 1);
  // Where nobody asked nothing is measured.
  const Ref<DistributedIterator> plain = Iterate(Distribute(Mirrored(2), Batches(4, 4)));
  EXPECT_NE(NextText(plain), "end");
  EXPECT_FALSE(plain->Explain().measured);
  EXPECT_EQ(plain->Explain().run.turns, 0);
  EXPECT_TRUE(plain->Close(WithinReason()).ok());
}

TEST_P(DistributedDatasetTest, NeverCutsAcrossBatches) {
  EXPECT_THAT(AllSteps(Distribute(Mirrored(2), Batches(4, 2))),
              ElementsAre("PerReplica:{0: [0], 1: [1]}", "PerReplica:{0: [2], 1: [3]}", "end"));
}

TEST_P(DistributedDatasetTest, GivesAnOptionalThatIsEmptyAtTheEnd) {
  const Ref<DistributedIterator> iterator = Iterate(Distribute(Mirrored(2), Batches(9, 4)));
  EXPECT_EQ(Text(iterator->NextOptional(WithinReason()).value()),
            "Optional(PerReplica:{0: [0 1], 1: [2 3]})");
  EXPECT_EQ(Text(iterator->NextOptional(WithinReason()).value()),
            "Optional(PerReplica:{0: [4 5], 1: [6 7]})");
  EXPECT_EQ(Text(iterator->NextOptional(WithinReason()).value()),
            "Optional(PerReplica:{0: [8], 1: []})");
  EXPECT_EQ(Text(iterator->NextOptional(WithinReason()).value()), "Optional()");
}

TEST_P(DistributedDatasetTest, GoesOnForEverOverAnInfiniteDataset) {
  const Ref<Dataset> dataset = Range(4)->Repeat(-1).value()->Batch(4).value();
  const Ref<DistributedDataset> distributed = Distribute(Mirrored(2), dataset);
  EXPECT_EQ(distributed->cardinality(), kInfiniteCardinality);
  const Ref<DistributedIterator> iterator = Iterate(distributed);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(NextText(iterator), "PerReplica:{0: [0 1], 1: [2 3]}");
  }
}

TEST_P(DistributedDatasetTest, TellsReplicasTheRowsOfTheWholeStep) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<DistributedIterator> iterator = Iterate(Distribute(strategy, Batches(7, 4)));
  const Ref<Function> rows = Fn([](Context& context, const Value&) -> Result<Ref<Value>> {
    return ScalarOf(context.global_rows());
  });
  for (const char* expected : {"4", "3"}) {
    const Ref<Value> batch = iterator->Next(WithinReason()).value();
    EXPECT_THAT(Local(strategy, MustRun(strategy, rows, batch)),
                ElementsAre(expected, expected));
  }
}

TEST_P(DistributedDatasetTest, SaysToCallBatchFirst) {
  EXPECT_TRUE(Fails(
      DistributedDataset::Create(Mirrored(2), *Range(4), options_, WithinReason()).status(),
      StatusCode::kInvalidArgument, {"call batch first", "int64[]"}));
}

TEST_P(DistributedDatasetTest, KnowsItsSpecAndItsSteps) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<DistributedDataset> partial = Distribute(strategy, Batches(6, 4));
  EXPECT_EQ(partial->element_spec().ToString(), "int64[?]");
  EXPECT_EQ(partial->cardinality(), 2);
  const Ref<DistributedDataset> whole = Distribute(strategy, Batches(8, 4, true));
  EXPECT_EQ(whole->element_spec().ToString(), "int64[2]");
  EXPECT_EQ(FromFunction(strategy, Batches(12, 4, true))->element_spec().ToString(), "int64[?]");
  EXPECT_EQ(FromFunction(strategy, Batches(16, 4, true))->element_spec().ToString(), "int64[4]");
  EXPECT_EQ(FromFunction(strategy, Batches(12, 4, true))->cardinality(), 2);
  // A step has the parts of both replicas; where there is one, its part is the step.
  EXPECT_EQ(partial->step_spec().ToString(), "PerReplica(int64[?], int64[?])");
  EXPECT_TRUE(partial->step_spec()
                  .Check(*Iterate(partial)->Next(WithinReason()).value(), "the step")
                  .ok());
  EXPECT_FALSE(partial->step_spec().Check(*ScalarOf(int64_t{1}), "a scalar").ok());
  EXPECT_EQ(Distribute(Mirrored(1), Batches(6, 4))->step_spec().ToString(), "int64[?]");
}

// ---- One replica. ----

// Strategies that have one: their steps are plain.
class OneReplicaTest : public DistributedDatasetTest {
 protected:
  std::vector<Ref<Strategy>> Strategies() {
    return {Strategy::CreateDefault(environment_, *devices_).value(),
            Strategy::CreateOneDevice(environment_, *devices_, "CPU:1").value(), Mirrored(1)};
  }
  // {'image': [n, 2] of float32, 'label': [n] of int64} in batches of four, seven rows in all.
  Ref<Dataset> Digits() {
    const Ref<Tensor> images = Tensor::Create(DType::kFloat32, Shape({7, 2})).value();
    for (size_t i = 0; i < 14; ++i) {
      images->mutable_span<float>()[i] = static_cast<float>(i * i % 11) / 8;
    }
    const Ref<Value> all = Value::Dict({{"image", Value::OfTensor(images)},
                                        {"label", VectorOf<int64_t>({1, 0, 1, 1, 0, 1, 0})}})
                               .value();
    return Dataset::FromTensorSlices(datasets_, all).value()->Batch(4).value();
  }
  // What a replica sees of `args`.
  int64_t RowsSeen(const Ref<Strategy>& strategy, const Ref<Value>& args) {
    const Ref<Function> rows = Fn([](Context& context, const Value&) -> Result<Ref<Value>> {
      return ScalarOf(context.global_rows());
    });
    const Ref<Value> seen = strategy->LocalResults(*MustRun(strategy, rows, args)).value();
    return seen->Child(0)->leaf().tensor().item<int64_t>();
  }
};

INSTANTIATE_TEST_SUITE_P(Prefetch, OneReplicaTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "OnDemand"; });

TEST_P(OneReplicaTest, GivesPlainStepsOfTheSpecThatIsTold) {
  for (const Ref<Strategy>& strategy : Strategies()) {
    EXPECT_THAT(AllSteps(Distribute(strategy, Batches(3, 2))), ElementsAre("[0 1]", "[2]", "end"));
    EXPECT_THAT(AllSteps(FromFunction(strategy, Batches(3, 2))),
                ElementsAre("[0 1]", "[2]", "end"));
    EXPECT_THAT(AllSteps(FromFunction(strategy, Range(2))), ElementsAre("0", "1", "end"));
    EXPECT_EQ(Distribute(strategy, Batches(3, 2))->element_spec().ToString(), "int64[?]");
    const Ref<DistributedDataset> digits = Distribute(strategy, Digits());
    const Ref<Value> step = Iterate(digits)->Next(WithinReason()).value();
    EXPECT_EQ(step->spec().ToString(), "{'image': *, 'label': *}");
    EXPECT_EQ(digits->element_spec().tree().ToString(), step->spec().ToString());
    EXPECT_EQ(step->leaf(0).kind(), LeafKind::kTensor);
  }
}

TEST_P(OneReplicaTest, TheRowsOfTheStepReachTheReplicaByWhateverPartOfTheBatch) {
  for (const Ref<Strategy>& strategy : Strategies()) {
    const Ref<DistributedIterator> iterator = Iterate(Distribute(strategy, Digits()));
    for (const int64_t rows : {4, 3}) {
      const Ref<Value> batch = iterator->Next(WithinReason()).value();
      const Ref<Value> image = batch->Get({"image"}).value();
      EXPECT_EQ(RowsSeen(strategy, batch), rows);
      EXPECT_EQ(RowsSeen(strategy, image), rows);
      EXPECT_EQ(RowsSeen(strategy, Value::List({Value::Tuple({ScalarOf(1), image}), batch})), rows);
      EXPECT_EQ(RowsSeen(strategy, Value::OfTensor(batch->leaf(1).tensor_ref())), rows);
      EXPECT_EQ(RowsSeen(strategy, strategy->LocalResults(*batch).value()->Child(0)), rows);
    }
    EXPECT_FALSE(iterator->Next(WithinReason()).value());
  }
}

TEST_P(OneReplicaTest, AnOptionalStepAndOneBehindARestoredPositionHaveTheirRows) {
  const Ref<Strategy> strategy = Mirrored(1);
  const Ref<DistributedDataset> dataset = Distribute(strategy, Batches(7, 4));
  const Ref<DistributedIterator> iterator = Iterate(dataset);
  const Ref<Value> first = iterator->NextOptional(WithinReason()).value();
  EXPECT_EQ(Text(first), "Optional([0 1 2 3])");
  EXPECT_EQ(RowsSeen(strategy, first->leaf().optional_value_ref()), 4);
  const std::string position = iterator->Save(WithinReason()).value();
  const Ref<DistributedIterator> restored = Iterate(dataset);
  ASSERT_TRUE(restored->Restore(position, WithinReason()).ok());
  for (const Ref<DistributedIterator>& walk : {iterator, restored}) {
    const Ref<Value> last = walk->NextOptional(WithinReason()).value();
    EXPECT_EQ(Text(last), "Optional([4 5 6])");
    EXPECT_EQ(RowsSeen(strategy, last->leaf().optional_value_ref()), 3);
    EXPECT_EQ(Text(walk->NextOptional(WithinReason()).value()), "Optional()");
  }
}

TEST_P(OneReplicaTest, WhatIsMadeOfABatchIsOfNoStep) {
  for (const Ref<Strategy>& strategy : Strategies()) {
    const Ref<DistributedIterator> iterator = Iterate(Distribute(strategy, Digits()));
    const Ref<Value> first = iterator->Next(WithinReason()).value();
    const Ref<Value> second = iterator->Next(WithinReason()).value();
    EXPECT_EQ(RowsSeen(strategy, Value::Tuple({first, second})), -1) << "of different steps";
    const Tensor& image = first->leaf(0).tensor();
    EXPECT_EQ(RowsSeen(strategy, Value::OfTensor(image.Slice(0, 4))), -1);
    EXPECT_EQ(RowsSeen(strategy, Value::OfTensor(image.Copy().value())), -1);
    const Ref<Tensor> own = Tensor::MakeMutable(first->leaf(0).tensor_ref()).value();
    EXPECT_EQ(RowsSeen(strategy, Value::OfTensor(own)), -1);
    const Ref<Function> same = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
      return Ref<Value>::Retain(const_cast<Value*>(&in));
    });
    EXPECT_EQ(RowsSeen(strategy, MustRun(strategy, same, first)), -1);
    for (const Ref<Value>& made :
         {strategy->Reduce(ReduceOp::kSum, *first, std::nullopt, WithinReason()).value(),
          strategy->Gather(*first, 0, WithinReason()).value()}) {
      EXPECT_EQ(Text(made), Text(first));
      EXPECT_EQ(RowsSeen(strategy, made), -1);
    }
    const Ref<Dataset> again = Dataset::FromTensors(datasets_, first).value();
    const Ref<Iterator> elements = Iterator::Create(again, {}, WithinReason()).value();
    EXPECT_EQ(RowsSeen(strategy, elements->Next(WithinReason()).value()), -1);
    EXPECT_EQ(RowsSeen(Mirrored(2), first), -1) << "both replicas get all of it";
  }
}

TEST_P(OneReplicaTest, AStepOfTrainingIsTheSameToTheBitUnderEveryStrategyOfOneReplica) {
  // What comes out without any strategy.
  std::vector<float> expected = {0, 0};
  const auto descend = [](const Value& batch, int64_t rows, const float* weights) {
    const float rate = 0.5f / static_cast<float>(rows);
    Ref<Tensor> change = Tensor::Create(DType::kFloat32, Shape({2})).value();
    const std::span<const float> image = batch.leaf(0).tensor().span<float>();
    const std::span<const int64_t> label = batch.leaf(1).tensor().span<int64_t>();
    for (size_t row = 0; row < label.size(); ++row) {
      const float* pixels = &image[2 * row];
      const float error = weights[0] * pixels[0] + weights[1] * pixels[1] -
                          static_cast<float>(label[row]);
      for (size_t i = 0; i < 2; ++i) change->mutable_span<float>()[i] += error * pixels[i];
    }
    for (float& element : change->mutable_span<float>()) element *= rate;
    return change;
  };
  {
    const Ref<Iterator> batches = Iterator::Create(Digits(), {}, WithinReason()).value();
    while (const Ref<Value> batch = batches->Next(WithinReason()).value()) {
      const Ref<Tensor> change = descend(*batch, batch->leaf(1).tensor().dim(0), expected.data());
      for (size_t i = 0; i < 2; ++i) expected[i] -= change->span<float>()[i];
    }
    EXPECT_GT(expected[0], 0.1f);
  }
  for (const Ref<Strategy>& strategy : Strategies()) {
    std::vector<float> weights = {0, 0};
    const Ref<Function> step = ReplicaFn([&](ReplicaContext& replica, const Value& batch) {
      return replica.AllReduce(
          ReduceOp::kSum, *Value::OfTensor(descend(batch, replica.global_rows(), weights.data())),
          {});
    });
    const Ref<DistributedIterator> iterator = Iterate(Distribute(strategy, Digits()));
    while (const Ref<Value> batch = iterator->Next(WithinReason()).value()) {
      const Ref<Value> change = MustRun(strategy, step, batch);
      for (size_t i = 0; i < 2; ++i) weights[i] -= change->leaf().tensor().span<float>()[i];
    }
    EXPECT_EQ(weights, expected) << strategy->type_name();
  }
}

// ---- From a function. ----

TEST_P(DistributedDatasetTest, DealsOutTheElementsOfAFunctionsDatasetInTurn) {
  EXPECT_THAT(AllSteps(FromFunction(Mirrored(2), Batches(8, 2))),
              ElementsAre("PerReplica:{0: [0 1], 1: [2 3]}", "PerReplica:{0: [4 5], 1: [6 7]}",
                          "end"));
}

TEST_P(DistributedDatasetTest, FillsUpTheStepInWhichAFunctionsDatasetEnds) {
  const Ref<Strategy> strategy = Mirrored(3);
  EXPECT_THAT(AllSteps(FromFunction(strategy, Batches(8, 2))),
              ElementsAre("PerReplica:{0: [0 1], 1: [2 3], 2: [4 5]}",
                          "PerReplica:{0: [6 7], 1: [], 2: []}", "end"));
  const Ref<DistributedIterator> iterator = Iterate(FromFunction(strategy, Batches(8, 2)));
  EXPECT_EQ(GlobalRows(*iterator->Next(WithinReason()).value(), 3), 6);
  EXPECT_EQ(GlobalRows(*iterator->Next(WithinReason()).value(), 3), 2);
}

TEST_P(DistributedDatasetTest, FillsUpAStepOfElementsThatAreNoBatchesWithZeros) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<DistributedDataset> dataset = FromFunction(strategy, Range(3));
  EXPECT_THAT(AllSteps(dataset),
              ElementsAre("PerReplica:{0: 0, 1: 1}", "PerReplica:{0: 2, 1: 0}", "end"));
  // The replica that has none adds nothing to a sum, and no row to those that it is divided by.
  const Ref<DistributedIterator> iterator = Iterate(dataset);
  EXPECT_EQ(GlobalRows(*iterator->Next(WithinReason()).value(), 2), 2);
  EXPECT_EQ(GlobalRows(*iterator->Next(WithinReason()).value(), 2), 1);
}

TEST_P(DistributedDatasetTest, CannotFillUpAStepOfElementsThatAreNoTensors) {
  const Ref<Function> name = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
    return Value::Tuple({Ref<Value>::Retain(const_cast<Value*>(&in)), Value::None()});
  });
  const Ref<DistributedIterator> iterator =
      Iterate(FromFunction(Mirrored(2), Range(3)->Map(name).value()));
  EXPECT_TRUE(iterator->Next(WithinReason()).ok());
  EXPECT_TRUE(Fails(iterator->Next(WithinReason()).status(), StatusCode::kInvalidArgument,
                    {"the data ends", "[1]", "none"}));
}

TEST_P(DistributedDatasetTest, TellsTheFunctionWhichPipelineItMakes) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<Function> fn = Fn([&](Context& context, const Value& in) -> Result<Ref<Value>> {
    EXPECT_EQ(in.ToString(),
              "{'input_pipeline_id': 0, 'num_input_pipelines': 1, 'num_replicas_in_sync': 2}");
    EXPECT_EQ(context.callback_class(), CallbackClass::kCrossReplica);
    return Value::OfLeaf(Leaf(LeafKind::kDataset, Batches(4, 2)));
  });
  EXPECT_TRUE(
      DistributedDataset::CreateFromFunction(strategy, *fn, options_, WithinReason()).ok());
}

TEST_P(DistributedDatasetTest, RefusesAFunctionThatReturnsNoDataset) {
  const Ref<Function> fn =
      Fn([](Context&, const Value&) -> Result<Ref<Value>> { return ScalarOf(5); });
  EXPECT_TRUE(Fails(DistributedDataset::CreateFromFunction(Mirrored(2), *fn, options_,
                                                           WithinReason())
                        .status(),
                    StatusCode::kInvalidArgument, {"must return a dataset", "5"}));
}

// ---- Position. ----

TEST_P(DistributedDatasetTest, ResumesBehindTheLastStepThatWasTaken) {
  const Ref<Strategy> strategy = Mirrored(2);
  ShuffleOptions shuffle;
  shuffle.seed = 7;
  const Ref<Dataset> batches = Range(40)->Shuffle(10, shuffle).value()->Batch(4).value();
  for (const Ref<DistributedDataset>& dataset :
       {Distribute(strategy, batches), FromFunction(strategy, batches)}) {
    const Ref<DistributedIterator> first = Iterate(dataset);
    for (int taken = 0;; ++taken) {
      const std::string state = first->Save(WithinReason()).value();
      const Ref<DistributedIterator> second = Iterate(dataset);
      ASSERT_TRUE(second->Restore(state, WithinReason()).ok());
      const std::string next = NextText(first);
      EXPECT_EQ(NextText(second), next) << "after " << taken << " steps";
      // Saving what was restored keeps the place, too.
      ASSERT_TRUE(second->Restore(state, WithinReason()).ok());
      const std::string again = second->Save(WithinReason()).value();
      ASSERT_TRUE(second->Restore(again, WithinReason()).ok());
      EXPECT_EQ(NextText(second), next);
      if (next == "end") break;
    }
  }
}

TEST_P(DistributedDatasetTest, RefusesForeignAndDamagedStatesAndStaysWhereItIs) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<DistributedIterator> iterator = Iterate(Distribute(strategy, Batches(8, 4)));
  const Ref<DistributedIterator> other = Iterate(Distribute(strategy, Batches(12, 3)));
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0 1], 1: [2 3]}");
  std::string damaged = iterator->Save(WithinReason()).value();
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_TRUE(Fails(iterator->Restore(damaged, WithinReason()), StatusCode::kInvalidArgument));
  EXPECT_TRUE(Fails(iterator->Restore("", WithinReason()), StatusCode::kInvalidArgument));
  EXPECT_TRUE(Fails(iterator->Restore(other->Save(WithinReason()).value(), WithinReason()),
                    StatusCode::kInvalidArgument));
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [4 5], 1: [6 7]}");
  EXPECT_EQ(NextText(iterator), "end");
}

TEST_P(DistributedDatasetTest, RefusesAnotherVersionOfItsPositionAndOfAnOp) {
  const Ref<DistributedIterator> iterator = Iterate(Distribute(Mirrored(2), Batches(8, 4)));
  const std::string state = iterator->Save(WithinReason()).value();
  NextText(iterator);
  StateReader reader(state);
  reader.Section("distributed_iterator");
  const int64_t version = reader.Int();
  const int64_t checksum = reader.Int();
  const std::string position(reader.Bytes());
  ASSERT_TRUE(reader.ok());
  const auto with = [](int64_t number, int64_t crc, std::string_view bytes) {
    StateWriter writer;
    writer.Section("distributed_iterator");
    writer.Int(number);
    writer.Int(crc);
    writer.Bytes(bytes);
    return writer.bytes();
  };
  EXPECT_TRUE(Fails(iterator->Restore(with(version + 1, checksum, position), WithinReason()),
                    StatusCode::kInvalidArgument,
                    {"this state has the position of a distributed iterator in version 4, and "
                     "version 3 is read here: a later release saved it; start the iterator afresh, "
                     "or restore with the release that saved it"}));
  EXPECT_TRUE(Fails(iterator->Restore(with(version - 1, checksum, position), WithinReason()),
                    StatusCode::kInvalidArgument, {"version 2", "an earlier release"}));
  std::string old = position;
  const size_t format = old.find("TUTTI-I2");
  ASSERT_NE(format, std::string::npos);
  old[format + 7] = '1';
  EXPECT_TRUE(Fails(
      iterator->Restore(with(version, Crc32c(old.data(), old.size()), old), WithinReason()),
      StatusCode::kInvalidArgument, {"in the format TUTTI-I1", "start the iterator afresh"}));
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [4 5], 1: [6 7]}");
  ASSERT_TRUE(iterator->Restore(state, WithinReason()).ok());
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0 1], 1: [2 3]}");
}

// ---- Failures and the end. ----

TEST_P(DistributedDatasetTest, AFailureBelongsToOneElement) {
  const Ref<Function> fail_at_two = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
    const Tensor& batch = in.leaf().tensor();
    if (batch.item<int64_t>() == 2) return Status(StatusCode::kDataLoss, "bad batch");
    return Ref<Value>::Retain(const_cast<Value*>(&in));
  });
  const Ref<Dataset> dataset = Batches(8, 2)->Map(fail_at_two).value();
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<DistributedIterator> cut = Iterate(Distribute(strategy, dataset));
  EXPECT_EQ(NextText(cut), "PerReplica:{0: [0], 1: [1]}");
  EXPECT_TRUE(Fails(cut->Next(WithinReason()).status(), StatusCode::kDataLoss, {"bad batch"}));
  EXPECT_EQ(NextText(cut), "PerReplica:{0: [4], 1: [5]}");

  const Ref<DistributedIterator> dealt = Iterate(FromFunction(strategy, dataset));
  EXPECT_TRUE(Fails(dealt->Next(WithinReason()).status(), StatusCode::kDataLoss, {"bad batch"}));
  EXPECT_EQ(NextText(dealt), "PerReplica:{0: [0 1], 1: [4 5]}");
  EXPECT_EQ(NextText(dealt), "PerReplica:{0: [6 7], 1: []}");
}

TEST_P(DistributedDatasetTest, RefusesCallsAfterClose) {
  const Ref<DistributedIterator> iterator = Iterate(Distribute(Mirrored(2), Batches(8, 4)));
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0 1], 1: [2 3]}");
  ASSERT_TRUE(iterator->Close(WithinReason()).ok());
  EXPECT_TRUE(Fails(iterator->Next(WithinReason()).status(), StatusCode::kFailedPrecondition,
                    {"closed"}));
  EXPECT_TRUE(Fails(iterator->Save(WithinReason()).status(), StatusCode::kFailedPrecondition));
}

TEST_P(DistributedDatasetTest, IsReapedWhenNobodyClosesIt) {
  const Ref<DistributedIterator> iterator = Iterate(Distribute(Mirrored(2), Batches(8, 4)));
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0 1], 1: [2 3]}");
}

TEST_P(DistributedDatasetTest, RefusesToIterateInsideReplicas) {
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<DistributedIterator> iterator = Iterate(Distribute(strategy, Batches(8, 4)));
  MustRun(strategy, Fn([&](Context&, const Value&) -> Result<Ref<Value>> {
            EXPECT_TRUE(Fails(iterator->Next({}).status(), StatusCode::kFailedPrecondition));
            return Value::None();
          }));
}

// ---- Only with the thread. ----

class PrefetchTest : public DistributedDatasetTest {};
INSTANTIATE_TEST_SUITE_P(Prefetch, PrefetchTest, testing::Values(true));

TEST_P(PrefetchTest, ADeadlineLosesNothing) {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  const Ref<Function> wait = MakeRef<LambdaFunction>(
      [&](Context&, const Value& in) -> Result<Ref<Value>> {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return open; });
        return Ref<Value>::Retain(const_cast<Value*>(&in));
      },
      "wait", ElementSpec::OfTensor(DType::kInt64, PartialShape({-1})));
  const Ref<Dataset> dataset = Batches(4, 2)->Map(wait).value();
  const Ref<DistributedIterator> iterator = Iterate(FromFunction(Mirrored(2), dataset));
  const CallOptions soon = CallOptions::WithTimeout(environment_->clock(), 10 * kMillisecondNs);
  EXPECT_TRUE(Fails(iterator->Next(soon).status(), StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(Fails(iterator->Save(soon).status(), StatusCode::kDeadlineExceeded));
  {
    std::lock_guard<std::mutex> lock(mutex);
    open = true;
  }
  changed.notify_all();
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0 1], 1: [2 3]}");
  EXPECT_EQ(NextText(iterator), "end");
}

// How many elements the source has made.
class ElementCount {
 public:
  Ref<Function> function() {
    return MakeRef<LambdaFunction>(
        [this](Context&, const Value& in) -> Result<Ref<Value>> {
          std::lock_guard<std::mutex> lock(mutex_);
          ++made_;
          return Ref<Value>::Retain(const_cast<Value*>(&in));
        },
        "count", ElementSpec::OfTensor(DType::kInt64, PartialShape({-1})));
  }
  int made() {
    std::lock_guard<std::mutex> lock(mutex_);
    return made_;
  }

 private:
  std::mutex mutex_;
  int made_ = 0;
};

TEST_P(PrefetchTest, AsManyStepsAreMadeAheadAsThereAreBuffersAndNoMore) {
  struct Case {
    bool from_function;
    bool prefetch_to_device;
    int steps;
  };
  // The N slices behind the rebatch, and one element for each replica.
  for (const Case& buffers :
       {Case{false, true, 2}, Case{false, false, 1}, Case{true, true, 1}, Case{true, false, 1}}) {
    ElementCount count;
    options_.prefetch_to_device = buffers.prefetch_to_device;
    const Ref<Dataset> dataset = Batches(40, 2)->Map(count.function()).value();
    const Ref<DistributedDataset> distributed = buffers.from_function
                                                    ? FromFunction(Mirrored(2), dataset)
                                                    : Distribute(Mirrored(2), dataset);
    const Ref<DistributedIterator> iterator = Iterate(distributed);
    EXPECT_EQ(count.made(), 0) << "nothing is made before the first step is asked for";
    const int elements_of_a_step = buffers.from_function ? 2 : 1;
    for (int taken = 1; taken <= 3; ++taken) {
      ASSERT_TRUE(iterator->Next(WithinReason()).ok());
      // Save waits until the steps ahead have been made.
      ASSERT_TRUE(iterator->Save(WithinReason()).ok());
      EXPECT_EQ(count.made(), (taken + buffers.steps) * elements_of_a_step);
    }
    ASSERT_TRUE(iterator->Close(WithinReason()).ok());
    EXPECT_EQ(count.made(), (3 + buffers.steps) * elements_of_a_step) << "after the thread's end";
  }
}

}  // namespace
}  // namespace tutti
