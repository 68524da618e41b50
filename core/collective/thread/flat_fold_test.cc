// Where the ranks of a process leave copies of their inputs.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>

#include "core/base/real_environment.h"
#include "core/collective/thread/local_group.h"

namespace tutti {
namespace {

constexpr size_t kBytes = 4096;

TEST(LocalGroup, TwoRanksSwapRoomsWithEveryCallOfAParity) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  for (const int64_t size : {2, 3}) {
    const Ref<LocalGroup> group =
        MakeRef<LocalGroup>(environment, "group", size, 1, static_cast<size_t>(size));
    const auto place = [&](int64_t rank, int64_t peer, int64_t sequence) {
      return group->CopiedInput(rank, peer, sequence, kBytes);
    };
    for (int64_t call = 3; call < 20; ++call) {
      std::set<const std::byte*> places;
      for (int64_t rank = 0; rank < size; ++rank) {
        for (const int64_t sequence : {call, call - 1}) {
          places.insert(place(rank, rank, sequence));
          EXPECT_EQ(place((rank + 1) % size, rank, sequence), place(rank, rank, sequence));
        }
        // Where it has read.
        const int64_t writer = size == 2 ? 1 - rank : rank;
        EXPECT_EQ(place(rank, rank, call), place(rank, writer, call - 2));
      }
      // A rank may still read those of the call before.
      EXPECT_EQ(places.size(), static_cast<size_t>(2 * size));
    }
  }
  EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
}

}  // namespace
}  // namespace tutti
