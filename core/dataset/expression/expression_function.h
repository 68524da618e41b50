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

// A function that has captured values of an expression around it, and can be called once it is
// bound to them. Before that a call is FAILED_PRECONDITION.
class CapturingFunction : public Function {
 public:
  // What it needs, by the places among the outer expression's exports; empty where it needs
  // nothing, or is bound.
  virtual std::span<const CapturedNode> captures() const = 0;
  // The expression whose exports these are, for comparing; null of a definition that was read.
  virtual const Expression* outer() const = 0;
  // The same function, bound; `exported` are the outer expression's exports for one element.
  virtual Result<Ref<Function>> Bind(std::span<const Ref<Tensor>> exported) const = 0;

 protected:
  using Function::Function;
};

// What elements the function of an expression is for. INVALID_ARGUMENT for another function.
Result<Ref<const ElementSpec>> InputOfExpression(const Function& function);

// Null where `function` is none that has yet to be bound.
const CapturingFunction* AsCapturing(const Function& function);

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
