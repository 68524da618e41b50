// Functions of the host in a graph, and what options say of them: where native functions are
// demanded there may be none, and what state they have is in no definition and no saved position.
#ifndef TUTTI_CORE_DATASET_GRAPH_HOST_FUNCTIONS_H_
#define TUTTI_CORE_DATASET_GRAPH_HOST_FUNCTIONS_H_

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

class Dataset;
class Node;

// FAILED_PRECONDITION naming the first operation that calls the host's function, and why it does,
// where the dataset's options demand native functions. Sources may be generators.
Status CheckNativeFunctions(const Dataset& dataset, std::string_view what);

// By experimental_external_state_policy, where an operation calls the host: FAILED_PRECONDITION
// under FAIL; under WARN a warning, the first time that `*told` is false. `what` is "serialize",
// "save".
Status CheckExternalState(const Dataset& dataset, std::string_view what, bool* told);

// The prefetch that slack is given to: the last one that nothing but operations on one input
// follow. Null where there is none.
const Node* LastPrefetch(const Node& root);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_HOST_FUNCTIONS_H_
