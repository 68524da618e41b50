// The algorithms between ranks that share a segment, one file each. Every one lets all ranks meet,
// moves bytes through the segment, and gives the same bits on all ranks: those of the in-process
// transport.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_ALGORITHMS_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_ALGORITHMS_H_

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/call/shared_payload.h"
#include "core/collective/call/transport.h"
#include "core/collective/shm/shared_group.h"

namespace tutti {

// shared_flat_fold.cc: what a rank's block has room for.
Status SharedFlatFold(SharedGroup& group, const SharedPayload& payload, const CollectiveCall& call);
// What flat folds have in common that are one call again and again, of one tensor with elements.
struct KnownFlatFold {
  SharedHeaderForm header;
  size_t payload_bytes = 0;  // in whole granules
  size_t input_bytes = 0;
  int64_t elements = 0;
};
Status SharedFlatFoldAgain(SharedGroup& group, const KnownFlatFold& known, CollectiveCall* call);

// shared_slice_and_share.cc: all_reduce, and reduce, in slices of at most that size.
Status SharedSliceAndShare(SharedGroup& group, const SharedPayload& payload,
                           int64_t most_slice_bytes, const CollectiveCall& call);

// shared_broadcast.cc: in chunks of that size.
Status SharedBroadcast(SharedGroup& group, int64_t chunk_bytes, const CollectiveCall& call);

// shared_slice_fold.cc: reduce_scatter, and reduce where the root had better fold alone;
// of a share in slices of at most that size.
Status SharedSliceFold(SharedGroup& group, int64_t most_slice_bytes, const CollectiveCall& call);

// shared_move.cc: scatter, all_gather into a given tensor, all_to_all; in chunks of at most that
// size.
Status SharedMove(SharedGroup& group, int64_t most_chunk_bytes, CollectiveCall* call);

// shared_all_gather.cc: all_gather and gather into a new tensor
Status SharedAllGather(SharedGroup& group, CollectiveCall* call);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_ALGORITHMS_H_
