// Errors over links: every rank learns of the first one, whatever it is doing, nobody hangs, and
// the message names who and where.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/cluster/membership/worker_info.h"
#include "core/collective/testing/link_faults.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

uint64_t Seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

Ref<Tensor> Zeros(int64_t count) { return Tensor::Create(DType::kFloat32, Shape({count})).value(); }

int64_t IntDetail(const Status& status, std::string_view key) {
  const StatusDetail* detail = status.FindDetail(key);
  return detail == nullptr ? -1 : std::get<int64_t>(detail->value);
}

class LinkFailureTest : public testing::TestWithParam<LinkKind> {};

TEST_P(LinkFailureTest, AMismatchIsTheSameErrorOnAllRanks) {
  for (int64_t count : {int64_t{3}, int64_t{300000}}) {
    LinkRanks links(3, GetParam());
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
          const Ref<Tensor> tensor = Zeros(rank == 2 ? count + 1 : count);
          return communicator.AllReduce(*tensor, ReduceOp::kSum, links.Hang(), tensor.get());
        });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_EQ(status.message(), statuses[0].message());
      EXPECT_EQ(IntDetail(status, "rank"), 2);
      EXPECT_EQ(IntDetail(status, "peer"), 0);
      EXPECT_EQ(IntDetail(status, "sequence"), 2);
      EXPECT_EQ(IntDetail(status, "epoch"), 1);
    }
  }
}

TEST_P(LinkFailureTest, DifferentOperationsWithAndWithoutPayloadAreAMismatch) {
  LinkRanks links(2, GetParam());
  for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) -> Status {
         if (rank == 0) return communicator.Barrier(links.Hang());
         const Ref<Tensor> tensor = Zeros(1000000);
         return communicator.Broadcast(1, links.Hang(), tensor.get());
       })) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1: call #1 is broadcast, rank 0 called barrier"));
  }
}

TEST_P(LinkFailureTest, ABadArgumentOfOneRankReachesTheOthersInTheCall) {
  LinkRanks links(3, GetParam());
  for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) -> Status {
         const Ref<Tensor> tensor = Zeros(5);
         return communicator.Broadcast(rank == 1 ? 17 : 0, links.Hang(), tensor.get());
       })) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: broadcast #1: root is 17"));
  }
}

TEST_P(LinkFailureTest, AnErrorReachesARankThatIsInNoCall) {
  LinkRanks links(2, GetParam());
  links[0].Abort(Aborted("enough"));
  while (links[1].epoch_status().ok()) std::this_thread::yield();
  EXPECT_EQ(links[1].epoch_status().code(), StatusCode::kAborted);
  EXPECT_EQ(links[1].Barrier(links.Hang()).message(), "enough");
}

TEST_P(LinkFailureTest, AnAbortWakesAllRanksAndTheFirstOneStays) {
  LinkRanks links(3, GetParam());
  std::atomic<int> waiting{0};
  std::thread aborter([&] {
    while (waiting.load() < 2) std::this_thread::yield();
    links[2].Abort(Aborted("first"));
    links[2].Abort(Aborted("second"));
  });
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        if (rank == 2) return OkStatus();
        waiting.fetch_add(1);
        return communicator.Barrier(links.Hang());
      });
  aborter.join();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::kAborted) << statuses[rank].ToString();
    EXPECT_EQ(statuses[rank].message(), "first");
  }
  EXPECT_EQ(links[2].Barrier(links.Hang()).message(), "first");
}

TEST_P(LinkFailureTest, AnAbortInTheMiddleOfALargePayloadEndsItEverywhere) {
  for (int round = 0; round < 8; ++round) {
    LinkRanks links(3, GetParam());
    std::atomic<int> calls{0};
    std::thread aborter([&] {
      while (calls.load() < 3 + round) std::this_thread::yield();
      links[static_cast<size_t>(round % 3)].Abort(Aborted("stop"));
    });
    for (const Status& status : links.Run([&](int64_t, Communicator& communicator) -> Status {
           const Ref<Tensor> tensor = Zeros(1 << 20);
           while (true) {
             Status status =
                 communicator.AllReduce(*tensor, ReduceOp::kSum, links.Hang(), tensor.get());
             // Nobody may write into it once the call has failed.
             if (!status.ok()) {
               std::fill_n(tensor->mutable_span<float>().data(), tensor->num_elements(), 7.0f);
               return status;
             }
             calls.fetch_add(1);
           }
         })) {
      EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
    }
    aborter.join();
  }
}

