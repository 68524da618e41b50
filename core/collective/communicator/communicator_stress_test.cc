// Random calls, and random ends in the middle of them. TUTTI_TEST_SEED repeats a run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/seeded_runs_testing.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

uint64_t Seed() {
  const char* text = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device()();
  std::printf("TUTTI_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

int64_t RandomElements(std::mt19937_64& random) {
  const int64_t limits[] = {1, 40, 3000, 60'000};
  return static_cast<int64_t>(random() % static_cast<uint64_t>(limits[random() % 4]));
}

Status ExpectAll(const Tensor& tensor, int64_t expected, const std::string& what) {
  for (int64_t element : tensor.span<int64_t>()) {
    if (element != expected) {
      return Status(StatusCode::kDataLoss, what + " gave " + std::to_string(element) + " for " +
                                               std::to_string(expected));
    }
  }
  return OkStatus();
}

// One random call, the same on all ranks whose `random` is in the same state. Tensors live no
// longer than the call, so that a peer that comes too late is found out by a sanitizer.
Status RandomCall(Communicator& communicator, std::mt19937_64& random, const CallOptions& options) {
  const int64_t rank = communicator.rank();
  const int64_t size = communicator.size();
  const uint64_t kind = random() % 5;
  const int64_t elements = RandomElements(random);
  const auto base = static_cast<int64_t>(random() % 1000);
  Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({elements})).value();
  for (int64_t& element : tensor->mutable_span<int64_t>()) element = base + rank;
  const int64_t sum = size * base + size * (size - 1) / 2;
  if (kind == 0) return communicator.Barrier(options);
  if (kind == 1) {
    const int64_t root = base % size;
    TUTTI_RETURN_IF_ERROR(communicator.Broadcast(root, options, tensor.get()));
    return ExpectAll(*tensor, base + root, "broadcast");
  }
  if (kind == 2) {
    Ref<Tensor> joined;
    TUTTI_RETURN_IF_ERROR(communicator.AllGather(*tensor, 0, options, &joined));
    for (int64_t peer = 0; peer < size; ++peer) {
      TUTTI_RETURN_IF_ERROR(ExpectAll(*joined->Slice(peer * elements, (peer + 1) * elements),
                                      base + peer, "all_gather"));
    }
    return OkStatus();
  }
  if (kind == 3) {
    Ref<Tensor> output = Tensor::Create(DType::kInt64, Shape({elements})).value();
    TUTTI_RETURN_IF_ERROR(
        communicator.AllReduce(*tensor, ReduceOp::kSum, options, output.get()));
    return ExpectAll(*output, sum, "all_reduce");
  }
  Ref<Tensor> scalar = Tensor::Scalar<int64_t>(base + rank);
  const Tensor* inputs[] = {tensor.get(), scalar.get()};
  Tensor* outputs[] = {tensor.get(), scalar.get()};
  TUTTI_RETURN_IF_ERROR(communicator.AllReduce(inputs, ReduceOp::kSum, options, outputs));
  TUTTI_RETURN_IF_ERROR(ExpectAll(*tensor, sum, "all_reduce in place"));
  return ExpectAll(*scalar, sum, "all_reduce of a scalar");
}

TEST(CommunicatorStress, GivesRightResultsForManyRandomCalls) {
  const uint64_t seed = Seed();
  for (const size_t ranks : {2, 3, 5}) {
    // Spinning and sleeping waits, whatever the machine.
    for (const size_t cores : {1, 64}) {
      Communicator::LocalOptions options;
      options.usable_cores = cores;
      RankGroup group(ranks, options);
      const std::vector<Status> statuses = group.Run([&](int64_t, Communicator& communicator) {
        std::mt19937_64 random(seed);
        for (int i = 0; i < 400; ++i) {
          TUTTI_RETURN_IF_ERROR(RandomCall(communicator, random, group.Hang()));
        }
        return OkStatus();
      });
      for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

// How a disturbed run ended on one rank.
struct Outcome {
  int64_t completed = 0;
  Status error;
};

TEST(CommunicatorStress, EndsEveryRankWithOneErrorWhateverComesBetween) {
  const uint64_t seed = Seed();
  std::mt19937_64 plan(seed);
  SeededRuns runs("groups", 80);
  while (runs.Next()) {
    const size_t ranks = 2 + plan() % 3;
    const uint64_t calls_seed = plan();
    const uint64_t kind = plan() % 4;
    const size_t victim = plan() % ranks;
    const auto at_call = static_cast<int64_t>(plan() % 30);
    const auto timeout_ns = static_cast<int64_t>(plan() % 200'000);
    RankGroup group(ranks);
    Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    std::vector<Outcome> outcomes(ranks);
    std::atomic<bool> over{false};
    std::thread disturber([&] {
      while (!over.load() && group[victim].sequence() < at_call) std::this_thread::yield();
      if (kind == 0) group[victim].Abort(OkStatus());
      if (kind == 1) cancellation->Cancel();
      if (kind == 2) {
        EXPECT_TRUE(group[victim].Close(group.Hang()).ok());
      }
    });
    group.Run([&](int64_t rank, Communicator& communicator) {
      Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      std::mt19937_64 random(calls_seed);
      const bool is_victim = static_cast<size_t>(rank) == victim;
      while (outcome.error.ok()) {
        CallOptions options = group.Hang();
        if (is_victim && kind == 1) options.cancellation = cancellation.get();
        if (is_victim && kind == 3) options = group.Timeout(timeout_ns / (outcome.completed + 1));
        outcome.error = RandomCall(communicator, random, options);
        if (outcome.error.ok()) ++outcome.completed;
        // A deadline that never strikes: end the round.
        if (outcome.completed == 300) outcome.error = communicator.Close(group.Hang());
        if (outcome.completed == 300) break;
      }
      return OkStatus();
    });
    over.store(true);
    disturber.join();
    for (const Outcome& outcome : outcomes) {
      EXPECT_NE(outcome.error.code(), StatusCode::kDataLoss) << outcome.error.ToString();
      // Only where a short one was given: anything else would be a rank that nobody woke.
      if (kind != 3) {
        EXPECT_NE(outcome.error.code(), StatusCode::kDeadlineExceeded) << outcome.error.ToString();
      }
      EXPECT_LE(std::abs(outcome.completed - outcomes[0].completed), 1);
      const bool closed_itself = outcome.error.code() == StatusCode::kFailedPrecondition;
      if (outcome.error.ok() || closed_itself) continue;
      EXPECT_EQ(outcome.error.rep(), group[0].epoch_status().rep()) << outcome.error.ToString();
    }
  }
}

}  // namespace
}  // namespace tutti
