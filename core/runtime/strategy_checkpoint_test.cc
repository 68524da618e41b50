// Checkpoints of strategies over several workers: what each worker restores, and that a failure of
// one is one of all.
#include "core/runtime/strategy_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_manager.h"
#include "core/strategy/distributed_dataset.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/team_test_fixture.h"

namespace tutti {
namespace {

class StrategyCheckpointTest : public ::testing::Test {
 protected:
  StrategyCheckpointTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~StrategyCheckpointTest() override { std::filesystem::remove_all(folder_); }

  // What one worker of a program has: two variables and a place in its data.
  struct Program {
    Ref<Variable> weights;
    Ref<Variable> count;
    Ref<DistributedIterator> steps;
    Ref<CheckpointManager> manager;
  };

  static Ref<Dataset> Batches(TestWorker& worker, AutoShardPolicy policy) {
    Ref<Dataset> dataset = Dataset::Range(worker.datasets, 0, 48, 1).value();
    dataset = dataset->Shuffle(48, {.name = "", .seed = 5}).value();
    dataset = dataset->Batch(12).value();
    DatasetOptions options;
    EXPECT_TRUE(options
                    .SetInt("experimental_distribute.auto_shard_policy",
                            static_cast<int64_t>(policy))
                    .ok());
    return dataset->WithOptions(options).value();
  }

  Program Make(TestWorker& worker, AutoShardPolicy policy = AutoShardPolicy::kData) {
    Program program;
    program.weights =
        worker.MakeVariable(Tensor::Vector<float>({1, 2}), Aggregation::kMean);
    program.count = worker.MakeVariable(Tensor::Scalar<float>(0), Aggregation::kSum,
                                        Synchronization::kOnRead);
    const Ref<DistributedDataset> dataset =
        DistributedDataset::Create(worker.strategy, *Batches(worker, policy), {}, worker.Hang())
            .value();
    program.steps = DistributedIterator::Create(dataset, worker.Hang()).value();
    const Ref<Checkpoint> checkpoint = MakeStrategyCheckpoint(worker.strategy);
    EXPECT_TRUE(AddToCheckpoint(*checkpoint, "weights", program.weights).ok());
    EXPECT_TRUE(AddToCheckpoint(*checkpoint, "count", program.count).ok());
    EXPECT_TRUE(AddToCheckpoint(*checkpoint, "steps", program.steps).ok());
    program.manager = CheckpointManager::Create(checkpoint, folder_, {}).value();
    return program;
  }
  static void Close(Program& program, TestWorker& worker) {
    EXPECT_TRUE(program.steps->Close(worker.Hang()).ok());
  }

