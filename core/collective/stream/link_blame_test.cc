// Whose word a rank has that another one, or it itself, is gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/testing/link_faults.h"
#include "core/collective/testing/link_ranks.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(LinkBlame, WhoIsToldThatItIsGoneItselfSeesWhoseWordThatIs) {
  std::vector<std::vector<std::unique_ptr<Link>>> links =
      MakeAllLinks(3, LinkKind::kSocketPair);
  links[1][2] = std::make_unique<CutLink>(std::move(links[1][2]), 0);
  LinkRanks ranks(3, std::move(links));
  Status of_0;
  std::thread rank_0([&] { of_0 = ranks[0].Barrier(ranks.Hang()); });
  const Status of_1 = ranks[1].Barrier(ranks.Hang());
  rank_0.join();
  // It has been in no call, and hears of the end of this one from rank 0.
  const Status of_2 = ranks[2].Barrier(ranks.Hang());

  for (const Status& status : std::vector<Status>{of_0, of_1}) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                StartsWith("barrier #1: rank 2 (worker 2, pid 4713) is gone"));
  }
  EXPECT_EQ(of_2.code(), StatusCode::kUnavailable) << of_2.ToString();
  EXPECT_THAT(std::string(of_2.message()),
              StartsWith("rank 0 says: barrier #1: rank 2 (worker 2, pid 4713) is gone"));
}

// Reads no more after so many bytes, or not until something has happened. It notices the end of the
// link.
class DeafLink final : public Link {
 public:
  DeafLink(std::unique_ptr<Link> link, int64_t bytes, const std::atomic<bool>* until = nullptr)
      : link_(std::move(link)), until_(until), left_(bytes) {}

  int64_t TrySend(std::span<const iovec> parts) override {
    const int64_t sent = link_->TrySend(parts);
    ended_ = ended_ || sent == kClosed;
    return sent;
  }
  int64_t TryReceive(std::span<const iovec> parts) override {
    if (!hears()) return ended_ ? kClosed : 0;
    const int64_t received = link_->TryReceive(parts);
    left_ -= received;
    return received;
  }
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override {
    return link_->PrepareSleep(want_read && hears(), want_write, entry);
  }
  void EndSleep(const pollfd& entry) override { link_->EndSleep(entry); }
  std::string CloseReason() const override { return "the test is deaf"; }
  const char* kind() const override { return "deaf"; }

 private:
  bool hears() const { return left_ > 0 || (until_ != nullptr && until_->load()); }

  const std::unique_ptr<Link> link_;
  const std::atomic<bool>* const until_;
  int64_t left_;
  bool ended_ = false;
};

// Says when its rank has no room for what has come over it, and waits.
class TellsUnreadLink final : public Link {
 public:
  TellsUnreadLink(FileDescriptor socket, std::function<void(int socket)> tell)
      : socket_(socket.get()), tell_(std::move(tell)), link_(std::move(socket)) {}

  int64_t TrySend(std::span<const iovec> parts) override { return link_.TrySend(parts); }
  int64_t TryReceive(std::span<const iovec> parts) override { return link_.TryReceive(parts); }
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override {
    if (!want_read) tell_(socket_);
    return link_.PrepareSleep(want_read, want_write, entry);
  }
  void EndSleep(const pollfd& entry) override { link_.EndSleep(entry); }
  std::string CloseReason() const override { return link_.CloseReason(); }
  const char* kind() const override { return link_.kind(); }

 private:
  const int socket_;
  const std::function<void(int socket)> tell_;
  TcpLink link_;
};

// Rank 1 takes the parts of rank 0, and sends it results, of which the first ones leave their room
// when they are sent. Rank 0 takes none of them from some point on, and goes.
TEST(LinkBlame, ThePeerThatMustTakeSomethingBeforeThereIsRoomForItsDataIsMissedWhenItIsGone) {
  for (const LinkKind kind : {LinkKind::kTcp, LinkKind::kChain}) {
    SCOPED_TRACE(kind == LinkKind::kChain ? "chain" : "slice and share");
    std::vector<std::vector<std::unique_ptr<Link>>> links(2);
    for (auto& row : links) row.resize(2);
    SocketPair sockets = MakeUnixPair();
    links[0][1] = std::make_unique<DeafLink>(
        std::make_unique<TcpLink>(std::move(sockets.first)), int64_t{1} << 20);
    links[1][0] = std::make_unique<TellsUnreadLink>(
        std::move(sockets.second), [](int socket) { shutdown(socket, SHUT_RDWR); });
    LinkRanks ranks(2, std::move(links), /*spin=*/false, kind);
    for (const Status& status : ranks.Run([&](int64_t, Communicator& communicator) {
           const Ref<Tensor> tensor =
               Tensor::Create(DType::kFloat32, Shape({int64_t{8} << 20})).value();
           return communicator.Reduce(*tensor, ReduceOp::kSum, /*root=*/0,
                                      ranks.Hang(), tensor.get());
         })) {
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
      EXPECT_THAT(std::string(status.message()), HasSubstr("is gone"));
    }
  }
}

