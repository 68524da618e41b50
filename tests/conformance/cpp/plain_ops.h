// The plain operations of datasets by name; the definitions are generated from the C headers
// (bindings/generate/runner_cpp.py).
#ifndef TESTS_CONFORMANCE_CPP_PLAIN_OPS_H_
#define TESTS_CONFORMANCE_CPP_PLAIN_OPS_H_

#include <map>
#include <string>

#include "datasets.h"
#include "handles.h"
#include "json_values.h"

namespace conformance {

// Alters the dataset of the op's "input".
using Transform = void (*)(const Json &op, Dataset *dataset);

const std::map<std::string, Transform> &PlainTransforms();

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_PLAIN_OPS_H_
