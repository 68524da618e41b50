// A peer that does not speak the protocol: garbage, damaged frames, frames that are not due. The
// epoch ends with an error that names the peer, and nothing worse happens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "core/base/seeded_runs_testing.h"
#include "core/collective/testing/link_peer_testing.h"

namespace tutti {
namespace {

using testing::HasSubstr;

void ExpectProtocolError(const Status& status, StatusCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 sent "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(LinkProtocolTest, AWellBehavedPeerIsUnderstood) {
  Lone lone;
  lone.Say(Encode(CallFrame(Header(CollectiveOp::kBarrier, 0), 1)));
  EXPECT_TRUE(lone.Barrier().ok());
  lone.Say(Encode(CallFrame(Header(CollectiveOp::kAllReduce, 16), 2, std::string(16, '\1'))));
  EXPECT_TRUE(lone.AllReduce(16).ok());
}

TEST(LinkProtocolTest, GarbageIsNoFrame) {
  Lone lone;
  lone.Say("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything and more\r\n\r\n");
  ExpectProtocolError(lone.Barrier(), StatusCode::kDataLoss, "bytes that begin no frame");
}

TEST(LinkProtocolTest, AFrameOfAnotherEpochIsRefused) {
  Lone lone;
  FrameParts frame = CallFrame(Header(CollectiveOp::kBarrier, 0), 1);
  frame.header.epoch = 2;
  lone.Say(Encode(frame));
  ExpectProtocolError(lone.Barrier(), StatusCode::kInvalidArgument,
                      "a frame of epoch 2, this rank is in epoch 1");
}

TEST(LinkProtocolTest, ACallOutOfTurnIsRefused) {
  for (int64_t sequence : {int64_t{0}, int64_t{2}, int64_t{-1}, int64_t{1} << 62}) {
    Lone lone;
    lone.Say(Encode(CallFrame(Header(CollectiveOp::kBarrier, 0), sequence)));
    ExpectProtocolError(lone.Barrier(), StatusCode::kDataLoss, Format("call #{}", sequence));
  }
  Lone ahead;
  for (int64_t sequence : {1, 2, 3}) {
    ahead.Say(Encode(CallFrame(Header(CollectiveOp::kBarrier, 0), sequence)));
  }
  ExpectProtocolError(ahead.Barrier(), StatusCode::kDataLoss, "call #3 after its call #2");
}

TEST(LinkProtocolTest, FramesThatClaimTooMuchAreRefusedBeforeAnythingIsAllocated) {
  for (bool body : {true, false}) {
    Lone lone;
    FrameHeader header;
    header.epoch = 1;
    header.sequence = 1;
    (body ? header.body_bytes : header.data_bytes) = 0xfffffff0u;
    std::string bytes(kFrameHeaderBytes, '\0');
    EncodeFrameHeader(header, bytes.data());
    lone.Say(bytes);
    ExpectProtocolError(lone.Barrier(), StatusCode::kDataLoss, "4294967280");
  }
}

TEST(LinkProtocolTest, AWrongAmountOfPayloadIsRefused) {
  Lone small;
  small.Say(Encode(CallFrame(Header(CollectiveOp::kAllReduce, 64), 1, std::string(48, '\1'))));
  const Status status = small.AllReduce(64);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("all_reduce #1: rank 1 sent 48 bytes of input, expected 64"));