TEST_P(LinkFailureTest, ADeadlineNamesWhoIsMissingAndItsLastCall) {
  LinkRanks links(3, GetParam());
  for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) -> Status {
         TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
         if (rank == 1) return OkStatus();
         const Ref<Tensor> tensor = Zeros(5);
         // Rank 2 would name rank 0 if that one came after its time.
         const CallOptions options = rank == 0 ? links.Timeout(20 * kMillisecondNs) : links.Hang();
         return communicator.AllReduce(*tensor, ReduceOp::kSum, options, tensor.get());
       })) {
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("for rank 1 (worker 1, pid 4712), which has not called; its last call "
                          "was #1 barrier"));
    EXPECT_EQ(IntDetail(status, "peer"), 1);
    EXPECT_EQ(IntDetail(status, "sequence"), 2);
  }
  EXPECT_EQ(links[1].Barrier(links.Hang()).code(), StatusCode::kDeadlineExceeded);
}

TEST_P(LinkFailureTest, ACancellationEndsTheWaitAndReachesThePeers) {
  LinkRanks links(2, GetParam());
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  CallOptions options = links.Hang();
  options.cancellation = cancellation.get();
  std::thread canceller([&] { cancellation->Cancel(); });
  const Status status = links[0].Barrier(options);
  canceller.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  EXPECT_EQ(links[1].Barrier(links.Hang()).code(), StatusCode::kCancelled);
}

TEST_P(LinkFailureTest, AForkedChildThatAbortsEndsNothingOfItsParents) {
  LinkRanks links(2, GetParam());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    links[0].Abort(Aborted("of the child alone"));
    const bool refused = links[0].epoch_status().code() == StatusCode::kFailedPrecondition;
    links.transport(0).Leave(Unavailable("the child has left"));
    _exit(refused ? 0 : 1);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
  for (const Status& status : links.Run([&](int64_t, Communicator& communicator) -> Status {
         return communicator.Barrier(links.Hang());
       })) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

bool AlwaysTrue(void*) { return true; }

TEST_P(LinkFailureTest, AHostThatPollsItsCancellationIsAsked) {
  LinkRanks links(2, GetParam());
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>(&AlwaysTrue, nullptr, nullptr);
  CallOptions options = links.Hang();
  options.cancellation = cancellation.get();
  EXPECT_EQ(links[0].Barrier(options).code(), StatusCode::kCancelled);
}

TEST_P(LinkFailureTest, APeerThatHasLeftFailsTheCallThatNeedsIt) {
  LinkRanks links(3, GetParam());
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
        if (rank == 1) return communicator.Close(links.Hang());
        return communicator.Barrier(links.Hang());
      });
  EXPECT_TRUE(statuses[1].ok()) << statuses[1].ToString();
  for (size_t rank : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::kUnavailable) << statuses[rank].ToString();
    EXPECT_THAT(std::string(statuses[rank].message()),
                HasSubstr("barrier #2 needs rank 1: it has left (closed)"));
    EXPECT_EQ(IntDetail(statuses[rank], "peer"), 1);
  }
}

// Rank 1's end of its links loses everything after so many bytes; rank 1 goes in good order, as the
// cluster tells the others.
TEST_P(LinkFailureTest, AGoodbyeThatIsLostOnTheWayIsNotAwaitedForEver) {
  for (size_t bytes : {size_t{0}, size_t{30}, size_t{200}, size_t{5000}}) {
    SCOPED_TRACE(bytes);
    auto all = MakeAllLinks(3, GetParam());
    for (size_t peer : {size_t{0}, size_t{2}}) {
      all[1][peer] = std::make_unique<MuteLink>(std::move(all[1][peer]), bytes);
    }
    LinkRanks links(3, std::move(all));
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          if (rank != 1) return communicator.Barrier(links.Hang());
          const Ref<Tensor> tensor = Zeros(100000);
          // Is not answered, or takes what nobody gets.
          Status status = communicator.AllReduce(
              *tensor, ReduceOp::kSum, links.Timeout(5 * kMillisecondNs), tensor.get());
          for (size_t other : {size_t{0}, size_t{2}}) {
            links.transport(other).PeerHasLeft(
                1, BlameWorker(1, "worker 1 (pid 4712) has left the job"), 30 * kMillisecondNs);
          }
          return status;
        });
    for (size_t rank : {size_t{0}, size_t{2}}) {
      EXPECT_FALSE(statuses[rank].ok());
      // What came through may have been a call that does not fit, or its error.
      if (bytes >= 200) continue;
      EXPECT_EQ(statuses[rank].code(), StatusCode::kUnavailable) << statuses[rank].ToString();
      EXPECT_THAT(std::string(statuses[rank].message()),
                  HasSubstr("barrier #1 needs rank 1, and nothing has come from it for 30 ms: "
                            "worker 1 (pid 4712) has left the job"));
      EXPECT_EQ(IntDetail(statuses[rank], "rank"), 1);
      EXPECT_EQ(IntDetail(statuses[rank], "worker"), 1);
    }
  }
}

