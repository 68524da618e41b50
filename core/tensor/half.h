// Conversions between float and the 16-bit floating types, in plain C++: exact towards float, to
// nearest even and with quiet NaNs towards 16 bits. The vector kernels give the same bits.
#ifndef TUTTI_CORE_TENSOR_HALF_H_
#define TUTTI_CORE_TENSOR_HALF_H_

#include <bit>
#include <cstdint>

#include "core/tensor/dtype.h"

namespace tutti {

inline float ToFloat(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

inline Bfloat16 ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // Adding 0x7fff, and one more when the kept part is odd, carries into it exactly when it must
  // round up.
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return Bfloat16{static_cast<uint16_t>(is_nan ? quiet : rounded)};
}

inline float ToFloat(Float16 value) {
  // Shifted to float's place the exponent is 112 too small; multiplying by 2^112 repairs it,
  // subnormals included.
  const uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const auto scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const bool is_special = magnitude >= 0x0f800000u;  // infinity and NaN
  const uint32_t quiet = magnitude > 0x0f800000u ? 0x400000u : 0u;
  return std::bit_cast<float>(sign | (is_special ? (magnitude | 0x7f800000u | quiet) : scaled));
}

inline Float16 ToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x1ffu);  // NaN
  } else if (magnitude >= 0x47800000u) {
    half = 0x7c00u;  // 65536 and more
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 leaves the subnormal's bits, rounded by the machine, at the end of
    // the sum.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return Float16{static_cast<uint16_t>(sign | half)};
}

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_HALF_H_
