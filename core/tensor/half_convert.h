// Blocks of 16-bit floats to float and back, with the machine's conversion where it has one. The
// bits are half.h's.
#ifndef TUTTI_CORE_TENSOR_HALF_CONVERT_H_
#define TUTTI_CORE_TENSOR_HALF_CONVERT_H_

#include <cstdint>

#include "core/tensor/dtype.h"

namespace tutti {

void ConvertToFloat(const Float16* source, float* destination, int64_t n);
void ConvertToFloat(const Bfloat16* source, float* destination, int64_t n);
void ConvertFromFloat(const float* source, Float16* destination, int64_t n);
void ConvertFromFloat(const float* source, Bfloat16* destination, int64_t n);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_HALF_CONVERT_H_
