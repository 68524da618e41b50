#include "core/collective/communicator/packing.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/collective/testing/rank_threads.h"

namespace tutti {
namespace {

using Packs = std::vector<Pack>;

Packs PacksOf(std::vector<int64_t> bytes, int64_t bytes_per_pack) {
  return PackTensors(bytes, bytes_per_pack);
}

TEST(PackingTest, ConsecutiveTensorsShareAPackAsLongAsTheyFit) {
  EXPECT_EQ(PacksOf({4, 4, 4, 4, 4}, 8), (Packs{{0, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(PacksOf({4, 4, 4}, 11), (Packs{{0, 2}, {2, 3}}));
  EXPECT_EQ(PacksOf({1, 2, 3}, kUnlimitedPackBytes), (Packs{{0, 3}}));
}

TEST(PackingTest, ATensorThatIsLargerThanAPackTravelsAlone) {
  EXPECT_EQ(PacksOf({4, 100, 4, 4}, 8), (Packs{{0, 1}, {1, 2}, {2, 4}}));
}

TEST(PackingTest, EmptyTensorsAndEmptyListsNeedNoRoom) {
  EXPECT_EQ(PacksOf({8, 0, 0, 8, 0}, 8), (Packs{{0, 3}, {3, 5}}));
  EXPECT_EQ(PacksOf({}, 8), Packs());
}

TEST(PackingTest, APackHasNoMoreTensorsThanMayTravelTogether) {
  const Packs packs = PacksOf(std::vector<int64_t>(kMostPackTensors + 1, 1), kUnlimitedPackBytes);
  EXPECT_EQ(packs, (Packs{{0, kMostPackTensors}, {kMostPackTensors, kMostPackTensors + 1}}));
}

// What all ranks have after an all_reduce of tensors of growing sizes, and the calls it took.
std::vector<float> Reduced(int64_t bytes_per_pack, int64_t* num_calls) {
  constexpr int64_t kCount = 20;
  RankGroup group(3);
  std::vector<std::vector<float>> of_ranks(3);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    std::vector<Ref<Tensor>> tensors;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor*> outputs;
    for (int64_t i = 0; i < kCount; ++i) {
      tensors.push_back(Tensor::Create(DType::kFloat32, Shape({i * 3})).value());
      auto* values = static_cast<float*>(tensors.back()->mutable_data());
      for (int64_t k = 0; k < i * 3; ++k) values[k] = 1.f / static_cast<float>(1 + rank + i + k);
      inputs.push_back(tensors.back().get());
      outputs.push_back(tensors.back().get());
    }
    Status status = AllReduceInPacks(communicator, inputs, ReduceOp::kSum, bytes_per_pack,
                                     group.Hang(), outputs);
    std::vector<float>& all = of_ranks[static_cast<size_t>(rank)];
    for (const Ref<Tensor>& tensor : tensors) {
      const auto* values = static_cast<const float*>(tensor->data());
      all.insert(all.end(), values, values + tensor->num_elements());
    }
    return status;
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(of_ranks[0], of_ranks[1]);
  EXPECT_EQ(of_ranks[0], of_ranks[2]);
  *num_calls = group[0].sequence();
  return of_ranks[0];
}

TEST(PackingTest, ResultsHaveTheSameBitsInPacksOfAnySize) {
  int64_t num_calls = 0;
  const std::vector<float> together = Reduced(0, &num_calls);
  EXPECT_EQ(num_calls, 1);
  for (const int64_t bytes_per_pack : {1, 100, 500, 1 << 20}) {
    const std::vector<float> packed = Reduced(bytes_per_pack, &num_calls);
    ASSERT_EQ(packed.size(), together.size());
    EXPECT_EQ(std::memcmp(packed.data(), together.data(), packed.size() * sizeof(float)), 0);
    if (bytes_per_pack == 1) {
      EXPECT_EQ(num_calls, 20);
    }
    if (bytes_per_pack == 1 << 20) {
      EXPECT_EQ(num_calls, 1);
    }
  }
}

TEST(PackingTest, ANegativeSizeIsRefusedAndTheEpochGoesOn) {
  RankGroup group(1);
  EXPECT_EQ(AllReduceInPacks(group[0], {}, ReduceOp::kSum, -1, CallOptions(), {}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(group[0].epoch_status().ok());
}

}  // namespace
}  // namespace tutti
