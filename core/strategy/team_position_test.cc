// Positions of distributed iterators over several workers: each worker saves and restores its own,
// and joint ones, from which any number of workers goes on.

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/team_dataset_test_fixture.h"

namespace tutti {
namespace {

using TeamPositionTest = TeamDatasetTest;

INSTANTIATE_TEST_SUITE_P(Sizes, TeamPositionTest, testing::ValuesIn(JobSizes()), JobSizeName);

TEST_P(TeamPositionTest, ResumesBehindTheLastStepThatWasTaken) {
  std::vector<std::vector<int64_t>> numbers(workers() + 1);
  for (int64_t i = 0; i < 37; ++i) {
    numbers[static_cast<size_t>(i * i % 7) % numbers.size()].push_back(i);
  }
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i].push_back(100 + static_cast<int64_t>(i));
  const RecordFiles files(numbers);
  for (const AutoShardPolicy policy :
       {AutoShardPolicy::kFile, AutoShardPolicy::kData, AutoShardPolicy::kOff}) {
    for (const Rebatch rebatch : {Rebatch::kCeil, Rebatch::kEven}) {
      TestJob job(workers(), replicas());
      job.OnWorkers([&](TestWorker& worker) {
        InputOptions options;
        options.rebatch = rebatch;
        const Ref<Dataset> batches = WithPolicy(
            files.Read(worker)->Shuffle(5).value()->Batch(5).value(), policy);
        const Ref<DistributedDataset> dataset = Distribute(worker, batches, options);
        const Ref<DistributedIterator> iterator = Iterate(worker, dataset);
        std::vector<std::string> states;
        std::vector<std::string> steps;
        while (steps.empty() || steps.back() != "end") {
          states.push_back(iterator->Save(worker.Hang()).value());
          steps.push_back(NextText(worker, *iterator));
          ASSERT_LT(steps.size(), 200u);
        }
        EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
        // In the order of the program, and out of it.
        for (const size_t at : {size_t{1}, size_t{0}, steps.size() / 2, steps.size() - 1}) {
          const Ref<DistributedIterator> other = Iterate(worker, dataset);
          ASSERT_TRUE(other->Restore(states[at], worker.Hang()).ok());
          ASSERT_TRUE(other->Restore(other->Save(worker.Hang()).value(), worker.Hang()).ok());
          EXPECT_EQ(RestOf(worker, *other),
                    std::vector<std::string>(steps.begin() + static_cast<std::ptrdiff_t>(at),
                                             steps.end()))
              << "at " << at << " of policy " << static_cast<int64_t>(policy);
          EXPECT_TRUE(other->Close(worker.Hang()).ok());
        }
      });
    }
  }
}

TEST(TeamPositions, UnderDataAPositionCarriesOverToAnotherNumberOfWorkers) {
  const MakeDataset make = [](TestWorker& worker) {
    return WithPolicy(Range(worker, 40)->Batch(6).value(), AutoShardPolicy::kData);
  };
  std::string state;
  TestJob first(2, 1);
  first.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedIterator> iterator = Iterate(worker, Distribute(worker, make(worker)));
    for (int i = 0; i < 3; ++i) NextText(worker, *iterator);
    const std::string mine = iterator->Save(worker.Hang()).value();
    if (worker.index == 1) state = mine;
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
  TestJob second(3, 2);
  second.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedDataset> dataset = Distribute(worker, make(worker));
    std::vector<std::string> expected = AllSteps(worker, dataset);
    expected.erase(expected.begin(), expected.begin() + 3);
    const Ref<DistributedIterator> iterator = Iterate(worker, dataset);
    const Status restored = iterator->Restore(state, worker.Hang());
    ASSERT_TRUE(restored.ok()) << restored.ToString();
    EXPECT_EQ(RestOf(worker, *iterator), expected);
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

TEST(TeamPositions, UnderFileAPositionBelongsToItsWorkerAndTheirNumber) {
  const RecordFiles files({{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  std::vector<std::string> states(3);
  const auto iterate = [&](TestWorker& worker) {
    return Iterate(worker, Distribute(worker, WithPolicy(files.Read(worker)->Batch(2).value(),
                                                         AutoShardPolicy::kFile)));
  };
  TestJob first(3, 1);
  first.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedIterator> iterator = iterate(worker);
    NextText(worker, *iterator);
    states[static_cast<size_t>(worker.index)] = iterator->Save(worker.Hang()).value();
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
  TestJob second(2, 1);
  second.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedIterator> iterator = iterate(worker);
    EXPECT_TRUE(Fails(iterator->Restore(states[static_cast<size_t>(worker.index)], worker.Hang()),
                      StatusCode::kInvalidArgument,
                      {"of 3", "of 2", "as many workers", "DATA"}));
    EXPECT_TRUE(Fails(iterator->Restore(states[2], worker.Hang()), StatusCode::kInvalidArgument,
                      {"worker 2 of 3"}));
    EXPECT_NE(NextText(worker, *iterator), "end");
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

// Where a slice has no rows its worker has data all the same, and the step does not end the others.
TEST(TeamPositions, EvenSlicesWithoutRowsAreNoEnd) {
  const RecordFiles files({{0}, {1, 2, 3}});
  InputOptions options;
  options.rebatch = Rebatch::kEven;
  const std::vector<std::vector<std::string>> steps = StepsOfJob(
      2, 1,
      [&](TestWorker& worker) {
        return WithPolicy(files.Read(worker)->Batch(1).value(), AutoShardPolicy::kFile);
      },
      options);
  EXPECT_EQ(steps[0], (std::vector<std::string>{"[0] of 1", "[] of 1", "[] of 0", "[] of 1",
                                                "[] of 0", "[] of 1", "end"}));
  EXPECT_EQ(steps[1], (std::vector<std::string>{"[] of 1", "[1] of 1", "[] of 0", "[2] of 1",
                                                "[] of 0", "[3] of 1", "end"}));
}

// ---- Joint positions. ----

using Counted = std::map<int64_t, int64_t>;  // how often each number came

using MakeDistributed = std::function<Result<Ref<DistributedDataset>>(TestWorker&)>;

// What a job of so many workers gives, that goes on from `joint` (empty: from the start) for so
// many steps (-1: to the end). Gives the joint position behind them.
std::string Walk(JobSize size, const MakeDistributed& make, const std::string& joint, int64_t steps,
                 Counted* counted, int64_t between = 0) {
  TestJob job(size.workers, size.replicas);
  std::mutex mutex;
  std::string saved;
  job.OnWorkers([&](TestWorker& worker) {
    const Result<Ref<DistributedDataset>> dataset = make(worker);
    ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
    const Ref<DistributedIterator> iterator = Iterate(worker, *dataset);
    // Steps that are given up again, some of them ahead.
    for (int64_t i = 0; i < between; ++i) (void)iterator->Next(worker.Hang());
    if (!joint.empty()) {
      const Status restored = iterator->Restore(joint, worker.Hang());
      ASSERT_TRUE(restored.ok()) << restored.ToString();
    }
    for (int64_t i = 0; steps < 0 || i < steps; ++i) {
      const Result<Ref<Value>> step = iterator->Next(worker.Hang());
      ASSERT_TRUE(step.ok()) << step.status().ToString();
      if (!*step) break;
      ASSERT_LT(i, 2000);
      const Ref<Value> parts = worker.strategy->LocalResults(**step).value();
      const std::lock_guard<std::mutex> lock(mutex);
      for (const Ref<Value>& part : parts->AllChildren()) {
        for (const int64_t number : part->leaf().tensor().span<int64_t>()) ++(*counted)[number];
      }
    }
    const Result<std::string> position = iterator->SaveJoint(worker.Hang());
    ASSERT_TRUE(position.ok()) << position.status().ToString();
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (saved.empty()) saved = *position;
      EXPECT_EQ(*position, saved) << "the same on all workers";
    }
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
  return saved;
}

Ref<Value> DatasetValue(Ref<Dataset> dataset) {
  return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(dataset)));
}

// A few operations drawn at random. What comes out as a whole is the same whoever has which part of
// the input, unless one counts elements, as window and batch do to no effect here.
Ref<Dataset> DrawPipeline(TestWorker& worker, Ref<Dataset> dataset, uint64_t seed) {
  SplitMix64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random.Next() % n); };
  const auto number = [](const Value& in) { return in.leaf().tensor().item<int64_t>(); };
  for (int64_t count = below(4); count > 0; --count) {
    switch (below(6)) {
      case 0:
        dataset = dataset->Shuffle(1 + below(20)).value();
        break;
      case 1:
        dataset = dataset->Filter(Fn([number](Context&, const Value& in) -> Result<Ref<Value>> {
                             return Value::OfTensor(Tensor::Scalar<bool>(number(in) % 5 != 0));
                           })).value();
        break;
      case 2:
      case 3: {
        const Ref<Function> several =
            Fn([number, environment = worker.datasets](Context&,
                                                       const Value& in) -> Result<Ref<Value>> {
              const int64_t first = number(in) % 100000 * 3;
              TUTTI_ASSIGN_OR_RETURN(
                  Ref<Dataset> range,
                  Dataset::Range(environment, first, first + 1 + number(in) % 3, 1));
              return DatasetValue(std::move(range));
            });
        dataset = below(2) == 0 ? dataset->FlatMap(several).value()
                                : dataset->Interleave(several, 1 + below(4), 1 + below(2)).value();
        break;
      }
      case 4: {
        const Ref<Function> as_it_is = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
          return Value::OfLeaf(in.leaf());
        });
        dataset = dataset->Window(1 + below(5)).value()->FlatMap(as_it_is).value();
        break;
      }
      default:
        dataset = dataset->Batch(1 + below(4)).value()->Unbatch().value();
    }
  }
  return dataset->Batch(1 + below(7)).value();
}

enum class Division { kFile, kHint, kData, kFunction, kSharedFiles };

Ref<Dataset> WithSharedFiles(const Ref<Dataset>& dataset) {
  DatasetOptions options;
  EXPECT_TRUE(options.SetBool("experimental_distribute.share_files", true).ok());
  return dataset->WithOptions(options).value();
}

// The same pipeline for whoever asks.
MakeDistributed Distributed(Division division, const RecordFiles& files, uint64_t seed,
                            Rebatch rebatch) {
  return [=, &files](TestWorker& worker) -> Result<Ref<DistributedDataset>> {
    InputOptions options;
    options.rebatch = rebatch;
    if (seed % 3 == 0) options.steps_ahead = seed % 5;
    if (division == Division::kFunction) {
      const Ref<Function> fn = Fn([&](Context&, const Value& in) -> Result<Ref<Value>> {
        const auto number = [&](const char* key) {
          return in.Find(key).value()->AsTensor()->item<int64_t>();
        };
        return DatasetValue(DrawPipeline(
            worker,
            Range(worker, 60)
                ->Shard(number("num_input_pipelines"), number("input_pipeline_id"))
                .value(),
            seed));
      });
      return DistributedDataset::CreateFromFunction(worker.strategy, *fn, options, worker.Hang());
    }
    const bool by_file = division == Division::kFile || division == Division::kSharedFiles;
    const Ref<Dataset> numbers =
        by_file ? files.Read(worker)
        : division == Division::kHint
            ? Range(worker, 60)->Shard(kShardHint, kShardHint).value()
            : Range(worker, 60);
    Ref<Dataset> dataset = DrawPipeline(worker, numbers, seed);
    if (rebatch == Rebatch::kEven) {
      // Its sizes have to be known.
      const Ref<Dataset> flat = dataset->Unbatch().value();
      dataset = flat->Batch(1 + static_cast<int64_t>(seed % 7)).value();
    }
    if (division == Division::kSharedFiles) dataset = WithSharedFiles(dataset);
    return DistributedDataset::Create(
        worker.strategy,
        *WithPolicy(dataset, by_file                       ? AutoShardPolicy::kFile
                             : division == Division::kHint ? AutoShardPolicy::kHint
                                                           : AutoShardPolicy::kData),
        options, worker.Hang());
  };
}

// Drawn until the time is over: W workers, then W', then W'', each element once. `divide` gives the
// division and the files of a draw.
void ExpectEachElementOnce(
    int64_t milliseconds,
    const std::function<std::pair<Division, const RecordFiles*>(uint64_t draw)>& divide) {
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(Scaled(milliseconds));
  uint64_t seed = 1;
  for (; seed < 12 || std::chrono::steady_clock::now() < until; ++seed) {
    if (seed > 4000) break;
    SplitMix64 random(seed);
    const auto below = [&](uint64_t n) { return static_cast<int64_t>(random.Next() % n); };
    const auto size = [&] {
      const auto workers = static_cast<size_t>(1 + below(below(4) == 0 ? 8 : 3));
      return JobSize{workers, 1 + below(2)};
    };
    const JobSize sizes[] = {size(), size(), size()};
    const auto [division, files] = divide(random.Next());
    const Rebatch rebatch = below(2) == 0 || division == Division::kFunction ? Rebatch::kCeil
                                                                             : Rebatch::kEven;
    const MakeDistributed make = Distributed(division, *files, seed, rebatch);
    SCOPED_TRACE(Format("seed {}: {}x{}, {}x{}, {}x{}, division {}, rebatch {}", seed,
                        sizes[0].workers, sizes[0].replicas, sizes[1].workers, sizes[1].replicas,
                        sizes[2].workers, sizes[2].replicas, static_cast<int>(division),
                        static_cast<int>(rebatch)));
    Counted expected;
    Walk({1, 1}, make, {}, -1, &expected);
    Counted counted;
    const std::string first = Walk(sizes[0], make, {}, below(6), &counted);
    const std::string second = Walk(sizes[1], make, first, below(6), &counted, below(2));
    Walk(sizes[2], make, second, -1, &counted, below(2));
    ASSERT_EQ(counted, expected);
    if (testing::Test::HasFailure()) return;
  }
  testing::Test::RecordProperty("pipelines", static_cast<int>(seed));
}

// The numbers from 0 on, in so many files.
RecordFiles FilesOfNumbers(size_t num_files) {
  std::vector<std::vector<int64_t>> numbers(num_files);
  for (int64_t i = 0; i < 60; ++i) {
    numbers[static_cast<size_t>(i * i) % num_files].push_back(i);
  }
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i].push_back(60 + static_cast<int64_t>(i));
  return RecordFiles(numbers);
}

