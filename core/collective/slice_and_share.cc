// Slice and share, for large payloads: each rank owns an equal slice of the payload, folds that
// slice of all ranks' inputs, and writes the result into all ranks' outputs. Per rank that is n
// bytes read and n written, whatever the number of ranks.
//
// In place this is safe: a slice of an input is read by the slice's owner alone, before the same
// owner overwrites it. The tensors of a call count as one payload, cut at 64 bytes, so that no two
// ranks write into one cache line of an aligned output.
//
// A slice is worked off in blocks that stay in the first-level cache between the fold and the
// copies. Large outputs that are apart from the inputs are written past the cache, which saves
// fetching lines from memory, or from the other core, that are about to be overwritten. In place
// the fold has just read those lines, so that plain stores are the cheaper ones. So large that no
// cache holds it, the rank's own output is written past it, too, and meanwhile the rank asks for
// what it folds next: a memory that is read and written at once moves more.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/collective/local_algorithms.h"
#include "core/collective/streaming_copy.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

constexpr int64_t kGranuleBytes = 64;
constexpr int64_t kBlockBytes = 16 * 1024;
constexpr int64_t kStreamedGranules = (256 << 10) / kGranuleBytes;
constexpr int64_t kOwnStreamedGranules = (8 << 20) / kGranuleBytes;

int64_t GranulesOf(const TensorSignature& signature) {
  const auto item_bytes = static_cast<int64_t>(ItemSize(signature.dtype));
  return (signature.num_elements() * item_bytes + kGranuleBytes - 1) / kGranuleBytes;
}

// What of an output is written past the cache.
enum class Streams { kNothing, kPeersOutputs, kAllOutputs };

// Folds elements [begin, end) of tensor `index` into all outputs.
Status FoldRange(LocalGroup& group, int64_t rank, const CollectiveCall& call, size_t index,
                 int64_t begin, int64_t end, Streams streams, std::vector<const void*>& inputs) {
  alignas(64) std::byte piece[kBlockBytes];
  const DType dtype = call.header.tensor(index).dtype;
  const auto item_bytes = static_cast<int64_t>(ItemSize(dtype));
  const int64_t block = kBlockBytes / item_bytes;
  for (int64_t first = begin; first < end; first += block) {
    const int64_t count = std::min(block, end - first);
    const int64_t offset = first * item_bytes;
    const auto bytes = static_cast<size_t>(count * item_bytes);
    for (int64_t peer = 0; peer < group.size(); ++peer) {
      const CollectiveMemory memory = group.PeerMemory(rank, peer, call, index);
      inputs[static_cast<size_t>(peer)] = static_cast<const std::byte*>(memory.input) + offset;
    }
    std::byte* const own = static_cast<std::byte*>(call.memory[index].output) + offset;
    const bool apart = streams == Streams::kAllOutputs &&
                       call.memory[index].output != call.memory[index].input;
    std::byte* const folded = apart ? piece : own;
    TUTTI_RETURN_IF_ERROR(ReduceInto(call.header.reduction, dtype, inputs, count, folded));
    for (int64_t peer = 0; peer < group.size(); ++peer) {
      if (peer == rank && !apart) continue;
      const CollectiveMemory memory = group.PeerMemory(rank, peer, call, index);
      std::byte* destination = static_cast<std::byte*>(memory.output) + offset;
      if (streams == Streams::kNothing || memory.output == memory.input) {
        std::memcpy(destination, folded, bytes);
      } else if (streams == Streams::kAllOutputs) {
        StreamingCopyAhead(destination, folded, bytes,
                           static_cast<const std::byte*>(inputs[static_cast<size_t>(peer)]) +
                               bytes);
      } else {
        StreamingCopy(destination, folded, bytes);
      }
    }
  }
  return OkStatus();
}

// Folds the rank's slice of the whole payload. `inputs` is room for one of each rank.
Status FoldSlice(LocalGroup& group, int64_t rank, const CollectiveCall& call,
                 std::vector<const void*>& inputs) {
  int64_t total = 0;
  for (size_t i = 0; i < call.header.num_tensors; ++i) total += GranulesOf(call.header.tensor(i));
  const int64_t slice_begin = total / group.size() * rank + std::min(rank, total % group.size());
  const int64_t slice_end =
      slice_begin + total / group.size() + (rank < total % group.size() ? 1 : 0);

  const Streams streams = total >= kOwnStreamedGranules ? Streams::kAllOutputs
                          : total >= kStreamedGranules  ? Streams::kPeersOutputs
                                                        : Streams::kNothing;
  int64_t granule = 0;  // where tensor i begins
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const TensorSignature& signature = call.header.tensor(i);
    const int64_t granules = GranulesOf(signature);
    const int64_t begin = std::max(slice_begin, granule) - granule;
    const int64_t end = std::min(slice_end, granule + granules) - granule;
    granule += granules;
    if (begin >= end) continue;
    const auto per_granule = kGranuleBytes / static_cast<int64_t>(ItemSize(signature.dtype));
    TUTTI_RETURN_IF_ERROR(FoldRange(group, rank, call, i, begin * per_granule,
                                    std::min(end * per_granule, signature.num_elements()),
                                    streams, inputs));
  }
  StreamingFence();
  return OkStatus();
}

}  // namespace

Status SliceAndShareAllReduce(LocalGroup& group, int64_t rank, const CollectiveCall& call) {
  group.ShowMemory(rank, call);
  // Made before the ranks have met: then the peers count on this rank's slice.
  std::vector<const void*> inputs(static_cast<size_t>(group.size()));
  TUTTI_RETURN_IF_ERROR(group.Meet(rank, call, LocalGroup::Access::kPeerMemory));
  Status status = FoldSlice(group, rank, call, inputs);
  if (!status.ok()) status = group.Fail(std::move(status));
  const Status parted = group.Part(rank, call);
  return status.ok() ? parted : status;
}

}  // namespace tutti
