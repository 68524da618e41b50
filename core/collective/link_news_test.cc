// How what has happened to a rank reaches the others where they are linked by a tree and by what
// they have used, and the one between them stands still: it is in no call, or the host has its
// thread in the middle of one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/collective/link_ranks.h"
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

// A host that keeps the thread which asks it, from some question on, until it is let go.
class Host {
 public:
  explicit Host(int kept_from) : kept_from_(kept_from) {
    cancellation_ = MakeRef<Cancellation>(&Host::Ask, this, Ref<const RefCounted>());
  }
  Cancellation* cancellation() { return cancellation_.get(); }
  void AwaitQuestion() { keeps_.wait(false); }
  void LetGo() {
    let_go_ = true;
    let_go_.notify_all();
  }

 private:
  static bool Ask(void* self) {
    Host& host = *static_cast<Host*>(self);
    if (++host.num_asked_ < host.kept_from_) return false;
    host.keeps_ = true;
    host.keeps_.notify_all();
    host.let_go_.wait(false);
    return false;
  }

  const int kept_from_;
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
