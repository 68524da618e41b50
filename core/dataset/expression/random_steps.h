// The operations of expressions that draw numbers of a seed: over some rows.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_RANDOM_STEPS_H_
#define TUTTI_CORE_DATASET_EXPRESSION_RANDOM_STEPS_H_

#include <cstdint>
#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/expression/steps.h"

namespace tutti {

// As EvaluateStep: each row has a stream of its own, that of its seed.
Result<Ref<Tensor>> EvaluateRandomStep(const ExpressionNode& node,
                                       std::span<const StepInput> inputs, int64_t rows,
                                       const TensorOptions& options);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_RANDOM_STEPS_H_
