// The fingerprint of a graph: equal for definitions that give the same sequence under the same
// seeds. Names, options, seeds that nobody gave and attributes for tuning (AttributeRole) do not
// count, nor does whether an attribute was given that has the value it has otherwise; functions
// that live in this process only count by their names.
#ifndef TUTTI_CORE_DATASET_GRAPH_GRAPH_FINGERPRINT_H_
#define TUTTI_CORE_DATASET_GRAPH_GRAPH_FINGERPRINT_H_

#include <span>
#include <string>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class Function;
class Node;

// 32 bytes.
Result<std::string> GraphFingerprint(const Node& node);

// The same, but of what is kept over processes: functions that live in this process only count by
// what they compute (Function::fingerprint), and generators whose functions have none by the name
// of their dataset. `more` are functions that count, too, and belong to `of`. INVALID_ARGUMENT as
// by CheckContentFingerprint.
Result<std::string> ContentFingerprint(const Node& node, const Node& of,
                                       std::span<const Ref<Function>> more);

// INVALID_ARGUMENT unless everything from `node` on, and `more`, has what tells it from others: it
// names the operation whose function has not, and says what to do. Looks at no data.
Status CheckContentFingerprint(const Node& node, const Node& of,
                               std::span<const Ref<Function>> more);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_GRAPH_FINGERPRINT_H_
