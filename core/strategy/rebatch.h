// Rebatch CEIL: a batch of b rows is cut into N slices of ceil(b / N) rows, in order; the last ones
// are shorter or empty. 4 rows over 3 replicas are 2, 2, 0; 4 over 5 are 1, 1, 1, 1, 0; 5 over 2
// are 3, 2. Nothing crosses from one batch into the next. The slices are views.

#ifndef TUTTI_CORE_STRATEGY_REBATCH_H_
#define TUTTI_CORE_STRATEGY_REBATCH_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/value.h"

namespace tutti {

// Rows [begin, end) of slice `i`.
struct RowRange {
  int64_t begin;
  int64_t end;
};
RowRange CeilSlice(int64_t rows, size_t i, size_t num_slices);

// The rows of a batch: the size along axis 0 that all of its tensors share. INVALID_ARGUMENT naming
// `what` and the leaf that is no tensor of rank >= 1 (call batch first), or two leaves with
// different sizes.
Result<int64_t> BatchRows(const Value& batch, std::string_view what);

// The slices of a batch of `rows` rows.
std::vector<Ref<Value>> CutBatch(const Value& batch, int64_t rows, size_t num_slices);
// A batch of 0 rows like `batch`.
Ref<Value> EmptyBatchLike(const Value& batch);

// OK when elements of this spec can be batches; what BatchRows would say otherwise. Unknown ranks
// are fine until an element shows them.
Status CheckBatchSpec(const ElementSpec& spec, std::string_view what);
// The spec of a slice: the first dimension is known when every batch has the same number of rows,
// and `num_slices` divides it.
Ref<const ElementSpec> SliceSpec(const ElementSpec& spec, size_t num_slices);
// `spec` with an unknown first dimension.
Ref<const ElementSpec> AnyRowsSpec(const ElementSpec& spec);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_REBATCH_H_
