// Groups whose pairs connect at first use: how many links there are, and what happens when one
// cannot be made. What such groups share with others is tested with those (LinkKind::kLater).

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/collective/future.h"
#include "core/collective/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

Ref<Tensor> Filled(int64_t count, float value) {
  Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({count})).value();
  for (float& element : tensor->mutable_span<float>()) element = value;
  return tensor;
}

void ExpectOk(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

size_t NumDescriptors() {
  DIR* const directory = opendir("/proc/self/fd");
  size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

TEST(LinkTreeTest, EveryRankIsReachedOnceAndWhatLiesBelowOneIsARange) {
  for (int64_t size = 1; size <= 70; ++size) {
    std::vector<int64_t> parents(static_cast<size_t>(size), -1);
    for (int64_t rank = 0; rank < size; ++rank) {
      const LinkTree tree{rank, size};
      int64_t next = rank + 1;
      tree.ForEachChild([&](int64_t child) {
        EXPECT_EQ(child, next);
        EXPECT_TRUE(LinkTree::AreNeighbours(child, rank));
        EXPECT_EQ(LinkTree::ParentOf(child), rank);
        parents[static_cast<size_t>(child)] = rank;
        next = tree.EndOf(child);
      });
      EXPECT_EQ(next, tree.EndOf(rank));
      for (int64_t other = 0; other < size; ++other) {
        if (other == rank) continue;
        EXPECT_TRUE(LinkTree::AreNeighbours(rank, tree.Towards(other)));
      }
    }
    EXPECT_EQ(std::count(parents.begin(), parents.end(), -1), 1);
  }
}

TEST(LinkLaterTest, SmallCallsAndBroadcastsOfManyRanksTakeALinkForEachRankButOne) {
  LinkRanks links(32, LinkKind::kLater);
  ExpectOk(links.Run([&](int64_t rank, Communicator& communicator) -> Status {
    for (int64_t root : {0, 5, 31}) {
      TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
      const Ref<Tensor> sum = Filled(100, static_cast<float>(rank));
      TUTTI_RETURN_IF_ERROR(
          communicator.AllReduce(*sum, ReduceOp::kSum, links.Hang(), sum.get()));
      EXPECT_EQ(sum->mutable_span<float>()[99], 31 * 16);
      const Ref<Tensor> part = Filled(3, 1);
      TUTTI_RETURN_IF_ERROR(
          communicator.Reduce(*part, ReduceOp::kSum, root, links.Hang(), part.get()));
      EXPECT_EQ(part->mutable_span<float>()[2], rank == root ? 32 : 1);
      const Ref<Tensor> large = Filled(400'000, static_cast<float>(rank + 1));
      TUTTI_RETURN_IF_ERROR(communicator.Broadcast(root, links.Hang(), large.get()));
      EXPECT_EQ(large->mutable_span<float>()[399'999], static_cast<float>(root + 1));
    }
    return OkStatus();
  }));
  EXPECT_EQ(links.num_link_ends(), 2 * 31);
}

TEST(LinkLaterTest, FoldsHaveTheBitsOfOtherAlgorithms) {
  for (const size_t size : {size_t{3}, size_t{6}, size_t{11}}) {
    LinkRanks all(size, LinkKind::kSocketPair);
    LinkRanks later(size, LinkKind::kLater);
    std::vector<std::vector<float>> results;
    for (LinkRanks* links : {&all, &later}) {
      std::vector<float> first;
      std::mutex mutex;
      ExpectOk(links->Run([&](int64_t rank, Communicator& communicator) -> Status {
        std::mt19937 random(static_cast<uint32_t>(rank));
        std::uniform_real_distribution<float> values(-1, 1);
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kProd}) {
          const Ref<Tensor> tensor = Filled(37, 0);
          for (float& element : tensor->mutable_span<float>()) element = values(random);
          TUTTI_RETURN_IF_ERROR(
              communicator.AllReduce(*tensor, op, links->Hang(), tensor.get()));
          if (rank != 1) continue;
          std::lock_guard<std::mutex> lock(mutex);
          for (const float element : tensor->mutable_span<float>()) first.push_back(element);
        }
        return OkStatus();
      }));
      results.push_back(std::move(first));
    }
    EXPECT_EQ(results[0].size(), 3u * 37);
    EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), 3 * 37 * sizeof(float)), 0);
    EXPECT_EQ(later.num_link_ends(), 2 * (static_cast<int64_t>(size) - 1));
  }
}