  static void Set(const Ref<Variable>& variable, const Ref<Tensor>& value, TestWorker& worker) {
    const Status status = variable->Assign(nullptr, *value, worker.Hang());
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  static std::string Text(const Ref<Variable>& variable, TestWorker& worker) {
    const Result<Ref<Tensor>> value = variable->Read(nullptr, worker.Hang());
    EXPECT_TRUE(value.ok()) << value.status().ToString();
    return value.ok() ? Value::OfTensor(*value)->ToString() : "";
  }
  static std::string Next(Program& program, TestWorker& worker) {
    const Result<Ref<Value>> step = program.steps->Next(worker.Hang());
    EXPECT_TRUE(step.ok()) << step.status().ToString();
    if (!step.ok() || !step.value()) return "end";
    std::string text;
    for (const std::string& local : LocalTexts(worker.strategy, *step)) text += local + ";";
    return text;
  }
  static std::vector<std::string> Rest(Program& program, TestWorker& worker) {
    std::vector<std::string> all;
    while (all.size() < 100) {
      std::string step = Next(program, worker);
      if (step == "end") break;
      all.push_back(std::move(step));
    }
    return all;
  }

  std::string folder_;
};

TEST_F(StrategyCheckpointTest, EveryWorkerGoesOnWhereItWas) {
  for (const AutoShardPolicy policy : {AutoShardPolicy::kData, AutoShardPolicy::kOff}) {
    TestJob job(2, 2);
    job.OnWorkers([&](TestWorker& worker) {
      Program program = Make(worker, policy);
      Set(program.weights, Tensor::Vector<float>({3, 4}), worker);
      Set(program.count, Tensor::Scalar<float>(8), worker);
      Next(program, worker);
      const auto saved = program.manager->Save(1, worker.Hang());
      ASSERT_TRUE(saved.ok()) << saved.status().ToString();
      const std::vector<std::string> expected = Rest(program, worker);
      EXPECT_GE(expected.size(), 3u);

      Set(program.weights, Tensor::Vector<float>({0, 0}), worker);
      Set(program.count, Tensor::Scalar<float>(0), worker);
      const auto restored = program.manager->RestoreLatest(worker.Hang());
      ASSERT_TRUE(restored.ok()) << restored.status().ToString();
      ASSERT_TRUE(restored->has_value());
      EXPECT_EQ(Text(program.weights, worker), "[3 4]");
      EXPECT_EQ(Text(program.count, worker), "8");
      EXPECT_EQ(Rest(program, worker), expected);
      Close(program, worker);
    });
  }
}

TEST_F(StrategyCheckpointTest, ANewJobGoesOnWhereTheOldOneWas) {
  std::vector<std::vector<std::string>> expected(3);
  {
    TestJob job(3, 1);
    job.OnWorkers([&](TestWorker& worker) {
      Program program = Make(worker);
      Set(program.weights, Tensor::Vector<float>({3, 4}), worker);
      Next(program, worker);
      EXPECT_TRUE(program.manager->Save(1, worker.Hang()).ok());
      expected[static_cast<size_t>(worker.index)] = Rest(program, worker);
      Close(program, worker);
    });
  }
  TestJob job(3, 1);
  job.OnWorkers([&](TestWorker& worker) {
    Program program = Make(worker);
    const auto restored = program.manager->RestoreLatest(worker.Hang());
    ASSERT_TRUE(restored.ok()) << restored.status().ToString();
    EXPECT_EQ(Text(program.weights, worker), "[3 4]");
    EXPECT_EQ(Rest(program, worker), expected[static_cast<size_t>(worker.index)]);
    Close(program, worker);
  });
}

TEST_F(StrategyCheckpointTest, AJobOfFewerWorkersGoesOnWhereTheSharedDataWas) {
  const auto rows = [](const std::string& step) {
    return std::count(step.begin(), step.end(), ' ') + std::count(step.begin(), step.end(), ';');
  };
  {
    TestJob job(3, 1);
    job.OnWorkers([&](TestWorker& worker) {
      Program program = Make(worker);
      Next(program, worker);
      EXPECT_TRUE(program.manager->Save(1, worker.Hang()).ok());
      EXPECT_EQ(Rest(program, worker).size(), 3u);
      Close(program, worker);
    });
  }
  TestJob job(1, 2);
  job.OnWorkers([&](TestWorker& worker) {
    Program program = Make(worker);
    const auto restored = program.manager->RestoreLatest(worker.Hang());
    ASSERT_TRUE(restored.ok()) << restored.status().ToString();
    int64_t left = 0;
    for (const std::string& step : Rest(program, worker)) left += rows(step);
    EXPECT_EQ(left, 36);  // of 48
    Close(program, worker);
  });
}

// Each worker has data of its own, which is dealt to those that go on.
TEST_F(StrategyCheckpointTest, AJobOfAnotherNumberOfWorkersGoesOnWithEveryElementOnce) {
  std::mutex mutex;
  std::vector<std::string> all;
  const auto walk = [&](size_t workers, int64_t steps, bool restores) {
    TestJob job(workers, 1);
    job.OnWorkers([&](TestWorker& worker) {
      Ref<Dataset> dataset = Dataset::Range(worker.datasets, 0, 24, 1).value();
      dataset = dataset->Shard(kShardHint, kShardHint).value()->Batch(1).value();
      DatasetOptions options;
      EXPECT_TRUE(options
                      .SetInt("experimental_distribute.auto_shard_policy",
                              static_cast<int64_t>(AutoShardPolicy::kHint))
                      .ok());
      const Ref<DistributedDataset> distributed =
          DistributedDataset::Create(worker.strategy, *dataset->WithOptions(options).value(), {},
                                     worker.Hang())
              .value();
      Program program;
      program.steps = DistributedIterator::Create(distributed, worker.Hang()).value();
      const Ref<Checkpoint> checkpoint = MakeStrategyCheckpoint(worker.strategy);
      EXPECT_TRUE(AddToCheckpoint(*checkpoint, "steps", program.steps).ok());
      if (restores) {
        const Status restored = checkpoint->Restore(folder_ + "/ckpt", worker.Hang()).status();
        ASSERT_TRUE(restored.ok()) << restored.ToString();
      }
      for (int64_t i = 0; i < steps; ++i) {
        const std::string step = Next(program, worker);
        if (step == "end") break;
        const std::lock_guard<std::mutex> lock(mutex);
        if (step != "[];") all.push_back(step);
      }
      const Status saved = checkpoint->Save(folder_ + "/ckpt", 1, worker.Hang()).status();
      EXPECT_TRUE(saved.ok()) << saved.ToString();
      Close(program, worker);
    });
  };
  walk(3, 3, false);
  walk(2, 2, true);
  walk(4, 100, true);
  EXPECT_EQ(all.size(), 24u);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST_F(StrategyCheckpointTest, ADamagedFileOfOneWorkerIsAnErrorOfAllAndTheJobGoesOn) {
  TestJob job(2, 1);
  job.OnWorkers([&](TestWorker& worker) {
    Program program = Make(worker);
    EXPECT_TRUE(program.manager->Save(1, worker.Hang()).ok());
    Set(program.weights, Tensor::Vector<float>({5, 6}), worker);  // both are through with saving
    const std::string file = folder_ + "/ckpt-1.worker-1-of-2.safetensors";
    if (worker.index == 1) std::filesystem::resize_file(file, 30);
    const Status failure = program.manager->RestoreLatest(worker.Hang()).status();
    EXPECT_EQ(failure.code(), StatusCode::kDataLoss) << failure.ToString();
    EXPECT_NE(failure.message().find(file), std::string::npos) << failure.ToString();
    EXPECT_EQ(Text(program.weights, worker), "[5 6]");
    EXPECT_TRUE(program.manager->Save(2, worker.Hang()).ok());
    const auto restored = program.manager->RestoreLatest(worker.Hang());
    ASSERT_TRUE(restored.ok()) << restored.status().ToString();
    EXPECT_EQ((*restored)->step, 2);
    Close(program, worker);
  });
}

TEST_F(StrategyCheckpointTest, WorkersThatSaveDifferentStepsAreToldSo) {
  TestJob job(2, 1);
  job.OnWorkers([&](TestWorker& worker) {
    Program program = Make(worker);
    const Status failure = program.manager->Save(worker.index, worker.Hang()).status();
    EXPECT_EQ(failure.code(), StatusCode::kFailedPrecondition) << failure.ToString();
    EXPECT_NE(failure.message().find("step 1"), std::string::npos) << failure.ToString();
    Close(program, worker);
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(StrategyCheckpointTest, ADeadWorkerEndsTheSaveOfTheOthersAndLeavesTheOldCheckpoint) {
  {
    TestJob job(2, 1);
    job.OnWorkers([&](TestWorker& worker) {
      Program program = Make(worker);
      EXPECT_TRUE(program.manager->Save(1, worker.Hang()).ok());
      Set(program.weights, Tensor::Vector<float>({5, 6}), worker);
      if (worker.index == 1) {
        job.Fail(Status(StatusCode::kUnavailable, "worker 1 is gone"));
      } else {
        const Status failure = program.manager->Save(2, worker.Hang()).status();
        EXPECT_EQ(failure.code(), StatusCode::kUnavailable) << failure.ToString();
        EXPECT_NE(failure.message().find("worker 1 is gone"), std::string::npos);
      }
      Close(program, worker);
    });
  }
  TestJob job(2, 1);
  job.OnWorkers([&](TestWorker& worker) {
    Program program = Make(worker);
    const auto restored = program.manager->RestoreLatest(worker.Hang());
    ASSERT_TRUE(restored.ok()) << restored.status().ToString();
    EXPECT_EQ((*restored)->step, 1);
    Close(program, worker);
  });
}

}  // namespace
}  // namespace tutti
