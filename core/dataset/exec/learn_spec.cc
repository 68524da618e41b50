// Dataset::GetElementSpec where no op says what its elements are: computes one of them, and notes
// with the node what it looks like.

#include <memory>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/graph_walk.h"

namespace tutti {
namespace {

// Of an op whose elements are those of datasets that a function gives: what the first of them says,
// or has in it, without reading it where it says so.
Status LearnFromDataset(const Node& node, const ExecContext& context, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<const Dataset> inner,
                         node.op().first_dataset(node, context, call));
  if (!inner) {
    return FailedPrecondition(
        "element_spec: {} has no output spec, and no element to learn it from; give its function "
        "an output spec",
        node.label());
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> spec, inner->GetElementSpec(call));
  node.LearnSpec(std::move(spec));
  return OkStatus();
}

// Computes one element of `node`, whose inputs' specs are known, and notes what it looks like.
Status LearnFromElement(const Node& node, const ExecContext& context, const CallOptions& call) {
  if (node.op().first_dataset != nullptr) return LearnFromDataset(node, context, call);
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Stage> stage, MakeStage(node, context));
  Slab slab;
  stage->Next(Demand{1, false}, call, &slab);
  if (!slab.status.ok()) return slab.status;
  if (slab.rows == 0) {
    return FailedPrecondition(
        "element_spec: {} has no output spec, and no element to learn it "
        "from; give its function an output spec",
        node.label());
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> element, slab.Row(0));
  node.LearnSpec(ElementSpec::OfValue(*element));
  return OkStatus();
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
    if (!node->element_spec()) TUTTI_RETURN_IF_ERROR(LearnFromElement(*node, context, call));
  }
  return node_->element_spec();
}

}  // namespace tutti
