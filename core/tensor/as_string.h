// Numbers as texts, element by element.
#ifndef TUTTI_CORE_TENSOR_AS_STRING_H_
#define TUTTI_CORE_TENSOR_AS_STRING_H_

#include <cstdint>
#include <string>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// How a number is written: as C's printf does, by %d and %u for integers and %f for floats.
struct AsStringOptions {
  int64_t precision = -1;   // of floats: digits behind the point, of the shortest form in all
  bool scientific = false;  // of floats: %e
  bool shortest = false;    // of floats: %g
  int64_t width = -1;       // at least so many characters
  // Before the number, with a width: "" and " " are blanks, "0" zeros; "-" puts the blanks behind
  // it, "+" says every sign, "#" is printf's.
  std::string fill = {};
};

// Byte strings of the same shape. Booleans are "true" and "false", complex numbers "(1.5,-2)" with
// both parts as they would be alone, byte strings what they are. INVALID_ARGUMENT for options that
// contradict each other, or that the dtype does not have. The same in every locale.
Result<Ref<Tensor>> AsString(const Tensor& tensor, const AsStringOptions& options = {});

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_AS_STRING_H_
