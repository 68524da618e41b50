// The first element of tensors that a condition does not hold for.
//
// Operands are broadcast as NumPy does it and never copied: axes that follow each other in every
// operand are joined, and what is left is a number of runs along the last axis. A run is looked at
// in blocks of which the compiler makes vector instructions (tensor/simd.h); the first block in
// which something fails ends the walk, and only there elements are compared one by one. float16 and
// bfloat16 become float block by block.
#ifndef TUTTI_CORE_DEBUGGING_FIRST_FAILURE_H_
#define TUTTI_CORE_DEBUGGING_FIRST_FAILURE_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/tensor/not_finite.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tutti {

// The same numbers as TUTTI_COMPARISON_*.
enum class Comparison : int32_t {
  kEqual = 1,
  kNoneEqual = 2,
  kLess = 3,
  kLessEqual = 4,
  kGreater = 5,
  kGreaterEqual = 6,
  kNear = 7,
};

constexpr int64_t kNothingFails = -1;

// The shape that both have when they are broadcast against each other. INVALID_ARGUMENT naming both
// and the axis where they differ.
Result<Shape> BroadcastShape(const Shape& x, const Shape& y);

// The position, in row-major order of `shape`, of the first element of x and y that does not
// compare so; kNothingFails when there is none. Both are of one dtype that the comparison takes
// (ComparisonTakes) and broadcast to `shape`. A NaN is equal to nothing and not less or greater.
int64_t FirstUnlike(Comparison comparison, const Tensor& x, const Tensor& y, const Shape& shape);

// The same of |x - y| < atol + rtol * |y|, of floating or complex x and y. The tolerances are
// float64 and broadcast to `shape`, too.
int64_t FirstFar(const Tensor& x, const Tensor& y, const Tensor& rtol, const Tensor& atol,
                 const Shape& shape);

// The same of x being neither NaN nor infinite; x is floating or complex.
int64_t FirstNotFinite(const Tensor& x);

// EQUAL and NONE_EQUAL take every dtype, NEAR floating and complex ones, the others integers and
// floats.
bool ComparisonTakes(Comparison comparison, DType dtype);

// Of a floating or complex tensor; all 0 of any other.
NumericsCounts CountNotFinite(const Tensor& x);

// The element at a position in row-major order of `shape` as an index, "[1,2]"; "[]" of a scalar.
std::string IndexText(const Shape& shape, int64_t position);
// The element of `tensor`, broadcast to `shape`, that stands there, as people write it.
std::string ElementText(const Tensor& tensor, const Shape& shape, int64_t position);
// The first `count` elements in row-major order, "[1 2 3 ...]"; a negative count: all of them.
std::string FirstElementsText(const Tensor& tensor, int64_t count);

}  // namespace tutti

#endif  // TUTTI_CORE_DEBUGGING_FIRST_FAILURE_H_
