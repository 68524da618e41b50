// Stacking rows: what batch and padded_batch make their elements with.
#ifndef TUTTI_CORE_DATASET_EXEC_STACK_ROWS_H_
#define TUTTI_CORE_DATASET_EXEC_STACK_ROWS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/dataset/exec/slab.h"

namespace tutti {

class MemoryAccount;

// Whether all rows of all slabs have the same dtypes and shapes, column by column. Of elements with
// sparse or ragged tensors, whose rows make one batch at a time, never.
bool RowsAreUniform(std::span<const Slab> parts);

// A slab whose row k is the rows [k * rows_each, (k + 1) * rows_each) of the parts, of which there
// are a multiple of rows_each, stacked along a new axis 0. One dense part is not copied, several
// are, once. Sparse and ragged tensors are stacked as StackComposites of tensor/composite.h says.
// INVALID_ARGUMENT "element 1 has shape [2], element 0 has [3]; ..." when the rows
// cannot be stacked.
Result<Slab> StackRows(std::vector<Slab> parts, int64_t rows_each, MemoryAccount* account);

// What the rows of one column are padded to, and with what.
struct RowPadding {
  std::optional<std::vector<int64_t>> dims;  // -1: the largest size of the batch; none: all are -1
  Ref<const Tensor> value;                   // a scalar; null: 0, false or an empty byte string
};

// As StackRows, with the rows of each batch padded behind their last elements; one padding per
// column. The parts have as many batches as rows of one shape, or one batch. INVALID_ARGUMENT
// "element 1 has shape [5], and is padded to [4]; ..." for a row that is larger, naming both shapes
// for rows of other ranks, and both dtypes for a padding value of another dtype.
Result<Slab> PadRows(std::vector<Slab> parts, int64_t rows_each,
                     std::span<const RowPadding> paddings, MemoryAccount* account);

// All rows of all parts, of which there is at least one, as one slab in memory of its own. A column
// is dense where its rows have one dtype and shape. INVALID_ARGUMENT for rows of other structures.
Result<Slab> JoinRows(std::span<const Slab> parts, MemoryAccount* account);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_STACK_ROWS_H_
