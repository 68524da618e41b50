// Distributed iterators that an exception leaves: for lack of memory, or the host's own. The
// iterator can be used, and closes.

#include "core/base/scarce_memory_testing.h"

#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>

#include "core/dataset/graph/dataset_environment.h"
#include "core/strategy/distributed_iterator.h"
#include "core/strategy/team_dataset_test_fixture.h"

namespace tutti {
namespace {

// Holds a row up until it is let go; may leave the thread that makes it with little memory.
struct Row {
  int64_t number = 0;
  std::atomic<bool> reached{false};
  std::atomic<bool> open{true};
  int allocations = -1;

  Ref<Function> Hold() {
    return MakeRef<LambdaFunction>(
        [this](Context&, const Value& in) -> Result<Ref<Value>> {
          static thread_local std::optional<ScarceMemory> scarce;
          const auto row = in.leaf().tensor().item<int64_t>();
          if (row == number) {
            reached.store(true);
            reached.notify_all();
            open.wait(false);
            if (allocations >= 0) scarce.emplace(allocations);
          }
          return ScalarOf(row);
        },
        "", ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar()));
  }
};

class DistributedIteratorException : public StrategyTest {
 protected:
  Ref<DistributedIterator> Iterate(Row* row, bool ahead, int64_t batch = 2) {
    const Ref<Dataset> batches = Dataset::Range(datasets(), 0, 20, 1)
                                     .value()
                                     ->Map(row->Hold())
                                     .value()
                                     ->Batch(batch)
                                     .value();
    InputOptions options;
    options.steps_ahead = ahead ? 1 : 0;
    const Ref<DistributedDataset> dataset =
        DistributedDataset::Create(Mirrored(2), *batches, options, WithinReason()).value();
    return DistributedIterator::Create(dataset, WithinReason()).value();
  }
  Ref<DatasetEnvironment> datasets() { return DatasetEnvironment::Create(environment_, nullptr); }

  std::string NextText(const Ref<DistributedIterator>& iterator) {
    const Result<Ref<Value>> step = iterator->Next(WithinReason());
    if (!step.ok()) return step.status().ToString();
    return *step ? Text(*step) : "end";
  }
};

TEST_F(DistributedIteratorException, OfTheHostInAWaitLosesNothing) {
  Row row;
  row.number = 2;
  row.open.store(false);
  const Ref<DistributedIterator> iterator = Iterate(&row, /*ahead=*/true);
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0], 1: [1]}");
  const Ref<Cancellation> host = MakeRef<Cancellation>(
      [](void*) -> bool { throw std::runtime_error("the host's own"); }, nullptr, nullptr);
  const CallOptions asks{Deadline::Infinite(), host.get()};
  EXPECT_THROW((void)iterator->Next(asks), std::runtime_error);
  EXPECT_THROW((void)iterator->Save(asks), std::runtime_error);
  row.open.store(true);
  row.open.notify_all();
  EXPECT_EQ(NextText(iterator), "PerReplica:{0: [2], 1: [3]}");
  EXPECT_TRUE(iterator->Close(WithinReason()).ok());
}

TEST_F(DistributedIteratorException, ForLackOfMemoryOnDemandIsAnErrorAndItCloses) {
  ForEachShortage([&](int allocations) {
    Row row;
    const Ref<DistributedIterator> iterator = Iterate(&row, /*ahead=*/false);
    EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0], 1: [1]}");
    const Result<std::string> state = iterator->Save(WithinReason());
    Status status;
    bool was_short = false;
    {
      const ScarceMemory scarce(allocations);
      try {
        status = iterator->Next(WithinReason()).status();
        (void)iterator->Save(WithinReason());
      } catch (const std::bad_alloc&) {
      }
      was_short = ScarceMemory::HasRefused();
    }
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    }
    (void)NextText(iterator);
    EXPECT_TRUE(iterator->Restore(*state, WithinReason()).ok());
    EXPECT_EQ(NextText(iterator), "PerReplica:{0: [2], 1: [3]}");
    EXPECT_TRUE(iterator->Close(WithinReason()).ok());
    return was_short && !HasFailure();
  });
}

TEST_F(DistributedIteratorException, ForLackOfMemoryOnItsThreadIsAnErrorAndItCloses) {
  if (!kMemoryCanBeScarce) GTEST_SKIP() << "ThreadSanitizer keeps its own operator new";
  for (int allocations = 0; allocations < 60; ++allocations) {
    Row row;
    row.number = 3;
    row.allocations = allocations;
    const Ref<DistributedIterator> iterator = Iterate(&row, /*ahead=*/true);
    EXPECT_EQ(NextText(iterator), "PerReplica:{0: [0], 1: [1]}");
    Status status;
    for (int i = 0; i < 10 && status.ok(); ++i) {
      status = iterator->Next(WithinReason()).status();
    }
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_TRUE(iterator->Close(WithinReason()).ok());
  }
}

TEST(TeamIteratorException, OfOneWorkerEndsTheStepOfAll) {
  if (!kMemoryCanBeScarce) GTEST_SKIP() << "ThreadSanitizer keeps its own operator new";
  for (int allocations = 0; allocations < 60; allocations += 7) {
    TestJob job(2, 1);
    std::vector<Row> rows(2);
    rows[1].number = 6;
    rows[1].allocations = allocations;
    rows[0].number = -1;
    job.OnWorkers([&](TestWorker& worker) {
      const Ref<Dataset> batches = Range(worker, 40)
                                       ->Map(rows[static_cast<size_t>(worker.index)].Hold())
                                       .value()
                                       ->Batch(4)
                                       .value();
      const Ref<DistributedIterator> iterator =
          Iterate(worker, Distribute(worker, WithPolicy(batches, AutoShardPolicy::kData)));
      Status status;
      for (int i = 0; i < 20 && status.ok(); ++i) {
        status = iterator->Next(worker.Hang()).status();
      }
      EXPECT_FALSE(status.ok());
      EXPECT_NE(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
      EXPECT_TRUE(iterator->Close(worker.Hang()).ok());
    });
  }
}

}  // namespace
}  // namespace tutti
