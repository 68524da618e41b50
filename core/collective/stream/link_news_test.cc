// How what has happened to a rank reaches the others where they are linked by a tree and by what
// they have used, and the one between them stands still: it is in no call, or the host has its
// thread in the middle of one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/collective/stream/link_frame.h"
#include "core/collective/testing/link_faults.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

constexpr int64_t kSize = 10;

Ref<Tensor> Filled(int64_t count, float value) {
  Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({count})).value();
  for (float& element : tensor->mutable_span<float>()) element = value;
  return tensor;
}

// A host that keeps the thread which asks it, from some question on, or not before something has
// happened, until it is let go.
class Host {
 public:
  explicit Host(int kept_from, const std::atomic<bool>* kept_after = nullptr,
                bool cancels = false)
      : kept_from_(kept_from), kept_after_(kept_after), cancels_(cancels) {
    cancellation_ = MakeRef<Cancellation>(&Host::Ask, this, Ref<const RefCounted>());
  }
  Cancellation* cancellation() { return cancellation_.get(); }
  void AwaitQuestion() { keeps_.wait(false); }
  // Nobody asks any more.
  void EndAwait() {
    keeps_ = true;
    keeps_.notify_all();
  }
  void LetGo() {
    let_go_ = true;
    let_go_.notify_all();
  }

 private:
  static bool Ask(void* self) {
    Host& host = *static_cast<Host*>(self);
    if (++host.num_asked_ < host.kept_from_) return false;
    if (host.kept_after_ != nullptr && !host.kept_after_->load()) return false;
    host.keeps_ = true;
    host.keeps_.notify_all();
    host.let_go_.wait(false);
    return host.cancels_;
  }

  const int kept_from_;
  const std::atomic<bool>* const kept_after_;
  const bool cancels_;  // when it is let go
  Ref<Cancellation> cancellation_;
  int num_asked_ = 0;
  std::atomic<bool> keeps_{false};
  std::atomic<bool> let_go_{false};
};

