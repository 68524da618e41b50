// Sparse updates: rows of a tensor changed by rows of values, each by one index.
//
//   op       a row becomes              of an index that comes several times
//   kAdd     row + values[i]            all, in the order of the slices
//   kSub     row - values[i]            likewise
//   kMul     row * values[i]            likewise
//   kDiv     row / values[i]            likewise
//   kMin     min(row, values[i])        likewise (NaN when any is)
//   kMax     max(row, values[i])        likewise
//   kUpdate  values[i]                  the last
//
// Arithmetic is that of arithmetic.h and reduce.h.
#ifndef TUTTI_CORE_TENSOR_SCATTER_H_
#define TUTTI_CORE_TENSOR_SCATTER_H_

#include <cstdint>
#include <string_view>

#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/indexed_slices.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tutti {

// The same numbers as TUTTI_SCATTER_* of the C interface.
enum class ScatterOp : int32_t {
  kAdd = 1,
  kSub = 2,
  kUpdate = 3,
  kMin = 4,
  kMax = 5,
  kMul = 6,
  kDiv = 7,
};
inline constexpr ScatterOp kLastScatterOp = ScatterOp::kDiv;

// "scatter_add" and so on; "invalid" otherwise. Static.
const char* ScatterOpName(ScatterOp op);

// Whether `slices` can change rows of a tensor of `dtype` and `shape`: INVALID_ARGUMENT naming
// `what`, and what does not fit: dtype, row shape, the first index that is outside with the number
// of rows, an integer to divide by that is 0, an operation that the dtype does not have.
Status CheckScatter(ScatterOp op, DType dtype, const Shape& shape, const IndexedSlices& slices,
                    std::string_view what);

// Changes those rows of `target` that lie in [begin, end), so that threads can share a tensor's
// rows: which one does a row decides nothing about its bits. Slices that CheckScatter has passed;
// a contiguous target that does not overlap them.
void ScatterRows(ScatterOp op, const IndexedSlices& slices, int64_t begin, int64_t end,
                 Tensor* target);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_SCATTER_H_
