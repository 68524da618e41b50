// Which way of writing a group finds, and that calls give the same bits whichever it is, and
// whoever has learned of it.

#include "core/collective/shm/shared_store_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/real_environment.h"
#include "core/base/seeded_runs_testing.h"
#include "core/base/text.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/shm/shared_layout.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/shm/shared_transport.h"
#include "core/collective/testing/shared_rank_testing.h"
#include "core/tensor/copy.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

// ---- Choosing ----

class SharedStoreChoiceTest : public testing::Test {
 protected:
  // So many calls, each of which takes what its way of writing does. The way of the last one.
  SharedStores Call(const SharedStoreChoice::Kind& kind, const std::vector<int64_t>& ns,
                    int calls) {
    SharedStores stores = SharedStores::kThroughCaches;
    for (int i = 0; i < calls; ++i) {
      stores = choice_.Choose(kind);
      ++counts_[static_cast<size_t>(stores)];
      if (choice_.IsTimed(kind)) choice_.Note(kind, ns[static_cast<size_t>(stores)]);
    }
    return stores;
  }

  const std::unique_ptr<SharedControl> control_ = std::make_unique<SharedControl>();
  SharedStoreChoice choice_{*control_, true};
  std::vector<int64_t> counts_ = std::vector<int64_t>(4);
};

constexpr size_t kBytes = size_t{1} << 20;
constexpr SharedStoreChoice::Kind kCopies{CollectiveOp::kBroadcast, kBytes,
                                          SharedStores::kPastCaches};
constexpr SharedStoreChoice::Kind kResults{CollectiveOp::kAllReduce, kBytes,
                                           SharedStores::kResultsInInputs};
constexpr SharedStoreChoice::Kind kLarge{CollectiveOp::kAllReduce, 16 * kBytes,
                                         SharedStores::kAllThroughCaches};

TEST_F(SharedStoreChoiceTest, TheFastestWayIsFoundWithinSomeCalls) {
  EXPECT_EQ(Call(kCopies, {500, 300}, 20), SharedStores::kPastCaches);
  EXPECT_EQ(Call(kResults, {500, 600, 300}, 30), SharedStores::kResultsInInputs);
  EXPECT_EQ(Call(kLarge, {500, 900, 400, 300}, 40), SharedStores::kAllThroughCaches);
}

TEST_F(SharedStoreChoiceTest, AWayThatGainsNextToNothingIsNotTaken) {
  EXPECT_EQ(Call(kResults, {500, 490, 485}, 30), SharedStores::kThroughCaches);
}

