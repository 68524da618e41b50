// Distributed datasets over several workers: who gets which rows, the same steps everywhere, one
// end and one error. (Positions: team_position_test.cc.)

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "core/strategy/distributed_dataset.h"
#include "core/strategy/team_dataset_test_fixture.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- Policies. ----

TEST(TeamDatasets, FileGivesEachWorkerItsOwnFilesCutByAllReplicas) {
  const RecordFiles files({{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}});
  for (const AutoShardPolicy policy : {AutoShardPolicy::kFile, AutoShardPolicy::kAuto}) {
    EXPECT_THAT(
        StepsOfJob(2, 1,
                   [&](TestWorker& worker) {
                     return WithPolicy(files.Read(worker)->Batch(4).value(), policy);
                   }),
        ElementsAre(ElementsAre("[0 1] of 4", "[2 3] of 4", "[4] of 2", "[5] of 2", "end"),
                    ElementsAre("[6 7] of 4", "[8 9] of 4", "[10] of 2", "[11] of 2", "end")));
  }
}

TEST(TeamDatasets, OffGivesEveryWorkerEverything) {
  const RecordFiles files({{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}});
  const auto all = ElementsAre("[0 1] of 4", "[2 3] of 4", "[4 5] of 4", "[6 7] of 4", "[8 9] of 4",
                               "[10 11] of 4", "end");
  EXPECT_THAT(StepsOfJob(2, 1,
                         [&](TestWorker& worker) {
                           return WithPolicy(files.Read(worker)->Batch(4).value(),
                                             AutoShardPolicy::kOff);
                         }),
              ElementsAre(all, all));
}

TEST(TeamDatasets, DataGivesEachWorkerItsSlicesOfEachBatch) {
  for (const AutoShardPolicy policy : {AutoShardPolicy::kData, AutoShardPolicy::kAuto}) {
    EXPECT_THAT(StepsOfJob(2, 1,
                           [&](TestWorker& worker) {
                             return WithPolicy(Range(worker, 10)->Batch(4).value(), policy);
                           }),
                ElementsAre(ElementsAre("[0 1] of 4", "[4 5] of 4", "[8] of 2", "end"),
                            ElementsAre("[2 3] of 4", "[6 7] of 4", "[9] of 2", "end")));
  }
}

TEST(TeamDatasets, WhatFunctionsShuffleIsTheSameOnAllWorkersUnderData) {
  // Two workers get all numbers once, whatever was drawn where: in the function, outside of it, and
  // anew for each pass.
  for (const int64_t threads : {0, 2}) {
    const auto steps = StepsOfJob(2, 1, [&](TestWorker& worker) {
      const Ref<Dataset> outside = Range(worker, 6)->Shuffle(6).value();
      const Ref<Function> function = Fn([&worker, outside](Context&, const Value& in)
                                            -> Result<Ref<Value>> {
        // Another number of draws on each worker must not matter.
        for (int i = 0; i < worker.index; ++i) worker.environment->DrawSeed();
        const int64_t x = in.leaf(0).tensor().item<int64_t>();
        TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> own,
                               Dataset::Range(worker.datasets, 10 * x, 10 * x + 6, 1));
        if (x == 0) own = outside;
        TUTTI_ASSIGN_OR_RETURN(own, own->Shuffle(6));
        return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(own)));
      });
      Ref<Dataset> all = Range(worker, 4)->Interleave(function, 2, 1, threads).value();
      if (threads == 0) all = Range(worker, 4)->FlatMap(function).value();
      return WithPolicy(all->Repeat(2).value()->Batch(6).value(), AutoShardPolicy::kData);
    });
    std::multiset<std::string> numbers;
    for (const std::vector<std::string>& own : steps) {
      for (const std::string& step : own) {
        if (step == "end") continue;
        std::string text = step.substr(1, step.find(']') - 1);
        for (size_t at = 0; at <= text.size();) {
          const size_t space = std::min(text.find(' ', at), text.size());
          numbers.insert(text.substr(at, space - at));
          at = space + 1;
        }
      }
    }
    EXPECT_EQ(numbers.size(), 48u);
    for (const std::string& number : numbers) EXPECT_EQ(numbers.count(number), 2u) << number;
  }
}