TEST(LinkNewsTest, AnAbortReachesAllWhoWaitForARankThatHasNotCalled) {
  for (const int64_t root : {0, 4, 9}) {
    for (const int64_t aborts : {1, 5, 8}) {
      SCOPED_TRACE(Format("rank {} aborts, and the root is rank {}", aborts, root));
      LinkRanks links(kSize, LinkKind::kChain);
      const std::vector<Status> statuses =
          links.Run([&](int64_t rank, Communicator& communicator) -> Status {
            const Ref<Tensor> tensor = Filled(100'000, 1);
            TUTTI_RETURN_IF_ERROR(communicator.Reduce(*tensor, ReduceOp::kSum, root, links.Hang(),
                                                      tensor.get()));
            if (rank == aborts) communicator.Abort(Aborted("enough"));
            if (rank == aborts || rank == root) return Aborted("enough");
            return communicator.Reduce(*tensor, ReduceOp::kSum, root, links.Hang(), tensor.get());
          });
      for (const Status& status : statuses) {
        EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
      }
    }
  }
}

TEST(LinkNewsTest, AnAbortReachesAllWhoWaitWhileTheHostHasTheRootsThread) {
  for (const int64_t root : {0, 4, 8}) {
    for (const int64_t aborts : {1, 5, 9}) {
      SCOPED_TRACE(Format("rank {} aborts, and the root is rank {}", aborts, root));
      LinkRanks links(kSize, LinkKind::kChain);
      Host host(1);
      std::atomic<int> num_waiting = kSize - 2;
      const std::vector<Status> statuses =
          links.Run([&](int64_t rank, Communicator& communicator) -> Status {
            if (rank == aborts) {
              host.AwaitQuestion();
              communicator.Abort(Aborted("enough"));
              return communicator.epoch_status();
            }
            const Ref<Tensor> tensor = Filled(100'000, 1);
            CallOptions options = links.Hang();
            if (rank == root) options.cancellation = host.cancellation();
            Status status =
                communicator.Reduce(*tensor, ReduceOp::kSum, root, options, tensor.get());
            // Nobody else lets the root go.
            if (rank != root && --num_waiting == 0) host.LetGo();
            return status;
          });
      for (const Status& status : statuses) {
        EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
      }
    }
  }
}

// Rank 9 comes while the host has the thread of rank 5, and then all others are through the call.
TEST(LinkNewsTest, ACallThatWasOverForAllOthersIsNotLateOrCancelled) {
  for (const bool is_cancelled : {false, true}) {
    SCOPED_TRACE(is_cancelled ? "cancelled" : "late");
    LinkRanks links(kSize, LinkKind::kChain);
    Host host(1, nullptr, is_cancelled);
    const CallOptions limited =
        is_cancelled ? links.Hang() : links.Timeout(300 * kMillisecondNs);
    std::atomic<int> num_waiting = kSize - 1;
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          CallOptions options = rank == 5 ? limited : links.Hang();
          if (rank == 5) options.cancellation = host.cancellation();
          if (rank == 9) host.AwaitQuestion();
          Status status = communicator.Barrier(options);
          if (rank == 5 || --num_waiting != 0) return status;
          while (!is_cancelled && !limited.deadline.Expired(RealClock())) {
            std::this_thread::yield();
          }
          host.LetGo();
          return status;
        });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

// What the two ends of a link know of each other: how many bytes have come over it before some
// segment that is held back, whether the other one lacks it alone, and whether it may go.
struct HeldSegment {
  std::atomic<int64_t> bytes_before = -1;
  std::atomic<bool> is_awaited = false;
  std::atomic<bool> may_go = false;
};

// Holds back a segment of data.
class HoldingLink final : public LinkOver {
 public:
  HoldingLink(std::unique_ptr<Link> link, uint64_t segment, HeldSegment* held)
      : LinkOver(std::move(link)), segment_(segment), held_(*held) {}

  int64_t TrySend(std::span<const iovec> parts) override {
    const iovec& head = parts.front();
    FrameHeader header;
    if (!held_.may_go.load() && head.iov_len >= kFrameHeaderBytes &&
        DecodeFrameHeader(static_cast<const char*>(head.iov_base), 1, &header).ok() &&
        header.kind == FrameKind::kData && header.argument == segment_) {
      held_.bytes_before = sent_;
      return 0;
    }
    const int64_t sent = link_->TrySend(parts);
    if (sent > 0) sent_ += sent;
    return sent;
  }

 private:
  const uint64_t segment_;
  HeldSegment& held_;
  int64_t sent_ = 0;
};

// Its other end.
class AwaitingLink final : public LinkOver {
 public:
  AwaitingLink(std::unique_ptr<Link> link, HeldSegment* held)
      : LinkOver(std::move(link)), held_(*held) {}

  int64_t TryReceive(std::span<const iovec> parts) override {
    const int64_t received = link_->TryReceive(parts);
    if (received > 0) received_ += received;
    return received;
  }
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override {
    // Where there is no room for what has come, its rank is not in the exchange yet.
    if (want_read && received_ == held_.bytes_before.load()) held_.is_awaited = true;
    return LinkOver::PrepareSleep(want_read, want_write, entry);
  }

 private:
  HeldSegment& held_;
  int64_t received_ = 0;
};

// There is no memory for what all ranks bring. Rank 5 hears how much that is while its host has its
// thread, and data follows at once.
TEST(LinkNewsTest, ACallThatFailsWhileTheHostHasItsThreadTakesNoMoreData) {
  constexpr uint64_t kJoinedBytes = 4'000'000;
  HeldSegment last_word;
  std::vector<std::vector<std::unique_ptr<Link>>> all = MakeTreeLinks(kSize, LinkKind::kChain);
  all[4][5] = std::make_unique<HoldingLink>(std::move(all[4][5]), kSize - 2, &last_word);
  all[5][4] = std::make_unique<AwaitingLink>(std::move(all[5][4]), &last_word);
  LinkRanks links(kSize, std::move(all), /*spin=*/false, LinkKind::kChain);
  Host host(1, &last_word.is_awaited);
  std::atomic<int> num_waiting = kSize - 1;
  std::thread limiter([&] {
    host.AwaitQuestion();
    // All others have room for what comes by then, or for most of it at the worst.
    MemoryAccount& memory = links.environment().memory();
    const Deadline enough = Deadline::After(RealClock(), 20 * kSecondNs);
    while (memory.used_bytes() < (kSize - 1) * kJoinedBytes && !enough.Expired(RealClock())) {
      std::this_thread::yield();
    }
    memory.set_limit_bytes(1);
    last_word.may_go = true;
  });
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        CallOptions options = links.Hang();
        if (rank == 5) options.cancellation = host.cancellation();
        Ref<Tensor> joined;
        Status status =
            communicator.AllGather(*Filled(kJoinedBytes / 4 / kSize, 1), 0, options, &joined);
        if (rank != 5 && --num_waiting == 0) host.LetGo();
        if (rank == 5) host.EndAwait();
        return status;
      });
  limiter.join();
  links.environment().memory().set_limit_bytes(0);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 5: all_gather #1"));
  }
}