TEST(LinkLaterTest, WhatNeedsAllPairsConnectsThemOnce) {
  LinkRanks links(9, LinkKind::kLater);
  ExpectOk(links.Run([&](int64_t rank, Communicator& communicator) -> Status {
    for (int round = 0; round < 3; ++round) {
      const Ref<Tensor> tensor = Filled(90'000, 1);
      TUTTI_RETURN_IF_ERROR(
          communicator.AllReduce(*tensor, ReduceOp::kSum, links.Hang(), tensor.get()));
      EXPECT_EQ(tensor->mutable_span<float>()[89'999], 9);
      TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
      const Ref<Tensor> in = Filled(9, static_cast<float>(rank));
      const Ref<Tensor> out = Filled(9, 0);
      TUTTI_RETURN_IF_ERROR(communicator.AllToAll(*in, links.Hang(), out.get()));
      EXPECT_EQ(out->mutable_span<float>()[7], 7);
    }
    return OkStatus();
  }));
  EXPECT_EQ(links.num_link_ends(), 9 * 8);
}

// Ranks 1 and 2 of four are no neighbours: 0-1, 0-2 and 2-3 are.
TEST(LinkLaterTest, APairThatSendsAndReceivesGetsALinkWhoeverComesFirst) {
  for (const int64_t from : {1, 2}) {
    for (const bool sender_first : {true, false}) {
      LinkRanks links(4, LinkKind::kLater);
      std::atomic<bool> begun = false;
      ExpectOk(links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        if (rank != 1 && rank != 2) return OkStatus();
        const bool sends = rank == from;
        // The other comes once the first asks for the link, or has made it.
        if (sends == sender_first) {
          begun = true;
        } else {
          while (!begun) std::this_thread::yield();
        }
        for (const int64_t count : {int64_t{10}, int64_t{100'000}}) {
          const Ref<Tensor> tensor = Filled(count, sends ? 5 : 0);
          TUTTI_RETURN_IF_ERROR(sends ? communicator.Send(*tensor, 3 - rank, links.Hang())
                                      : communicator.Receive(3 - rank, links.Hang(),
                                                             tensor.get()));
          EXPECT_EQ(tensor->mutable_span<float>()[static_cast<size_t>(count - 1)], 5);
        }
        return OkStatus();
      }));
      EXPECT_EQ(links.num_link_ends(), 2 * 4);
    }
  }
}

TEST(LinkLaterTest, TwoCallsInFlightThatNeedTheSameLinkMakeItOnce) {
  LinkRanks links(4, LinkKind::kLater);
  ExpectOk(links.Run([&](int64_t rank, Communicator& communicator) -> Status {
    if (rank != 1 && rank != 2) return OkStatus();
    const Ref<Tensor> first = Filled(10, static_cast<float>(rank));
    const Ref<Tensor> second = Filled(10, static_cast<float>(rank));
    // Rank 1 sends the first and receives the second.
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Future> a,
        rank == 1 ? communicator.SendAsync(*first, 2, links.Hang())
                  : communicator.ReceiveAsync(1, links.Hang(), first.get()));
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Future> b,
        rank == 1 ? communicator.ReceiveAsync(2, links.Hang(), second.get())
                  : communicator.SendAsync(*second, 1, links.Hang()));
    TUTTI_RETURN_IF_ERROR(b->Wait(links.Hang()));
    TUTTI_RETURN_IF_ERROR(a->Wait(links.Hang()));
    Ref<Value> none;
    TUTTI_RETURN_IF_ERROR(a->GetResult(&none));
    TUTTI_RETURN_IF_ERROR(b->GetResult(&none));
    EXPECT_EQ(first->mutable_span<float>()[9], 1);
    EXPECT_EQ(second->mutable_span<float>()[9], 2);
    return OkStatus();
  }));
  EXPECT_EQ(links.num_link_ends(), 2 * 4);
}

TEST(LinkLaterTest, ADeadlineWhileConnectingNamesTheRankThatDoesNotCome) {
  for (const int64_t rank : {1, 2}) {
    LinkRanks links(4, LinkKind::kLater);
    const Ref<Tensor> tensor = Filled(10, 0);
    const Status status = links[static_cast<size_t>(rank)].Receive(
        3 - rank, links.Timeout(60 * kMillisecondNs), tensor.get());
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(Format("for rank {} (worker {}, pid {}), which has not called", 3 - rank,
                                 3 - rank, 4711 + 3 - rank)));
  }
}

TEST(LinkLaterTest, ADeadlineInACollectiveNamesTheMissingRankOnAllOthers) {
  LinkRanks links(9, LinkKind::kLater);
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
        if (rank == 7) return OkStatus();
        return communicator.Barrier(links.Timeout(500 * kMillisecondNs));
      });
  for (size_t rank = 0; rank < 9; ++rank) {
    if (rank == 7) continue;
    EXPECT_EQ(statuses[rank].code(), StatusCode::kDeadlineExceeded) << statuses[rank].ToString();
    EXPECT_THAT(std::string(statuses[rank].message()),
                HasSubstr("for rank 7 (worker 7, pid 4718), which has not called; its last call "
                          "was #1 barrier"));
  }
}