TEST(JointPositions, EveryElementComesOnceHoweverManyWorkersGoOn) {
  const RecordFiles files = FilesOfNumbers(9);
  ExpectEachElementOnce(1500, [&](uint64_t draw) {
    return std::pair{static_cast<Division>(draw % 4), &files};
  });
}

TEST(JointPositions, EveryElementComesOnceAlsoWhereThereAreFewerFilesThanWorkers) {
  const RecordFiles files[] = {FilesOfNumbers(1), FilesOfNumbers(2), FilesOfNumbers(3)};
  ExpectEachElementOnce(1000, [&](uint64_t draw) {
    return std::pair{Division::kSharedFiles, &files[draw % 3]};
  });
}

// Each of its own place in the turn, in the order of the file.
TEST(JointPositions, WorkersThatShareAFileTakeItsElementsInTurn) {
  const RecordFiles files({{0, 1, 2, 3, 4, 5, 6}, {10, 11, 12}});
  const std::vector<std::vector<std::string>> steps =
      StepsOfJob(3, 1, [&](TestWorker& worker) {
        return WithPolicy(WithSharedFiles(files.Read(worker)->Batch(1).value()),
                          AutoShardPolicy::kFile);
      });
  const auto rows_of = [&](size_t worker) {
    std::string rows;
    for (const std::string& step : steps[worker]) {
      if (step.starts_with("[") && !step.starts_with("[]")) rows += step.substr(0, step.find(']'));
    }
    return rows;
  };
  EXPECT_EQ(rows_of(0), "[0[2[4[6");
  EXPECT_EQ(rows_of(1), "[10[11[12");
  EXPECT_EQ(rows_of(2), "[1[3[5");
}

