// Walks over a dataset: what its iterators give, call by call, compared with what a case expects.
#ifndef TESTS_CONFORMANCE_CPP_WALKS_H_
#define TESTS_CONFORMANCE_CPP_WALKS_H_

#include <string>

#include "handles.h"
#include "json_values.h"

namespace conformance {

// How a case iterates, and how it compares elements.
struct Way {
  std::string api;  // "", or "get_next" or "get_next_as_optional": the end twice
  double tolerance = 0;
  tutti_dtype dtype = TUTTI_DTYPE_INVALID;
};

// Of "api", "tolerance" and "dtype".
Way WayOf(const Json &test);

// One walk that gives the list `expected`, in which {"error": CODE} is a call that fails; or
// {"multiset": [...]}, in any order.
void CheckWalk(const Dataset &dataset, const Json &expected, const Way &way);

// {"passes": [[...], ...], "takes": [n, null]}: one walk after another, walk i given up behind n
// elements.
void CheckPasses(const Dataset &dataset, const Json &expected, const Way &way);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_WALKS_H_