TEST_F(SharedStoreChoiceTest, EveryWayIsTriedAgainWhenTheCoresMove) {
  ASSERT_EQ(Call(kLarge, {500, 900, 400, 300}, 40), SharedStores::kAllThroughCaches);
  Call(kLarge, {900, 300, 800, 800}, 10'000);
  counts_.assign(4, 0);
  Call(kLarge, {900, 300, 800, 800}, 10'000);
  EXPECT_GT(counts_[1], 9'000);
  Call(kLarge, {300, 900, 800, 800}, 10'000);
  counts_.assign(4, 0);
  Call(kLarge, {300, 900, 800, 800}, 10'000);
  EXPECT_GT(counts_[0], 9'000);
}

TEST_F(SharedStoreChoiceTest, TrialsOfADearWayCostLittle) {
  Call(kResults, {500, 5'000, 400}, 100);
  counts_.assign(4, 0);
  Call(kResults, {500, 5'000, 400}, 100'000);
  const int64_t more = counts_[1] * 4'600 + counts_[0] * 100;
  EXPECT_LT(more, 100'000 * 400 / 20);
  EXPECT_GT(counts_[1], 0);
}

TEST_F(SharedStoreChoiceTest, CallsThatCannotWriteSoHaveAChoiceToThemselves) {
  constexpr SharedStoreChoice::Kind copies{CollectiveOp::kAllReduce, kBytes,
                                           SharedStores::kPastCaches};
  SharedStores of_results = SharedStores::kThroughCaches;
  SharedStores of_copies = SharedStores::kThroughCaches;
  for (int i = 0; i < 1000; ++i) {
    of_results = Call(kResults, {500, 600, 300}, 1);
    of_copies = Call(copies, {500, 300}, 1);
    if (i == 100) counts_.assign(4, 0);
  }
  EXPECT_EQ(of_results, SharedStores::kResultsInInputs);
  EXPECT_EQ(of_copies, SharedStores::kPastCaches);
  EXPECT_GT(counts_[2], 850);
}

TEST_F(SharedStoreChoiceTest, SmallPayloadsAndRanksThatDoNotDecideAreNotTimed) {
  EXPECT_FALSE(choice_.IsTimed({CollectiveOp::kAllReduce, SharedStoreChoice::kLeastBytes - 1}));
  SharedStoreChoice other(*control_, false);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(other.IsTimed(kResults));
}

// ---- What comes out ----

struct Case {
  int64_t ranks;
  bool mixed;  // the ranks write in different ways
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return Format("{}Ranks{}", info.param.ranks, info.param.mixed ? "Mixed" : "");
}

class SharedStoresTest : public testing::TestWithParam<Case> {};

int32_t InputAt(int64_t rank, int64_t i) {
  return static_cast<int32_t>((i * 7 + rank * 1000 + 1) % 100'003);
}

Ref<Tensor> InputOf(int64_t rank, int64_t elements) {
  Ref<Tensor> tensor = Tensor::Create(DType::kInt32, Shape({elements})).value();
  int64_t i = 0;
  for (int32_t& element : tensor->mutable_span<int32_t>()) element = InputAt(rank, i++);
  return tensor;
}

Ref<Tensor> CopyInWindow(Communicator& communicator, const Tensor& tensor) {
  Ref<Tensor> copy = communicator.CreateTensor(tensor.dtype(), tensor.shape()).value();
  if (!CopyInto(tensor, copy.get()).ok()) std::abort();
  return copy;
}

std::string Compare(const char* what, int way, int64_t ranks, const Status& status,
                    const Tensor& found) {
  if (!status.ok()) return Format("{}: {}; ", what, status.ToString());
  const std::span<const int32_t> elements = found.span<int32_t>();
  for (size_t i = 0; i < elements.size(); ++i) {
    int32_t expected = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      expected += InputAt(rank, static_cast<int64_t>(i));
    }
    if (elements[i] != expected) {
      return Format("{} of {} in way {}: {} at {}, expected {}; ", what, elements.size(), way,
                    elements[i], i, expected);
    }
  }
  return "";
}

TEST_P(SharedStoresTest, GiveTheSameResults) {
  const auto [ranks, mixed] = GetParam();
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<SharedSegment> segment =
      SharedSegment::Create(SharedTransport::SegmentBytes(ranks)).value();
  SharedControl& control = SharedLayout(segment->contents(), ranks).control();
  const std::vector<SharedWindows> windows = MakeTestWindows(ranks);
  std::vector<std::string> wrong(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, ranks = ranks, mixed = mixed, rank] {
      SharedGroupOptions options;
      options.name = "stores";
      options.rank = rank;
      options.size = ranks;
      options.windows = windows[static_cast<size_t>(rank)];
      options.table = SharedRank::AllWays();
      const Ref<Communicator> communicator =
          Communicator::CreateOver(environment.get(), "stores", rank, ranks, options.epoch,
                                   SharedTransport::Create(environment, segment, options).value())
              .value();
      const CallOptions hang = CallOptions::WithTimeout(environment->clock(), 60 * kSecondNs);
      std::string& found = wrong[static_cast<size_t>(rank)];
      int call = 0;
      const auto write_in_way = [&, ranks, mixed] {
        const int way = (call++ + (mixed ? static_cast<int>(rank) : 0)) % 4;
        // Nobody chooses for this call before all have come.
        if (const Status met = communicator->Barrier(hang); !met.ok()) found += met.ToString();
        if (mixed || rank == 0) {
          for (std::atomic<uint8_t>& word : control.stores) word.store(static_cast<uint8_t>(way));
        }
        if (mixed) return way;
        if (const Status met = communicator->Barrier(hang); !met.ok()) found += met.ToString();
        return way;
      };
      // One round of slices that are not whole, some, and more than a cache may hold.
      for (const int64_t elements : {3'001, 17'000, 100'003, 400'000, 2'500'000}) {
        // Each element by itself takes long under sanitizers.
        if (elements > 1'000'000 && TestScale() < kOrdinaryScale) break;
        const Ref<Tensor> input = InputOf(rank, elements);
        for (int repeat = 0; repeat < 4 && found.empty(); ++repeat) {
          Ref<Tensor> output = Tensor::Create(DType::kInt32, Shape({elements})).value();
          int way = write_in_way();
          Status status = communicator->AllReduce(*input, ReduceOp::kSum, hang, output.get());
          found += Compare("all_reduce", way, ranks, status, *output);

          Ref<Tensor> in_place = InputOf(rank, elements);
          way = write_in_way();
          status = communicator->AllReduce(*in_place, ReduceOp::kSum, hang, in_place.get());
          found += Compare("all_reduce in place", way, ranks, status, *in_place);

          // Of rank 0 alone in its window: all meet, and go on through the segment after all.
          const Ref<Tensor> shown = rank == 0 ? CopyInWindow(*communicator, *input) : input;
          Ref<Tensor> mixed_output = Tensor::Create(DType::kInt32, Shape({elements})).value();
          way = write_in_way();
          status = communicator->AllReduce(*shown, ReduceOp::kSum, hang, mixed_output.get());
          found += Compare("half direct all_reduce", way, ranks, status, *mixed_output);

          const int64_t root = repeat % ranks;
          Ref<Tensor> reduced = Tensor::Create(DType::kInt32, Shape({elements})).value();
          way = write_in_way();
          status = communicator->Reduce(*input, ReduceOp::kSum, root, hang, reduced.get());
          if (rank == root) found += Compare("reduce", way, ranks, status, *reduced);
        }
      }
      const Status closed = communicator->Close(CallOptions());
      if (!closed.ok()) found += "close: " + closed.ToString();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<std::string>(static_cast<size_t>(ranks)));
  EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedStoresTest,
                         testing::Values(Case{2, false}, Case{2, true}, Case{3, true},
                                         Case{5, false}, Case{5, true}),
                         CaseName);

}  // namespace
}  // namespace tutti