  Lone large;
  large.Say(Encode(CallFrame(Header(CollectiveOp::kAllReduce, 500000), 1)));
  FrameParts segment;
  segment.header = {FrameKind::kData, 1, 1, 0, 0, 0, 0};
  segment.data = std::string(1000, 'x');
  large.Say(Encode(segment));
  ExpectProtocolError(large.AllReduce(500000), StatusCode::kDataLoss,
                      "segment 0 with 1000 bytes, expected 130816");
}

TEST(LinkProtocolTest, DataThatIsNotDueIsRefused) {
  Lone other_call;
  FrameParts segment;
  segment.header = {FrameKind::kData, 1, 5, 0, 0, 0, 0};
  other_call.Say(Encode(segment));
  ExpectProtocolError(other_call.Barrier(), StatusCode::kDataLoss, "data of call #5");

  Lone other_segment;
  other_segment.Say(Encode(CallFrame(Header(CollectiveOp::kAllReduce, 500000), 1)));
  segment.header.sequence = 1;
  segment.header.argument = 3;
  other_segment.Say(Encode(segment));
  ExpectProtocolError(other_segment.AllReduce(500000), StatusCode::kDataLoss, "segment 3");
}

TEST(LinkProtocolTest, DataOfACallToWhichThePeerHasNotComeIsRefused) {
  Lone lone;
  FrameParts data;
  data.header = {FrameKind::kData, 1, 1, 0, 0, 0, 0};
  lone.Say(Encode(data));
  lone.HangUp();
  ExpectProtocolError(lone.AllReduce(16), StatusCode::kDataLoss,
                      "data of call #1 after its call #0, while call #1 is due");
}

TEST(LinkProtocolTest, AGatherOfAnotherSizeThanItsShapeIsRefused) {
  Lone lone;
  FrameParts frame = CallFrame(Header(CollectiveOp::kAllGather, 8), 1, "12345678");
  frame.header.argument = 9;
  lone.Say(Encode(frame));
  const Ref<Tensor> input = Tensor::Create(DType::kUint8, Shape({4})).value();
  Ref<Tensor> output;
  const Status status = lone.rank().AllGather(*input, 0, lone.Hang(), &output);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 sends 9 bytes"));
}

TEST(LinkProtocolTest, AGatherTooLargeForThisMachineIsAnError) {
  Lone lone;
  FrameParts frame = CallFrame(Header(CollectiveOp::kAllGather, int64_t{1} << 60), 1);
  frame.header.argument = uint64_t{1} << 60;
  lone.Say(Encode(frame));
  const Ref<Tensor> input = Tensor::Create(DType::kUint8, Shape({4})).value();
  Ref<Tensor> output;
  EXPECT_FALSE(lone.rank().AllGather(*input, 0, lone.Hang(), &output).ok());
}

TEST(LinkProtocolTest, RowsThatDoNotAddUpAreRefused) {
  for (const uint64_t rows : {uint64_t{1} << 63, (uint64_t{1} << 63) - 1}) {
    Lone lone;
    CallHeader header = Header(CollectiveOp::kAllToAll, 8);
    header.uneven = true;
    FrameParts frame = CallFrame(header, 1);
    frame.header.argument = rows;
    lone.Say(Encode(frame));
    const int64_t send_rows[] = {4, 0};
    Ref<Tensor> output;
    const Status status =
        lone.rank().AllToAllUneven(*Tensor::Create(DType::kUint8, Shape({4})).value(), send_rows,
                                   lone.Hang(), &output, nullptr);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(Format("rank 1 sends {} rows", rows)));
  }
}

TEST(LinkProtocolTest, RowsForWhichThereIsNoRoomAreRefusedNamingWhoSendsThem) {
  // More than this machine has, more than the address space, and a number of elements beyond 2^63.
  for (const int64_t rows : {int64_t{1} << 42, int64_t{1} << 58, (int64_t{1} << 62) + 5}) {
    Lone lone;
    CallHeader header = Header(CollectiveOp::kAllToAll, 8);
    header.first.dims = {8, 32};
    header.uneven = true;
    FrameParts frame = CallFrame(header, 1);
    frame.header.argument = static_cast<uint64_t>(rows);
    lone.Say(Encode(frame));
    const int64_t send_rows[] = {4, 0};
    Ref<Tensor> output;
    const Status status =
        lone.rank().AllToAllUneven(*Tensor::Create(DType::kUint8, Shape({4, 32})).value(),
                                   send_rows, lone.Hang(), &output, nullptr);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(Format("no room for the {} rows of 32 bytes that the ranks have "
                                 "announced, of which rank 1 sends {}: ",
                                 rows + 4, rows)));
  }
}

TEST(LinkProtocolTest, AMoveOfAnotherSizeThanItsShapeIsRefused) {
  for (const bool announced : {true, false}) {
    Lone lone;
    CallHeader header = Header(CollectiveOp::kBroadcast, 8);
    header.root = 1;
    FrameParts frame = CallFrame(header, 1, announced ? "12345678" : "1234");
    frame.header.argument = announced ? 9 : 8;
    lone.Say(Encode(frame));
    const Ref<Tensor> tensor = Tensor::Create(DType::kUint8, Shape({8})).value();
    const Status status = lone.rank().Broadcast(1, lone.Hang(), tensor.get());
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(announced ? "rank 1 sends 9 bytes of broadcast, expected 8"
                                    : "rank 1 sent 4 bytes of broadcast with its header"));
  }
}

