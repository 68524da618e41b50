// The operations of expressions that are no element-wise ones, and broadcasting: over some rows.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_STEPS_H_
#define TUTTI_CORE_DATASET_EXPRESSION_STEPS_H_

#include <cstdint>
#include <span>
#include <utility>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/expression/expression.h"
#include "core/tensor/tensor.h"

namespace tutti {

struct StepInput {
  Ref<Tensor> value;  // contiguous, [rows, ...], of one row where it does not differ
  bool per_row;
};

// What a node gives, [rows, ...], contiguous. INVALID_ARGUMENT, with the detail "row" where other
// rows may well have a result.
Result<Ref<Tensor>> EvaluateStep(const ExpressionNode& node, std::span<const StepInput> inputs,
                                 int64_t rows, const TensorOptions& options);

// The error of that row.
inline Status OfRow(Status status, int64_t row) { return std::move(status).With("row", row); }

// A tensor [rows or 1, ...] under a shape [rows, ...] that its rows broadcast to, contiguous.
Result<Ref<Tensor>> BroadcastRows(const Ref<Tensor>& value, bool per_row, const Shape& shape);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_STEPS_H_
