// What lies where in the shared segment of a group of ranks. Everything that one rank writes while
// others wait for it is on cache lines of its own, two apart, so that the prefetcher of one rank
// does not steal what another writes. A fresh segment is all zeros, which is the initial state.
//
//   control | slot of rank 0 | slot of rank 1 | ... | blocks of rank 0 | blocks of rank 1 | ...
//
// A slot holds two *entries*, for calls of even and of odd sequence: what a rank says about its
// call, and a small payload right behind it, so that a small call moves one or two cache lines per
// pair of ranks. Blocks are the room for large payloads, again two halves by the parity of the
// sequence. A rank that is one call ahead uses the other parity, and it cannot be two ahead,
// because the call between needs everyone.
//
// There is no lock in here: whoever holds one can die. A rank writes its own slot and blocks only;
// the words that several write are changed by one atomic instruction.

#ifndef TUTTI_CORE_COLLECTIVE_SHARED_LAYOUT_H_
#define TUTTI_CORE_COLLECTIVE_SHARED_LAYOUT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/collective/call_header.h"
#include "core/collective/call_header_wire.h"

namespace tutti {

inline constexpr int64_t kSharedMaxRanks = 256;

struct alignas(128) SharedEntry {
  static constexpr size_t kBytes = 8192;
  static constexpr size_t kRoomBytes = kBytes - 24;
  // Of a header; what is longer is compared by its hash.
  static constexpr size_t kHeaderRoomBytes = 3072;

  // The rank's place in the group's common count of steps; grows for ever.
  std::atomic<uint64_t> progress;
  // sequence << 5 | operation, for messages and as a check.
  std::atomic<uint64_t> call;
  uint32_t header_bytes;
  uint32_t reserved;
  // The header, then the payload at the next multiple of 16 bytes of the entry.
  std::byte room[kRoomBytes];
};
static_assert(sizeof(SharedEntry) == SharedEntry::kBytes);

// A failed status, written once by its rank before it is announced.
struct alignas(64) SharedStatus {
  uint32_t bytes;
  alignas(64) char text[kMaxStatusBytes];
};

struct alignas(4096) SharedSlot {
  alignas(128) std::atomic<uint32_t> taken;
  std::atomic<uint32_t> left;
  // The rank sleeps on it. Raised by whoever wakes it.
  alignas(128) std::atomic<uint32_t> wake_ups;
  alignas(128) SharedStatus failure;
  SharedStatus leave_reason;
  SharedEntry entries[2];
};

// Which sizes of payloads are better written past the caches, by operation and logarithm.
inline constexpr size_t kSharedStoreChoices =
    (static_cast<size_t>(kLastCollectiveOp) + 1) * 64;

struct alignas(4096) SharedControl {
  // Set by the first rank that comes; the others must agree.
  std::atomic<uint64_t> epoch_plus_one;
  // 1 + the rank whose failure ended the epoch. 0 while it lasts.
  alignas(128) std::atomic<uint32_t> failed_rank_plus_one;
  alignas(128) std::array<std::atomic<uint8_t>, kSharedStoreChoices> store_past_cache;
  // What a sleeping rank waits for: progress << 9 | (1 + a rank, or 0 for all). 0: it is awake.
  alignas(128) std::array<std::atomic<uint64_t>, kSharedMaxRanks> parked;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint8_t>::is_always_lock_free);

// Finds the parts in a mapping of SegmentBytes(ranks).
class SharedLayout {
 public:
  // Of one parity; three rounds of an all_reduce lie in it.
  static constexpr size_t kBlockBytes = size_t{768} << 10;

  SharedLayout(std::byte* contents, int64_t ranks) noexcept
      : contents_(contents), ranks_(static_cast<size_t>(ranks)) {}

  static size_t SegmentBytes(int64_t ranks) noexcept {
    return sizeof(SharedControl) +
           static_cast<size_t>(ranks) * (sizeof(SharedSlot) + 2 * kBlockBytes);
  }

  SharedControl& control() const noexcept { return *reinterpret_cast<SharedControl*>(contents_); }
  SharedSlot& slot(int64_t rank) const noexcept {
    return reinterpret_cast<SharedSlot*>(contents_ + sizeof(SharedControl))[rank];
  }
  SharedEntry& entry(int64_t rank, int64_t sequence) const noexcept {
    return slot(rank).entries[sequence & 1];
  }
  // kBlockBytes of the rank, for the calls of that parity.
  std::byte* block(int64_t rank, int64_t sequence) const noexcept {
    return contents_ + sizeof(SharedControl) + ranks_ * sizeof(SharedSlot) +
           (2 * static_cast<size_t>(rank) + static_cast<size_t>(sequence & 1)) * kBlockBytes;
  }

 private:
  std::byte* const contents_;
  const size_t ranks_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHARED_LAYOUT_H_
