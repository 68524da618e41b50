// Element specs put together and taken apart; their leaves are tensors.
#ifndef TESTS_CONFORMANCE_CPP_SPECS_H_
#define TESTS_CONFORMANCE_CPP_SPECS_H_

#include <map>
#include <string>
#include <vector>

#include "handles.h"
#include "json_values.h"

namespace conformance {

Spec SpecOfTensor(tutti_dtype dtype, const std::vector<int64_t> &dims);
Spec TupleSpec(const std::vector<Spec> &parts);
Spec DictSpec(const std::map<std::string, Spec> &parts);

// The spec of part `which` of a tuple (an index) or of a dict (a key).
Spec PartSpec(const Spec &spec, const Json &which);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_SPECS_H_
