// Elements that are NaN or infinite, in memory: found by vector instructions, counted one by one.
#ifndef TUTTI_CORE_TENSOR_NOT_FINITE_H_
#define TUTTI_CORE_TENSOR_NOT_FINITE_H_

#include <cstdint>

#include "core/tensor/dtype.h"

namespace tutti {

// How many elements are NaN and infinite. A complex element counts for each of its two parts.
struct NumericsCounts {
  int64_t nan = 0;
  int64_t positive_infinity = 0;
  int64_t negative_infinity = 0;

  bool finite() const { return nan == 0 && positive_infinity == 0 && negative_infinity == 0; }
};

// Of n elements that lie `step` elements apart: the first that is not finite; -1 when all are, as
// those of a dtype that is neither floating nor complex.
int64_t FirstNotFiniteElement(DType dtype, const void* data, int64_t step, int64_t n);

// Adds up those that are not finite.
void CountNotFiniteElements(DType dtype, const void* data, int64_t step, int64_t n,
                            NumericsCounts* counts);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_NOT_FINITE_H_
