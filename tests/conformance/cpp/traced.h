// The functions that the vectors name, as expressions: for a run in which they are what they can
// be.
#ifndef TESTS_CONFORMANCE_CPP_TRACED_H_
#define TESTS_CONFORMANCE_CPP_TRACED_H_

#include <cstdint>
#include <string>

#include "handles.h"
#include "json_values.h"

namespace conformance {

// Set by CONFORMANCE_TRACES.
bool TracesFunctions();
// How many functions became expressions.
int TracedFunctions();

// None for a function that is none, or elements of which there are none.
Function TracedFunction(const Json &op, const Spec &input);
// The same for a key, component 0 modulo `divisor`, for the function of a key's window, and for the
// step of a reduce.
Function TracedIndexKey(int64_t divisor, const Spec &input);
Function TracedWindowFunction(const Json &op, const Spec &input);
Function TracedReducer(const std::string &name, const Value &initial, const Spec &input);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_TRACED_H_