TEST(LinkProtocolTest, AWellBehavedSenderAndReceiverAreUnderstood) {
  Lone lone;
  // It may be one ahead of the receiver, and has said that before it is asked.
  lone.Say(Encode(TransferFrame(Header(CollectiveOp::kSend, 3), 1, "abc")));
  EXPECT_TRUE(lone.Receive(3).ok());
  lone.Say(Encode(TransferFrame(Header(CollectiveOp::kSend, 2), 2, "de")));
  EXPECT_TRUE(lone.Receive(2).ok());
  lone.Say(Encode(TransferFrame(Header(CollectiveOp::kReceive, 4), 1)));
  EXPECT_TRUE(lone.Send(4).ok());
}

TEST(LinkProtocolTest, ATransferOutOfTurnIsRefused) {
  for (const int64_t number : {int64_t{0}, int64_t{2}, int64_t{-1}, int64_t{1} << 62}) {
    Lone lone;
    lone.Say(Encode(TransferFrame(Header(CollectiveOp::kSend, 3), number, "abc")));
    ExpectProtocolError(lone.Receive(3), StatusCode::kDataLoss, Format("send #{} after", number));
  }
  Lone ahead;
  for (const int64_t number : {1, 2}) {
    ahead.Say(Encode(TransferFrame(Header(CollectiveOp::kReceive, 3), number)));
  }
  ExpectProtocolError(ahead.Barrier(), StatusCode::kDataLoss, "receive #2 after its receive #1");
}