TEST(JointPositions, APositionOfOneWorkerDoesNotFitOneThatSharesItsFiles) {
  const RecordFiles files({{0, 1, 2, 3}});
  std::vector<std::string> states(2);
  for (const bool shares : {false, true}) {
    TestJob job(2, 1);
    job.OnWorkers([&](TestWorker& worker) {
      const Ref<Dataset> batches = files.Read(worker)->Batch(1).value();
      const Ref<DistributedDataset> dataset = Distribute(
          worker, shares ? WithPolicy(WithSharedFiles(batches), AutoShardPolicy::kFile)
                         : WithPolicy(batches, AutoShardPolicy::kData));
      const Ref<DistributedIterator> iterator = Iterate(worker, dataset);
      std::string& state = states[static_cast<size_t>(worker.index)];
      if (!shares) {
        state = iterator->Save(worker.Hang()).value();
      } else {
        EXPECT_THAT(dataset->Explain(),
                    testing::HasSubstr("of which 2 workers keep one element in 2 each"));
        EXPECT_TRUE(Fails(iterator->Restore(state, worker.Hang()), StatusCode::kInvalidArgument,
                          {"share_files", "joint position"}));
        NextText(worker, *iterator);
        const std::string own = iterator->Save(worker.Hang()).value();
        const std::vector<std::string> rest = RestOf(worker, *iterator);
        ASSERT_TRUE(iterator->Restore(own, worker.Hang()).ok());
        EXPECT_EQ(RestOf(worker, *iterator), rest);
      }
      EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
    });
  }
}

