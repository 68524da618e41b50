#include "core/dataset/graph/graph_rewrite.h"

#include <utility>

#include "core/function/function.h"

namespace tutti {

Result<Ref<const Node>> GraphRewrite::Rewrite(const Node& root) {
  std::vector<Visit> visits;
  TUTTI_RETURN_IF_ERROR(Enter(root, &visits));
  while (!visits.empty()) {
    Visit& visit = visits.back();
    const Node& node = *visit.node;
    if (visit.next_input < node.inputs().size()) {
      TUTTI_RETURN_IF_ERROR(Enter(node.input(visit.next_input++), &visits));
      continue;
    }
    Node::Inputs inputs;
    bool changed = false;
    for (const Ref<const Node>& input : node.inputs()) {
      inputs.push_back(done_.at(input.get()));
      changed = changed || inputs.back().get() != input.get();
    }
    Ref<const Node> made = Ref<const Node>::Retain(&node);
    if (changed) {
      TUTTI_ASSIGN_OR_RETURN(made, NodeOnInputs(node, std::move(inputs)));
    }
    done_.emplace(&node, std::move(made));
    visits.pop_back();
  }
  return done_.at(&root);
}

Status GraphRewrite::Enter(const Node& node, std::vector<Visit>* visits) {
  if (done_.contains(&node)) return OkStatus();
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> made, Replace(node));
  if (made == nullptr) {
    visits->push_back({&node, 0});
  } else {
    done_.emplace(&node, std::move(made));
  }
  return OkStatus();
}

Result<Ref<const Node>> NodeOnInputs(const Node& node, Node::Inputs inputs) {
  return NodeWith(node, node.attributes(), std::move(inputs));
}

Result<Ref<const Node>> NodeWith(const Node& node, Attributes attributes, Node::Inputs inputs) {
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> made,
                         Node::Create(node.op(), node.name(), std::move(attributes),
                                      std::move(inputs), node.functions(),
                                      kMaxDepth + kMaxAddedDepth));
  if (Ref<const ElementSpec> spec = node.element_spec()) made->LearnSpec(std::move(spec));
  return made;
}

Attributes WithAttribute(const Attributes& attributes, std::string_view name, Attribute value) {
  Attributes changed;
  for (const auto& [key, old] : attributes.items()) changed.Set(key, key == name ? value : old);
  return changed;
}

}  // namespace tutti