TEST(TeamDatasets, HintPutsTheShardWhereTheUserSaid) {
  EXPECT_THAT(
      StepsOfJob(2, 1,
                 [&](TestWorker& worker) {
                   return WithPolicy(
                       Range(worker, 8)->Shard(kShardHint, kShardHint).value()->Batch(2).value(),
                       AutoShardPolicy::kHint);
                 }),
      ElementsAre(ElementsAre("[0] of 2", "[2] of 2", "[4] of 2", "[6] of 2", "end"),
                  ElementsAre("[1] of 2", "[3] of 2", "[5] of 2", "[7] of 2", "end")));
}

TEST(TeamDatasets, FewerFilesThanWorkersAreTheSameErrorOnEveryWorker) {
  const RecordFiles files({{0, 1, 2, 3}, {4, 5, 6, 7}});
  TestJob job(3, 1);
  std::mutex mutex;
  std::set<std::string> messages;
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<Dataset> dataset =
        WithPolicy(files.Read(worker)->Batch(4).value(), AutoShardPolicy::kFile);
    const Status status =
        DistributedDataset::Create(worker.strategy, *dataset, {}, worker.Hang()).status();
    EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument,
                      {"FILE", "DATA", "OFF", "2 files", "3 workers"}));
    // The strategy goes on.
    EXPECT_EQ(AllSteps(worker, Distribute(worker, WithPolicy(files.Read(worker)->Batch(3).value(),
                                                             AutoShardPolicy::kData)))
                  .size(),
              4u);
    std::lock_guard<std::mutex> lock(mutex);
    messages.insert(std::string(status.message()));
  });
  EXPECT_EQ(messages.size(), 1u);
}

TEST(TeamDatasets, WhatOneWorkerCannotDistributeNobodyDistributes) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    Ref<Dataset> dataset = Range(worker, 8);
    if (worker.index == 0) dataset = dataset->Batch(4).value();
    EXPECT_TRUE(
        Fails(DistributedDataset::Create(worker.strategy, *dataset, {}, worker.Hang()).status(),
              StatusCode::kInvalidArgument, {"worker 1", "call batch first"}));
  });
}

TEST(TeamDatasets, WorkersThatDivideInDifferentWaysAreToldSo) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Dataset> dataset =
        WithPolicy(Range(worker, 8)->Batch(4).value(),
                   worker.index == 0 ? AutoShardPolicy::kData : AutoShardPolicy::kOff);
    EXPECT_TRUE(
        Fails(DistributedDataset::Create(worker.strategy, *dataset, {}, worker.Hang()).status(),
              StatusCode::kInvalidArgument, {"worker 0", "DATA", "worker 1", "OFF"}));
  });
}

TEST(TeamDatasets, ElementsOfOtherDTypesAreAnErrorOnAllWorkers) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Dataset> dataset = Dataset::Range(worker.datasets, 0, 8, 1,
                                                worker.index == 0 ? DType::kInt64 : DType::kFloat32)
                                     .value()
                                     ->Batch(4)
                                     .value();
    EXPECT_TRUE(
        Fails(DistributedDataset::Create(worker.strategy, *dataset, {}, worker.Hang()).status(),
              StatusCode::kInvalidArgument, {"worker 0", "int64", "worker 1", "float32"}));
  });
}

// ---- The same steps as one process. ----

INSTANTIATE_TEST_SUITE_P(Sizes, TeamDatasetTest, testing::ValuesIn(JobSizes()), JobSizeName);

// The steps of one process with as many replicas, cut into the parts of workers.
std::vector<std::vector<std::string>> StepsOfOneProcess(size_t workers, int64_t replicas,
                                                        const MakeDataset& make,
                                                        InputOptions options) {
  TestJob alone(1, static_cast<int64_t>(workers) * replicas);
  std::vector<std::vector<std::string>> steps(workers);
  TestWorker& worker = alone[0];
  const Ref<DistributedIterator> iterator =
      Iterate(worker, Distribute(worker, make(worker), options));
  while (const Ref<Value> step = iterator->Next(worker.Hang()).value()) {
    const std::vector<std::string> parts = LocalTexts(worker.strategy, step);
    for (size_t w = 0; w < workers; ++w) {
      std::string text;
      for (int64_t r = 0; r < replicas; ++r) {
        text += parts[w * static_cast<size_t>(replicas) + static_cast<size_t>(r)] + " ";
      }
      steps[w].push_back(
          text + Format("of {}", GlobalRows(*step, worker.strategy->num_local_replicas())));
    }
  }
  for (std::vector<std::string>& own : steps) own.push_back("end");
  EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  return steps;
}