TEST_P(LinkFailureTest, WhatWasSentInOrderBeforeADepartureIsNotLost) {
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(Seed()));
  for (int round = 0; round < 5; ++round) {
    auto all = MakeAllLinks(2, GetParam());
    // Takes crumbs only, so that much is on its way when the sender is done.
    all[0][1] = std::make_unique<ChoppyLink>(std::move(all[0][1]), Seed() + round, 1000);
    LinkRanks links(2, std::move(all));
    for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) -> Status {
           const Ref<Tensor> tensor = Zeros(100000);
           if (rank == 1) std::fill_n(tensor->mutable_span<float>().data(), 100000, 7.0f);
           TUTTI_RETURN_IF_ERROR(communicator.Broadcast(1, links.Hang(), tensor.get()));
           for (float element : tensor->span<float>()) {
             if (element != 7) return DataLoss("got {}", element);
           }
           if (rank == 0) return OkStatus();
           TUTTI_RETURN_IF_ERROR(communicator.Close(links.Hang()));
           // Rank 0 still takes what was sent.
           links.transport(0).PeerHasLeft(1, BlameWorker(1, "worker 1 has left the job"),
                                          5 * kSecondNs);
           return OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

// Sends nothing while it is held, once it has sent so many bytes.
class HeldBackLink final : public LinkOver {
 public:
  HeldBackLink(std::unique_ptr<Link> link, const std::atomic<bool>* held, int64_t bytes)
      : LinkOver(std::move(link)), held_(*held), left_(bytes) {}
  int64_t TrySend(std::span<const iovec> parts) override {
    if (left_ <= 0 && held_.load()) return 0;
    const int64_t sent = link_->TrySend(parts);
    if (sent > 0) left_ -= sent;
    return sent;
  }

 private:
  const std::atomic<bool>& held_;
  int64_t left_;
};

// Rank 0 has sent its parts and is gone; rank 1 has no room for them before those of rank 2 come.
TEST_P(LinkFailureTest, WhatWaitsForRoomIsNotLate) {
  std::atomic<bool> held = true;
  auto all = MakeAllLinks(3, GetParam());
  all[2][1] = std::make_unique<HeldBackLink>(std::move(all[2][1]), &held, 4096);
  LinkRanks links(3, std::move(all));
  constexpr int64_t kShare = 1 << 18;
  std::atomic<bool> is_done = false;
  std::thread releases([&] {
    // Where nothing holds the rest of rank 0's parts, it waits for room itself.
    for (int ms = 0; ms < 1000 && !is_done.load(); ++ms) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    held.store(false);
  });
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        const Ref<Tensor> tensor = Zeros(3 * kShare);
        const Ref<Tensor> share = Zeros(kShare);
        std::fill_n(tensor->mutable_span<float>().data(), 3 * kShare, 1.0f);
        TUTTI_RETURN_IF_ERROR(
            communicator.ReduceScatter(*tensor, ReduceOp::kSum, links.Hang(), share.get()));
        for (float element : share->span<float>()) {
          if (element != 3) return DataLoss("got {}", element);
        }
        if (rank != 0) return OkStatus();
        TUTTI_RETURN_IF_ERROR(communicator.Close(links.Hang()));
        links.transport(1).PeerHasLeft(0, BlameWorker(0, "worker 0 has left the job"),
                                       100 * kMillisecondNs);
        is_done.store(true);
        return OkStatus();
      });
  releases.join();
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_P(LinkFailureTest, WhoLeavesAfterTheLastCallDisturbsNobody) {
  for (int round = 0; round < 30; ++round) {
    LinkRanks links(3, GetParam());
    for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) -> Status {
           const Ref<Tensor> tensor = Zeros(round % 2 == 0 ? 4 : 200000);
           TUTTI_RETURN_IF_ERROR(communicator.Broadcast(0, links.Hang(), tensor.get()));
           TUTTI_RETURN_IF_ERROR(
               communicator.AllReduce(*tensor, ReduceOp::kSum, links.Hang(), tensor.get()));
           if (rank != round % 3) std::this_thread::yield();
           return communicator.Close(links.Hang());
         })) {
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST_P(LinkFailureTest, AGoodbyeIsHeardThoughTheLeaverHasNotReadAll) {
  LinkRanks links(2, GetParam());
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        if (rank == 0) return communicator.Barrier(links.Hang());
        // The peer's header is there, unread, when this end goes.
        while (links[0].sequence() == 0) std::this_thread::yield();
        for (int i = 0; i < 1000; ++i) std::this_thread::yield();
        links.Drop(1);
        return OkStatus();
      });
  EXPECT_THAT(statuses[0].ToString(), HasSubstr("needs rank 1: it has left"));
}

