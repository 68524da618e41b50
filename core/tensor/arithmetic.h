// Element-wise arithmetic on numeric tensors, as variables and expressions need it.
//
// Integers wrap; division of integers truncates towards zero and refuses a zero divisor with
// INVALID_ARGUMENT. float16 and bfloat16 are computed in float32 and rounded once per operation, to
// nearest even. bool and bytes are INVALID_ARGUMENT.
#ifndef TUTTI_CORE_TENSOR_ARITHMETIC_H_
#define TUTTI_CORE_TENSOR_ARITHMETIC_H_

#include <cstdint>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

enum class BinaryOp : int32_t {
  kAdd = 1,
  kSub = 2,
  kMul = 3,
  kDiv = 4,
};

// "add" and so on; static.
std::string_view BinaryOpName(BinaryOp op);

// out[i] = a[i] op b[i]. `out` may be `a` or `b`, but must not overlap them otherwise.
Status BinaryElements(BinaryOp op, DType dtype, const void* a, const void* b, void* out, int64_t n);
// out[i] = a[i] op *b.
Status BinaryScalarElements(BinaryOp op, DType dtype, const void* a, const void* b, void* out,
                            int64_t n);
// out[i] = a[i] * factor for floats and complex; for integers the product in double, truncated and
// saturated.
Status ScaleElements(DType dtype, const void* a, double factor, void* out, int64_t n);

// A new tensor. `b` has a's dtype, and a's shape or none (a scalar): INVALID_ARGUMENT naming both
// otherwise.
Result<Ref<Tensor>> Binary(BinaryOp op, const Tensor& a, const Tensor& b,
                           const TensorOptions& options = TensorOptions());
// a = a op b, in place. FAILED_PRECONDITION when `a` is read-only.
Status BinaryInPlace(BinaryOp op, Tensor* a, const Tensor& b);

Result<Ref<Tensor>> Scale(const Tensor& tensor, double factor,
                          const TensorOptions& options = TensorOptions());
Status ScaleInPlace(Tensor* tensor, double factor);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_ARITHMETIC_H_
