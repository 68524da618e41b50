// An input pipeline for each replica, and that dealing batches out copies nothing.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "core/dataset/graph/dataset_environment.h"
#include "core/function/function_registry.h"
#include "core/strategy/distributed_dataset.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/strategy_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;

class InputReplicationTest : public StrategyTest {
 protected:
  void SetUp() override {
    StrategyTest::SetUp();
    datasets_ = DatasetEnvironment::Create(environment_, nullptr);
    options_.replication = InputReplication::kPerReplica;
  }

  Ref<Dataset> Batches(int64_t start, int64_t stop, int64_t batch_size) {
    return Dataset::Range(datasets_, start, stop, 1).value()->Batch(batch_size).value();
  }
  // Pipeline i is `of_pipeline(i)`.
  Ref<Function> PipelineFn(std::function<Ref<Dataset>(int64_t)> of_pipeline) {
    return Fn([of_pipeline](Context&, const Value& in) -> Result<Ref<Value>> {
      const int64_t id = in.At(0).value()->leaf().tensor().item<int64_t>();
      return Value::OfLeaf(Leaf(LeafKind::kDataset, of_pipeline(id)));
    });
  }
  Result<Ref<DistributedDataset>> FromFunction(
      const Ref<Strategy>& strategy, std::function<Ref<Dataset>(int64_t)> of_pipeline) {
    return DistributedDataset::CreateFromFunction(strategy, *PipelineFn(std::move(of_pipeline)),
                                                  options_, WithinReason());
  }
  Ref<DistributedIterator> Iterate(const Ref<DistributedDataset>& dataset) {
    return DistributedIterator::Create(dataset, WithinReason()).value();
  }
  std::string NextText(const Ref<DistributedIterator>& iterator) {
    Result<Ref<Value>> step = iterator->Next(WithinReason());
    if (!step.ok()) return step.status().ToString();
    return *step ? Text(*step) : "end";
  }

  Ref<DatasetEnvironment> datasets_;
  InputOptions options_;
};

TEST_F(InputReplicationTest, CallsTheFunctionOnceForEachReplica) {
  std::vector<std::string> told;
  const Ref<Function> fn = Fn([&](Context&, const Value& in) -> Result<Ref<Value>> {
    told.push_back(in.ToString());
    return Value::OfLeaf(Leaf(LeafKind::kDataset, Batches(0, 4, 2)));
  });
  ASSERT_TRUE(
      DistributedDataset::CreateFromFunction(Mirrored(2), *fn, options_, WithinReason()).ok());
  EXPECT_THAT(
      told,
      ElementsAre("{'input_pipeline_id': 0, 'num_input_pipelines': 2, 'num_replicas_in_sync': 2}",
                  "{'input_pipeline_id': 1, 'num_input_pipelines': 2, 'num_replicas_in_sync': 2}"));
}

TEST_F(InputReplicationTest, EachReplicaHasItsOwnPipelineUntilTheLastOneEnds) {
  const Ref<Strategy> strategy = Mirrored(3);
  const Ref<DistributedDataset> dataset =
      FromFunction(strategy, [&](int64_t id) { return Batches(10 * id, 10 * id + 2 + id, 2); })
          .value();
  EXPECT_EQ(dataset->cardinality(), 2);
  EXPECT_EQ(dataset->element_spec().ToString(), "int64[?]");
  EXPECT_NE(dataset->Explain().find("3 input pipelines"), std::string::npos);
  const Ref<DistributedIterator> iterator = Iterate(dataset);
  Ref<Value> step = iterator->Next(WithinReason()).value();
  EXPECT_EQ(Text(step), "PerReplica:{0: [0 1], 1: [10 11], 2: [20 21]}");
  EXPECT_EQ(GlobalRows(*step, 3), 6);
  step = iterator->Next(WithinReason()).value();
  EXPECT_EQ(Text(step), "PerReplica:{0: [], 1: [12], 2: [22 23]}");
  EXPECT_EQ(GlobalRows(*step, 3), 3);
  EXPECT_EQ(NextText(iterator), "end");
  EXPECT_EQ(NextText(iterator), "end") << "the end must stay";
}

