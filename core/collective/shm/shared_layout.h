// What lies where in the shared segment of a group of ranks. Everything that one rank writes while
// others wait for it is on cache lines of its own, two apart, so that the prefetcher of one rank
// does not steal what another writes. A fresh segment is all zeros, which is the initial state.
//
//   control | slot of rank 0 | slot of rank 1 | ... | blocks of rank 0 | blocks of rank 1 | ... |
//   channel from rank 0 to rank 0 | channel from rank 0 to rank 1 | ...
//
// A slot holds two *entries*, for calls of even and of odd sequence: what a rank says about its
// call, and a small payload right behind it, so that a small call moves one or two cache lines per
// pair of ranks. Blocks are the room for large payloads, again two halves by the parity of the
// sequence. A rank that is one call ahead uses the other parity, and it cannot be two ahead,
// because the call between needs everyone.
//
// A channel carries what one rank sends to another one. Its pages, like all, cost nothing before
// they are touched; so pairs that exchange nothing cost nothing but addresses.
//
// There is no lock in here: whoever holds one can die. A rank writes its own slot and blocks, and
// of the blocks of others, in some calls, what it alone reads there (shared_slice_and_share.cc), or
// of two ranks has read there last (SharedLayout::copies); the words that several write are changed
// by one atomic instruction.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_LAYOUT_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_LAYOUT_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/collective/call/call_header.h"
#include "core/collective/call/call_header_wire.h"

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
  // The ways in which the rank's tensors can be had out of its window (shared_direct.h). 0: they
  // come through the segment.
  uint16_t window;
  // kResultsInInputs: what the rank folds it writes where the others have written its inputs, which
  // they read again; without it in its own block. kChecksFold: it wants the fold to be checked.
  static constexpr uint16_t kResultsInInputs = 1;
  static constexpr uint16_t kChecksFold = 2;
  uint16_t fold;
  // The header, then the payload at the next multiple of 16 bytes of the entry.
  std::byte room[kRoomBytes];
};
static_assert(sizeof(SharedEntry) == SharedEntry::kBytes);

// What SharedEntry::call holds.
struct SharedCallWord {
  static constexpr int kOperationBits = 5;
  static uint64_t Make(int64_t sequence, CollectiveOp op) noexcept {
    return static_cast<uint64_t>(sequence) << kOperationBits | static_cast<uint64_t>(op);
  }
  static int64_t Sequence(uint64_t word) noexcept {
    return static_cast<int64_t>(word >> kOperationBits);
  }
  static CollectiveOp Operation(uint64_t word) noexcept {
    const uint64_t number = word & ((1u << kOperationBits) - 1);
    return number <= static_cast<uint64_t>(kLastCollectiveOp) ? static_cast<CollectiveOp>(number)
                                                              : CollectiveOp::kNone;
  }
};

// What SharedSlot::transfer holds.
struct SharedTransferWord {
  static uint64_t Make(int64_t peer, bool is_send) noexcept {
    return static_cast<uint64_t>(peer) << 2 | (is_send ? 2 : 0) | 1;
  }
  static int64_t Peer(uint64_t word) noexcept { return static_cast<int64_t>(word >> 2); }
  static bool IsSend(uint64_t word) noexcept { return (word & 2) != 0; }
};

// From one rank to another. Transfers and chunks are counted for ever; chunk i lies at i modulo
// kChunks. The receiver compares the headers.
struct alignas(128) SharedChannel {
  static constexpr size_t kBytes = 1280;  // the chunks follow
  static constexpr size_t kChunks = 4;
  static constexpr size_t kHeaderRoomBytes = 640;  // of the longest shape
  // In `settled`: the sender has given up the next transfer.
  static constexpr uint64_t kWithdrawn = uint64_t{1} << 63;

  // Of the sender: transfers that it has come to, chunks that it has written, and its header.
  std::atomic<uint64_t> sent;
  std::atomic<uint64_t> written;
  uint32_t header_bytes;
  std::byte header[kHeaderRoomBytes];
  // Of the receiver: chunks that it has taken.
  alignas(128) std::atomic<uint64_t> taken;
  // Transfers that have happened. The receiver, which counts one more, and the sender, which
  // withdraws, decide by one instruction whether a transfer has.
  std::atomic<uint64_t> settled;
  // Transfers that the receiver has come to.
  std::atomic<uint64_t> wanted;
  // 1: the receiver of the transfer has its tensor on a GPU, and has said so.
  std::atomic<uint32_t> receiver_on_gpu;
  alignas(128) std::atomic<uint32_t> sender_sleeps;
  alignas(128) std::atomic<uint32_t> receiver_sleeps;
};
static_assert(sizeof(SharedChannel) <= SharedChannel::kBytes);

