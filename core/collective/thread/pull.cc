// Pull: every rank copies from the inputs of its peers what it is to have: the root's input
// (broadcast), its share of the root's (scatter), all inputs side by side (all_gather into a given
// tensor), its share of all inputs (all_to_all). Small inputs travel with the entries, in one
// meeting; large ones are read from their owner's memory, and who owns some waits until all have
// theirs.
//
// In place nothing is written that a peer reads: the root of a scatter and the ranks of an
// all_gather leave the part alone that is their own, and write no other part of their input.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/collective/thread/local_algorithms.h"

namespace tutti {
namespace {

// Inputs that travel with the entries: of all ranks together, and of each in any case.
constexpr size_t kCopiedBytes = 16 << 10;
constexpr size_t kLeastCopiedBytes = 256;

// Where the bytes lie that `rank` has from `peer`: in its input, in the output, and in what it
// copies. Of an all_to_all that is the parts of the ranks behind it, in their order: what two ranks
// copy is read by the other one, all of it.
struct PulledPart {
  size_t input_offset = 0;
  size_t output_offset = 0;
  size_t bytes = 0;
  size_t copied_offset = 0;
};

bool PullsFromRoot(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kScatter;
}

PulledPart PartOf(const CallHeader& header, int64_t size, int64_t rank, int64_t peer,
            size_t input_bytes) {
  const size_t share = input_bytes / static_cast<size_t>(size);
  const auto own = static_cast<size_t>(rank);
  const auto other = static_cast<size_t>(peer);
  switch (header.op) {
    case CollectiveOp::kScatter: return {own * share, 0, share, own * share};
    case CollectiveOp::kAllGather: return {0, other * input_bytes, input_bytes, 0};
    case CollectiveOp::kAllToAll: {
      const auto behind = static_cast<size_t>((rank - peer - 1 + size) % size);
      return {own * share, other * share, share, behind * share};
    }
    default: return {0, 0, input_bytes, 0};  // a broadcast
  }
}

void CopyForPeers(LocalGroup& group, int64_t rank, const CollectiveCall& call,
                  size_t input_bytes) {
  const int64_t size = group.size();
  const auto* const input = static_cast<const std::byte*>(call.memory[0].input);
  std::byte* const copied = group.CopiedInput(rank, rank, call.sequence, input_bytes);
  if (call.header.op != CollectiveOp::kAllToAll) {
    std::memcpy(copied, input, input_bytes);
    return;
  }
  for (int64_t i = 1; i < size; ++i) {
    const PulledPart part = PartOf(call.header, size, (rank + i) % size, rank, input_bytes);
    std::memcpy(copied + part.copied_offset, input + part.input_offset, part.bytes);
  }
}

}  // namespace

Status Pull(LocalGroup& group, int64_t rank, const CollectiveCall& call) {
  const CallHeader& header = call.header;
  const CollectiveMemory& memory = call.memory[0];
  const auto input_bytes =
      static_cast<size_t>(header.first.num_elements()) * ItemSize(header.first.dtype);
  const bool copied =
      input_bytes <= std::min(group.copied_input_bytes(),
                              std::max(kCopiedBytes / static_cast<size_t>(group.size()),
                                       kLeastCopiedBytes));
  const bool has_root = PullsFromRoot(header.op);
  if (!copied) {
    group.ShowMemory(rank, call);
  } else if (input_bytes != 0 && (!has_root || rank == header.root)) {
    CopyForPeers(group, rank, call, input_bytes);
  }
  TUTTI_RETURN_IF_ERROR(group.Meet(rank, call, copied ? LocalGroup::Access::kOwnMemory
                                                      : LocalGroup::Access::kPeerMemory));

  // Everybody begins with itself, so that not all read from the same rank at once.
  for (int64_t i = 0; i < (has_root ? 1 : group.size()); ++i) {
    const int64_t peer = has_root ? header.root : (rank + i) % group.size();
    const PulledPart part = PartOf(header, group.size(), rank, peer, input_bytes);
    if (part.bytes == 0 || memory.output == nullptr) continue;
    const std::byte* input = nullptr;
    if (copied && peer != rank) {
      input = group.CopiedInput(rank, peer, call.sequence, input_bytes) + part.copied_offset;
    } else {
      const void* const whole =
          peer == rank ? memory.input : group.PeerMemory(rank, peer, call, 0).input;
      input = static_cast<const std::byte*>(whole) + part.input_offset;
    }
    std::byte* output = static_cast<std::byte*>(memory.output) + part.output_offset;
    // In place a rank's own part lies where it belongs.
    if (input != output) std::memcpy(output, input, part.bytes);
  }
  if (!copied) group.Part(rank, call).rep();
  return OkStatus();
}

}  // namespace tutti