TEST_P(TeamDatasetTest, DataGivesEachReplicaWhatItWouldGetInOneProcess) {
  for (const Rebatch rebatch : {Rebatch::kCeil, Rebatch::kEven}) {
    for (const bool prefetch : {true, false}) {
      for (const int64_t rows : {1, 23, 36}) {
        for (const int64_t batch : {1, 5, 8, 18}) {
          InputOptions options;
          options.rebatch = rebatch;
          options.steps_ahead = prefetch ? 2 : 0;
          const MakeDataset make = [&](TestWorker& worker) {
            return WithPolicy(Range(worker, rows)->Batch(batch).value(), AutoShardPolicy::kData);
          };
          EXPECT_EQ(StepsOfJob(workers(), replicas(), make, options),
                    StepsOfOneProcess(workers(), replicas(), make, options))
              << rows << " rows, batches of " << batch << ", rebatch " << static_cast<int>(rebatch);
        }
      }
    }
  }
}

TEST_P(TeamDatasetTest, WholeStepsNeedNoExchangeAndHaveTheirSizesInTheSpec) {
  TestJob job(workers(), replicas());
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<Dataset> dataset = WithPolicy(
        Range(worker, 4 * total())->Batch(2 * total(), true).value(), AutoShardPolicy::kData);
    const Ref<DistributedDataset> distributed = Distribute(worker, dataset);
    EXPECT_TRUE(distributed->whole_steps());
    EXPECT_EQ(distributed->element_spec().ToString(), "int64[2]");
    EXPECT_EQ(distributed->cardinality(), 2);
    const std::vector<std::string> steps = AllSteps(worker, distributed);
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_THAT(steps[1], HasSubstr(Format("of {}", 2 * total())));

    const Ref<DistributedDataset> forever = Distribute(
        worker, WithPolicy(Range(worker, 8)->Repeat().value()->Batch(total(), true).value(),
                           AutoShardPolicy::kOff));
    EXPECT_TRUE(forever->whole_steps());
    const Ref<DistributedIterator> iterator = Iterate(worker, forever);
    for (int i = 0; i < 20; ++i) EXPECT_NE(NextText(worker, *iterator), "end");
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

TEST(TeamDatasets, WhatTheFirstElementHappensToShowIsNoPromiseOfWholeSteps) {
  // A function without an output spec; its last batch is shorter than the first.
  const MakeDataset make = [](TestWorker& worker) {
    const Ref<Function> same = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
      return Ref<Value>::Retain(const_cast<Value*>(&in));
    });
    return WithPolicy(Range(worker, 7)->Batch(4).value()->Map(same).value(),
                      AutoShardPolicy::kData);
  };
  EXPECT_THAT(StepsOfJob(2, 1, make), ElementsAre(ElementsAre("[0 1] of 4", "[4 5] of 3", "end"),
                                                  ElementsAre("[2 3] of 4", "[6] of 3", "end")));
}

TEST(TeamDatasets, WithWholeStepsAFailureIsTheEndForAllWorkers) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Function> fail_at_four = MakeRef<LambdaFunction>(
        [&](Context&, const Value& in) -> Result<Ref<Value>> {
          if (worker.index == 1 && in.leaf().tensor().item<int64_t>() == 4) {
            return DataLoss("bad batch");
          }
          return Ref<Value>::Retain(const_cast<Value*>(&in));
        },
        "", ElementSpec::OfTensor(DType::kInt64, PartialShape({2})));
    const Ref<DistributedDataset> dataset = Distribute(
        worker, WithPolicy(Range(worker, 40)->Batch(2, true).value()->Map(fail_at_four).value(),
                           AutoShardPolicy::kData));
    ASSERT_TRUE(dataset->whole_steps());
    const Ref<DistributedIterator> iterator = Iterate(worker, dataset);
    Status status;
    for (int i = 0; i < 20; ++i) {
      if (status.ok()) status = iterator->Next(worker.Hang()).status();
      // The workers meet in the steps of training, not in next.
      EXPECT_TRUE(
          worker.strategy->Reduce(ReduceOp::kSum, *ScalarOf(i), std::nullopt, worker.Hang()).ok());
    }
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(iterator->Next(worker.Hang()).status().code(),
              worker.index == 1 ? StatusCode::kAborted : status.code());
    EXPECT_THAT(std::string(status.message()), HasSubstr("bad batch"));
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

