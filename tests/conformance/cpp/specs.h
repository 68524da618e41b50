// Element specs put together and taken apart.
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

// The spec of {"shape", "dtype"} or {"ds": SPEC} per leaf in tuples and dicts; null is an unknown
// size or rank.
Spec DescribedSpec(const Json &described);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_SPECS_H_