TEST(LinkLaterTest, ACancellationEndsAWaitForALinkAndTheOthersHearOfIt) {
  for (const size_t rank : {size_t{1}, size_t{2}}) {
    LinkRanks links(4, LinkKind::kLater);
    const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    CallOptions options = links.Hang();
    options.cancellation = cancellation.get();
    const Ref<Tensor> tensor = Filled(10, 0);
    Status status;
    std::thread waits([&] {
      status = links[rank].Receive(static_cast<int64_t>(3 - rank), options, tensor.get());
    });
    cancellation->Cancel();
    waits.join();
    EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
    EXPECT_EQ(links[3].Barrier(links.Hang()).code(), StatusCode::kCancelled);
  }
}

TEST(LinkLaterTest, AnAbortReachesARankThatWaitsForALinkThroughRanksThatAreInNoCall) {
  LinkRanks links(8, LinkKind::kLater);
  Status status;
  const Ref<Tensor> tensor = Filled(10, 0);
  std::thread waits([&] { status = links[7].Receive(1, links.Hang(), tensor.get()); });
  links[5].Abort(Aborted("enough"));
  waits.join();
  EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
}

TEST(LinkLaterTest, ARankThatHasLeftIsNamedByWhoNeedsALinkToIt) {
  for (const size_t rank : {size_t{1}, size_t{2}}) {
    LinkRanks links(4, LinkKind::kLater);
    links.Drop(3 - rank);
    const Ref<Tensor> tensor = Filled(10, 0);
    const Status status =
        links[rank].Send(*tensor, static_cast<int64_t>(3 - rank), links.Hang());
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(Format("needs rank {}", 3 - rank)));
  }
}

TEST(LinkLaterTest, TheDeathOfARankWhoseLinkIsAwaitedEndsTheWait) {
  for (const size_t rank : {size_t{1}, size_t{2}}) {
    LinkRanks links(4, LinkKind::kLater);
    // Nothing listens there any more, as where its process has ended.
    ASSERT_TRUE(links.listener(3 - rank).Close(CallOptions()).ok());
    const Ref<Tensor> tensor = Filled(10, 0);
    Status status;
    std::thread waits([&] {
      status = links[rank].Send(*tensor, static_cast<int64_t>(3 - rank), links.Hang());
    });
    // As the cluster says it.
    links.transport(rank).Fail(Unavailable("worker {} is gone", 3 - rank)).rep();
    waits.join();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(Format("worker {} is gone", 3 - rank)));
  }
}

TEST(LinkLaterTest, ARankThatLeftTheJobInGoodOrderIsNotWaitedForLongerThanItsPatience) {
  LinkRanks links(4, LinkKind::kLater);
  ASSERT_TRUE(links.listener(1).Close(CallOptions()).ok());
  links.transport(2).PeerHasLeft(1, Unavailable("worker 1 has left"), 10 * kMillisecondNs);
  const Ref<Tensor> tensor = Filled(10, 0);
  const Status status = links[2].Send(*tensor, 1, links.Hang());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs rank 1"));
}

TEST(LinkLaterTest, ATransferToARankThatIsInACollectiveIsTheSameErrorOnAll) {
  for (const int64_t sender : {1, 2}) {
    LinkRanks links(4, LinkKind::kLater);
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
          const Ref<Tensor> tensor = Filled(10, 0);
          if (rank == sender) return communicator.Send(*tensor, 3 - rank, links.Hang());
          return communicator.Barrier(links.Hang());
        });
    // Rank 3 hears of it from rank 2; the one that waits in the collective knows it has come.
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_EQ(status.message(),
                Format("rank {}: send #1 to rank {}, which waits for rank {} in barrier #2; make "
                       "the calls in an order that both ranks can follow",
                       sender, 3 - sender, sender));
    }
  }
}

TEST(LinkLaterTest, DifferentCallsOfRanksFarApartAreOneErrorThatNamesBoth) {
  LinkRanks links(9, LinkKind::kLater);
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        const Ref<Tensor> tensor = Filled(10, 0);
        if (rank == 7) return communicator.Broadcast(0, links.Hang(), tensor.get());
        if (rank == 5) {
          return communicator.AllToAll(*Filled(9, 0), links.Hang(), Filled(9, 0).get());
        }
        return communicator.AllReduce(*tensor, ReduceOp::kSum, links.Hang(), tensor.get());
      });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_EQ(status.message(), statuses[0].message());
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 5"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0"));
  }
}

TEST(LinkLaterTest, NothingIsLeftOpenOfLinksThatWereAndWereNotMade) {
  const size_t before = NumDescriptors();
  // The link of rank 2 reaches rank 1, which makes no call; the wish of rank 1 reaches rank 2.
  for (const size_t rank : {size_t{1}, size_t{2}}) {
    LinkRanks links(4, LinkKind::kLater);
    const Ref<Tensor> tensor = Filled(10, 0);
    EXPECT_FALSE(links[rank]
                     .Send(*tensor, static_cast<int64_t>(3 - rank),
                           links.Timeout(60 * kMillisecondNs))
                     .ok());
  }
  EXPECT_EQ(NumDescriptors(), before);
}

}  // namespace
}  // namespace tutti