TEST_F(InputReplicationTest, ResumesEveryPipelineBehindTheLastStepThatWasTaken) {
  const Ref<Strategy> strategy = Mirrored(2);
  for (const bool on_device : {false, true}) {
    options_.place_dataset_on_device = on_device;
    options_.prefetch_to_device = !on_device;
    ShuffleOptions shuffle;
    shuffle.seed = 7;
    const Ref<DistributedDataset> dataset =
        FromFunction(strategy, [&](int64_t id) {
          const Ref<Dataset> rows = Dataset::Range(datasets_, 0, 20 + 7 * id, 1).value();
          return rows->Shuffle(5, shuffle).value()->Batch(3).value();
        }).value();
    const Ref<DistributedIterator> first = Iterate(dataset);
    for (int taken = 0;; ++taken) {
      const std::string state = first->Save(WithinReason()).value();
      const Ref<DistributedIterator> second = Iterate(dataset);
      ASSERT_TRUE(second->Restore(state, WithinReason()).ok());
      const std::string again = second->Save(WithinReason()).value();
      const std::string next = NextText(first);
      EXPECT_EQ(NextText(second), next) << "after " << taken << " steps";
      ASSERT_TRUE(second->Restore(again, WithinReason()).ok());
      EXPECT_EQ(NextText(second), next);
      if (next == "end") break;
    }
  }
}

TEST_F(InputReplicationTest, AFailureOfOnePipelineIsOneStepsAndLosesNothing) {
  const Ref<Function> fail_at_two = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
    if (in.leaf().tensor().item<int64_t>() == 2) return Status(StatusCode::kDataLoss, "bad batch");
    return Ref<Value>::Retain(const_cast<Value*>(&in));
  });
  const Ref<DistributedDataset> dataset =
      FromFunction(Mirrored(2), [&](int64_t id) {
        const Ref<Dataset> batches = Batches(0, 6, 2);
        return id == 0 ? batches : batches->Map(fail_at_two).value();
      }).value();
  const Ref<DistributedIterator> iterator = Iterate(dataset);
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0 1], 1: [0 1]}");
  // Saved where replica 0's element of the step has been taken, and replica 1's has failed.
  const std::string state = iterator->Save(WithinReason()).value();
  for (int time = 0; time < 2; ++time) {
    EXPECT_TRUE(
        Fails(iterator->Next(WithinReason()).status(), StatusCode::kDataLoss, {"bad batch"}));
    EXPECT_EQ(NextText(iterator), "PerReplica:{0: [2 3], 1: [4 5]}");
    EXPECT_EQ(NextText(iterator), "PerReplica:{0: [4 5], 1: []}");
    EXPECT_EQ(NextText(iterator), "end");
    ASSERT_TRUE(iterator->Restore(state, WithinReason()).ok());
  }
}

TEST_F(InputReplicationTest, EveryPipelineHasABufferOfOneElementWhichIsFilledAtTheSameTime) {
  for (const bool on_device : {false, true}) {
    options_.place_dataset_on_device = on_device;
    options_.prefetch_to_device = false;
    std::mutex mutex;
    std::condition_variable changed;
    int made[2] = {0, 0};
    const auto counted = [&](int64_t id) {
      return Batches(0, 40, 2)
          ->Map(MakeRef<LambdaFunction>(
              [&, id](Context&, const Value& in) -> Result<Ref<Value>> {
                std::unique_lock<std::mutex> lock(mutex);
                ++made[id];
                changed.notify_all();
                // Behind the first step nobody but the buffers asks for elements: each pipeline
                // waits for the other's.
                if (!on_device && made[id] == 2) {
                  changed.wait(lock, [&] { return made[1 - id] >= 2; });
                }
                return Ref<Value>::Retain(const_cast<Value*>(&in));
              },
              "count", ElementSpec::OfTensor(DType::kInt64, PartialShape({-1}))))
          .value();
    };
    const Ref<DistributedIterator> iterator = Iterate(FromFunction(Mirrored(2), counted).value());
    const int ahead = on_device ? 0 : 1;
    for (int taken = 1; taken <= 3; ++taken) {
      ASSERT_TRUE(iterator->Next(WithinReason()).ok());
      std::unique_lock<std::mutex> lock(mutex);
      ASSERT_TRUE(changed.wait_for(lock, std::chrono::nanoseconds(kHangNs), [&] {
        return made[0] >= taken + ahead && made[1] >= taken + ahead;
      }));
    }
    ASSERT_TRUE(iterator->Close(WithinReason()).ok());
    EXPECT_EQ(made[0], 3 + ahead) << "after the threads' end";
    EXPECT_EQ(made[1], 3 + ahead);
  }
}

