// Datasets as the vectors describe them: trees of ops with functions by name.
#ifndef TESTS_CONFORMANCE_CPP_DATASETS_H_
#define TESTS_CONFORMANCE_CPP_DATASETS_H_

#include <vector>

#include "handles.h"
#include "json_values.h"

namespace conformance {

// Throws NotCovered for an op, a function or a field that is not known here.
Dataset BuildDataset(const Json &tree);

// The element spec of a dataset, and all its elements.
Spec ElementSpecOf(const Dataset &dataset);
std::vector<Value> Elements(const Dataset &dataset);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_DATASETS_H_
