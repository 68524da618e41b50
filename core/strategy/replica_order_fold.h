// FoldInReplicaOrder: an all_reduce over the replicas of all workers that folds them one after the
// other in their global order, worker by worker, as if all of them were replicas of one worker. A
// job that is reproducible takes it where the order shows in the bits (sums and products of
// floats) and workers have several replicas; all_reduce between workers folds what each worker has
// folded, and so its bits depend on how the replicas are spread.
//
// Slice by slice, so that memory stays bounded: every worker sends each other worker that one's
// part of the slice from each of its own replicas (all_to_all), folds its own part of all replicas'
// and gathers the parts of the others. A worker sends R + 1 times what an all_reduce of one replica
// would, and nobody holds more than some MiB.

#ifndef TUTTI_CORE_STRATEGY_REPLICA_ORDER_FOLD_H_
#define TUTTI_CORE_STRATEGY_REPLICA_ORDER_FOLD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communicator.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

// One tensor of a fold.
struct ReplicaOrderOperand {
  std::vector<Ref<Tensor>> replicas;  // of this worker; contiguous, of one dtype and shape
  Tensor* folded = nullptr;  // contiguous, as many elements; its dtype is the one folded in
};

// The bytes that a worker sends in one slice, about.
inline constexpr size_t kReplicaOrderSliceBytes = size_t{4} << 20;

// `communicator` has a rank per worker. All workers bring the same operands, as to dtypes, sizes
// and numbers of replicas (the caller has compared them), and the same `slice_bytes`. `op` is SUM
// or PROD. What fails here ends the epoch.
Status FoldInReplicaOrder(Communicator& communicator, ReduceOp op,
                          std::span<const ReplicaOrderOperand> operands, size_t slice_bytes,
                          const CallOptions& call);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_REPLICA_ORDER_FOLD_H_
