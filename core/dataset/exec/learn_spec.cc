// Dataset::GetElementSpec where no op says what its elements are: computes one of them, the first
// that does not fail, and notes with the node what it looks like.

#include <memory>
#include <string>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/dataset/exec/first_elements.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/graph_walk.h"

namespace tutti {
namespace {

// Why no element has told what the elements of `node` are.
Status NothingTold(const Node& node, const FirstLook& look) {
  if (look.failed == 0) {
    return FailedPrecondition(
        "element_spec: {} has no output spec, and no element to learn it from; give its function "
        "an output spec",
        node.label());
  }
  const std::string failed =
      look.failed == 1 ? "the only element" : Format("each of the first {} elements", look.failed);
  return look.failure.WithPrefix(
      Format("element_spec: {} has no output spec, and {}, which could show it, has failed; give "
             "its function an output spec. The first failure",
             node.label(), failed));
}

// What the first dataset that the function gives says of its elements, or has in it, without
// reading it where it says so.
Result<FirstLook> LookForDataset(const Node& node, const ExecContext& context,
                                 const CallOptions& call) {
  return LookAtDatasets(node, context, call, [&](const Dataset& inner) -> Status {
    TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> spec, inner.GetElementSpec(call));
    node.LearnSpec(std::move(spec));
    return OkStatus();
  });
}

Result<FirstLook> LookForElement(const Node& node, const ExecContext& context,
                                 const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Stage> stage, MakeStage(node, context));
  return LookAtElements(stage.get(), call, [&](const Ref<Value>& element) {
    node.LearnSpec(ElementSpec::OfValue(*element));
    return OkStatus();
  });
}

// Computes an element of `node`, whose inputs' specs are known, and notes what it looks like.
Status Learn(const Node& node, const ExecContext& context, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const FirstLook look, node.op().look_at_dataset != nullptr
                                                   ? LookForDataset(node, context, call)
                                                   : LookForElement(node, context, call));
  return look.told ? OkStatus() : NothingTold(node, look);
}

}  // namespace

Result<Ref<const ElementSpec>> Dataset::GetElementSpec(const CallOptions& call) const {
  if (Ref<const ElementSpec> spec = node_->element_spec()) return spec;
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed("element_spec"));
  TUTTI_RETURN_IF_ERROR(environment_->environment().CheckUsable("element_spec"));
  const ExecContext context{environment_.get(), &environment_->environment().memory(), &options_,
                            true};
  const auto is_known = [](const Node& node) { return node.element_spec() != nullptr; };
  for (const Node* node : InputsFirst(*node_, is_known)) {
    if (!node->element_spec()) TUTTI_RETURN_IF_ERROR(Learn(*node, context, call));
  }
  return node_->element_spec();
}

}  // namespace tutti
