// The native function that an expression is, which runs without the host, on rows and slabs alike,
// and can be written down.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_EXPRESSION_FUNCTION_H_
#define TUTTI_CORE_DATASET_EXPRESSION_EXPRESSION_FUNCTION_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/expression/expression.h"
#include "core/function/function.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

class FunctionRegistry;

// From an element to `structure`, whose leaves are nodes. What is added to the expression later
// does not count. INVALID_ARGUMENT when these are not as many nodes as it has leaves.
Result<Ref<Function>> MakeExpressionFunction(const Expression& expression,
                                             Ref<const TreeSpec> structure,
                                             std::span<const int64_t> results);

// The function that Define wrote down. INVALID_ARGUMENT for other bytes.
Result<Ref<Function>> ReadExpressionFunction(std::string_view payload);

// Makes the registry read such definitions.
Status AddExpressionKind(FunctionRegistry* functions);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_EXPRESSION_FUNCTION_H_
