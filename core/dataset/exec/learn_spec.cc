// Dataset::GetElementSpec where no op says what its elements are: computes one of them, and notes
// with the node what it looks like.

#include <memory>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"

namespace tutti {
namespace {

// The first node, from the sources on, whose spec only an element can tell; null when none is left.
const Node* FirstUnknown(const Node& node) {
  if (node.element_spec()) return nullptr;
  for (const Ref<const Node>& input : node.inputs()) {
    if (const Node* unknown = FirstUnknown(*input)) return unknown;
  }
  return &node;
}

}  // namespace

Result<Ref<const ElementSpec>> Dataset::GetElementSpec(const CallOptions& call) const {
  while (const Node* unknown = FirstUnknown(*node_)) {
    TUTTI_RETURN_IF_ERROR(CheckComputingAllowed("element_spec"));
    TUTTI_RETURN_IF_ERROR(environment_->environment().CheckUsable("element_spec"));
    const ExecContext context{environment_.get(), &environment_->environment().memory(), &options_,
                              true};
    TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Stage> stage, MakeStage(*unknown, context));
    Slab slab;
    stage->Next(Demand{1, false}, call, &slab);
    if (!slab.status.ok()) return slab.status;
    if (slab.rows == 0) {
      return FailedPrecondition(
          "element_spec: {} has no output spec, and no element to learn it "
          "from; give its function an output spec",
          unknown->label());
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> element, slab.Row(0));
    unknown->LearnSpec(ElementSpec::OfValue(*element));
  }
  return node_->element_spec();
}

}  // namespace tutti
