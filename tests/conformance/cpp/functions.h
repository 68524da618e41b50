// The functions that the vectors name, as callbacks of the C interface.
#ifndef TESTS_CONFORMANCE_CPP_FUNCTIONS_H_
#define TESTS_CONFORMANCE_CPP_FUNCTIONS_H_

#include <functional>
#include <memory>
#include <string>

#include "handles.h"
#include "json_values.h"

namespace conformance {

using Body = std::function<Value(tutti_context *, const Value &)>;

// Applies `fn` to every element of a tensor.
Body Elementwise(std::function<double(double)> fn);

// A stored callback that calls `body`; what it throws becomes a status.
tutti_callback StoredCallback(Body body);
// The same for calls that borrow: pass &body as user_data.
tutti_status *CallBody(tutti_context *context, const tutti_value *in, tutti_value **out,
                       void *body) noexcept;

// The function that `op` names with "fn" and "arg", for elements of `input`. Throws NotCovered for
// one that is not known.
Function NamedFunction(const Json &op, const Spec &input);

// The functions of group_by_window: `key_func` of elements of the spec `input`, and `reduce_func`
// of a key and a window.
Function KeyFunction(const Json &op, const Spec &input);
Function WindowFunction(const Json &op, const Spec &input);

// The function of this name from a state, as `initial` is one, and an element of `input` to the
// next state.
Function Reducer(const std::string &name, const Value &initial, const Spec &input);

// Makes an int64 of a record of 8 bytes.
Function NumberOfRecord();

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_FUNCTIONS_H_
