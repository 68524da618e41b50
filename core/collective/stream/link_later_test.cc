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
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/communicator/future.h"
#include "core/collective/testing/link_faults.h"
#include "core/collective/testing/link_ranks.h"
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
      const Ref<Tensor> all = Filled(32 * 5, 0);
      TUTTI_RETURN_IF_ERROR(communicator.AllGatherInto(*Filled(5, static_cast<float>(rank)),
                                                       links.Hang(), all.get()));
      for (size_t i = 0; i < 32 * 5; ++i) EXPECT_EQ(all->span<float>()[i], i / 5);
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

// Half of the neighbours in the order of the ranks are neighbours in the tree.
TEST(LinkLaterTest, LargeFoldsOfManyRanksTakeTheLinksOfATreeAndAChain) {
  LinkRanks links(16, LinkKind::kLater);
  ExpectOk(links.Run([&](int64_t rank, Communicator& communicator) -> Status {
    for (const int64_t root : {0, 5, 15}) {
      for (const int64_t count : {2000, 400'000}) {
        const auto last = static_cast<size_t>(count - 1);
        const Ref<Tensor> sum = Filled(count, static_cast<float>(rank));
        TUTTI_RETURN_IF_ERROR(
            communicator.AllReduce(*sum, ReduceOp::kSum, links.Hang(), sum.get()));
        EXPECT_EQ(sum->mutable_span<float>()[last], 15 * 8);
        const Ref<Tensor> part = Filled(count, static_cast<float>(rank));
        TUTTI_RETURN_IF_ERROR(
            communicator.Reduce(*part, ReduceOp::kMax, root, links.Hang(), part.get()));
        EXPECT_EQ(part->mutable_span<float>()[last], rank == root ? 15 : rank);
      }
    }
    return OkStatus();
  }));
  EXPECT_EQ(links.num_link_ends(), 2 * (15 + 7));
}

TEST(LinkLaterTest, GathersOfManyRanksTakeTheLinksOfATreeAndARing) {
  LinkRanks links(14, LinkKind::kLater);
  ExpectOk(links.Run([&](int64_t rank, Communicator& communicator) -> Status {
    for (const int64_t count : {1000, 90'000}) {
      const Ref<Tensor> all = Filled(14 * count, 0);
      TUTTI_RETURN_IF_ERROR(communicator.AllGatherInto(*Filled(count, static_cast<float>(rank)),
                                                       links.Hang(), all.get()));
      const float* part = all->span<float>().data();
      for (int64_t other = 0; other < 14; ++other, part += count) {
        EXPECT_EQ(std::count(part, part + count, static_cast<float>(other)), count);
      }
    }
    // Rank r has r times so many rows, the first one none.
    for (const int64_t count : {0, 1, 100, 30'000}) {
      Ref<Tensor> joined;
      TUTTI_RETURN_IF_ERROR(communicator.AllGather(*Filled(rank * count, static_cast<float>(rank)),
                                                   0, links.Hang(), &joined));
      const float* next = joined->span<float>().data();
      for (int64_t other = 0; other < 14; ++other) {
        EXPECT_EQ(std::count(next, next + other * count, static_cast<float>(other)),
                  other * count);
        next += other * count;
      }
    }
    return OkStatus();
  }));
  // Half of the links between neighbours are in the tree; that of the last to the first is not.
  EXPECT_EQ(links.num_link_ends(), 2 * (13 + 6 + 1));
}

TEST(LinkLaterTest, WhatGoesFromOrToARootTakesItsLinksAlone) {
  LinkRanks links(12, LinkKind::kLater);
  ExpectOk(links.Run([&](int64_t rank, Communicator& communicator) -> Status {
    for (const int64_t count : {3, 90'000}) {
      const Ref<Tensor> input = Filled(count, static_cast<float>(rank));
      Ref<Tensor> joined;
      TUTTI_RETURN_IF_ERROR(communicator.Gather(*input, 5, 0, links.Hang(), &joined));
      if (rank == 5) {
        EXPECT_EQ(joined->span<float>()[static_cast<size_t>(12 * count - 1)], 11);
      }
      const Ref<Tensor> whole = Filled(12 * count, 7);
      const Ref<Tensor> share = Filled(count, 0);
      TUTTI_RETURN_IF_ERROR(communicator.Scatter(whole.get(), 5, links.Hang(), share.get()));
      EXPECT_EQ(share->span<float>()[static_cast<size_t>(count - 1)], 7);
    }
    return OkStatus();
  }));
  // Rank 5 is a neighbour of rank 4 in the tree already.
  EXPECT_EQ(links.num_link_ends(), 2 * (11 + 10));
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

TEST(LinkLaterTest, ADeadlineInAChainSaysHowFarItIsAndWhoseWorkIsMissing) {
  // What rank 4 sends to rank 5 is lost from the middle of the second sum on.
  std::vector<std::vector<std::unique_ptr<Link>>> ends = MakeTreeLinks(10, LinkKind::kChain);
  ends[4][5] = std::make_unique<MuteLink>(std::move(ends[4][5]), 100'000);
  LinkRanks links(10, std::move(ends), /*spin=*/false, LinkKind::kChain);
  // Who asks its host waits.
  std::atomic<int> num_waiting{0};
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        const Ref<Tensor> first = Filled(5000, 1);
        // Makes the links.
        TUTTI_RETURN_IF_ERROR(
            communicator.AllReduce(*first, ReduceOp::kSum, links.Hang(), first.get()));
        const Ref<Tensor> tensor = Filled(100'000, 1);
        struct Host {
          std::atomic<int>* num_waiting;
          bool was_asked = false;
        } host{&num_waiting};
        const Ref<Cancellation> asks = MakeRef<Cancellation>(
            [](void* user_data) {
              auto* const self = static_cast<Host*>(user_data);
              if (!std::exchange(self->was_asked, true)) self->num_waiting->fetch_add(1);
              return false;
            },
            &host, Ref<const RefCounted>());
        // One of them, the last to come, gives up first, and all others hear of that.
        if (rank == 5) {
          while (num_waiting.load() < 9 && communicator.epoch_status().ok()) {
            std::this_thread::yield();
          }
          return communicator.AllReduce(*tensor, ReduceOp::kSum, links.Timeout(3 * kSecondNs),
                                        tensor.get());
        }
        return communicator.AllReduce(
            *tensor, ReduceOp::kSum, CallOptions{links.Hang().deadline, asks.get()}, tensor.get());
      });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("for rank 4 (worker 4, pid 4715), which is in the call; "));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(" of 25 segments of what ranks 0 to 4 have folded are here"));
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

TEST(LinkLaterTest, AnAbortGoesAroundAnInnerRankThatHasLeft) {
  constexpr size_t kRanks = 12;
  const LinkTree root{0, kRanks};
  std::vector<int64_t> children;
  root.ForEachChild([&](int64_t child) { children.push_back(child); });
  ASSERT_GE(children.size(), 2u);
  for (const bool of_the_peer : {false, true}) {
    SCOPED_TRACE(of_the_peer ? "of the rank that is waited for" : "of another rank");
    LinkRanks links(kRanks, LinkKind::kLater);
    // Of a rank and of all that lies below it nobody but that rank has a link to another one.
    const int64_t inner = children[1];
    const int64_t below = inner + 1;
    ASSERT_EQ(LinkTree::ParentOf(below), inner);
    links.Drop(static_cast<size_t>(inner));
    const Ref<Tensor> tensor = Filled(10, 0);
    const int64_t peer = of_the_peer ? below : children[0];
    Status status;
    std::thread waits([&] { status = links[0].Receive(peer, links.Hang(), tensor.get()); });
    links[static_cast<size_t>(below)].Abort(Aborted("enough"));
    waits.join();
    EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
  }
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

// Headers of half a MiB: the one that differs comes to rank 0 by way of rank 2.
TEST(LinkLaterTest, ALargeHeaderThatDiffersBelowAnotherRankIsNotOverlooked) {
  LinkRanks links(4, LinkKind::kLater);
  ASSERT_EQ(LinkTree::ParentOf(3), 2);
  const Ref<Tensor> empty =
      Tensor::Create(DType::kFloat32, Shape({0, 1, 1, 1, 1, 1, 1, 1})).value();
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        const Ref<Tensor> tensor = Filled(10, static_cast<float>(rank));
        std::vector<Tensor*> outputs(8000, empty.get());
        outputs.push_back(tensor.get());
        const std::vector<const Tensor*> inputs(outputs.begin(), outputs.end());
        return communicator.AllReduce(inputs, rank == 3 ? ReduceOp::kMax : ReduceOp::kSum,
                                      links.Hang(), outputs);
      });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_EQ(status.message(), statuses[0].message());
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 3"));
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
