// Reductions over the replicas of several workers: each worker folds its own replicas' tensors, the
// workers fold what that gave, and the mean is taken and rounded once, at the end.
//
// On the way between the two folds a tensor has a form in which nothing is lost that the rules of
// tensor/reduce.h keep within one process:
//
//   float16, bfloat16 (SUM, MEAN, PROD)     float32
//   integers of up to 32 bits (MEAN)        int64
//   integers of 64 bits (MEAN)              [2, n] of int64: the halves' sums, high and low
//   all others                              as they are
//
// Where the channel says so, floats of several replicas a worker are instead folded in the order of
// all replicas (replica_order_fold.h), which gives the bits of one worker with all of them.

#ifndef TUTTI_CORE_STRATEGY_TEAM_REDUCE_H_
#define TUTTI_CORE_STRATEGY_TEAM_REDUCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/strategy/team_channel.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

// One tensor that has been folded over all replicas.
struct TeamFold {
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kInvalid;
  int64_t num_replicas = 1;
  Ref<Tensor> folded;  // the result, or its form
  bool is_result = true;

  // Writes the result, contiguous and of `dtype`. It cannot fail.
  void WriteTo(void* out) const;
  // The result as a tensor.
  Result<Ref<Tensor>> Take(const Shape& shape, const TensorOptions& options) const;
};

// OK when the replicas of this worker, from `first_replica` on, have the same dtype and shape.
Status CheckSameTensors(std::span<const Tensor* const> tensors, int64_t first_replica,
                        std::string_view what);

// Folds tensors[i][replica], of the replicas of this worker, over all workers: one TeamFold for
// each i, in one call of the channel. The tensors of one i have the same dtype and shape, for which
// `op` is defined. `targets` is empty, or gives for each i a tensor that may hold a result that
// needs no conversion (null: none).
Result<std::vector<TeamFold>> ReduceOverTeam(TeamChannel& channel, const TeamLabel& label,
                                             ReduceOp op,
                                             std::span<const std::vector<const Tensor*>> tensors,
                                             std::span<Tensor* const> targets,
                                             const CollectiveOptions& call);

// The results themselves, with the check of CheckSameTensors.
Result<std::vector<Ref<Tensor>>> ReduceOverTeam(TeamChannel& channel, const TeamLabel& label,
                                                ReduceOp op,
                                                std::span<const std::vector<Ref<Tensor>>> tensors,
                                                int64_t first_replica,
                                                const CollectiveOptions& call);

// The same with an axis, as ReduceAcrossReplicas has it: SUM or MEAN also along it inside each
// replica, MEAN over the true number of elements of all workers.
Result<std::vector<Ref<Tensor>>> ReduceAxisOverTeam(
    TeamChannel& channel, const TeamLabel& label, ReduceOp op,
    std::span<const std::vector<Ref<Tensor>>> tensors, int64_t axis, int64_t first_replica,
    const CollectiveOptions& call);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_TEAM_REDUCE_H_
