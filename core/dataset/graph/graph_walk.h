// InputsFirst: a graph as a list, made without recursion: a chain may be of any length, and a node
// that many others use is there once.
#ifndef TUTTI_CORE_DATASET_GRAPH_GRAPH_WALK_H_
#define TUTTI_CORE_DATASET_GRAPH_GRAPH_WALK_H_

#include <vector>

namespace tutti {

class Node;

// All nodes from `root` to the sources, each behind its inputs, and those in their order; the last
// is `root`. They live as long as it does. What `leaves_out` is true of is not there, nor is what
// only such nodes lead to.
std::vector<const Node*> InputsFirst(const Node& root,
                                     bool (*leaves_out)(const Node& node) = nullptr);

// Whether every op promises what its elements are like, so that the spec holds for all of them and
// is not what the first element happened to show.
bool PromisesSpec(const Node& root);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_GRAPH_WALK_H_
