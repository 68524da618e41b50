// Indexed slices (tensor/indexed_slices.h) among what replicas reduce: those of all replicas one
// behind the other, in the order of the replicas, an index as often as they have it. MEAN divides
// the values by the number of replicas. Applied by scatter_add they change a tensor as the sum, or
// the mean, of the tensors that they stand for.
#ifndef TUTTI_CORE_STRATEGY_SLICES_REDUCE_H_
#define TUTTI_CORE_STRATEGY_SLICES_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/indexed_slices.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {

// What a replica's values count for a mean over `replicas`; integers truncate towards zero.
Result<Ref<Tensor>> ShareOfMean(const Tensor& values, int64_t replicas);

// SUM or MEAN: INVALID_ARGUMENT naming `what` otherwise.
Status CheckSlicesOp(ReduceOp op, std::string_view what);

// INVALID_ARGUMENT naming `what` and the place where indexed slices stand in the structure: for
// what goes by leaves, and would join their parts one by one.
Status CheckNoSlices(const Value& value, std::string_view what);

// A structure with indexed slices, taken apart: its other leaves as a tuple, and back. `slices` are
// those of FindIndexedSlices.
Ref<Value> WithoutSlices(const Value& value, std::span<const size_t> slices);
Ref<Value> WithSlices(const Value& value, std::span<const size_t> slices, const Value& others,
                      std::span<const Ref<Value>> reduced);

// The slices that begin at leaf `first`, as a value.
Ref<Value> SlicesAt(const Value& value, size_t first);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_SLICES_REDUCE_H_