TEST_P(LinkFailureTest, ClosingInTheMiddleOfACallEndsItOnAllRanks) {
  LinkRanks links(2, GetParam());
  std::thread closer([&] {
    while (links[0].sequence() == 0) std::this_thread::yield();
    EXPECT_TRUE(links[0].Close(links.Hang()).ok());
  });
  EXPECT_FALSE(links[0].Barrier(links.Hang()).ok());
  closer.join();
  EXPECT_EQ(links[1].Barrier(links.Hang()).code(), StatusCode::kUnavailable);
}

// Rank 1 dies after it has sent so many bytes; the calls of all ranks end.
TEST_P(LinkFailureTest, APeerThatDiesAnywhereIsNamedByTheSurvivors) {
  const LinkKind kind = GetParam();
  std::vector<size_t> cuts;
  for (size_t cut = 0; cut < 420; cut += 7) cuts.push_back(cut);
  std::mt19937_64 random(Seed());
  for (int i = 0; i < 60; ++i) cuts.push_back(random() % 900000);
  int failures = 0;
  for (size_t cut : cuts) {
    SCOPED_TRACE(Format("cut after {} bytes", cut));
    auto all = MakeAllLinks(3, kind);
    for (size_t peer : {size_t{0}, size_t{2}}) {
      all[1][peer] = std::make_unique<CutLink>(std::move(all[1][peer]), cut);
    }
    LinkRanks links(3, std::move(all));
    const std::vector<Status> statuses =
        links.Run([&](int64_t, Communicator& communicator) -> Status {
          const Ref<Tensor> small = Zeros(3);
          const Ref<Tensor> large = Zeros(100000);
          for (int i = 0; i < 3; ++i) {
            TUTTI_RETURN_IF_ERROR(
                communicator.AllReduce(*small, ReduceOp::kSum, links.Hang(), small.get()));
          }
          TUTTI_RETURN_IF_ERROR(communicator.Broadcast(1, links.Hang(), large.get()));
          return communicator.AllReduce(*large, ReduceOp::kSum, links.Hang(), large.get());
        });
    for (size_t survivor : {size_t{0}, size_t{2}}) {
      const Status& status = statuses[survivor];
      if (status.ok()) continue;
      ++failures;
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
      EXPECT_THAT(std::string(status.message()), HasSubstr("is gone: ")) << status.ToString();
    }
  }
  EXPECT_GT(failures, 60);
}

TEST_P(LinkFailureTest, CrumbsOfFramesAddUp) {
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(Seed()));
  for (size_t most : {size_t{3}, size_t{4000}}) {
    auto all = MakeAllLinks(3, GetParam());
    for (size_t a = 0; a < 3; ++a) {
      for (size_t b = 0; b < 3; ++b) {
        if (a == b) continue;
        all[a][b] = std::make_unique<ChoppyLink>(std::move(all[a][b]), Seed() + 3 * a + b, most);
      }
    }
    LinkRanks links(3, std::move(all));
    const int64_t count = most == 3 ? 40 : 150000;
    for (const Status& status : links.Run([&](int64_t rank, Communicator&communicator) -> Status {
           for (int round = 0; round < 5; ++round) {
             const Ref<Tensor> tensor = Zeros(count);
             for (float& element : tensor->mutable_span<float>()) {
               element = static_cast<float>(rank + round);
             }
             TUTTI_RETURN_IF_ERROR(
                 communicator.AllReduce(*tensor, ReduceOp::kSum, links.Hang(), tensor.get()));
             for (float element : tensor->span<float>()) {
               if (element != static_cast<float>(3 + 3 * round)) return Internal("wrong sum");
             }
             Ref<Tensor> joined;
             TUTTI_RETURN_IF_ERROR(communicator.AllGather(*tensor, 0, links.Hang(), &joined));
             TUTTI_RETURN_IF_ERROR(communicator.Broadcast(2, links.Hang(), tensor.get()));
           }
           return OkStatus();
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

std::string NameOf(const testing::TestParamInfo<LinkKind>& info) {
  constexpr const char* kNames[] = {"SocketPair", "Tcp", "Ring", "Mixed", "Later", "Chain"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinkFailureTest,
                         testing::Values(LinkKind::kSocketPair, LinkKind::kTcp, LinkKind::kRing,
                                         LinkKind::kMixed, LinkKind::kLater,
                                         LinkKind::kChain),
                         NameOf);

}  // namespace
}  // namespace tutti
