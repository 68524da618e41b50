// Broadcast: the root writes its payload into the segment, the others copy it out. A small one
// travels with the root's entry, in one meeting. A large one goes through the root's block in
// chunks, the first of which is there when the root arrives: chunk k is step k of the root, and
// step k+1 of who has copied it; the root overwrites a chunk when all have copied it.

#include <algorithm>
#include <cstring>

#include "core/collective/shm/shared_algorithms.h"

namespace tutti {
namespace {

// What a row of the table may ask for: the root writes one while the others copy another.
constexpr int64_t kMostChunkBytes = 256 << 10;
static_assert(2 * kMostChunkBytes <= static_cast<int64_t>(SharedLayout::kBlockBytes));

}  // namespace

Status SharedBroadcast(SharedGroup& group, int64_t chunk_bytes, const CollectiveCall& call) {
  const TensorSignature& signature = call.header.first;
  const int64_t bytes =
      signature.num_elements() * static_cast<int64_t>(ItemSize(signature.dtype));
  const int64_t root = call.header.root;
  const bool is_root = group.rank() == root;
  group.Begin(call, static_cast<size_t>(bytes));
  const CollectiveMemory& memory = call.memory[0];

  if (bytes <= static_cast<int64_t>(group.inline_room())) {
    if (is_root) {
      group.CopyIn(group.inline_payload(root), memory.input, static_cast<size_t>(bytes));
    }
    group.Arrive();
    TUTTI_RETURN_IF_ERROR(group.Meet());
    if (!is_root && bytes != 0) {
      std::memcpy(memory.output, group.inline_payload(root), static_cast<size_t>(bytes));
    }
    group.Finish(0);
    return OkStatus();
  }

  chunk_bytes = std::min(chunk_bytes, kMostChunkBytes);
  const int64_t chunks_in_block = static_cast<int64_t>(SharedLayout::kBlockBytes) / chunk_bytes;
  const int64_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  const auto place = [&](int64_t chunk) {
    return group.block(root) + chunk % chunks_in_block * chunk_bytes;
  };
  const auto size_of = [&](int64_t chunk) {
    return static_cast<size_t>(std::min(chunk_bytes, bytes - chunk * chunk_bytes));
  };
  const auto write = [&](int64_t chunk) {
    group.CopyIn(place(chunk), static_cast<const std::byte*>(memory.input) + chunk * chunk_bytes,
                 size_of(chunk));
  };

  if (is_root) write(0);
  group.Arrive();
  TUTTI_RETURN_IF_ERROR(group.Meet());
  if (is_root) {
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      const int64_t overwritten = chunk - chunks_in_block;
      if (overwritten >= 0) {
        TUTTI_RETURN_IF_ERROR(group.Await(static_cast<uint64_t>(overwritten + 1)));
      }
      write(chunk);
      group.Advance(static_cast<uint64_t>(chunk));
    }
  } else {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      TUTTI_RETURN_IF_ERROR(group.Await(static_cast<uint64_t>(chunk), root));
      std::memcpy(static_cast<std::byte*>(memory.output) + chunk * chunk_bytes, place(chunk),
                  size_of(chunk));
      group.Advance(static_cast<uint64_t>(chunk + 1));
    }
  }
  group.Finish(static_cast<uint64_t>(chunks));
  return OkStatus();
}

}  // namespace tutti