// Keeps the thread that asks for up to twice as long as it takes to ask again.
bool KeepForAWhile(void* random) {
  auto& next = *static_cast<std::mt19937_64*>(random);
  const auto most = static_cast<uint64_t>(2 * Cancellation::kPollIntervalNs);
  std::this_thread::sleep_for(std::chrono::nanoseconds(next() % most));
  return false;
}

// Other threads go on with it meanwhile.
TEST(LinkNewsTest, WhatHostsHoldUpInTheMiddleOfCallsIsRight) {
  LinkRanks links(kSize, LinkKind::kChain);
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        std::mt19937_64 random(static_cast<uint64_t>(rank));
        const Ref<Cancellation> asks =
            MakeRef<Cancellation>(&KeepForAWhile, &random, Ref<const RefCounted>());
        for (int i = 0; i < 2; ++i) {
          const auto options = [&] { return CallOptions{links.Hang().deadline, asks.get()}; };
          const Ref<Tensor> sum = Filled(700'000, static_cast<float>(rank + i));
          TUTTI_RETURN_IF_ERROR(
              communicator.AllReduce(*sum, ReduceOp::kSum, options(), sum.get()));
          const std::span<const float> elements = sum->span<float>();
          EXPECT_EQ(std::count(elements.begin(), elements.end(), 45 + 10 * i), 700'000);
          const Ref<Tensor> all = Filled(kSize * 1000, 0);
          TUTTI_RETURN_IF_ERROR(communicator.AllGatherInto(
              *Filled(1000, static_cast<float>(rank)), options(), all.get()));
          EXPECT_EQ(all->span<float>()[kSize * 1000 - 1], 9);
          TUTTI_RETURN_IF_ERROR(communicator.Broadcast(3, options(), sum.get()));
          TUTTI_RETURN_IF_ERROR(communicator.Barrier(options()));
        }
        return OkStatus();
      });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

// Rank 1 has no other neighbour than rank 0, and rank 5 none but rank 4.
TEST(LinkNewsTest, WhoWaitsHearsThatARankHasLeftThroughOneThatIsInNoCall) {
  for (const int64_t idle : {0, 4}) {
    SCOPED_TRACE(Format("rank {} is in no call", idle));
    ASSERT_EQ(LinkTree::ParentOf(idle + 1), idle);
    LinkRanks links(kSize, LinkKind::kLater);
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
          if (rank == idle) return OkStatus();
          if (rank == idle + 1) return communicator.Close(links.Hang());
          return communicator.Barrier(links.Hang());
        });
    for (int64_t rank = 0; rank < kSize; ++rank) {
      const Status& status = statuses[static_cast<size_t>(rank)];
      if (rank == idle || rank == idle + 1) {
        EXPECT_TRUE(status.ok()) << status.ToString();
        continue;
      }
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(Format("barrier #2 needs rank {}: it has left (closed)", idle + 1)));
    }
  }
}

TEST(LinkNewsTest, WhoHasLeftBehindItsLastCallEndsNobodysCall) {
  LinkRanks links(kSize, LinkKind::kLater);
  const std::vector<Status> statuses =
      links.Run([&](int64_t rank, Communicator& communicator) -> Status {
        for (int i = 0; i < 20; ++i) TUTTI_RETURN_IF_ERROR(communicator.Barrier(links.Hang()));
        if (rank % 2 == 1) return communicator.Close(links.Hang());
        return OkStatus();
      });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  for (size_t rank = 0; rank < kSize; rank += 2) EXPECT_TRUE(links[rank].epoch_status().ok());
}

}  // namespace
}  // namespace tutti
