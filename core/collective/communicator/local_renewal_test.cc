// The next epoch of ranks within a process: of a whole group and of parts, whoever has closed its
// communicator, and whatever races with that.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

// The sum of `value` over the ranks.
Result<int64_t> Sum(Communicator& communicator, int64_t value, const CallOptions& call) {
  const Ref<Tensor> tensor = Tensor::Scalar<int64_t>(value);
  TUTTI_RETURN_IF_ERROR(communicator.AllReduce(*tensor, ReduceOp::kSum, call, tensor.get()));
  return tensor->item<int64_t>();
}

TEST(LocalRenewal, ThoseWhoAreLeftGoOnInTheirOldOrder) {
  for (int64_t leaver = 0; leaver < 4; ++leaver) {
    RankGroup group(4);
    for (const Status& status : group.Run([&](int64_t rank, Communicator& self) -> Status {
           TUTTI_RETURN_IF_ERROR(self.Barrier(group.Hang()));
           if (rank == leaver) return self.Close(group.Hang());
           const Status ended = self.Barrier(group.Hang());
           EXPECT_EQ(ended.code(), StatusCode::kUnavailable) << ended.ToString();
           TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> next, self.Shrink(group.Hang()));
           EXPECT_EQ(next->epoch(), self.epoch() + 1);
           EXPECT_EQ(next->name(), self.name());
           EXPECT_EQ(next->size(), 3);
           EXPECT_EQ(next->rank(), rank - (rank > leaver ? 1 : 0));
           TUTTI_ASSIGN_OR_RETURN(const int64_t sum, Sum(*next, 1 + rank, group.Hang()));
           EXPECT_EQ(sum, 10 - (1 + leaver));
           return next->Close(group.Hang());
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST(LocalRenewal, ARevokedGroupGoesOnWithAllAndAgainAndAgain) {
  RankGroup group(3);
  for (const Status& status : group.Run([&](int64_t rank, Communicator& self) -> Status {
         Ref<Communicator> current = Ref<Communicator>::Retain(&self);
         for (int64_t round = 0; round < 20; ++round) {
           if (rank == round % 3) current->Revoke(Aborted("enough"));
           TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> next, current->Shrink(group.Hang()));
           TUTTI_RETURN_IF_ERROR(current->Close(group.Hang()));
           EXPECT_EQ(next->size(), 3);
           EXPECT_EQ(next->epoch(), current->epoch() + 1);
           current = std::move(next);
           TUTTI_ASSIGN_OR_RETURN(const int64_t sum, Sum(*current, rank, group.Hang()));
           EXPECT_EQ(sum, 3);
           // Of the ranks that begin to revoke again, none is faster than this call.
           TUTTI_RETURN_IF_ERROR(current->Barrier(group.Hang()));
         }
         return current->Close(group.Hang());
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(LocalRenewal, ARankThatNeitherComesNorClosesIsNamed) {
  RankGroup group(3);
  group[0].Abort(Aborted("enough"));
  const Status late = group[0].Shrink(group.Timeout(10 * kMillisecondNs)).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.ToString();
  EXPECT_THAT(std::string(late.message()),
              HasSubstr("it waits for rank 1, rank 2, which neither came nor closed their "
                        "communicator"));
  // It can be called again, and then all come or close.
  std::thread closer([&] { EXPECT_TRUE(group[1].Close(group.Hang()).ok()); });
  std::thread other([&] {
    const Result<Ref<Communicator>> next = group[2].Shrink(group.Hang());
    ASSERT_TRUE(next.ok()) << next.status().ToString();
    EXPECT_EQ((*next)->rank(), 1);
    EXPECT_TRUE((*next)->Barrier(group.Hang()).ok());
    EXPECT_TRUE((*next)->Close(group.Hang()).ok());
  });
  const Result<Ref<Communicator>> next = group[0].Shrink(group.Hang());
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_TRUE((*next)->Barrier(group.Hang()).ok());
  EXPECT_TRUE((*next)->Close(group.Hang()).ok());
  closer.join();
  other.join();
}

TEST(LocalRenewal, CloseEndsAShrinkOnAnotherThreadAndTheOthersGoOn) {
  RankGroup group(3);
  Status status;
  std::thread shrinks([&] { status = group[0].Shrink(group.Hang()).status(); });
  // It says so before it waits.
  while (group[0].epoch_status().ok()) std::this_thread::yield();
  EXPECT_TRUE(group[0].Close(group.Hang()).ok());
  shrinks.join();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("shrink of communicator"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("close"));
  EXPECT_EQ(group[0].Shrink(group.Hang()).status().code(), StatusCode::kFailedPrecondition);
  std::thread other([&] {
    const Result<Ref<Communicator>> next = group[2].Shrink(group.Hang());
    ASSERT_TRUE(next.ok()) << next.status().ToString();
    EXPECT_EQ((*next)->size(), 2);
    EXPECT_TRUE((*next)->Close(group.Hang()).ok());
  });
  const Result<Ref<Communicator>> next = group[1].Shrink(group.Hang());
  EXPECT_TRUE(next.ok()) << next.status().ToString();
  if (next.ok()) {
    EXPECT_TRUE((*next)->Close(group.Hang()).ok());
  }
  other.join();
}

// In the first rounds rank 1 comes when both threads have: one of them has been refused.
TEST(LocalRenewal, OfTwoThreadsOfOneRankOneMakesTheNextEpoch) {
  for (int round = 0; round < 40; ++round) {
    const bool in_turn = round < 2;
    RankGroup group(2);
    std::promise<void> one_is_back;
    std::atomic<int> back{0};
    std::mutex mutex;  // guards `ranks`
    std::vector<int64_t> ranks;  // of the next epoch
    const auto shrink = [&](size_t rank) {
      const Result<Ref<Communicator>> next = group[rank].Shrink(group.Hang());
      if (rank == 0 && back++ == 0) one_is_back.set_value();
      if (!next.ok()) {
        EXPECT_EQ(rank, 0u);
        EXPECT_EQ(next.status().code(), StatusCode::kFailedPrecondition)
            << next.status().ToString();
        EXPECT_THAT(std::string(next.status().message()),
                    HasSubstr("another thread of rank 0 is in it already"));
        return;
      }
      if ((*next)->epoch() == 2) {
        EXPECT_EQ((*next)->size(), 2);
        EXPECT_TRUE((*next)->Barrier(group.Hang()).ok());
        const std::lock_guard<std::mutex> lock(mutex);
        ranks.push_back((*next)->rank());
      } else {
        // It came when the other was done, and rank 1 had closed the former one.
        EXPECT_FALSE(in_turn);
        EXPECT_EQ((*next)->epoch(), 3);
        EXPECT_EQ((*next)->size(), 1);
      }
      EXPECT_TRUE((*next)->Close(group.Hang()).ok());
    };
    std::thread first([&] { shrink(0); });
    std::thread second([&] { shrink(0); });
    if (in_turn) one_is_back.get_future().wait_for(std::chrono::seconds(60));
    shrink(1);
    EXPECT_TRUE(group[1].Close(group.Hang()).ok());
    first.join();
    second.join();
    EXPECT_THAT(ranks, UnorderedElementsAre(0, 1));
  }
}

TEST(LocalRenewal, APartShrinksByItselfAndTheOtherGoesOn) {
  RankGroup group(4);
  for (const Status& status : group.Run([&](int64_t rank, Communicator& self) -> Status {
         TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> part,
                                self.Split(rank % 2, 0, "", group.Hang()));
         TUTTI_RETURN_IF_ERROR(part->Barrier(group.Hang()));
         if (rank == 3) return part->Close(group.Hang());
         if (rank % 2 == 0) {
           for (int i = 0; i < 100; ++i) TUTTI_RETURN_IF_ERROR(part->Barrier(group.Hang()));
           return part->Close(group.Hang());
         }
         EXPECT_FALSE(part->Barrier(group.Hang()).ok());
         TUTTI_ASSIGN_OR_RETURN(const Ref<Communicator> next, part->Shrink(group.Hang()));
         EXPECT_EQ(next->size(), 1);
         TUTTI_RETURN_IF_ERROR(next->Barrier(group.Hang()));
         EXPECT_TRUE(self.epoch_status().ok());
         TUTTI_RETURN_IF_ERROR(next->Close(group.Hang()));
         return part->Close(group.Hang());
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(LocalRenewal, RanksWithinAProcessDoNotGrow) {
  RankGroup group(2);
  const Status status = group[0].Grow(0, group.Hang()).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("make another group"));
}

}  // namespace
}  // namespace tutti
