// One operation of expressions, on tensors that are there.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_APPLY_H_
#define TUTTI_CORE_DATASET_EXPRESSION_APPLY_H_

#include <span>
#include <string_view>

#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/expression/expression.h"
#include "core/tensor/tensor.h"

namespace tutti {

// What the operation makes of the tensors, as it makes it of rows that they are: the same bits.
// NOT_FOUND and INVALID_ARGUMENT as Expression::Apply, and as iteration.
Result<Ref<Tensor>> ApplyOperation(Environment& environment, std::string_view name,
                                   std::span<const Ref<Tensor>> inputs,
                                   ExpressionAttributes attributes);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_APPLY_H_
