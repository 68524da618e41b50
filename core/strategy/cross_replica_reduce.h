// Reductions of what the replicas hold, from outside of them: the arithmetic behind
// Strategy::Reduce and Gather, one leaf at a time. Tensors may lie on GPUs; results are on the
// host.

#ifndef TUTTI_CORE_STRATEGY_CROSS_REPLICA_REDUCE_H_
#define TUTTI_CORE_STRATEGY_CROSS_REPLICA_REDUCE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

// SUM or MEAN of the replicas' tensors (at least one), folded in the order of the replicas.
//
// Without an axis all shapes must be equal: INVALID_ARGUMENT names both and suggests an axis. With
// one (negative counts from the end) each tensor is first summed along it; MEAN divides by the true
// number of elements along the axis over all replicas, so that uneven batches count by their rows.
// Integers are summed in 64 bits, float16 and bfloat16 in float32; the result has the tensors'
// dtype. `what` names the leaf.
Result<Ref<Tensor>> ReduceAcrossReplicas(ReduceOp op, std::span<const Tensor* const> tensors,
                                         std::optional<int64_t> axis, std::string_view what);

// OK when all tensors have the same dtype and shape; else INVALID_ARGUMENT as above.
Status CheckSameAcrossReplicas(std::span<const Tensor* const> tensors, std::string_view what);

// The two halves of a reduction with an axis, for sums that go on over several workers: what the
// tensors sum up to along the axis, in 64 bits or float32 where that is wider, and how many
// elements that was; and the result of it.
struct AxisSum {
  Ref<Tensor> sum;  // of the caller alone
  int64_t count = 0;
};
struct AxisSums {
  std::vector<Ref<Tensor>> sums;  // of each tensor
  int64_t count = 0;              // of all
};
Result<AxisSums> SumEachAlongAxis(std::span<const Tensor* const> tensors, int64_t axis,
                                  std::string_view what);
Result<AxisSum> SumAlongAxis(std::span<const Tensor* const> tensors, int64_t axis,
                             std::string_view what);
Result<Ref<Tensor>> FinishAxisSum(ReduceOp op, const AxisSum& sum, DType dtype,
                                  std::string_view what);

// The replicas' tensors joined along `axis`, which lies in [0, rank).
Result<Ref<Tensor>> GatherAcrossReplicas(std::span<const Tensor* const> tensors, int64_t axis,
                                         std::string_view what);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_CROSS_REPLICA_REDUCE_H_
