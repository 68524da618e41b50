// Conversion between dtypes, for all but bytes.
//
// The rules are C's, made total: float to integer truncates towards zero and saturates, NaN becomes
// 0; integer to narrower integer keeps the low bits; anything to bool is "not zero"; complex to
// real drops the imaginary part; to float16 and bfloat16 rounds once, to nearest even.
#ifndef TUTTI_CORE_TENSOR_CAST_H_
#define TUTTI_CORE_TENSOR_CAST_H_

#include <cstdint>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Converts n elements. Neither dtype is bytes; the memories do not overlap.
void CastElements(DType from, const void* source, DType to, void* destination, int64_t n);

// A contiguous copy of dtype `to`. INVALID_ARGUMENT to or from bytes, unless both are.
Result<Ref<Tensor>> Cast(const Tensor& tensor, DType to,
                         const TensorOptions& options = TensorOptions());

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_CAST_H_
