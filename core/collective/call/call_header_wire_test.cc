#include "core/collective/call/call_header_wire.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "core/base/error.h"
#include "core/base/seeded_runs_testing.h"

namespace tutti {
namespace {

CallHeader Example() {
  CallHeader header;
  header.op = CollectiveOp::kAllReduce;
  header.reduction = ReduceOp::kMax;
  header.num_tensors = 3;
  header.first = TensorSignature{DType::kFloat32, Dims({2, 3})};
  header.rest = {TensorSignature{DType::kInt8, Dims()},
                 TensorSignature{DType::kComplex128, Dims({1, 2, 3, 4, 5, 6, 7, 0})}};
  return header;
}

TEST(CallHeaderWireTest, AHeaderComesBackAsItWas) {
  std::string bytes;
  AppendCallHeader(Example(), &bytes);
  const Result<CallHeader> parsed = ParseCallHeader(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_TRUE(SameCall(*parsed, Example()));

  CallHeader broadcast;
  broadcast.op = CollectiveOp::kBroadcast;
  broadcast.root = 5;
  bytes.clear();
  AppendCallHeader(broadcast, &bytes);
  EXPECT_TRUE(SameCall(ParseCallHeader(bytes).value(), broadcast));

  CallHeader hinted = Example();
  hinted.hints = {CommunicationImplementation::kRing, 12};
  bytes.clear();
  AppendCallHeader(hinted, &bytes);
  EXPECT_TRUE(SameCall(ParseCallHeader(bytes).value(), hinted));
  EXPECT_FALSE(SameCall(hinted, Example()));

  CallHeader on_gpus = hinted;
  on_gpus.gpu_op = CollectiveOp::kAllReduce;
  bytes.clear();
  AppendCallHeader(on_gpus, &bytes);
  EXPECT_TRUE(SameCall(ParseCallHeader(bytes).value(), on_gpus));
  EXPECT_FALSE(SameCall(on_gpus, hinted));
}

TEST(CallHeaderWireTest, ATruncatedHeaderIsDataLoss) {
  std::string bytes;
  AppendCallHeader(Example(), &bytes);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(ParseCallHeader(std::string_view(bytes).substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(ParseCallHeader(bytes + "x").ok());
}

TEST(CallHeaderWireTest, AlteredBytesNeverGiveAShapeThatCannotBe) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::string original;
  AppendCallHeader(Example(), &original);
  int refused = 0;
  SeededRuns runs("headers", 20000);
  while (runs.Next()) {
    std::string bytes = original;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
    }
    const Result<CallHeader> parsed = ParseCallHeader(bytes);
    if (!parsed.ok()) {
      ++refused;
      continue;
    }
    for (size_t i = 0; i < parsed->num_tensors; ++i) {
      EXPECT_GE(parsed->tensor(i).num_elements(), 0);
    }
  }
  EXPECT_GT(refused, static_cast<int>(runs.done() / 20));
}

TEST(CallHeaderWireTest, AClaimOfManyTensorsAllocatesNothing) {
  CallHeader header;
  header.op = CollectiveOp::kBarrier;
  std::string bytes;
  AppendCallHeader(header, &bytes);
  for (size_t i = bytes.size() - 4; i < bytes.size(); ++i) bytes[i] = '\x7f';
  EXPECT_EQ(ParseCallHeader(bytes).status().code(), StatusCode::kDataLoss);
}

TEST(StatusWireTest, AStatusComesBackWithDetailsAndCauses) {
  const Status status = Unavailable("rank 1 is gone")
                            .With("rank", 1)
                            .With("ratio", 0.5)
                            .With("op", "all_reduce")
                            .WithCause(NotFound("no route"));
  std::string bytes;
  AppendStatus(status, &bytes);
  const Status parsed = ParseStatus(bytes);
  EXPECT_EQ(parsed.ToString(), status.ToString());
  EXPECT_EQ(parsed.details(), status.details());
}

TEST(StatusWireTest, LongTextsAreCut) {
  Status status = Internal("{}", std::string(100000, 'm'));
  for (int i = 0; i < 100; ++i) {
    status = std::move(status).With(Format("key {}", i), std::string(5000, 'v'));
  }
  status = std::move(status).WithCause(Internal("{}", std::string(5000, 'c')));
  std::string bytes;
  AppendStatus(status, &bytes);
  EXPECT_LE(bytes.size(), kMaxStatusBytes);
  const Status parsed = ParseStatus(bytes);
  EXPECT_EQ(parsed.code(), StatusCode::kInternal);
  EXPECT_EQ(parsed.message().size(), 4096u);
  EXPECT_GT(parsed.details().size(), 3u);
  EXPECT_EQ(parsed.causes().size(), 1u);
}

TEST(StatusWireTest, BytesThatAreNoErrorAreDataLoss) {
  std::string bytes;
  AppendStatus(Aborted("reason").With("rank", 1), &bytes);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(ParseStatus(std::string_view(bytes).substr(0, length)).code(),
              StatusCode::kDataLoss)
        << length;
  }
  bytes[0] = 0;
  EXPECT_EQ(ParseStatus(bytes).code(), StatusCode::kDataLoss);
  bytes[0] = 99;
  EXPECT_EQ(ParseStatus(bytes).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace tutti