// ---- Uneven workers. ----

TEST(TeamDatasets, WorkersWithoutDataGetEmptyBatchesUntilAllEndTogether) {
  const RecordFiles files({{1}, {10, 11, 12, 13, 14, 15, 16}, {}});
  EXPECT_THAT(
      StepsOfJob(3, 2,
                 [&](TestWorker& worker) {
                   return WithPolicy(files.Read(worker)->Batch(6).value(), AutoShardPolicy::kFile);
                 }),
      ElementsAre(ElementsAre("[1] [] of 3", "[] [] of 2", "[] [] of 2", "[] [] of 1", "[] [] of 0",
                              "[] [] of 0", "end"),
                  ElementsAre("[10] [11] of 3", "[12] [13] of 2", "[14] [15] of 2", "[16] [] of 1",
                              "[] [] of 0", "[] [] of 0", "end"),
                  ElementsAre("[] [] of 3", "[] [] of 2", "[] [] of 2", "[] [] of 1", "[] [] of 0",
                              "[] [] of 0", "end")));
}

TEST(TeamDatasets, AWorkerThatNeverSeesAnElementLearnsFromTheOthersWhatOneIs) {
  const RecordFiles files({{}, {1, 2}});
  EXPECT_THAT(StepsOfJob(2, 1,
                         [&](TestWorker& worker) {
                           return WithPolicy(
                               files.Read(worker, /*with_spec=*/false)->Batch(2).value(),
                               AutoShardPolicy::kFile);
                         }),
              ElementsAre(ElementsAre("[] of 1", "[] of 1", "end"),
                          ElementsAre("[1] of 1", "[2] of 1", "end")));
}

TEST(TeamDatasets, TellsReplicasTheRowsOfTheWholeStep) {
  const RecordFiles files({{1}, {2, 3, 4}});
  TestJob job(2, 1);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedIterator> iterator =
        Iterate(worker, Distribute(worker, WithPolicy(files.Read(worker)->Batch(4).value(),
                                                      AutoShardPolicy::kFile)));
    const Ref<Value> step = iterator->Next(worker.Hang()).value();
    const Ref<Function> rows = Fn([](Context& context, const Value&) -> Result<Ref<Value>> {
      return ScalarOf(context.global_rows());
    });
    EXPECT_EQ(worker.Run(rows, step).value()->ToString(), "3");
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

// ---- EVEN. ----

TEST(TeamDatasets, EvenDealsOutTheRowsOfTheGlobalBatchInEachStep) {
  InputOptions options;
  options.rebatch = Rebatch::kEven;
  // G = 7, W = R = 2: 2 2 2 1 for worker 0, rotated for worker 1; slices run across batches.
  EXPECT_THAT(
      StepsOfJob(
          2, 2,
          [&](TestWorker& worker) {
            return WithPolicy(Range(worker, 10)->Batch(7).value(), AutoShardPolicy::kOff);
          },
          options),
      ElementsAre(ElementsAre("[0 1] [2 3] of 7", "[4 5] [6] of 7", "[7 8] [9] of 6", "end"),
                  ElementsAre("[0 1] [2] of 7", "[3 4] [5 6] of 7", "[7 8] [9] of 6", "end")));
}

TEST(TeamDatasets, EvenNeedsABatchSizeThatIsKnown) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    InputOptions options;
    options.rebatch = Rebatch::kEven;
    const Ref<Function> same = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
      return Ref<Value>::Retain(const_cast<Value*>(&in));
    });
    const Ref<Dataset> dataset = Range(worker, 8)->Batch(4).value()->Map(same).value();
    EXPECT_TRUE(Fails(
        DistributedDataset::Create(worker.strategy, *dataset, options, worker.Hang()).status(),
        StatusCode::kInvalidArgument, {"EVEN", "CEIL"}));
  });
}

