// Positions of distributed iterators over several workers: each worker saves and restores its own.

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

}  // namespace
}  // namespace tutti
