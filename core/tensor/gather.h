// Rows of many tensors into one: what batch and shuffle are made of.
#ifndef TUTTI_CORE_TENSOR_GATHER_H_
#define TUTTI_CORE_TENSOR_GATHER_H_

#include <cstdint>
#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Row `row` of source number `source`.
struct RowRef {
  uint32_t source;
  int64_t row;
};

// A new tensor [rows.size(), ...] of the rows named, in order. All sources have the dtype and the
// row shape of the first, of which there must be one: INVALID_ARGUMENT naming both otherwise;
// OUT_OF_RANGE for a row that is not there. Each row is copied once; the payload of byte strings is
// gathered into one block.
Result<Ref<Tensor>> GatherRows(std::span<const Tensor* const> sources, std::span<const RowRef> rows,
                               const TensorOptions& options = TensorOptions());
Result<Ref<Tensor>> GatherRows(const Tensor& source, std::span<const int64_t> rows,
                               const TensorOptions& options = TensorOptions());

// Rows of numeric tensors into memory that is there: `out` is contiguous, [rows.size(), ...].
Status GatherRowsInto(std::span<const Tensor* const> sources, std::span<const RowRef> rows,
                      Tensor* out);

// Tensors of one dtype and shape as the rows of a new tensor [tensors.size(), ...].
// INVALID_ARGUMENT naming the position and both specs when they differ.
Result<Ref<Tensor>> Stack(std::span<const Tensor* const> tensors,
                          const TensorOptions& options = TensorOptions());

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_GATHER_H_
