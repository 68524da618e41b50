// Expressions, node by node.
#include <tutti/expression.h>

#include <string>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/dataset/expression/apply.h"
#include "core/dataset/expression/dataset_function.h"
#include "core/dataset/expression/expression_function.h"
#include "core/tensor/cast.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Result<ExpressionAttributes> ReadAttributes(Call call, const tutti_operation_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  if (set.number_count != 0 && set.numbers == nullptr) {
    return NullArgument(call.function, "options->numbers", 0);
  }
  ExpressionAttributes attributes;
  attributes.numbers.assign(set.numbers, set.numbers + set.number_count);
  attributes.dtype = static_cast<DType>(set.dtype);
  TUTTI_ASSIGN_OR_RETURN(attributes.keep_dims,
                         ReadTristate(call, set.keep_dims, false, "keep_dims"));
  attributes.text = TextOr(set.text, "");
  return attributes;
}

// The leaves of a result are integers of any dtype.
Result<std::vector<int64_t>> ReadNodes(Call call, const Value &result) {
  std::vector<int64_t> nodes;
  for (const Leaf &leaf : result.leaves()) {
    if (!leaf.is_tensor() || leaf.tensor().rank() != 0 || !IsInteger(leaf.tensor().dtype())) {
      return InvalidArgument("{}: expected nodes, which are integers, as the leaves of the result, "
                             "found {}",
                             call.function, result.ToString());
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> node, Cast(leaf.tensor(), DType::kInt64));
    nodes.push_back(node->item<int64_t>());
  }
  return nodes;
}

}  // namespace

tutti_status *tutti_expression_create(const tutti_spec *input, tutti_expression **out_expression) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, input, out_expression);
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Expression> expression,
        Expression::Create(Ref<const ElementSpec>::Retain(FromHandle(input))));
    *out_expression = Give(std::move(expression));
    return OkStatus();
  });
}

tutti_status *tutti_expression_add_parameter(tutti_expression *expression, int64_t leaf,
                                             int64_t *out_node) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, out_node);
    TUTTI_ASSIGN_OR_RETURN(*out_node, FromHandle(expression)->Parameter(leaf));
    return OkStatus();
  });
}

tutti_status *tutti_expression_add_constant(tutti_expression *expression, const tutti_tensor *value,
                                            tutti_tristate weak, int64_t *out_node) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, value, out_node);
    TUTTI_ASSIGN_OR_RETURN(const bool adapts, ReadTristate(call, weak, false, "weak"));
    auto *tensor = const_cast<Tensor *>(FromHandle(value));
    TUTTI_ASSIGN_OR_RETURN(
        *out_node, FromHandle(expression)->Constant(Ref<Tensor>::Retain(tensor), adapts));
    return OkStatus();
  });
}

tutti_status *tutti_expression_add_operation(tutti_expression *expression, const char *name,
                                             size_t count, const int64_t *nodes,
                                             const tutti_operation_options *options,
                                             int64_t *out_node) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, name, out_node);
    TUTTI_REQUIRE_ARRAY(call, count, nodes);
    TUTTI_ASSIGN_OR_RETURN(ExpressionAttributes attributes, ReadAttributes(call, options));
    TUTTI_ASSIGN_OR_RETURN(*out_node, FromHandle(expression)->Apply(name, {nodes, count},
                                                                    std::move(attributes)));
    return OkStatus();
  });
}

tutti_status *tutti_operation_apply(tutti_runtime *runtime, const char *name, size_t count,
                                    const tutti_tensor *const *tensors,
                                    const tutti_operation_options *options,
                                    tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name, out_tensor);
    TUTTI_REQUIRE_ARRAY(call, count, tensors);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(ExpressionAttributes attributes, ReadAttributes(call, options));
    std::vector<Ref<Tensor>> inputs;
    for (size_t i = 0; i < count; ++i) {
      if (tensors[i] == nullptr) {
        return NullArgument(call.function, "tensors", 0).With("index", i);
      }
      TUTTI_RETURN_IF_ERROR(CheckGivenOnHost(call, "tensors[i]", tensors[i]));
      inputs.push_back(Ref<Tensor>::Retain(const_cast<Tensor *>(FromHandle(tensors[i]))));
    }
    TUTTI_ASSIGN_OR_RETURN(auto result, ApplyOperation(*root, name, inputs,
                                                       std::move(attributes)));
    *out_tensor = Give(std::move(result));
    return OkStatus();
  });
}