// ---- Random order. ----

TEST_P(TeamDatasetTest, AShuffleWithoutASeedIsTheSameEverywhereSoThatShardsDoNotOverlap) {
  TestJob job(workers(), replicas());
  std::mutex mutex;
  std::vector<std::map<int64_t, int>> seen(2);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<Dataset> dataset = WithPolicy(
        Range(worker, 60)->Shuffle(60).value()->Batch(10).value(), AutoShardPolicy::kData);
    const Ref<DistributedDataset> distributed = Distribute(worker, dataset);
    for (size_t epoch = 0; epoch < 2; ++epoch) {
      const Ref<DistributedIterator> iterator = Iterate(worker, distributed);
      while (const Ref<Value> step = iterator->Next(worker.Hang()).value()) {
        const Ref<Value> local = worker.strategy->LocalResults(*step).value();
        std::lock_guard<std::mutex> lock(mutex);
        for (const Ref<Value>& part : local->AllChildren()) {
          for (const int64_t number : part->AsTensor()->span<int64_t>()) ++seen[epoch][number];
        }
      }
      EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
    }
  });
  for (const std::map<int64_t, int>& numbers : seen) {
    EXPECT_EQ(numbers.size(), 60u);
    for (const auto& [number, times] : numbers) EXPECT_EQ(times, 1) << number;
  }
}

// ---- From a function. ----

TEST_P(TeamDatasetTest, AFunctionMakesTheDatasetOfEachInputPipeline) {
  TestJob job(workers(), replicas());
  const int64_t r = replicas();
  const auto w = static_cast<int64_t>(workers());
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<Function> fn = Fn([&](Context&, const Value& in) -> Result<Ref<Value>> {
      const auto number = [&](const char* key) {
        return in.Find(key).value()->AsTensor()->item<int64_t>();
      };
      EXPECT_EQ(number("input_pipeline_id"), worker.index);
      EXPECT_EQ(number("num_input_pipelines"), w);
      EXPECT_EQ(number("num_replicas_in_sync"), r * w);
      // Worker w has w + 1 batches of 1 row: the last worker's are the most.
      const Ref<Dataset> dataset = Range(worker, worker.index + 1)->Batch(1).value();
      return Value::OfLeaf(Leaf(LeafKind::kDataset, dataset));
    });
    const Ref<DistributedDataset> distributed =
        DistributedDataset::CreateFromFunction(worker.strategy, *fn, {}, worker.Hang()).value();
    EXPECT_EQ(distributed->cardinality(), (w + r - 1) / r);
    std::vector<std::string> expected;
    for (int64_t step = 0; step < (w + r - 1) / r; ++step) {
      std::string text;
      for (int64_t i = step * r; i < (step + 1) * r; ++i) {
        text += i <= worker.index ? Format("[{}] ", i) : "[] ";
      }
      int64_t rows = 0;
      for (int64_t other = 0; other < w; ++other) {
        rows += std::clamp<int64_t>(other + 1 - step * r, 0, r);
      }
      expected.push_back(text + Format("of {}", rows));
    }
    expected.push_back("end");
    EXPECT_EQ(AllSteps(worker, distributed), expected);
  });
}

TEST(TeamDatasets, ElementsThatAreNoBatchesEndWithZerosWhereAWorkerHasNone) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Function> fn = Fn([&](Context&, const Value&) -> Result<Ref<Value>> {
      return Value::OfLeaf(Leaf(LeafKind::kDataset, Range(worker, worker.index + 1)));
    });
    const Ref<DistributedIterator> iterator = Iterate(
        worker,
        DistributedDataset::CreateFromFunction(worker.strategy, *fn, {}, worker.Hang()).value());
    EXPECT_EQ(NextText(worker, *iterator), "0 of 2");
    EXPECT_EQ(NextText(worker, *iterator), worker.index == 0 ? "0 of 1" : "1 of 1");
    EXPECT_EQ(NextText(worker, *iterator), "end");
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

