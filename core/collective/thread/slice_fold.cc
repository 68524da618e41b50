// Slice fold, for large payloads of reduce and reduce_scatter: each rank folds one slice of all
// ranks' inputs, straight from their memory into the output: an equal slice of the whole into the
// root's output, or the rank's share into its own.
//
// In place this is safe: a slice of an input is read by the slice's owner alone, and the owner
// overwrites an element after it has read it of all ranks. The slices of a reduce are cut at 64
// bytes, so that no two ranks write into one cache line of an aligned output.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/collective/thread/local_algorithms.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

constexpr int64_t kSliceGranule = 64;

struct Slice {
  int64_t begin = 0;  // elements of the inputs
  int64_t end = 0;
  std::byte* output = nullptr;  // of element `begin`
};

Slice SliceOf(LocalGroup& group, int64_t rank, const CollectiveCall& call) {
  const TensorSignature& signature = call.header.first;
  const int64_t elements = signature.num_elements();
  const int64_t size = group.size();
  if (call.header.op == CollectiveOp::kReduceScatter) {
    const int64_t share = elements / size;
    return {rank * share, (rank + 1) * share, static_cast<std::byte*>(call.memory[0].output)};
  }
  const auto item_bytes = static_cast<int64_t>(ItemSize(signature.dtype));
  const int64_t per_granule = kSliceGranule / item_bytes;
  const int64_t granules = (elements + per_granule - 1) / per_granule;
  const auto edge = [&](int64_t r) {
    return std::min((granules / size * r + std::min(r, granules % size)) * per_granule, elements);
  };
  void* output = group.PeerMemory(rank, call.header.root, call, 0).output;
  return {edge(rank), edge(rank + 1),
          static_cast<std::byte*>(output) + edge(rank) * item_bytes};
}

}  // namespace

Status SliceFold(LocalGroup& group, int64_t rank, const CollectiveCall& call) {
  group.ShowMemory(rank, call);
  // Made before the ranks have met: then the peers count on this rank's slice.
  std::vector<const void*> inputs(static_cast<size_t>(group.size()));
  TUTTI_RETURN_IF_ERROR(group.Meet(rank, call, LocalGroup::Access::kPeerMemory));
  const DType dtype = call.header.first.dtype;
  const Slice slice = SliceOf(group, rank, call);
  const int64_t offset = slice.begin * static_cast<int64_t>(ItemSize(dtype));
  for (int64_t peer = 0; peer < group.size(); ++peer) {
    const CollectiveMemory memory = group.PeerMemory(rank, peer, call, 0);
    inputs[static_cast<size_t>(peer)] = static_cast<const std::byte*>(memory.input) + offset;
  }
  Status status;
  if (slice.begin < slice.end) {
    status = ReduceInto(call.header.reduction, dtype, inputs, slice.end - slice.begin,
                        slice.output);
  }
  if (!status.ok()) status = group.Fail(std::move(status));
  const Status parted = group.Part(rank, call);
  return status.ok() ? parted : status;
}

}  // namespace tutti
