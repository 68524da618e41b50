#include "core/dataset/graph/graph_rewrite.h"

#include <utility>

#include "core/function/function.h"

namespace tutti {

Result<Ref<const Node>> GraphRewrite::Rewrite(const Node& node) {
  if (const auto found = done_.find(&node); found != done_.end()) return found->second;
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> made, Replace(node));
  if (made == nullptr) {
    Node::Inputs inputs;
    bool changed = false;
    for (const Ref<const Node>& input : node.inputs()) {
      TUTTI_ASSIGN_OR_RETURN(Ref<const Node> rewritten, Rewrite(*input));
      changed = changed || rewritten.get() != input.get();
      inputs.push_back(std::move(rewritten));
    }
    if (changed) {
      TUTTI_ASSIGN_OR_RETURN(made, NodeOnInputs(node, std::move(inputs)));
    } else {
      made = Ref<const Node>::Retain(&node);
    }
  }
  done_.emplace(&node, made);
  return made;
}

Result<Ref<const Node>> NodeOnInputs(const Node& node, Node::Inputs inputs) {
  return NodeWith(node, node.attributes(), std::move(inputs));
}

Result<Ref<const Node>> NodeWith(const Node& node, Attributes attributes, Node::Inputs inputs) {
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> made,
                         Node::Create(node.op(), node.name(), std::move(attributes),
                                      std::move(inputs), node.functions()));
  if (Ref<const ElementSpec> spec = node.element_spec()) made->LearnSpec(std::move(spec));
  return made;
}

Attributes WithAttribute(const Attributes& attributes, std::string_view name, Attribute value) {
  Attributes changed;
  for (const auto& [key, old] : attributes.items()) changed.Set(key, key == name ? value : old);
  return changed;
}

}  // namespace tutti
