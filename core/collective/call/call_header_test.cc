#include "core/collective/call/call_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::HasSubstr;

CallHeader AllReduceOf(DType dtype, Dims dims, ReduceOp reduction = ReduceOp::kSum) {
  CallHeader header;
  header.op = CollectiveOp::kAllReduce;
  header.reduction = reduction;
  header.num_tensors = 1;
  header.first = TensorSignature{dtype, std::move(dims)};
  return header;
}

CallHeader WithOp(CollectiveOp op) {
  CallHeader header;
  header.op = op;
  return header;
}

Status Check(const CallHeader& rank0, const CallHeader& rank1) {
  static const std::string name = "grads";
  const CallHeader* headers[] = {&rank0, &rank1};
  return CheckSameCall(headers, CallLabel{41, 3, &name});
}

int64_t IntDetail(const Status& status, const char* key) {
  const StatusDetail* detail = status.FindDetail(key);
  return detail == nullptr ? -1 : std::get<int64_t>(detail->value);
}

std::string TextDetail(const Status& status, const char* key) {
  const StatusDetail* detail = status.FindDetail(key);
  return detail == nullptr ? "" : std::get<std::string>(detail->value);
}

TEST(CheckSameCall, AcceptsEqualHeaders) {
  EXPECT_TRUE(Check(AllReduceOf(DType::kFloat32, {4}), AllReduceOf(DType::kFloat32, {4})).ok());
  EXPECT_TRUE(Check(WithOp(CollectiveOp::kBarrier), WithOp(CollectiveOp::kBarrier)).ok());
}

TEST(CheckSameCall, NamesBothShapesAndTheCall) {
  const Status status =
      Check(AllReduceOf(DType::kFloat32, {8}), AllReduceOf(DType::kFloat32, {4}));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "rank 1: all_reduce #41 got float32[4], rank 0 sent float32[8]; dtype and shape must "
            "be the same on all ranks");
  EXPECT_EQ(IntDetail(status, "rank"), 1);
  EXPECT_EQ(IntDetail(status, "peer"), 0);
  EXPECT_EQ(IntDetail(status, "sequence"), 41);
  EXPECT_EQ(IntDetail(status, "epoch"), 3);
  EXPECT_EQ(TextDetail(status, "op"), "all_reduce");
  EXPECT_EQ(TextDetail(status, "communicator"), "grads");
}

TEST(CheckSameCall, TellsEqualElementCountsOfDifferentShapesApart) {
  EXPECT_FALSE(
      Check(AllReduceOf(DType::kFloat32, {2, 3}), AllReduceOf(DType::kFloat32, {3, 2})).ok());
  EXPECT_FALSE(Check(AllReduceOf(DType::kFloat32, {}), AllReduceOf(DType::kFloat32, {1})).ok());
}

TEST(CheckSameCall, NamesBothDtypes) {
  const Status status = Check(AllReduceOf(DType::kInt32, {4}), AllReduceOf(DType::kFloat32, {4}));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1: all_reduce #41 got float32[4], rank 0 sent int32[4]"));
}

TEST(CheckSameCall, NamesBothReductions) {
  const Status status = Check(AllReduceOf(DType::kFloat32, {4}),
                              AllReduceOf(DType::kFloat32, {4}, ReduceOp::kMean));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1: all_reduce #41 reduces with MEAN, rank 0 with SUM"));
}

TEST(CheckSameCall, NamesBothOperations) {
  const Status status = Check(WithOp(CollectiveOp::kBarrier), AllReduceOf(DType::kFloat32, {4}));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1: call #41 is all_reduce, rank 0 called barrier"));
}

TEST(CheckSameCall, NamesBothRoots) {
  CallHeader a = AllReduceOf(DType::kFloat32, {4});
  a.op = CollectiveOp::kBroadcast;
  CallHeader b = a;
  b.root = 1;
  EXPECT_THAT(std::string(Check(a, b).message()),
              HasSubstr("rank 1: broadcast #41 has root 1, rank 0 has root 0"));
}

TEST(CheckSameCall, NamesBothAxesAndAllowsOtherSizesAlongThem) {
  CallHeader a = AllReduceOf(DType::kFloat32, {4, 2});
  a.op = CollectiveOp::kAllGather;
  a.uneven = true;
  CallHeader b = a;
  b.first.dims = Dims{7, 2};
  EXPECT_TRUE(Check(a, b).ok());
  b.first.dims = Dims{4, 3};
  EXPECT_THAT(std::string(Check(a, b).message()),
              HasSubstr("got float32[4,3], rank 0 sent float32[4,2]; dtype and all sizes but that "
                        "of axis 0"));
  b.axis = 1;
  EXPECT_THAT(std::string(Check(a, b).message()), HasSubstr("along axis 1, rank 0 along axis 0"));
}

