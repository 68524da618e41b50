// Calls over links that an exception leaves, because the host has thrown while it was asked: the
// peers hear of it, the links are free again, and nothing uses the memory of a call that has gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

void Set(std::atomic<bool>& flag) {
  flag = true;
  flag.notify_all();
}

// A host that keeps the thread which asks it until a flag is set, and throws then, or when it is
// asked once more.
class Host {
 public:
  Host(const std::atomic<bool>& until, int throws_at) : until_(until), throws_at_(throws_at) {}
  Cancellation* cancellation() { return cancellation_.get(); }

 private:
  static bool Ask(void* self) {
    Host& host = *static_cast<Host*>(self);
    host.until_.wait(false);
    if (++host.num_asked_ == host.throws_at_) throw std::bad_alloc();
    return false;
  }

  const std::atomic<bool>& until_;
  const int throws_at_;
  int num_asked_ = 0;
  const Ref<Cancellation> cancellation_ =
      MakeRef<Cancellation>(&Host::Ask, this, Ref<const RefCounted>());
};

// One that says that it is asked, and keeps the thread until another flag is set.
class Keeper {
 public:
  explicit Keeper(const std::atomic<bool>& until) : until_(until) {}
  Cancellation* cancellation() { return cancellation_.get(); }
  const std::atomic<bool>& is_asked() const { return is_asked_; }

 private:
  static bool Ask(void* self) {
    Keeper& keeper = *static_cast<Keeper*>(self);
    Set(keeper.is_asked_);
    keeper.until_.wait(false);
    return false;
  }
  const std::atomic<bool>& until_;
  std::atomic<bool> is_asked_{false};
  const Ref<Cancellation> cancellation_ =
      MakeRef<Cancellation>(&Keeper::Ask, this, Ref<const RefCounted>());
};

Status LeftByTheHost() { return Aborted("the host has thrown"); }

class LinkLeftByExceptionTest : public testing::TestWithParam<LinkKind> {};

// Of two ranks that wait for a third one.
TEST_P(LinkLeftByExceptionTest, PeersDoNotWaitForWhoHasLeft) {
  for (const int64_t leaves : {0, 1}) {
    LinkRanks links(3, GetParam());
    const std::atomic<bool> at_once{true};
    std::atomic<bool> has_left{false};
    Keeper waits(at_once);
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          CallOptions options = links.Hang();
          if (rank == 2) {
            has_left.wait(false);
            return communicator.Barrier(options);
          }
          if (rank != leaves) {
            options.cancellation = waits.cancellation();
            return communicator.Barrier(options);
          }
          Host host(waits.is_asked(), 1);
          options.cancellation = host.cancellation();
          Status status = Internal("the host has not thrown");
          try {
            status = communicator.Barrier(options);
          } catch (const std::bad_alloc&) {
            status = LeftByTheHost();
          }
          Set(has_left);
          return status;
        });
    for (int64_t rank = 0; rank < 3; ++rank) {
      const Status& status = statuses[static_cast<size_t>(rank)];
      if (rank == leaves) {
        EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
        continue;
      }
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(Format("rank {}: barrier #1: left in the middle", leaves)));
    }
    EXPECT_FALSE(links[static_cast<size_t>(leaves)].Barrier(links.Hang()).ok());
  }
}

// Its peer is in the call, and takes nothing until it has left: data is on its way.
TEST_P(LinkLeftByExceptionTest, NothingUsesTheMemoryOfACallThatHasGone) {
  constexpr int64_t kCount = int64_t{8} << 20;
  for (const int64_t number : {0, 1, 2, 3}) {
    const int64_t leaves = number % 2;
    const auto fold = [number, leaves](Communicator& communicator, Tensor& tensor,
                                       const CallOptions& options) {
      return number < 2
                 ? communicator.AllReduce(tensor, ReduceOp::kSum, options, &tensor)
                 : communicator.Reduce(tensor, ReduceOp::kSum, leaves, options, &tensor);
    };
    LinkRanks links(2, GetParam());
    std::atomic<bool> has_left{false};
    std::atomic<bool> has_ended{false};
    Keeper keeper(has_left);
    const std::vector<Status> statuses =
        links.Run([&](int64_t rank, Communicator& communicator) -> Status {
          const Ref<Tensor> tensor = Tensor::Create(DType::kFloat32, Shape({kCount})).value();
          const std::span<float> elements = tensor->mutable_span<float>();
          std::fill(elements.begin(), elements.end(), 1.0f);
          CallOptions options = links.Hang();
          if (rank != leaves) {
            options.cancellation = keeper.cancellation();
            Status status = fold(communicator, *tensor, options);
            Set(has_ended);
            return status;
          }
          Host host(keeper.is_asked(), 2);
          options.cancellation = host.cancellation();
          Status status = Internal("the host has not thrown");
          try {
            status = fold(communicator, *tensor, options);
          } catch (const std::bad_alloc&) {
            status = LeftByTheHost();
          }
          // Nothing is sent from here, and nothing comes here any more.
          std::fill(elements.begin(), elements.end(), 7.0f);
          Set(has_left);
          has_ended.wait(false);
          EXPECT_EQ(std::count(elements.begin(), elements.end(), 7.0f), kCount);
          return status;
        });
    for (int64_t rank = 0; rank < 2; ++rank) {
      const Status& status = statuses[static_cast<size_t>(rank)];
      EXPECT_EQ(status.code(), rank == leaves ? StatusCode::kAborted
                                              : StatusCode::kResourceExhausted)
          << status.ToString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinkLeftByExceptionTest,
                         testing::Values(LinkKind::kTcp, LinkKind::kRing, LinkKind::kLater,
                                         LinkKind::kChain),
                         [](const testing::TestParamInfo<LinkKind>& kind) {
                           switch (kind.param) {
                             case LinkKind::kTcp: return "Tcp";
                             case LinkKind::kRing: return "Ring";
                             case LinkKind::kLater: return "Later";
                             default: return "Chain";
                           }
                         });

}  // namespace
}  // namespace tutti
