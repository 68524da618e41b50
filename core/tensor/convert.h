// Conversion to a dtype that was declared, of a dataset's elements say: it never loses more than
// what the declaration gives up.
//
//   integers   become any integers that hold each of them, and floats (rounded)
//   floats     become any other floats (rounded), never integers; none becomes infinite
//   booleans   become numbers, 0 and 1; no number becomes a boolean
//   real ones  become complex, complex ones never real
//   bytes      stay what they are, and nothing becomes bytes
//
// A tensor without elements becomes anything. cast.h has C's rules, under which everything becomes
// something.
#ifndef TUTTI_CORE_TENSOR_CONVERT_H_
#define TUTTI_CORE_TENSOR_CONVERT_H_

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// The tensor itself where it is of dtype `to`, else a contiguous copy. INVALID_ARGUMENT naming the
// first element that `to` does not hold, and why; where other elements might fit, the detail "row"
// is its place on axis 0.
Result<Ref<Tensor>> Convert(Ref<Tensor> tensor, DType to,
                            const TensorOptions& options = TensorOptions());

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_CONVERT_H_
