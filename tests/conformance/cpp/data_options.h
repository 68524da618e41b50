// Options of datasets as the vectors describe them: {"experimental_deterministic": false}; a policy
// by its name.
#ifndef TESTS_CONFORMANCE_CPP_DATA_OPTIONS_H_
#define TESTS_CONFORMANCE_CPP_DATA_OPTIONS_H_

#include "handles.h"
#include "json_values.h"

namespace conformance {

// Throws NotCovered for a policy that is not known here.
DataOptions OptionsOf(const Json &described);

// Of the options that `names` lists, what `expected` says; null: not set.
void CompareOptions(const Json &names, const Json &expected, const DataOptions &found);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_DATA_OPTIONS_H_
