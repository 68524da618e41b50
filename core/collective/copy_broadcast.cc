// Broadcast: every rank copies from the root. A small payload travels with the root's entry, in one
// meeting; a large one is read from the root's own memory, and the root waits until all have it.

#include <cstring>

#include "core/collective/local_algorithms.h"

namespace tutti {

Status CopyBroadcast(LocalGroup& group, int64_t rank, const CollectiveCall& call) {
  const TensorSignature& signature = call.header.first;
  const size_t bytes = static_cast<size_t>(signature.num_elements()) * ItemSize(signature.dtype);
  const int64_t root = call.header.root;
  LocalGroup::Entry& own = group.OwnEntry(rank, call.sequence);

  if (bytes <= group.copied_input_bytes()) {
    if (rank == root && bytes != 0) std::memcpy(own.copied_input, call.memory[0].input, bytes);
    TUTTI_RETURN_IF_ERROR(group.Meet(rank, call, LocalGroup::Access::kOwnMemory));
    if (rank != root && bytes != 0) {
      std::memcpy(call.memory[0].output, group.PeerEntry(root, call.sequence).copied_input, bytes);
    }
    return OkStatus();
  }

  own.memory = call.memory;
  TUTTI_RETURN_IF_ERROR(group.Meet(rank, call, LocalGroup::Access::kPeerMemory));
  if (rank != root) {
    std::memcpy(call.memory[0].output, group.PeerEntry(root, call.sequence).memory[0].input, bytes);
  }
  group.Part(rank, call);
  return OkStatus();
}

}  // namespace tutti
