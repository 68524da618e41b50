// The contexts that a strategy hands to the functions it calls: ReplicaContext to a replica
// function, with what replicas do together; MergeContext to a merge function; CrossReplicaContext
// to one that makes values or datasets; UpdateContext to an update function, of one device, and to
// cross-device ops. C's tutti_context* points to one of them; callback_class() tells which.

#ifndef TUTTI_CORE_STRATEGY_REPLICA_CONTEXT_H_
#define TUTTI_CORE_STRATEGY_REPLICA_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communication_options.h"
#include "core/function/context.h"
#include "core/tensor/reduce.h"
#include "core/tensor/value.h"

namespace tutti {

class Function;
class Lockstep;
class MergePart;
class Strategy;

// Of one replica, while its function runs. Threads: one at a time.
class ReplicaContext final : public Context {
 public:
  // `options` are those of the run; `global_rows` its step's.
  ReplicaContext(Strategy& strategy, Lockstep& lockstep, size_t replica, int64_t global_rows,
                 const CallOptions& options);

  // Among the replicas of this process.
  size_t local_replica() const { return replica_; }

  // Folds every tensor of `value` over all replicas; each gets the same bits. None and strings stay
  // as they are. INVALID_ARGUMENT on all replicas when operation, structure, dtypes or shapes
  // differ; ABORTED when another replica has failed. Hints go before the strategy's. Indexed slices
  // are joined (slices_reduce.h): SUM and MEAN only.
  Result<Ref<Value>> AllReduce(ReduceOp op, const Value& value, const CollectiveOptions& options);
  // Joins every tensor of `value` along `axis`, in replica order.
  Result<Ref<Value>> AllGather(const Value& value, int64_t axis, const CollectiveOptions& options);
  // Calls `fn` once for all replicas, on replica 0's thread, in cross-replica context, with the
  // regrouped `args` (null: a none); its result is split again. `identity` is what makes equal
  // functions of different replicas equal, a function pointer, say.
  Result<Ref<Value>> MergeCall(Function& fn, const void* identity, const Value* args,
                               const CallOptions& options);
  // A step of the library's own that runs once for all replicas (lockstep.h).
  Status Merge(MergePart* part, const CallOptions& options);

  // Also when another replica has failed.
  bool cancelled() const override;

  // The earlier deadline of the call's and the run's; the call's cancellation, or else the run's
  // (which ends the run's waits anyway).
  CallOptions Combine(const CallOptions& options) const;

 private:
  // Shows the tensors that this replica brings to the observer; what it refuses ends the epoch.
  Status ObserveLeaves(const char* op, const Value& value);

  // Whether the tensors lie where this replica's may: INVALID_ARGUMENT for those of other GPUs.
  Status CheckPlaces(const Value& value, const char* what) const;

  // Of a collective of one worker's replicas: with the strategy's hints where the call has none.
  CollectiveOptions Hinted(const CollectiveOptions& options) const;
  // AllReduce of a structure with indexed slices.
  Result<Ref<Value>> AllReduceSlices(ReduceOp op, const Value& value,
                                     std::span<const size_t> slices,
                                     const CollectiveOptions& options);

  Lockstep& lockstep_;
  const size_t replica_;
};

// While a merge function runs.
class MergeContext final : public Context {
 public:
  MergeContext(Strategy& strategy, const Lockstep& lockstep, const CallOptions& options);
  bool cancelled() const override;

 private:
  const Lockstep& lockstep_;
};

// Outside of every run.
class CrossReplicaContext final : public Context {
 public:
  CrossReplicaContext(Strategy& strategy, const CallOptions& options);
};

// While an update function runs for one device, or a cross-device op for none.
class UpdateContext final : public Context {
 public:
  static constexpr int64_t kNoCopy = -1;

  // `copy` is the number of the variables' copies that the function works on, `device` (may be
  // null) theirs. `options` are those of the update.
  UpdateContext(Strategy& strategy, int64_t copy, const Device* device,
                const CallOptions& options);

  int64_t copy() const { return copy_; }

 private:
  const int64_t copy_;
};

// The update context that `context` is; null for null and for others.
const UpdateContext* AsUpdateContext(const Context* context);

// The replica context that `context` is; null for null and for others.
ReplicaContext* AsReplicaContext(Context* context);
const ReplicaContext* AsReplicaContext(const Context* context);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_REPLICA_CONTEXT_H_
