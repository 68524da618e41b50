// What a rank sends a peer on its own machine before it has the peer's answers.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/collective/testing/link_peer_testing.h"

namespace tutti {
namespace {

constexpr int64_t kChunkBytes = 128 << 10;
constexpr int64_t kSegmentBytes = LinkSegmentBytes(kChunkBytes);
constexpr int64_t kSegments = 8;  // of a rank's slice
constexpr uint64_t kResultBit = uint64_t{1} << 62;
constexpr int64_t kAMomentNs = 50 * kMillisecondNs;

std::string Segment(uint64_t number) {
  FrameParts frame;
  frame.header = {FrameKind::kData, 1, 1, number, 0, 0, 0};
  frame.data = std::string(static_cast<size_t>(kSegmentBytes), '\1');
  return Encode(frame);
}

// A sum of all ranks, which have come to it, and of which only rank 0 goes on by itself.
class LinkTurnsTest : public testing::Test {
 protected:
  void Begin(Lone* lone, size_t ranks) { Begin(lone, ranks, lone->Hang()); }
  void Begin(Lone* lone, size_t ranks, const CallOptions& options) {
    const auto bytes = static_cast<int64_t>(ranks) * kSegments * kSegmentBytes;
    for (size_t peer = 1; peer < ranks; ++peer) {
      lone->Say(Encode(CallFrame(Header(CollectiveOp::kAllReduce, bytes), 1)), peer);
    }
    lone->After(0, [this, lone, bytes, options] { status_ = lone->AllReduce(bytes, options); });
    for (size_t peer = 1; peer < ranks; ++peer) {
      ASSERT_EQ(lone->HearFrame(peer).kind, FrameKind::kCall);
    }
  }
  static void ExpectSegment(Lone* lone, uint64_t number, size_t peer = 1) {
    const FrameHeader header = lone->HearFrame(peer);
    EXPECT_EQ(header.kind, FrameKind::kData);
    EXPECT_EQ(header.argument, number);
  }

  Status status_;
};

TEST_F(LinkTurnsTest, APeerIsSentTwoSegmentsAheadOfItsResults) {
  {
    Lone lone(false, 0, 2, MakeTcpPair);
    Begin(&lone, 2);
    ExpectSegment(&lone, 0);
    ExpectSegment(&lone, 1);
    EXPECT_TRUE(lone.IsSilent(kAMomentNs));
    for (uint64_t result = 0; result + 2 < kSegments; ++result) {
      lone.SayAtLength(Segment(result | kResultBit));
      ExpectSegment(&lone, result + 2);
      EXPECT_TRUE(lone.IsSilent(kAMomentNs / 10));
    }
    // Its own results wait for nothing.
    for (uint64_t part = 0; part < kSegments; ++part) {
      lone.SayAtLength(Segment(part));
      ExpectSegment(&lone, part | kResultBit);
    }
    lone.SayAtLength(Segment(6 | kResultBit));
    lone.SayAtLength(Segment(7 | kResultBit));
  }
  EXPECT_TRUE(status_.ok()) << status_.ToString();
}

// As through a tunnel: both ends of the connection are here, and what comes takes its time.
TEST_F(LinkTurnsTest, APeerOfAnotherMachineIsSentAllThereIsWhateverItsAddress) {
  {
    Lone lone(false, 0, 2, MakeTcpPair, {"here", "elsewhere"});
    Begin(&lone, 2);
    for (uint64_t part = 0; part < kSegments; ++part) ExpectSegment(&lone, part);
    for (uint64_t part = 0; part < kSegments; ++part) {
      lone.SayAtLength(Segment(part));
      ExpectSegment(&lone, part | kResultBit);
      lone.SayAtLength(Segment(part | kResultBit));
    }
  }
  EXPECT_TRUE(status_.ok()) << status_.ToString();
}

TEST_F(LinkTurnsTest, APeerOfAMachineThatIsNotKnownIsWhereItsAddressIs) {
  {
    Lone lone(false, 0, 2, MakeTcpPair, {"here", ""});
    Begin(&lone, 2);
    ExpectSegment(&lone, 0);
    ExpectSegment(&lone, 1);
    EXPECT_TRUE(lone.IsSilent(kAMomentNs));
    lone.HangUp(1);
  }
  EXPECT_EQ(status_.code(), StatusCode::kUnavailable) << status_.ToString();
}

// The answer may lie behind them, of a peer that does not take this rank for near and waits for
// none: ranks could wait for each other in a ring.
TEST_F(LinkTurnsTest, APeerWhoseSegmentsWaitForRoomIsNotWaitedFor) {
  {
    Lone lone(false, 0, 3, MakeTcpPair);
    Begin(&lone, 3);
    for (size_t peer : {size_t{1}, size_t{2}}) {
      ExpectSegment(&lone, 0, peer);
      ExpectSegment(&lone, 1, peer);
      EXPECT_TRUE(lone.IsSilent(kAMomentNs, peer));
    }
    // There is room for four until rank 2's come.
    for (uint64_t part = 0; part < 4; ++part) lone.SayAtLength(Segment(part));
    EXPECT_TRUE(lone.IsSilent(kAMomentNs));
    lone.SayAtLength(Segment(4).substr(0, kFrameHeaderBytes));
    for (uint64_t part = 2; part < kSegments; ++part) ExpectSegment(&lone, part);
    EXPECT_TRUE(lone.IsSilent(kAMomentNs, 2));
    lone.HangUp(1);
    lone.HangUp(2);
  }
  EXPECT_EQ(status_.code(), StatusCode::kUnavailable) << status_.ToString();
}

// Where a segment finds room that nobody reads.
SocketPair MakeWideTcpPair() { return MakeTcpPairThatKeeps(1 << 20); }

// What came while the host held the thread is more than one read finds.
TEST_F(LinkTurnsTest, ACallWhoseRestHasComeIsNotCancelled) {
  struct Host {
    Lone* lone = nullptr;
    std::atomic<bool> may_end{false};
  } host;
  const auto cancellation = MakeRef<Cancellation>(
      [](void* context) {
        const Host& asked = *static_cast<Host*>(context);
        if (!asked.may_end.load()) return false;
        asked.lone->SayAtLength(Segment(7 | kResultBit));
        for (int i = 0; i < 10'000 && !asked.lone->HasArrived(); ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_TRUE(asked.lone->HasArrived());
        return true;
      },
      &host, nullptr);
  {
    Lone lone(false, 0, 2, MakeWideTcpPair);
    host.lone = &lone;
    CallOptions options = lone.Hang();
    options.cancellation = cancellation.get();
    Begin(&lone, 2, options);
    ExpectSegment(&lone, 0);
    ExpectSegment(&lone, 1);
    for (uint64_t result = 0; result + 2 < kSegments; ++result) {
      lone.SayAtLength(Segment(result | kResultBit));
      ExpectSegment(&lone, result + 2);
    }
    for (uint64_t part = 0; part < kSegments; ++part) {
      lone.SayAtLength(Segment(part));
      ExpectSegment(&lone, part | kResultBit);
    }
    lone.SayAtLength(Segment(6 | kResultBit));
    host.may_end.store(true);
  }
  EXPECT_TRUE(status_.ok()) << status_.ToString();
}

}  // namespace
}  // namespace tutti
