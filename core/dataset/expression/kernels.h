// The loops that element-wise operations consist of.
#ifndef TUTTI_CORE_DATASET_EXPRESSION_KERNELS_H_
#define TUTTI_CORE_DATASET_EXPRESSION_KERNELS_H_

#include <cstdint>

#include "core/dataset/expression/operations.h"
#include "core/tensor/dtype.h"

namespace tutti {

// out[i] = op(a[i], b[i], c[i]) for n elements; what the operation does not take is not read. The
// arrays do not overlap. Gives the first element that has no result, and -1 where all have one.
using ElementKernel = int64_t (*)(const void* a, const void* b, const void* c, void* out,
                                  int64_t n);

// For operands of `dtype`, which for kWhere is that of what is chosen from. Null where there is
// none: 16-bit floats, which are computed as float32, and what InferNode refuses.
ElementKernel FindElementKernel(ExpressionOp op, DType dtype);
// Of complex operands, and of the two floats that become one: FindElementKernel asks it.
ElementKernel FindComplexKernel(ExpressionOp op, DType dtype);
// The same for a `b` that is one positive number, over and over, where that is cheaper: of
// floor_divide and remainder of int64 and int32. Null for others.
ElementKernel FindByNumberKernel(ExpressionOp op, DType dtype);
// Why it is that an element has no result.
const char* WhyNoResult(ExpressionOp op);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXPRESSION_KERNELS_H_
