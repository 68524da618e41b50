// Sums, means and products of 16-bit floats with the machine's vector instructions, so that folding
// n of them takes no longer than folding n float32.
//
// What it costs is changing the width of elements. A vector of bfloat16 is taken as 32-bit words of
// two elements each: a shift and a mask make two vectors of float32 of it, the even elements and
// the odd ones, which come together again, rounded, without having changed their places. float16
// is converted by the machine.
//
// The bits are half.h's. Only whole blocks of plain numbers are folded here: one in which a result
// is NaN, or (where the machine rounds to bfloat16 by itself, which takes subnormals for zeros)
// subnormal, is left to the caller, whose way treats every number alike.
#ifndef TUTTI_CORE_TENSOR_HALF_FOLD_H_
#define TUTTI_CORE_TENSOR_HALF_FOLD_H_

#include <cstddef>
#include <cstdint>

#include "core/tensor/dtype.h"

namespace tutti::tensor_internal {

enum class HalfOp { kSum, kMean, kProd };

// The elements of a block.
inline constexpr int64_t kHalfBlock = 128;

// The vectors that a fold may use; a test takes each in turn.
enum class VectorWidth { kNone, kAvx2, kAvx512, kAvx512Bfloat16 };
VectorWidth WidestVectors();

// Folds from element `begin` on, of at least two inputs in their order, until a block is left to
// the caller, or a few elements. The element behind the last folded one: `begin` without such
// vectors. `out` may be one of the inputs. Lines of all
// inputs but `own` are asked for ahead; of none, when it is SIZE_MAX.
int64_t FoldHalves(VectorWidth width, HalfOp op, const void* const* inputs, size_t count,
                   int64_t begin, int64_t n, size_t own, Bfloat16* out);
int64_t FoldHalves(VectorWidth width, HalfOp op, const void* const* inputs, size_t count,
                   int64_t begin, int64_t n, size_t own, Float16* out);

}  // namespace tutti::tensor_internal

#endif  // TUTTI_CORE_TENSOR_HALF_FOLD_H_
