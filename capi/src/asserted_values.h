// What an assertion is about: the tensors in a value, each with a name for messages.
#ifndef TUTTI_CAPI_SRC_ASSERTED_VALUES_H_
#define TUTTI_CAPI_SRC_ASSERTED_VALUES_H_

#include <string>
#include <vector>

#include "capi/src/guard.h"
#include "core/base/status.h"
#include "core/debugging/assertion.h"
#include "core/tensor/value.h"

namespace tutti::capi {

// One leaf: a tensor, the components of a per-replica value or the copies of a variable. Of none
// there are no tensors.
struct AssertedLeaf {
  std::vector<NamedTensor> tensors;
};

// The leaves of `value`. Of a sparse or a ragged tensor it is the one that holds its values.
// INVALID_ARGUMENT, with the detail "structure", for a leaf that holds no tensor.
Result<std::vector<AssertedLeaf>> AssertedLeaves(Call call, const Value &value, const char *what);

// All tensors of `value`.
Result<std::vector<NamedTensor>> AssertedTensors(Call call, const Value &value, const char *what);

struct AssertedPair {
  NamedTensor x;
  NamedTensor y;
};
// Tensors of two values of one structure, or of which one is a single leaf that goes with all of
// the other's; likewise for components. INVALID_ARGUMENT naming both where they do not fit.
Result<std::vector<AssertedPair>> AssertedPairs(Call call, const Value &x, const Value &y);

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_ASSERTED_VALUES_H_