TEST(TeamDatasets, ElementsThatAreNoTensorsEndWithTheSameErrorOnAllWorkers) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<Function> fn = Fn([&](Context&, const Value&) -> Result<Ref<Value>> {
      const Ref<Function> beside_none = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
        return Value::Tuple({Ref<Value>::Retain(const_cast<Value*>(&in)), Value::None()});
      });
      return Value::OfLeaf(Leaf(LeafKind::kDataset,
                                Range(worker, worker.index + 1)->Map(beside_none).value()));
    });
    const Ref<DistributedIterator> iterator = Iterate(
        worker,
        DistributedDataset::CreateFromFunction(worker.strategy, *fn, {}, worker.Hang()).value());
    EXPECT_EQ(NextText(worker, *iterator), "(0, None) of 2");
    EXPECT_TRUE(Fails(iterator->Next(worker.Hang()).status(), StatusCode::kInvalidArgument,
                      {"a step in which the data ends", "leaf [1] is none"}));
    EXPECT_EQ(NextText(worker, *iterator), "end");
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

// ---- The rows of the step, in run. ----

TEST(TeamDatasets, AWorkersOnlyReplicaIsToldTheRowsOfTheStepAlsoWithAnEmptyBatch) {
  for (const bool prefetch : {true, false}) {
    TestJob job(2, 1);
    job.OnWorkers([&](TestWorker& worker) {
      const Ref<Function> fn = Fn([&](Context&, const Value&) -> Result<Ref<Value>> {
        // Worker 0 has one batch, worker 1 two, the last of them shorter.
        return Value::OfLeaf(
            Leaf(LeafKind::kDataset,
                 Range(worker, worker.index == 0 ? 2 : 5)->Batch(3).value()));
      });
      InputOptions options;
      options.steps_ahead = prefetch ? 2 : 0;
      const Ref<DistributedIterator> iterator =
          Iterate(worker, DistributedDataset::CreateFromFunction(worker.strategy, *fn, options,
                                                                 worker.Hang())
                              .value());
      const Ref<Function> rows = ReplicaFn([](ReplicaContext& replica, const Value& in) {
        const int64_t own = in.leaf().tensor().dim(0);
        EXPECT_EQ(replica.AllReduce(ReduceOp::kSum, *ScalarOf(own), {}).value()->ToString(),
                  std::to_string(replica.global_rows()));
        return Result<Ref<Value>>(ScalarOf(replica.global_rows()));
      });
      std::vector<std::string> steps, seen;
      while (const Ref<Value> step = iterator->Next(worker.Hang()).value()) {
        steps.push_back(step->ToString());
        seen.push_back(worker.Run(rows, step).value()->ToString());
      }
      EXPECT_THAT(seen, ElementsAre("5", "2"));
      if (worker.index == 0) {
        EXPECT_THAT(steps, ElementsAre("[0 1]", "[]"));
      } else {
        EXPECT_THAT(steps, ElementsAre("[0 1 2]", "[3 4]"));
      }
      EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
    });
  }
}

TEST(TeamDatasets, TwoWorkersOfOneReplicaTrainLikeOneOfTwoToTheBit) {
  // Rows (x, y) in batches of five, the last of them of one row; y = w x by gradient descent.
  const auto train = [](TestWorker& worker) {
    const Ref<Function> digit = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
      const auto number = static_cast<float>(in.leaf().tensor().item<int64_t>());
      return Value::Tuple({ScalarOf(number / 3), ScalarOf(number * number / 7)});
    });
    const Ref<Dataset> batches = Range(worker, 11)->Map(digit).value()->Batch(5).value();
    const Ref<DistributedIterator> steps =
        Iterate(worker, Distribute(worker, WithPolicy(batches, AutoShardPolicy::kData)));
    float weight = 0;
    const Ref<Function> step = ReplicaFn([&weight](ReplicaContext& replica, const Value& batch) {
      const std::span<const float> x = batch.leaf(0).tensor().span<float>();
      const std::span<const float> y = batch.leaf(1).tensor().span<float>();
      float sum = 0;
      for (size_t i = 0; i < x.size(); ++i) sum += (weight * x[i] - y[i]) * x[i];
      return replica.AllReduce(
          ReduceOp::kSum, *ScalarOf(0.1f / static_cast<float>(replica.global_rows()) * sum), {});
    });
    while (const Ref<Value> batch = steps->Next(worker.Hang()).value()) {
      const Ref<Value> change = worker.Run(step, batch).value();
      const Ref<Value> own = worker.strategy->LocalResults(*change).value()->Child(0);
      weight -= own->leaf().tensor().item<float>();
    }
    EXPECT_TRUE(steps->Close(worker.Hang()).ok());
    return weight;
  };
  TestJob alone(1, 2);
  const float expected = train(alone[0]);
  EXPECT_GT(expected, 0.01f);
  TestJob job(2, 1);
  job.OnWorkers([&](TestWorker& worker) { EXPECT_EQ(train(worker), expected); });
}

