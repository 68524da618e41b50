// GraphRewrite: a walk over a graph, from the end to the sources, that makes another graph of it.
// The graph that comes in is not changed; nodes that nothing changes below are used again, and a
// node that several others use stays one node.
#ifndef TUTTI_CORE_DATASET_GRAPH_GRAPH_REWRITE_H_
#define TUTTI_CORE_DATASET_GRAPH_GRAPH_REWRITE_H_

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/graph/attributes.h"
#include "core/dataset/graph/node.h"

namespace tutti {

class GraphRewrite {
 public:
  virtual ~GraphRewrite() = default;

  // The node that takes the place of `node`, in the graph that this walk makes.
  Result<Ref<const Node>> Rewrite(const Node& node);

 protected:
  // Called once per node. What takes its place, with the inputs that it shall have (Rewrite them as
  // needed); null: the node itself, on its rewritten inputs.
  virtual Result<Ref<const Node>> Replace(const Node& node) = 0;

 private:
  // A node that stays, on its way through its inputs: a chain of them takes no stack.
  struct Visit {
    const Node* node;
    size_t next_input;
  };
  // Asks for what takes the node's place; a node that stays is visited next.
  Status Enter(const Node& node, std::vector<Visit>* visits);

  std::unordered_map<const Node*, Ref<const Node>> done_;
};

// The same op on other inputs, or with other attributes; what was learnt of its elements stays.
Result<Ref<const Node>> NodeOnInputs(const Node& node, Node::Inputs inputs);
Result<Ref<const Node>> NodeWith(const Node& node, Attributes attributes, Node::Inputs inputs);
// `attributes` with another value for one that is there.
Attributes WithAttribute(const Attributes& attributes, std::string_view name, Attribute value);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_GRAPH_REWRITE_H_