TEST(JointPositions, OfAsManyWorkersGoOnStepForStep) {
  const RecordFiles files({{0, 1, 2, 3, 4}, {5, 6, 7}, {8, 9}});
  const auto make = [&](TestWorker& worker) {
    return Distribute(worker, WithPolicy(files.Read(worker)->Shuffle(3).value()->Batch(3).value(),
                                         AutoShardPolicy::kFile));
  };
  TestJob job(2, 2);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedDataset> dataset = make(worker);
    const Ref<DistributedIterator> iterator = Iterate(worker, dataset);
    NextText(worker, *iterator);
    const std::string joint = iterator->SaveJoint(worker.Hang()).value();
    const std::vector<std::string> rest = RestOf(worker, *iterator);
    const Ref<DistributedIterator> other = Iterate(worker, dataset);
    ASSERT_TRUE(other->Restore(joint, worker.Hang()).ok());
    EXPECT_EQ(RestOf(worker, *other), rest);
    for (const Ref<DistributedIterator>& one : {iterator, other}) {
      EXPECT_TRUE(one->Close(worker.Hang()).ok());
    }
  });
}

// A position of the workers that others have left is theirs again: each saves and restores its own.
TEST(JointPositions, AWorkerSavesItsOwnOfWhatItWasDealt) {
  const RecordFiles files({{0, 1, 2, 3, 4}, {5, 6, 7}, {8, 9}, {10, 11, 12, 13}});
  const MakeDistributed make = [&](TestWorker& worker) -> Result<Ref<DistributedDataset>> {
    return Distribute(worker, WithPolicy(files.Read(worker)->Batch(2).value(),
                                         AutoShardPolicy::kFile));
  };
  Counted counted;
  const std::string joint = Walk({3, 1}, make, {}, 1, &counted);
  TestJob job(2, 1);
  std::vector<std::string> own(2);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedDataset> dataset = make(worker).value();
    const Ref<DistributedIterator> iterator = Iterate(worker, dataset);
    const std::string fresh = iterator->Save(worker.Hang()).value();
    const std::vector<std::string> all = AllSteps(worker, dataset);
    ASSERT_TRUE(iterator->Restore(joint, worker.Hang()).ok());
    NextText(worker, *iterator);
    const std::string state = iterator->Save(worker.Hang()).value();
    own[static_cast<size_t>(worker.index)] = state;
    const std::vector<std::string> rest = RestOf(worker, *iterator);
    ASSERT_GT(rest.size(), 1u);
    ASSERT_TRUE(iterator->Restore(state, worker.Hang()).ok());
    EXPECT_EQ(RestOf(worker, *iterator), rest);
    // And back to what is its own alone.
    ASSERT_TRUE(iterator->Restore(fresh, worker.Hang()).ok());
    EXPECT_EQ(RestOf(worker, *iterator), all);
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedIterator> iterator = Iterate(worker, make(worker).value());
    EXPECT_TRUE(Fails(iterator->Restore(own[static_cast<size_t>(1 - worker.index)], worker.Hang()),
                      StatusCode::kInvalidArgument, {"worker", "of 2", "joint position"}));
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

TEST(JointPositions, WhatCannotPromiseItSaysSoWhenItIsSaved) {
  TestJob job(2, 1);
  job.OnWorkers([&](TestWorker& worker) {
    const auto refused = [&](const Ref<Dataset>& dataset, AutoShardPolicy policy,
                             std::initializer_list<const char*> words) {
      const Ref<DistributedIterator> iterator =
          Iterate(worker, Distribute(worker, WithPolicy(dataset, policy)));
      EXPECT_TRUE(Fails(iterator->SaveJoint(worker.Hang()).status(),
                        StatusCode::kFailedPrecondition, words));
      // It goes on, and so does a position of its own.
      EXPECT_TRUE(iterator->Save(worker.Hang()).ok());
      EXPECT_NE(NextText(worker, *iterator), "end");
      EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
    };
    refused(Range(worker, 8)->Batch(2).value(), AutoShardPolicy::kOff, {"all of the data", "OFF"});
    const Ref<Function> next = Fn([](Context&, const Value&) -> Result<Ref<Value>> {
      return Value::OfTensor(Tensor::Vector<int64_t>({1, 2}));
    });
    const Ref<Dataset> generated =
        Dataset::FromGenerator(worker.datasets, next, next,
                               ElementSpec::OfTensor(DType::kInt64, PartialShape({2})))
            .value();
    refused(generated, AutoShardPolicy::kData, {"from_generator", "files"});
    MapOptions any_order;
    any_order.num_parallel_calls = 2;
    any_order.deterministic = false;
    const Ref<Function> as_it_is = Fn([](Context&, const Value& in) -> Result<Ref<Value>> {
      return Value::OfLeaf(in.leaf());
    });
    refused(Range(worker, 8)->Map(as_it_is, any_order).value()->Batch(2).value(),
            AutoShardPolicy::kData, {"map", "deterministic"});
  });
}

TEST(JointPositions, AreSavedBehindTheSameStepAndRestoredByAll) {
  const RecordFiles files({{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  const MakeDistributed make = [&](TestWorker& worker) -> Result<Ref<DistributedDataset>> {
    return Distribute(worker, WithPolicy(files.Read(worker)->Batch(2).value(),
                                         AutoShardPolicy::kFile));
  };
  Counted counted;
  const std::string one = Walk({1, 1}, make, {}, 1, &counted);
  const std::string other = Walk({1, 1}, make, {}, 2, &counted);
  TestJob job(2, 1);
  job.OnWorkers([&](TestWorker& worker) {
    const Ref<DistributedIterator> iterator = Iterate(worker, make(worker).value());
    const std::string before = NextText(worker, *iterator);
    const std::string here = iterator->SaveJoint(worker.Hang()).value();
    EXPECT_TRUE(Fails(iterator->Restore(worker.index == 0 ? one : other, worker.Hang()),
                      StatusCode::kInvalidArgument, {"another joint position"}));
    // It is where it was.
    EXPECT_EQ(iterator->SaveJoint(worker.Hang()).value(), here);
    std::string torn = one;
    torn[torn.size() / 2] ^= 1;
    EXPECT_TRUE(Fails(iterator->Restore(torn, worker.Hang()), StatusCode::kInvalidArgument, {}));
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
  job.OnWorkers([&](TestWorker& worker) {
    // Nothing is exchanged in its steps, so that one can be ahead.
    const Ref<DistributedIterator> iterator =
        Iterate(worker, Distribute(worker, WithPolicy(Range(worker, 16)->Batch(2, true).value(),
                                                      AutoShardPolicy::kData)));
    for (int64_t i = 0; i <= worker.index; ++i) NextText(worker, *iterator);
    EXPECT_TRUE(Fails(iterator->SaveJoint(worker.Hang()).status(), StatusCode::kFailedPrecondition,
                      {"steps", "same step"}));
    EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
  });
}

}  // namespace
}  // namespace tutti
