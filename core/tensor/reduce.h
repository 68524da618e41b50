// Reductions: k inputs folded element by element, and one tensor folded along an axis.
//
// Operands are folded in the order of the inputs (ranks), so that the result depends on nothing
// else:
// - SUM, PROD: integers wrap; float16 and bfloat16 are accumulated in float32 and rounded once, at
//   the end, to nearest even; float32, float64 and complex in their own type, one operand after the
//   other.
// - MEAN: the sum divided by the number of inputs. Integers keep their dtype: the exact sum (it
//   never wraps), divided and truncated towards zero, as the reference does where it casts a mean
//   back to an integer variable's dtype.
// - MIN, MAX: NaN when any operand is NaN (always the positive quiet NaN); -0 is less than +0.
// - bool: MIN is "all", MAX is "any"; SUM, PROD and MEAN are INVALID_ARGUMENT (cast first).
// - BAND, BOR, BXOR: bit by bit, integers and bool only.
// - complex: MIN and MAX are INVALID_ARGUMENT. bytes: everything is.
#ifndef TUTTI_CORE_TENSOR_REDUCE_H_
#define TUTTI_CORE_TENSOR_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// The same numbers as TUTTI_REDUCE_* of the C interface.
enum class ReduceOp : int32_t {
  kSum = 1,
  kMean = 2,
  kMin = 3,
  kMax = 4,
  kProd = 5,
  kBitAnd = 6,
  kBitOr = 7,
  kBitXor = 8,
};
inline constexpr ReduceOp kLastReduceOp = ReduceOp::kBitXor;

// "SUM", "MEAN", "MIN", "MAX", "PROD", "BAND", "BOR", "BXOR"; "invalid" otherwise. Static.
std::string_view ReduceOpName(ReduceOp op);

// OK when the op is defined for the dtype (the rules above), else INVALID_ARGUMENT naming both.
Status CheckReducible(ReduceOp op, DType dtype);

// out[i] = op over r of inputs[r][i], for n elements. `out` may be one of the inputs, but must not
// overlap them otherwise. At least one input. Runs at memory bandwidth, on the calling thread.
// With `own` all inputs but that one were written by other cores: more of their lines are asked for
// ahead of use than the processor does by itself.
inline constexpr size_t kAllOwn = SIZE_MAX;
Status ReduceInto(ReduceOp op, DType dtype, std::span<const void* const> inputs, int64_t n,
                  void* out, size_t own = kAllOwn);

// A new tensor from tensors of one dtype and shape: INVALID_ARGUMENT naming the positions and both
// specs otherwise.
Result<Ref<Tensor>> Reduce(ReduceOp op, std::span<const Tensor* const> inputs,
                           const TensorOptions& options = TensorOptions());

// One tensor folded along `axis`, which the result no longer has, in the order of the index.
// INVALID_ARGUMENT for an axis outside [0, rank). Over no elements SUM is 0, PROD is 1, MEAN is NaN
// for floats and complex, BOR and BXOR are 0; MEAN of integers, MIN, MAX and BAND are
// INVALID_ARGUMENT.
Result<Ref<Tensor>> ReduceAxis(ReduceOp op, const Tensor& tensor, size_t axis,
                               const TensorOptions& options = TensorOptions());

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_REDUCE_H_
