// The fingerprint of a graph: equal for definitions that give the same sequence under the same
// seeds. Names, options, seeds that nobody gave and attributes for tuning (AttributeRole) do not
// count, nor does whether an attribute was given that has the value it has otherwise; functions
// that live in this process only count by their names.
#ifndef TUTTI_CORE_DATASET_GRAPH_GRAPH_FINGERPRINT_H_
#define TUTTI_CORE_DATASET_GRAPH_GRAPH_FINGERPRINT_H_

#include <string>

#include "core/base/status.h"

namespace tutti {

class Node;

// 32 bytes.
Result<std::string> GraphFingerprint(const Node& node);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_GRAPH_FINGERPRINT_H_