TEST(LinkProtocolTest, ATransferThatIsNotWhatItsFrameSaysIsRefused) {
  Lone other;
  FrameParts frame = TransferFrame(Header(CollectiveOp::kReceive, 3), 1);
  frame.header.kind = FrameKind::kSend;
  other.Say(Encode(frame));
  ExpectProtocolError(other.Receive(3), StatusCode::kDataLoss,
                      "the header of receive of 1 tensors, expected send of one");

  Lone payload;
  payload.Say(Encode(TransferFrame(Header(CollectiveOp::kReceive, 3), 1, "abc")));
  ExpectProtocolError(payload.Send(3), StatusCode::kDataLoss, "a frame of kind 6");

  Lone amount;
  amount.Say(Encode(TransferFrame(Header(CollectiveOp::kSend, 4), 1, "abc")));
  ExpectProtocolError(amount.Receive(4), StatusCode::kDataLoss, "3 bytes of a tensor of 4");

  Lone large;
  const std::string data(70'000, 'x');
  large.Say(Encode(TransferFrame(Header(CollectiveOp::kSend, 70'000), 1, data)));
  ExpectProtocolError(large.Receive(70'000), StatusCode::kDataLoss, "a frame of kind 5");
}

TEST(LinkProtocolTest, SendDataThatIsNotDueIsRefused) {
  FrameParts segment;
  segment.header = {FrameKind::kSendData, 1, 1, 0, 0, 0, 0};
  segment.data = std::string(1000, 'x');
  Lone nothing;
  nothing.Say(Encode(segment));
  ExpectProtocolError(nothing.Barrier(), StatusCode::kDataLoss, "data of its send #1");

  const std::string send = Encode(TransferFrame(Header(CollectiveOp::kSend, 300'000), 1));
  Lone amount;
  amount.Say(send + Encode(segment));
  ExpectProtocolError(amount.Receive(300'000), StatusCode::kDataLoss, "segment 0 with 1000 bytes");

  Lone sender;
  sender.Say(Encode(TransferFrame(Header(CollectiveOp::kReceive, 300'000), 1)) + Encode(segment));
  ExpectProtocolError(sender.Send(300'000), StatusCode::kDataLoss, "data of its send #1");

  // Data of a call has no place in a transfer.
  Lone other;
  segment.header.kind = FrameKind::kData;
  segment.header.sequence = 0;
  other.Say(send + Encode(segment));
  ExpectProtocolError(other.Receive(300'000), StatusCode::kDataLoss, "data of call #0");
}

TEST(LinkProtocolTest, FramesOfATreeAreRefusedWhereThereIsNone) {
  for (const FrameKind kind : {FrameKind::kTree, FrameKind::kRoster}) {
    Lone lone;
    FrameParts word;
    word.header = {kind, 1, 1, 0, 0, 0, 0};
    lone.Say(Encode(word));
    ExpectProtocolError(lone.Barrier(), StatusCode::kDataLoss, "of call #1 after its call #0");
  }
}

TEST(LinkProtocolTest, NoDataComesBeforeWhatATreeSaysOfTheCall) {
  const FrameParts call = CallFrame(Header(CollectiveOp::kAllReduce, 16), 1);
  FrameParts word = call;
  word.header.kind = FrameKind::kTree;
  word.header.argument = word.body.size();
  FrameParts data;
  data.header = {FrameKind::kData, 1, 1, 0, 0, 0, 0};
  data.data = std::string(16, '\1');
  // Nobody takes the data: left where it is, it would hide that the peer hangs up.
  Lone silent(/*in_tree=*/true);
  silent.Say(Encode(call) + Encode(data));
  silent.HangUp();
  ExpectProtocolError(silent.AllReduce(16), StatusCode::kDataLoss,
                      "call #1 behind its word of call #0");
  Lone hasty(/*in_tree=*/true);
  hasty.Say(Encode(word) + Encode(data));
  hasty.HangUp();
  ExpectProtocolError(hasty.AllReduce(16), StatusCode::kDataLoss,
                      "data of call #1 after its call #0, while call #1 is due");
  Lone good(/*in_tree=*/true);
  good.Say(Encode(word) + Encode(CallFrame(Header(CollectiveOp::kAllReduce, 16), 1)));
  good.HangUp();
  EXPECT_EQ(good.AllReduce(16).code(), StatusCode::kUnavailable);
}

TEST(LinkProtocolTest, DataOfASendToWhichThePeerHasNotComeIsRefused) {
  Lone lone;
  FrameParts data;
  data.header = {FrameKind::kSendData, 1, 1, 0, 0, 0, 0};
  lone.Say(Encode(data));
  lone.HangUp();
  ExpectProtocolError(lone.Receive(100'000), StatusCode::kDataLoss,
                      "data of its send #1, which is not due");
}

TEST(LinkProtocolTest, DataOfACollectiveInTheMiddleOfATransferIsRefused) {
  // Nobody takes it: left where it is, it would hide that the peer hangs up.
  for (const int64_t calls : {0, 1}) {
    Lone lone;
    if (calls == 1) {
      lone.Say(Encode(CallFrame(Header(CollectiveOp::kBarrier, 0), 1)));
      ASSERT_TRUE(lone.Barrier().ok());
    }
    FrameParts data;
    data.header = {FrameKind::kData, 1, calls, 0, 0, 0, 0};
    lone.Say(Encode(data));
    lone.HangUp();
    ExpectProtocolError(calls == 0 ? lone.Send(16) : lone.Receive(16), StatusCode::kDataLoss,
                        Format("data of call #{} after its call #{}, while none is due", calls,
                               calls));
  }
}

TEST(LinkProtocolTest, EveryFlippedBitOfHeaderAndBodyIsFound) {
  const FrameParts frame =
      CallFrame(Header(CollectiveOp::kAllReduce, 16), 1, std::string(16, '\1'));
  const std::string bytes = Encode(frame);
  const size_t checked = kFrameHeaderBytes + frame.body.size();
  for (size_t bit = 0; bit < checked * 8; ++bit) {
    Lone lone;
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    lone.Say(flipped);
    ExpectProtocolError(lone.AllReduce(16), StatusCode::kDataLoss, "");
  }
}

TEST(LinkProtocolTest, RandomBytesBehindAGoodBeginningNeverHangOrCrash) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  SeededRuns runs("streams", 300);
  while (runs.Next()) {
    Lone lone;
    lone.Say(Encode(CallFrame(Header(CollectiveOp::kAllReduce, 500000), 1)));
    for (uint64_t frames = random() % 4; frames > 0; --frames) {
      FrameParts frame;
      frame.header.kind = static_cast<FrameKind>(1 + random() % 8);
      frame.header.epoch = random() % 16 == 0 ? 2 : 1;
      frame.header.sequence = static_cast<int64_t>(random() % 4);
      frame.header.argument = random() % 8 == 0 ? random() : random() % 3;
      frame.body = std::string(random() % 40, static_cast<char>(random()));
      frame.data = std::string(random() % 3000, 'd');
      lone.Say(Encode(frame));
    }
    std::string garbage(random() % 200, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    lone.Say(garbage);
    lone.HangUp();
    EXPECT_FALSE(lone.AllReduce(500000).ok());
  }
}

// Until then it reads on for this rank.
// It may have to go before the peer can read as far as the error.
TEST(LinkProtocolTest, WhatFollowsNonsenseIsTakenAndGoesNowhere) {
  Lone lone;
  lone.Say(std::string(kFrameHeaderBytes, '?'));
  EXPECT_EQ(lone.Barrier().code(), StatusCode::kDataLoss);
  lone.SayAtLength(std::string(size_t{1} << 20, '?'));
}

}  // namespace
}  // namespace tutti