// The same, but rank 0 is cancelled, and stays. Its error lies behind parts for which rank 1 has no
// room before its results leave.
TEST(LinkBlame, WhoHasFailedAndStaysTakesWhatAPeerMustSendBeforeItHearsOfThat) {
  for (const size_t size : {size_t{2}, size_t{3}}) {
    std::vector<std::vector<std::unique_ptr<Link>>> links(size);
    for (auto& row : links) row.resize(size);
    std::atomic<bool> is_full = false;
    std::atomic<size_t> num_full = 0;
    const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    for (size_t rank = 0; rank < size; ++rank) {
      for (size_t peer = rank + 1; peer < size; ++peer) {
        SocketPair sockets = MakeTcpPair();
        if (rank != 0) {
          links[rank][peer] = std::make_unique<TcpLink>(std::move(sockets.first));
          links[peer][rank] = std::make_unique<TcpLink>(std::move(sockets.second));
          continue;
        }
        // Not even one result is on its way.
        const int small = 16 << 10;
        setsockopt(sockets.second.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        setsockopt(sockets.first.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        links[0][peer] = std::make_unique<DeafLink>(
            std::make_unique<TcpLink>(std::move(sockets.first)), int64_t{1} << 20, &is_full);
        links[peer][0] = std::make_unique<TellsUnreadLink>(
            std::move(sockets.second), [&, told = false](int) mutable {
              if (std::exchange(told, true) || ++num_full != size - 1) return;
              is_full = true;
              cancellation->Cancel();
            });
      }
    }
    LinkRanks ranks(size, std::move(links));
    for (const Status& status : ranks.Run([&](int64_t rank, Communicator& communicator) {
           const Ref<Tensor> tensor =
               Tensor::Create(DType::kFloat32, Shape({int64_t{16} << 20})).value();
           CallOptions options = ranks.Timeout(20 * kSecondNs);
           if (rank == 0) options.cancellation = cancellation.get();
           return communicator.Reduce(*tensor, ReduceOp::kSum, /*root=*/0, options, tensor.get());
         })) {
      EXPECT_EQ(status.code(), StatusCode::kCancelled) << status.ToString();
    }
  }
}

// In a tree whose inner ranks pass on what they hear, and where nobody is in a call.
TEST(LinkBlame, TheDeathOfAnInnerRankSeparatesNobodyFromTheNews) {
  for (const bool abort_too : {false, true}) {
    SCOPED_TRACE(abort_too ? "with an abort from below it" : "alone");
    constexpr size_t kRanks = 12;
    constexpr size_t kDead = 4;
    std::vector<std::vector<std::unique_ptr<Link>>> links =
        MakeTreeLinks(kRanks, LinkKind::kLater);
    for (std::unique_ptr<Link>& link : links[kDead]) {
      if (link) link = std::make_unique<CutLink>(std::move(link), 0);
    }
    LinkRanks ranks(kRanks, std::move(links), /*spin=*/false, LinkKind::kLater);
    if (abort_too) ranks[7].Abort(Aborted("enough"));
    // What it would say cuts its links.
    ranks.transport(kDead).Fail(Aborted("nobody hears this")).rep();
    for (size_t rank = kRanks; rank-- > 0;) {
      const Deadline hang = Deadline::After(RealClock(), 60 * kSecondNs);
      while (ranks[rank].epoch_status().ok() && !hang.Expired(RealClock())) {
        std::this_thread::yield();
      }
      const Status status = ranks[rank].epoch_status();
      if (rank == kDead) continue;
      const std::string message(status.message());
      if (status.code() == StatusCode::kAborted) {
        EXPECT_TRUE(abort_too && message.ends_with("enough")) << status.ToString();
      } else {
        EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
        EXPECT_THAT(message, HasSubstr("rank 4 (worker 4, pid 4715) is gone"));
      }
    }
  }
}

}  // namespace
}  // namespace tutti
