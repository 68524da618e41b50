// Values as the vectors write them, and comparing what the library gives with them.
#ifndef TESTS_CONFORMANCE_CPP_JSON_VALUES_H_
#define TESTS_CONFORMANCE_CPP_JSON_VALUES_H_

#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "handles.h"

namespace conformance {

using Json = nlohmann::ordered_json;

// A number or nested array is a tensor (int32, float32 with a real, bool, or `dtype`), {"dtype",
// "v"} one of that dtype, {"bytes"} a byte string, {"t"} a tuple, {"d"} a dict, {"sparse"} and
// {"ragged"} tensors of these kinds, null none.
Value ValueOf(const Json &json, tutti_dtype dtype = TUTTI_DTYPE_INVALID);
Value ValueOf(const Tensor &tensor);
tutti_dtype DTypeOf(const std::string &name);

// A tensor's elements as float64, whatever its dtype; and a tensor of numbers.
std::vector<double> Numbers(const tutti_tensor *tensor);
Tensor TensorOf(tutti_dtype dtype, const std::vector<int64_t> &dims,
                const std::vector<double> &numbers);
// The tensor of a value that is one.
const tutti_tensor *TensorIn(const Value &value);

// Throws Mismatch unless `found` has the structure, the shapes and the elements of `expected`, and
// the dtype where one is given.
void Compare(const Json &expected, const Value &found, double tolerance = 0.0,
             tutti_dtype dtype = TUTTI_DTYPE_INVALID);
std::string ToText(const Value &value);

// Throws NotCovered when `object` has a key that is not listed.
void CheckKeys(const Json &object, std::initializer_list<const char *> known);

// Whether `expected` is an error and no value: {"error": CODE, "message_names": [...]}.
bool IsError(const Json &expected);

// Runs `body`; when `expected` is an error, it must fail so. True when it was to fail.
bool FailsAsExpected(const Json &expected, const std::function<void()> &body);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_JSON_VALUES_H_