TEST_F(InputReplicationTest, APositionOfOtherPipelinesIsRefusedAndMovesNone) {
  const auto of_pipeline = [&](int64_t id) { return Batches(10 * id, 10 * id + 8, 2); };
  const Ref<DistributedIterator> three = Iterate(FromFunction(Mirrored(3), of_pipeline).value());
  const Ref<DistributedIterator> two = Iterate(FromFunction(Mirrored(2), of_pipeline).value());
  EXPECT_EQ(NextText(two), "PerReplica:{0: [0 1], 1: [10 11]}");
  EXPECT_TRUE(Fails(two->Restore(three->Save(WithinReason()).value(), WithinReason()),
                    StatusCode::kInvalidArgument, {"3 input pipelines", "has 2"}));
  // The second of two pipelines does not fit, when the first one has moved.
  const Ref<DistributedIterator> other =
      Iterate(FromFunction(Mirrored(2), [&](int64_t id) {
                return id == 0 ? Batches(0, 8, 2) : Batches(0, 8, 2)->Take(3).value();
              }).value());
  EXPECT_TRUE(Fails(two->Restore(other->Save(WithinReason()).value(), WithinReason()),
                    StatusCode::kInvalidArgument));
  EXPECT_EQ(NextText(two), "PerReplica:{0: [2 3], 1: [12 13]}");
}

TEST_F(InputReplicationTest, RefusesElementsThatDiffer) {
  EXPECT_TRUE(Fails(FromFunction(Mirrored(2),
                                 [&](int64_t id) {
                                   return id == 0 ? Batches(0, 4, 2)
                                                  : Batches(0, 4, 2)->Batch(2).value()->Map(
                                                        Fn([](Context&, const Value&) {
                                                          return Result<Ref<Value>>(ScalarOf(1.5f));
                                                        })).value();
                                 })
                        .status(),
                    StatusCode::kInvalidArgument, {"replica 1", "int64", "float32"}));
}

TEST_F(InputReplicationTest, RefusesWhatIsDocumentedAsRefused) {
  const Ref<Dataset> batches = Batches(0, 4, 2);
  const Ref<Function> fn = PipelineFn([&](int64_t) { return batches; });
  EXPECT_TRUE(Fails(
      DistributedDataset::Create(Mirrored(2), *batches, options_, WithinReason()).status(),
      StatusCode::kUnimplemented, {"distribute_datasets_from_function of a MirroredStrategy"}));
  const Ref<Strategy> one = Strategy::CreateOneDevice(environment_, *devices_, "CPU:0").value();
  EXPECT_TRUE(
      Fails(DistributedDataset::CreateFromFunction(one, *fn, options_, WithinReason()).status(),
            StatusCode::kUnimplemented, {"OneDeviceStrategy", "PER_WORKER"}));
  options_.place_dataset_on_device = true;
  EXPECT_TRUE(Fails(
      DistributedDataset::CreateFromFunction(Mirrored(2), *fn, options_, WithinReason()).status(),
      StatusCode::kInvalidArgument, {"set prefetch_to_device to false"}));
  options_.replication = InputReplication::kPerWorker;
  EXPECT_TRUE(Fails(
      DistributedDataset::CreateFromFunction(Mirrored(2), *fn, options_, WithinReason()).status(),
      StatusCode::kInvalidArgument, {"needs the replication mode PER_REPLICA"}));
}

TEST_F(InputReplicationTest, DistributingABatchCopiesNothing) {
  const Ref<Tensor> rows = Tensor::Create(DType::kFloat32, Shape({6, 1024})).value();
  const auto* const data = static_cast<const char*>(rows->data());
  const Ref<Dataset> dataset =
      Dataset::FromTensors(datasets_, Value::OfTensor(rows)).value()->Repeat(2).value();
  const Ref<Strategy> strategy = Mirrored(2);
  const Ref<DistributedIterator> iterator = Iterate(
      DistributedDataset::Create(strategy, *dataset, InputOptions(), WithinReason()).value());
  const Ref<Value> step = iterator->Next(WithinReason()).value();
  const DistributedValue& parts = *AsDistributed(step->leaf());
  const size_t half = 3 * 1024 * sizeof(float);
  EXPECT_EQ(parts.component(0).leaf().tensor().data(), data);
  EXPECT_EQ(parts.component(1).leaf().tensor().data(), data + half);
  // Nor does handing the parts to the replicas.
  const Ref<Value> run = MustRun(strategy, ReplicaFn([&](ReplicaContext& replica, const Value& in) {
                                   const char* const expected =
                                       data + (replica.replica_id() == 0 ? 0 : half);
                                   return Result<Ref<Value>>(
                                       ScalarOf(in.leaf().tensor().data() == expected));
                                 }),
                                 step);
  EXPECT_THAT(Local(strategy, run), testing::Each("True"));
}

}  // namespace
}  // namespace tutti