// ---- Failures. ----

TEST(TeamDatasets, AnElementThatFailsOnOneWorkerFailsTheStepOfAllAndTheyGoOn) {
  const RecordFiles files({{0, 1, 2, 3}, {4, 5, -1, 7, 8, 9}});
  TestJob job(2, 1);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedIterator> iterator =
        Iterate(worker, Distribute(worker, WithPolicy(files.Read(worker)->Batch(2).value(),
                                                      AutoShardPolicy::kFile)));
    std::vector<std::string> steps;
    int failures = 0;
    while (true) {
      const Result<Ref<Value>> step = iterator->Next(worker.Hang());
      if (!step.ok()) {
        ++failures;
        EXPECT_TRUE(Fails(step.status(), StatusCode::kDataLoss, {"record -1 is negative"}));
        continue;
      }
      if (!*step) break;
      steps.push_back(StepText(worker, *step));
    }
    EXPECT_EQ(failures, 1);
    if (worker.index == 0) {
      EXPECT_THAT(
          steps, ElementsAre("[0] of 2", "[1] of 2", "[2] of 2", "[3] of 2", "[] of 1", "[] of 0"));
    } else {
      EXPECT_THAT(steps, ElementsAre("[4] of 2", "[5] of 2", "[7] of 2", "[8] of 2", "[9] of 1",
                                     "[] of 0"));
    }
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

TEST(TeamDatasets, AWorkerThatClosesItsIteratorEndsItForTheOthers) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<DistributedIterator> iterator =
        Iterate(worker, Distribute(worker, WithPolicy(Range(worker, 30)->Batch(4).value(),
                                                      AutoShardPolicy::kData)));
    EXPECT_NE(NextText(worker, *iterator), "end");
    if (worker.index == 0) {
      EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
      return;
    }
    Status status;
    for (int i = 0; i < 10 && status.ok(); ++i) status = iterator->Next(worker.Hang()).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("close"));
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
  // The strategy is not concerned.
  job.OnWorkers([](TestWorker& worker) {
    EXPECT_TRUE(worker
                    .Run(ReplicaFn([](ReplicaContext& replica, const Value&) {
                      return replica.AllReduce(ReduceOp::kSum, *ScalarOf(1), {});
                    }))
                    .ok());
  });
}