tutti_status *tutti_expression_add_call(tutti_expression *expression,
                                        const tutti_function *function, int64_t node, int64_t leaf,
                                        int64_t *out_node) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, function, out_node);
    auto *native = const_cast<Function *>(FromHandle(function));
    TUTTI_ASSIGN_OR_RETURN(*out_node, FromHandle(expression)->Call(Ref<Function>::Retain(native),
                                                                   node, leaf));
    return OkStatus();
  });
}

tutti_status *tutti_expression_get_spec(const tutti_expression *expression, int64_t node,
                                        tutti_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, out_spec);
    TUTTI_ASSIGN_OR_RETURN(const TensorSpec spec, FromHandle(expression)->SpecOf(node));
    *out_spec = Give(ElementSpec::OfTensor(spec.dtype, spec.shape));
    return OkStatus();
  });
}

tutti_status *tutti_expression_to_string(const tutti_expression *expression, int64_t node,
                                         tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, out_text);
    TUTTI_ASSIGN_OR_RETURN(std::string text, FromHandle(expression)->ToString(node));
    *out_text = GiveBytes(std::move(text));
    return OkStatus();
  });
}

tutti_status *tutti_expression_create_function(const tutti_expression *expression,
                                               const tutti_value *result,
                                               tutti_function **out_function) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, result, out_function);
    const Value &structure = *FromHandle(result);
    TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> nodes, ReadNodes(call, structure));
    TUTTI_ASSIGN_OR_RETURN(
        auto function,
        MakeExpressionFunction(*FromHandle(expression), structure.spec_ref(), nodes));
    *out_function = Give(std::move(function));
    return OkStatus();
  });
}

tutti_status *tutti_expression_add_dataset(tutti_expression *expression, tutti_runtime *runtime,
                                           const char *maker, const tutti_dataset *input,
                                           const tutti_value *nodes, tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, maker, nodes, out_dataset);
    const Value &structure = *FromHandle(nodes);
    TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> given, ReadNodes(call, structure));
    Ref<Dataset> made;
    if (input != nullptr) {
      if (given.size() != 1) {
        return InvalidArgument("{}: expected one node, got {}", call.function, given.size());
      }
      TUTTI_ASSIGN_OR_RETURN(made, MakeTracedCount(*FromHandle(input), FromHandle(expression),
                                                   maker, given[0]));
    } else {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
      TUTTI_ASSIGN_OR_RETURN(made,
                             MakeTracedSource(root->datasets(), FromHandle(expression), maker,
                                              structure.spec_ref(), given));
    }
    *out_dataset = Give(std::move(made));
    return OkStatus();
  });
}

tutti_status *tutti_expression_capture(tutti_expression *expression, tutti_expression *outer,
                                       int64_t node, int64_t *out_node) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, outer, out_node);
    TUTTI_ASSIGN_OR_RETURN(*out_node,
                           FromHandle(expression)->Capture(
                               Ref<Expression>::Retain(FromHandle(outer)), node));
    return OkStatus();
  });
}

tutti_status *tutti_expression_create_dataset_function(tutti_expression *expression,
                                                       const tutti_dataset *dataset,
                                                       tutti_function **out_function) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, expression, dataset, out_function);
    TUTTI_ASSIGN_OR_RETURN(
        auto function, MakeDatasetFunction(Ref<Expression>::Retain(FromHandle(expression)),
                                           *FromHandle(dataset)));
    *out_function = Give(std::move(function));
    return OkStatus();
  });
}

void tutti_expression_retain(const tutti_expression *expression) { RetainHandle(expression); }
void tutti_expression_release(const tutti_expression *expression) { ReleaseHandle(expression); }
