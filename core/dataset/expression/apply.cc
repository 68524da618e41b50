#include "core/dataset/expression/apply.h"

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/expression/evaluate.h"

namespace tutti {

Result<Ref<Tensor>> ApplyOperation(Environment& environment, std::string_view name,
                                   std::span<const Ref<Tensor>> inputs,
                                   ExpressionAttributes attributes) {
  std::vector<Ref<const ElementSpec>> specs;
  std::vector<Ref<Tensor>> row;
  for (const Ref<Tensor>& input : inputs) {
    specs.push_back(ElementSpec::OfTensor(input->dtype(), PartialShape(input->shape())));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> whole, input->Contiguous());
    row.push_back(whole->ExpandFront());
  }
  if (specs.empty()) return InvalidArgument("{}: expected one or more tensors, got none", name);
  TUTTI_ASSIGN_OR_RETURN(const Ref<Expression> trace,
                         Expression::Create(ElementSpec::Tuple(specs)));
  std::vector<int64_t> nodes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(const int64_t node, trace->Parameter(static_cast<int64_t>(i)));
    nodes.push_back(node);
  }
  TUTTI_ASSIGN_OR_RETURN(const int64_t result, trace->Apply(name, nodes, std::move(attributes)));
  const ExpressionPlan plan(trace->nodes(), {static_cast<int32_t>(result)});
  Context context(environment);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> made, plan.Run(context, row, 1));
  return made[0]->Row(0);
}

}  // namespace tutti
