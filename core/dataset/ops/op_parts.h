// What several ops' trait records have in common: specs and cardinalities that follow from the
// input's, and checks of arguments.
#ifndef TUTTI_CORE_DATASET_OPS_OP_PARTS_H_
#define TUTTI_CORE_DATASET_OPS_OP_PARTS_H_

#include <cstdint>
#include <string_view>

#include "core/base/status.h"
#include "core/dataset/graph/node.h"

namespace tutti {

// The element spec of the only input.
Result<Ref<const ElementSpec>> SpecOfInput(const Node& node);
// The cardinality of the only input.
int64_t CardinalityOfInput(const Node& node);

// How many groups of `each` hold `rows`, the last one perhaps not full.
inline int64_t CeilOf(int64_t rows, int64_t each) { return rows / each + (rows % each != 0); }

// INVALID_ARGUMENT unless the attribute is there and an integer in [low, high].
Status CheckInt(const Node& node, std::string_view attribute, int64_t low, int64_t high);
Status CheckInt(const Node& node, std::string_view attribute);
// INVALID_ARGUMENT unless the attribute is there and of this type.
Status CheckBool(const Node& node, std::string_view attribute);
Status CheckText(const Node& node, std::string_view attribute);
Status CheckValue(const Node& node, std::string_view attribute);
Status CheckTree(const Node& node, std::string_view attribute);
Status CheckSpec(const Node& node, std::string_view attribute);
// Of a seeded op: as SetDrawnSeed and a seed of the user's write it.
Status CheckSeed(const Node& node);
// INVALID_ARGUMENT unless the node has `count` functions.
Status CheckFunctions(const Node& node, size_t count);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_OP_PARTS_H_
