// The algorithms of the in-process transport, one file each. Every one meets the peers, moves
// bytes, and gives the same bits on all ranks. (Transfers between two ranks are LocalGroup's own.)

#ifndef TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_ALGORITHMS_H_
#define TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_ALGORITHMS_H_

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "core/collective/call/memory_parts.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/call/transport.h"
#include "core/collective/thread/local_group.h"

namespace tutti {

// flat_fold.cc
bool ChoosesFlatFold(const LocalGroup& group, const CallHeader& header);
Status FlatFold(LocalGroup& group, int64_t rank, const CollectiveCall& call);
// What flat folds have in common that are one all_reduce again and again, of one tensor with
// elements.
struct KnownLocalFold {
  SharedHeaderForm header;
  size_t copied_bytes = 0;  // of the input, rounded up
  size_t input_bytes = 0;
  int64_t elements = 0;
};
KnownLocalFold MakeKnownFold(const CallHeader& header);
Status FlatFoldAgain(LocalGroup& group, int64_t rank, const KnownLocalFold& known,
                     CollectiveCall* call);

// slice_and_share.cc. `stage` is this rank's, and room for what is staged.
Status SliceAndShareAllReduce(LocalGroup& group, int64_t rank, const CollectiveCall& call,
                              AlignedRoom* stage);

// slice_fold.cc: reduce and reduce_scatter
Status SliceFold(LocalGroup& group, int64_t rank, const CollectiveCall& call);

// pull.cc: broadcast, scatter, all_gather into a given tensor, all_to_all of equal shares
Status Pull(LocalGroup& group, int64_t rank, const CollectiveCall& call);

// concat_gather.cc: all_gather and gather into a new tensor
Status ConcatGather(LocalGroup& group, int64_t rank, CollectiveCall* call);

// uneven_all_to_all.cc
Status UnevenAllToAll(LocalGroup& group, int64_t rank, CollectiveCall* call);

// gpu_direct.cc: everything but transfers, of tensors on GPUs; and what one of the two ranks of a
// transfer does, of which at least one tensor lies on a GPU
Status GpuDirect(LocalGroup& group, int64_t rank, CollectiveCall* call);
Status GpuTransfer(const CollectiveCall& send, const CollectiveCall& receive,
                   const GpuWait& wait);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_THREAD_LOCAL_ALGORITHMS_H_
