// The short form of headers: there and back, what it leaves out, and nonsense.

#include "core/base/seeded_runs_testing.h"
#include "core/collective/call/shared_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

namespace tutti {
namespace {

CallHeader AllReduceOf(std::vector<TensorSignature> tensors) {
  CallHeader header;
  header.op = CollectiveOp::kAllReduce;
  header.reduction = ReduceOp::kMax;
  header.num_tensors = tensors.size();
  if (!tensors.empty()) {
    header.first = tensors[0];
    header.rest.assign(tensors.begin() + 1, tensors.end());
  }
  return header;
}

std::vector<std::byte> Encode(const CallHeader& header) {
  std::vector<std::byte> bytes;
  EncodeSharedHeader(header, &bytes);
  return bytes;
}

TEST(SharedHeader, ComesBackAsItWas) {
  const int64_t big = INT64_MAX;
  CallHeader hinted = AllReduceOf({{DType::kFloat32, {2}}});
  hinted.hints = {CommunicationImplementation::kRing, big};
  hinted.axis = 7;
  hinted.uneven = true;
  CallHeader on_gpus = hinted;
  on_gpus.gpu_op = CollectiveOp::kBroadcast;
  const CallHeader headers[] = {
      hinted,
      on_gpus,
      AllReduceOf({}),
      AllReduceOf({{DType::kFloat32, {2}}}),
      AllReduceOf({{DType::kFloat32, {2, 3, 0, 127, 128, 1'000'000, 5, 6}},
                   {DType::kBool, {}},
                   {DType::kComplex128, {big}}}),
  };
  for (const CallHeader& header : headers) {
    size_t count = 99;
    const Result<CallHeader> back =
        DecodeSharedHeader(header.op, Encode(header), /*complete=*/true, &count);
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    EXPECT_TRUE(SameCall(*back, header));
    EXPECT_EQ(count, header.num_tensors);
  }
}

TEST(SharedHeader, OfASmallTensorTakesAFewBytes) {
  EXPECT_LE(Encode(AllReduceOf({{DType::kFloat32, {2}}})).size(), 8u);
}

TEST(SharedHeader, LeavesOutTheSizeAlongTheAxisOfAnAllGather) {
  CallHeader header;
  header.op = CollectiveOp::kAllGather;
  header.axis = 1;
  header.uneven = true;
  header.num_tensors = 1;
  header.first = {DType::kInt8, {4, 5, 6}};
  CallHeader other = header;
  other.first.dims[1] = 7;
  EXPECT_EQ(Encode(header), Encode(other));
  other.first.dims[2] = 7;
  EXPECT_NE(Encode(header), Encode(other));
}

TEST(SharedHeader, GivesTheFirstTensorsOfABeginning) {
  std::vector<TensorSignature> tensors(100, TensorSignature{DType::kInt32, {300, 2}});
  const std::vector<std::byte> bytes = Encode(AllReduceOf(tensors));
  size_t count = 0;
  const Result<CallHeader> header =
      DecodeSharedHeader(CollectiveOp::kAllReduce, std::span(bytes).first(50), false, &count);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(count, 100u);
  EXPECT_EQ(header->num_tensors, 9u);
  for (size_t i = 0; i < header->num_tensors; ++i) EXPECT_EQ(header->tensor(i), tensors[i]);
  EXPECT_FALSE(
      DecodeSharedHeader(CollectiveOp::kAllReduce, std::span(bytes).first(50), true, &count).ok());
}

TEST(SharedHeader, ReadsNonsenseWithoutHarm) {
  const char* variable = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed =
      variable != nullptr ? std::strtoull(variable, nullptr, 10) : std::random_device()();
  SCOPED_TRACE(testing::Message() << "TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  SeededRuns runs("headers", 20'000);
  while (runs.Next()) {
    std::vector<std::byte> bytes = Encode(AllReduceOf(
        {{DType::kFloat32, {2, 3}}, {DType::kInt8, {static_cast<int64_t>(random() % 1000)}}}));
    bytes.resize(random() % (bytes.size() + 4));
    for (int i = 0; i < 3 && !bytes.empty(); ++i) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    size_t count = 0;
    const Result<CallHeader> header =
        DecodeSharedHeader(CollectiveOp::kAllReduce, bytes, random() % 2 == 0, &count);
    if (!header.ok()) continue;
    EXPECT_LE(header->num_tensors, bytes.size());
    for (size_t i = 0; i < header->num_tensors; ++i) {
      for (const int64_t dim : header->tensor(i).dims) EXPECT_GE(dim, 0);
    }
  }
}

TEST(SharedHeader, HashesDifferWhereHeadersDo) {
  EXPECT_NE(HashSharedHeader(Encode(AllReduceOf({{DType::kFloat32, {2}}}))),
            HashSharedHeader(Encode(AllReduceOf({{DType::kFloat32, {3}}}))));
}

}  // namespace
}  // namespace tutti
