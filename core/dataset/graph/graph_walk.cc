#include "core/dataset/graph/graph_walk.h"

#include <algorithm>
#include <cstddef>
#include <unordered_set>

#include "core/dataset/graph/node.h"

namespace tutti {

std::vector<const Node*> InputsFirst(const Node& root, bool (*leaves_out)(const Node& node)) {
  struct Visit {
    const Node* node;
    size_t next_input;
  };
  std::vector<const Node*> nodes;
  std::unordered_set<const Node*> entered;
  std::vector<Visit> visits;
  const auto enter = [&](const Node* node) {
    if (!entered.insert(node).second || (leaves_out != nullptr && leaves_out(*node))) return;
    visits.push_back({node, 0});
  };
  enter(&root);
  while (!visits.empty()) {
    Visit& visit = visits.back();
    if (visit.next_input == visit.node->inputs().size()) {
      nodes.push_back(visit.node);
      visits.pop_back();
      continue;
    }
    enter(&visit.node->input(visit.next_input++));
  }
  return nodes;
}

bool PromisesSpec(const Node& root) {
  const std::vector<const Node*> nodes = InputsFirst(root);
  return std::all_of(nodes.begin(), nodes.end(), [](const Node* one) {
    const Result<Ref<const ElementSpec>> spec = one->op().element_spec(*one);
    return spec.ok() && *spec;
  });
}

}  // namespace tutti
