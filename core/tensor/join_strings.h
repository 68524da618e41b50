// Byte strings put together, element by element.
#ifndef TUTTI_CORE_TENSOR_JOIN_STRINGS_H_
#define TUTTI_CORE_TENSOR_JOIN_STRINGS_H_

#include <span>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// The byte strings of one place, in the order of the inputs, with `separator` between them. Scalars
// stand in every place; all other inputs must have one shape, which is the result's.
// INVALID_ARGUMENT without an input, for other dtypes, and for shapes that differ.
Result<Ref<Tensor>> JoinStrings(std::span<const Tensor* const> inputs, std::string_view separator);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_JOIN_STRINGS_H_
