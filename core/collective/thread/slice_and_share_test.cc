// Whose memory the peers of an all_reduce within a process read and write.

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "core/base/real_environment.h"
#include "core/collective/call/memory_parts.h"
#include "core/collective/thread/local_algorithms.h"
#include "core/collective/thread/local_group.h"

namespace tutti {
namespace {

constexpr size_t kRanks = 2;

// A sum of so many floats, all 1 on rank 0 and 2 on rank 1. Returns what each rank has staged.
std::vector<AlignedRoom> Sum(int64_t elements, bool in_place) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  const Ref<LocalGroup> group = MakeRef<LocalGroup>(environment, "group", kRanks, 1, kRanks);
  std::vector<AlignedRoom> stages(kRanks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto count = static_cast<size_t>(elements);
      std::vector<float> input(count, static_cast<float>(rank + 1));
      std::vector<float> output(in_place ? 0 : count);
      std::vector<float>& sums = in_place ? input : output;
      const CollectiveMemory memory{input.data(), sums.data()};
      CollectiveCall call;
      call.header.op = CollectiveOp::kAllReduce;
      call.header.num_tensors = 1;
      call.header.first = {DType::kFloat32, Dims({elements})};
      call.sequence = 1;
      call.memory = {&memory, 1};
      const auto self = static_cast<int64_t>(rank);
      group->Begin(self, call);
      const Status status = SliceAndShareAllReduce(*group, self, call, &stages[rank]);
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(sums, std::vector<float>(count, 3.0F));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
  return stages;
}

TEST(LocalSliceAndShare, PeersFoldACopyOfWhatLiesInCaches) {
  constexpr int64_t kElements = 64 << 10;
  const std::vector<AlignedRoom> stages = Sum(kElements, /*in_place=*/false);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_NE(stages[rank].data(), nullptr);
    // The peer has left its results there.
    const auto* const staged = reinterpret_cast<const float*>(stages[rank].data());
    const size_t peers = rank == 0 ? kElements / 2 : 0;
    EXPECT_EQ(std::vector<float>(staged + peers, staged + peers + kElements / 2),
              std::vector<float>(kElements / 2, 3.0F));
  }
}

TEST(LocalSliceAndShare, WhatIsInPlaceOrLargeIsNotCopied) {
  for (const AlignedRoom& stage : Sum(64 << 10, /*in_place=*/true)) {
    EXPECT_EQ(stage.data(), nullptr);
  }
  for (const AlignedRoom& stage : Sum(1 << 20, /*in_place=*/false)) {
    EXPECT_EQ(stage.data(), nullptr);
  }
}

}  // namespace
}  // namespace tutti