TEST(TeamDatasets, TheDeathOfAWorkerEndsTheIteration) {
  TestJob job(3, 1);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedIterator> iterator =
        Iterate(worker, Distribute(worker, WithPolicy(Range(worker, 30)->Batch(4).value(),
                                                      AutoShardPolicy::kData)));
    EXPECT_NE(NextText(worker, *iterator), "end");
    if (worker.index == 2) {
      job.Fail(Unavailable("rank 2 (worker 2, pid 4711) is gone").With("rank", 2));
    } else {
      Status status;
      for (int i = 0; i < 10 && status.ok(); ++i) status = iterator->Next(worker.Hang()).status();
      EXPECT_TRUE(Fails(status, StatusCode::kUnavailable, {"worker 2", "gone"}));
      EXPECT_TRUE(
          Fails(iterator->Next(worker.Hang()).status(), StatusCode::kUnavailable, {"worker 2"}));
    }
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

TEST(TeamDatasets, ACallersDeadlineLosesNothing) {
  for (const bool prefetch : {true, false}) {
    TestJob job(2, 1);
    std::atomic<bool> has_waited{false};
    job.OnWorkers([&](TestWorker& worker) {
      InputOptions options;
      options.steps_ahead = prefetch ? 2 : 0;
      const Ref<DistributedIterator> iterator = Iterate(
          worker,
          Distribute(worker,
                     WithPolicy(Range(worker, 10)->Batch(4).value(), AutoShardPolicy::kData),
                     options));
      if (worker.index == 0) {
        const CallOptions soon =
            CallOptions::WithTimeout(worker.environment->clock(), 5 * kMillisecondNs);
        for (int i = 0; i < 3; ++i) {
          EXPECT_TRUE(Fails(iterator->Next(soon).status(), StatusCode::kDeadlineExceeded));
        }
        has_waited = true;
      } else {
        while (!has_waited) std::this_thread::yield();
      }
      const std::vector<std::string> steps = RestOf(worker, *iterator);
      if (worker.index == 0) {
        EXPECT_THAT(steps, ElementsAre("[0 1] of 4", "[4 5] of 4", "[8] of 2", "end"));
      } else {
        EXPECT_THAT(steps, ElementsAre("[2 3] of 4", "[6 7] of 4", "[9] of 2", "end"));
      }
      EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
    });
  }
}

TEST(TeamDatasets, AWorkerThatDistributesWhileAnotherReducesIsToldSo) {
  TestJob job(2, 1);
  job.OnWorkers([](TestWorker& worker) {
    Status status;
    if (worker.index == 0) {
      status = DistributedDataset::Create(worker.strategy, *Range(worker, 8)->Batch(4).value(), {},
                                          worker.Hang())
                   .status();
    } else {
      status = worker.strategy->Gather(*VectorOf<float>({1}), 0, worker.Hang()).status();
    }
    EXPECT_TRUE(Fails(status, StatusCode::kInvalidArgument, {"distribute_dataset", "gather"}));
  });
}

TEST(TeamDatasets, SeveralIteratorsAreWalkedInTurnWithoutMixing) {
  TestJob job(2, 2);
  job.OnWorkers([](TestWorker& worker) {
    const Ref<DistributedDataset> dataset =
        Distribute(worker, WithPolicy(Range(worker, 22)->Batch(4).value(), AutoShardPolicy::kData));
    const std::vector<std::string> expected = AllSteps(worker, dataset);
    const Ref<DistributedIterator> first = Iterate(worker, dataset);
    const Ref<DistributedIterator> second = Iterate(worker, dataset);
    for (const std::string& step : expected) {
      EXPECT_EQ(NextText(worker, *second), step);
      EXPECT_EQ(NextText(worker, *first), step);
    }
    EXPECT_TRUE(first->Close(worker.Hang()).ok());
    EXPECT_TRUE(second->Close(worker.Hang()).ok());
  });
}

// ---- Explanation. ----

TEST(TeamDatasets, ExplainSaysHowTheDataIsDividedAndWhy) {
  const RecordFiles files({{0, 1}, {2, 3}, {4, 5}});
  TestJob job(2, 2);
  job.OnWorkers([&](TestWorker& worker) {
    const std::string by_file = Distribute(worker, files.Read(worker)->Batch(4).value())->Explain();
    EXPECT_THAT(by_file, HasSubstr("4 replicas of 2 workers"));
    EXPECT_THAT(by_file, HasSubstr("CEIL: every batch in 4 slices"));
    EXPECT_THAT(by_file, HasSubstr("sharding policy FILE: "));
    EXPECT_THAT(by_file, HasSubstr("because the policy is AUTO"));
    EXPECT_THAT(by_file, HasSubstr("exchange in each"));
    const std::string by_data = Distribute(worker, Range(worker, 8)->Batch(4).value())->Explain();
    EXPECT_THAT(by_data, HasSubstr(worker.index == 0 ? "0 to 1 are this worker's"
                                                     : "2 to 3 are this worker's"));
    EXPECT_THAT(by_data, HasSubstr("sharding policy DATA: every worker reads everything"));
  });
}

}  // namespace
}  // namespace tutti
