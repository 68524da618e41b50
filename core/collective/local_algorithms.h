// The algorithms of the in-process transport, one file each. Every one meets the peers, moves
// bytes, and gives the same bits on all ranks.

#ifndef TUTTI_CORE_COLLECTIVE_LOCAL_ALGORITHMS_H_
#define TUTTI_CORE_COLLECTIVE_LOCAL_ALGORITHMS_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/collective/local_group.h"
#include "core/collective/transport.h"

namespace tutti {

// flat_fold.cc
bool FitsFlatFold(const LocalGroup& group, const CallHeader& header);
Status FlatFoldAllReduce(LocalGroup& group, int64_t rank, const CollectiveCall& call);

// slice_and_share.cc
Status SliceAndShareAllReduce(LocalGroup& group, int64_t rank, const CollectiveCall& call);

// copy_broadcast.cc
Status CopyBroadcast(LocalGroup& group, int64_t rank, const CollectiveCall& call);

// concat_all_gather.cc
Status ConcatAllGather(LocalGroup& group, int64_t rank, CollectiveCall* call);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_LOCAL_ALGORITHMS_H_
