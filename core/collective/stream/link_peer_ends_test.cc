// A peer that goes, or says that it has failed: what its end is called, which words of it are
// waited for, and what it hears in turn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <variant>

#include "core/collective/testing/link_peer_testing.h"

namespace tutti {
namespace {

using testing::HasSubstr;

TEST(LinkPeerEndsTest, AFrameCutShortIsADeadPeer) {
  const std::string bytes =
      Encode(CallFrame(Header(CollectiveOp::kAllReduce, 16), 1, std::string(16, '\1')));
  for (size_t length = 0; length < bytes.size(); ++length) {
    Lone lone;
    lone.Say(bytes.substr(0, length));
    lone.HangUp();
    const Status status = lone.AllReduce(16);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << length << ": " << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("all_reduce #1: rank 1 is gone: its connection closed"));
    const StatusDetail* rank = status.FindDetail("rank");
    ASSERT_NE(rank, nullptr);
    EXPECT_EQ(std::get<int64_t>(rank->value), 1);
    EXPECT_NE(status.FindDetail("worker"), nullptr);
  }
}

TEST(LinkPeerEndsTest, OfAPeerThatGoesBetweenCallsNoCallIsNamed) {
  Lone lone;
  lone.HangUp();
  const Status status = lone.rank().epoch_status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "rank 1 is gone: its connection closed");
  const StatusDetail* const worker = status.FindDetail("worker");
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(std::get<int64_t>(worker->value), 9);
  // So that whoever makes the call that fails of it can add its own.
  EXPECT_EQ(status.FindDetail("op"), nullptr);
  EXPECT_EQ(status.FindDetail("sequence"), nullptr);
  EXPECT_EQ(lone.AllReduce(16).code(), StatusCode::kUnavailable);
}

TEST(LinkPeerEndsTest, WhatAPeerThatEndsHadNoRoomToSayComesByAnotherWay) {
  for (const bool in_call : {true, false}) {
    Lone lone(false, 60 * kSecondNs);
    if (in_call) {
      lone.After(20 * kMillisecondNs, [&] { lone.HangUp(); });
    } else {
      lone.HangUp();
      for (int look = 0; look < 5; ++look) EXPECT_TRUE(lone.rank().epoch_status().ok());
    }
    lone.After(60 * kMillisecondNs, [&] {
      lone.transport().Fail(Unavailable("worker 7 is gone").With("worker", 7)).rep();
    });
    const Status status = lone.AllReduce(16);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("worker 7 is gone"));
  }
}

TEST(LinkPeerEndsTest, NewsOfThePeerItselfOrNoneInTimeIsTheEndOfIt) {
  {
    Lone lone(false, 100 * kMillisecondNs);
    lone.HangUp();
    const int64_t began_ns = lone.NowNs();
    const Status status = lone.AllReduce(16);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 is gone: its connection closed"));
    EXPECT_GE(lone.NowNs() - began_ns, 100 * kMillisecondNs);
  }
  {
    Lone lone(false, kNeverNs / 2);
    lone.HangUp();
    lone.After(20 * kMillisecondNs, [&] {
      lone.transport().PeerHasLeft(1, Unavailable("it has ended"), 60 * kSecondNs);
    });
    const Status status = lone.AllReduce(16);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 is gone: its connection closed"));
  }
  {
    Lone lone(false, kNeverNs / 2);
    lone.HangUp();
    const Ref<Tensor> tensor = Tensor::Create(DType::kUint8, Shape({16})).value();
    const Status status = lone.rank().AllReduce(*tensor, ReduceOp::kSum,
                                                lone.Timeout(50 * kMillisecondNs), tensor.get());
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 is gone: its connection closed"));
  }
}

TEST(LinkPeerEndsTest, AnAsynchronousCallNamesItselfWhereAPeerHasGone) {
  Lone lone;
  lone.HangUp();
  while (lone.rank().epoch_status().ok()) std::this_thread::yield();
  const Status status = lone.AllReduceAsync(16);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "rank 0: all_reduce: rank 1 is gone: its connection closed");
  EXPECT_EQ(std::get<std::string>(status.FindDetail("op")->value), "all_reduce");
}

TEST(LinkPeerEndsTest, AnAsynchronousCallLeavesTheReasonOfAnAbortAsItIs) {
  Lone lone;
  lone.rank().Abort(Aborted("the loss is no number").With("rank", 1).With("worker", 9));
  const Status status = lone.AllReduceAsync(16);
  EXPECT_EQ(status.ToString(), lone.rank().epoch_status().ToString());
}

TEST(LinkPeerEndsTest, AnErrorFollowsWhatAPeerTakesOnlyMuchLater) {
  Lone lone;
  lone.Say(Encode(CallFrame(Header(CollectiveOp::kAllReduce, 8 << 20), 1)));
  const Ref<Tensor> tensor = Tensor::Create(DType::kUint8, Shape({8 << 20})).value();
  const Status status = lone.rank().AllReduce(*tensor, ReduceOp::kSum,
                                              lone.Timeout(30 * kMillisecondNs), tensor.get());
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
  // The peer wakes up: segments, the last of which was under way when the call ended, and the
  // error.
  while (true) {
    const std::string bytes = lone.Hear(kFrameHeaderBytes);
    ASSERT_EQ(bytes.size(), kFrameHeaderBytes);
    FrameHeader header;
    ASSERT_TRUE(DecodeFrameHeader(bytes.data(), 1, &header).ok());
    const std::string rest = lone.Hear(header.body_bytes + header.data_bytes);
    ASSERT_EQ(rest.size(), header.body_bytes + header.data_bytes);
    if (header.kind != FrameKind::kError) continue;
    EXPECT_EQ(ParseStatus(rest).message(), status.message());
    break;
  }
}

TEST(LinkPeerEndsTest, WhoSaysThatItHasFailedHearsThatThisRankKnows) {
  Lone lone;
  FrameParts frame;
  frame.header = {FrameKind::kError, 1, 0, 0, 0, 0, 0};
  AppendStatus(Aborted("enough"), &frame.body);
  lone.Say(Encode(frame));
  EXPECT_EQ(lone.Barrier().message(), "enough");
  bool knows = false;
  while (!knows) {
    const std::string bytes = lone.Hear(kFrameHeaderBytes);
    FrameHeader header;
    ASSERT_TRUE(bytes.size() == kFrameHeaderBytes &&
                DecodeFrameHeader(bytes.data(), 1, &header).ok());
    const std::string rest = lone.Hear(header.body_bytes + header.data_bytes);
    knows = header.kind == FrameKind::kError && ParseStatus(rest).message() == "enough";
  }
}

TEST(LinkPeerEndsTest, AnErrorFrameThatIsNoStatusIsStillAnError) {
  Lone lone;
  FrameParts frame;
  frame.header = {FrameKind::kError, 1, 0, 0, 0, 0, 0};
  frame.body = "?";
  lone.Say(Encode(frame));
  EXPECT_EQ(lone.Barrier().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace tutti
