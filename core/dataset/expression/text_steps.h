// The operations of expressions that cut, change, match and hash byte strings: over some rows.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_TEXT_STEPS_H_
#define TUTTI_CORE_DATASET_EXPRESSION_TEXT_STEPS_H_

#include <cstdint>
#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/expression/steps.h"

namespace tutti {

// As EvaluateStep: string_length, string_lower, string_upper, string_strip, substr, string_split,
// string_split_row_splits, reduce_join, regex_full_match, regex_replace, to_hash_bucket_fast,
// to_hash_bucket_strong.
Result<Ref<Tensor>> EvaluateTextStep(const ExpressionNode& node, std::span<const StepInput> inputs,
                                     int64_t rows, const TensorOptions& options);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_TEXT_STEPS_H_