TEST(CheckSameCall, NamesTheTensorOfAList) {
  CallHeader a = AllReduceOf(DType::kFloat32, {4});
  a.num_tensors = 3;
  a.rest = {TensorSignature{DType::kInt64, {2}}, TensorSignature{DType::kFloat16, {5}}};
  CallHeader b = a;
  b.rest[1].dims = Dims{6};
  const Status status = Check(a, b);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("all_reduce #41 tensor 2: got float16[6], rank 0 sent float16[5]"));
  EXPECT_EQ(IntDetail(status, "index"), 2);
  b.num_tensors = 2;
  EXPECT_THAT(std::string(Check(a, b).message()), HasSubstr("got 2 tensors, rank 0 sent 3"));
}

TEST(CheckSameCall, ReportsTheFirstRankThatDiffersFromRankZero) {
  const std::string name = "c";
  const CallHeader a = AllReduceOf(DType::kFloat32, {4});
  const CallHeader b = AllReduceOf(DType::kFloat32, {5});
  const CallHeader* headers[] = {&a, &a, &b, &b};
  EXPECT_EQ(IntDetail(CheckSameCall(headers, CallLabel{1, 1, &name}), "rank"), 2);
}

TEST(CheckSameCall, TellsEqualAndDifferentSizesApart) {
  CallHeader a = AllReduceOf(DType::kFloat32, {4, 2});
  a.op = CollectiveOp::kAllToAll;
  CallHeader b = a;
  b.uneven = true;
  EXPECT_THAT(std::string(Check(a, b).message()),
              HasSubstr("rank 1: all_to_all #41 has different sizes on the ranks, rank 0 called it "
                        "with equal ones"));
  a.uneven = true;
  b.first.dims = Dims{9, 2};
  EXPECT_TRUE(Check(a, b).ok());
  b.first.dims = Dims{9, 3};
  EXPECT_FALSE(Check(a, b).ok());
}

TEST(CheckSameCall, NamesBothReductionsOfEveryCallThatFolds) {
  CallHeader a = AllReduceOf(DType::kInt32, {4}, ReduceOp::kBitAnd);
  a.op = CollectiveOp::kReduceScatter;
  CallHeader b = a;
  b.reduction = ReduceOp::kBitXor;
  EXPECT_THAT(std::string(Check(a, b).message()),
              HasSubstr("rank 1: reduce_scatter #41 reduces with BXOR, rank 0 with BAND"));
}

TEST(CheckSameTransfer, NamesBothSides) {
  CallHeader send = AllReduceOf(DType::kFloat32, {4});
  send.op = CollectiveOp::kSend;
  CallHeader receive = send;
  receive.op = CollectiveOp::kReceive;
  const std::string name = "c";
  const CallLabel label{5, 1, &name};
  EXPECT_TRUE(CheckSameTransfer(send, 2, receive, 0, label).ok());
  receive.first.dims = Dims{5};
  const Status status = CheckSameTransfer(send, 2, receive, 0, label);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "rank 0: receive #5 from rank 2 got a tensor float32[5] to fill, rank 2 sent "
            "float32[4]; dtype and shape must be the same on both");
  EXPECT_EQ(IntDetail(status, "rank"), 0);
  EXPECT_EQ(IntDetail(status, "peer"), 2);
}

TEST(DescribeMissing, SaysWhichTransferARankIsIn) {
  RankPosition ranks[] = {{0, true, CollectiveOp::kAllReduce, 41},
                          {1, false, CollectiveOp::kBarrier, 40}};
  ranks[1].transfer = CollectiveOp::kSend;
  ranks[1].transfer_peer = 0;
  EXPECT_EQ(DescribeMissing(ranks),
            "rank 1, which has not called; its last call was #40 barrier; it is sending to rank 0");
  EXPECT_EQ(DescribePositions(ranks),
            "rank 0: #41 all_reduce (waits), rank 1: #40 barrier, is sending to rank 0");
  EXPECT_EQ(DescribeAbsence(ranks[1]), "rank 1, which is sending to rank 0");
  ranks[1].transfer = CollectiveOp::kNone;
  EXPECT_EQ(DescribeAbsence(ranks[1]),
            "rank 1, which is in no call; its last call was #40 barrier");
  ranks[1].in_call = true;
  EXPECT_EQ(DescribeAbsence(ranks[1]), "rank 1, which is in barrier #40");
}

TEST(DescribeMissing, NamesEachMissingRankAndItsLastCall) {
  const RankPosition ranks[] = {{0, true, CollectiveOp::kAllReduce, 41},
                                {1, false, CollectiveOp::kNone, 0},
                                {2, false, CollectiveOp::kBarrier, 40}};
  EXPECT_EQ(DescribeMissing(ranks),
            "rank 1, which has not called; it has made no call yet, and for rank 2, which has not "
            "called; its last call was #40 barrier");
  EXPECT_EQ(DescribePositions(ranks),
            "rank 0: #41 all_reduce (waits), rank 1: no call yet, rank 2: #40 barrier");
}

}  // namespace
}  // namespace tutti