// A failed status, written once by its rank before it is announced.
struct alignas(64) SharedStatus {
  uint32_t bytes;
  alignas(64) char text[kMaxStatusBytes];
};

struct alignas(4096) SharedSlot {
  alignas(128) std::atomic<uint32_t> taken;
  std::atomic<uint32_t> left;
  // 1: the rank has a window, and can read those of all others.
  std::atomic<uint32_t> reads_windows;
  // The transfer that the rank is in, for messages: SharedTransferWord. 0: none.
  std::atomic<uint64_t> transfer;
  // The rank sleeps on it. Raised by whoever wakes it.
  alignas(128) std::atomic<uint32_t> wake_ups;
  alignas(128) SharedStatus failure;
  SharedStatus leave_reason;
  SharedEntry entries[2];
};

// How payloads are best written, by operation and logarithm of the size: SharedStores. all_reduce
// and reduce have two rows.
inline constexpr size_t kSharedStoreChoices =
    (static_cast<size_t>(kLastCollectiveOp) + 3) * 64;

struct alignas(4096) SharedControl {
  // Set by the first rank that comes; the others must agree.
  std::atomic<uint64_t> epoch_plus_one;
  // 1 + the rank whose failure ended the epoch. 0 while it lasts.
  alignas(128) std::atomic<uint32_t> failed_rank_plus_one;
  alignas(128) std::array<std::atomic<uint8_t>, kSharedStoreChoices> stores;
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

  // Of a chunk of a channel, at most.
  static constexpr size_t kMostChunkBytes = size_t{128} << 10;

  SharedLayout(std::byte* contents, int64_t ranks) noexcept
      : contents_(contents), ranks_(static_cast<size_t>(ranks)) {}

  static size_t SegmentBytes(int64_t ranks) noexcept {
    const auto n = static_cast<size_t>(ranks);
    return ChannelsOffset(n) + n * n * ChannelBytes(n);
  }
  // Of a channel with its chunks: less where there are many, of which few are used at a time.
  static size_t ChannelBytes(size_t ranks) noexcept {
    constexpr size_t kMost = SharedChannel::kChunks * kMostChunkBytes + kPageBytes;
    return std::clamp(kChannelsBytes / (ranks * ranks), 2 * kPageBytes, kMost) / kPageBytes *
           kPageBytes;
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
  // The block for what a rank copies in and its peers read. Two ranks have swapped theirs since the
  // last call of that parity: each writes where it has read, in lines that reading has moved to its
  // caches, where otherwise each store would have to take a line back from the peer.
  // A call that goes round the block several times swaps with every round.
  std::byte* copies(int64_t rank, int64_t sequence, int64_t round = 0) const noexcept {
    return block(ranks_ == 2 ? (rank ^ (sequence >> 1) ^ round) & 1 : rank, sequence);
  }

  SharedChannel& channel(int64_t from, int64_t to) const noexcept {
    return *reinterpret_cast<SharedChannel*>(
        contents_ + ChannelsOffset(ranks_) +
        (static_cast<size_t>(from) * ranks_ + static_cast<size_t>(to)) * ChannelBytes(ranks_));
  }
  size_t chunk_bytes() const noexcept {
    return std::min((ChannelBytes(ranks_) - SharedChannel::kBytes) / SharedChannel::kChunks,
                    kMostChunkBytes) / 64 * 64;
  }
  std::byte* chunk(SharedChannel& channel, uint64_t number) const noexcept {
    return reinterpret_cast<std::byte*>(&channel) + SharedChannel::kBytes +
           number % SharedChannel::kChunks * chunk_bytes();
  }

 private:
  static constexpr size_t kPageBytes = 4096;
  // Of all channels, where that leaves two pages for each.
  static constexpr size_t kChannelsBytes = size_t{256} << 20;

  static size_t ChannelsOffset(size_t ranks) noexcept {
    return sizeof(SharedControl) + ranks * (sizeof(SharedSlot) + 2 * kBlockBytes);
  }

  std::byte* const contents_;
  const size_t ranks_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_LAYOUT_H_
