// Rebatch CEIL: a batch of b rows is cut into N slices of ceil(b / N) rows, in order; the last ones
// are shorter or empty. 4 rows over 3 replicas are 2, 2, 0; 4 over 5 are 1, 1, 1, 1, 0; 5 over 2
// are 3, 2. Nothing crosses from one batch into the next. The slices are views.

#ifndef TUTTI_CORE_STRATEGY_REBATCH_H_
#define TUTTI_CORE_STRATEGY_REBATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
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

// Rows of a batch: views.
Ref<Value> CutRows(const Value& batch, RowRange range);
// Rows of batches of one structure that follow each other, with `rows[i]` rows each; copied where
// they come from several. INVALID_ARGUMENT for shapes that do not fit together.
Result<Ref<Value>> JoinRows(std::span<const Ref<Value>> batches, const std::deque<int64_t>& rows,
                            RowRange range);
// A batch of 0 rows like `batch`.
Ref<Value> EmptyBatchLike(const Value& batch);
// A batch of 0 rows of this spec: unknown dims are 0, too. INVALID_ARGUMENT naming `what` where the
// elements are no batches, or a rank is unknown.
Result<Ref<Value>> EmptyBatchOf(const ElementSpec& spec, std::string_view what);

// What a replica gets of elements that are dealt out where it has none: as EmptyBatchLike and
// EmptyBatchOf, and zero, false or an empty text in the place of a tensor of rank 0, which has no
// rows to be without.
Result<Ref<Value>> NoElementLike(const Value& element, std::string_view what);
Result<Ref<Value>> NoElementOf(const ElementSpec& spec, std::string_view what);

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
