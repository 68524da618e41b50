// Element types in kernels, and arithmetic that gives the bits that the CPU gives.
//
// Devices and CPUs round alike, and multiply-adds are not contracted. What differs is NaN: a device
// makes one pattern of all, a CPU passes on the first operand that is NaN, made quiet, and makes a
// NaN of its own from infinities. Add, Sub and Mul do as the CPU does. Conversions of 16-bit floats
// are exact towards float, and to nearest even towards 16 bits; the machine's instructions are
// taken for numbers, and bits are moved for NaNs.
#ifndef TUTTI_CORE_CUDA_KERNELS_NUMBER_H_
#define TUTTI_CORE_CUDA_KERNELS_NUMBER_H_

#include <stdint.h>
#include <string.h>

#include "core/cuda/kernels/portable.h"

namespace tutti::cuda {

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
// Complex numbers lie at the alignment of their parts.
struct C64 {
  float real, imag;
};
struct C128 {
  double real, imag;
};
// Everything but 0 counts as true.
struct Bool {
  uint8_t byte;
};

template <class To, class From>
TUTTI_DEVICE To BitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// The NaN that the CPU makes of infinities.
#if defined(__x86_64__)
inline constexpr uint32_t kMadeNan32 = 0xffc00000u;
inline constexpr uint64_t kMadeNan64 = 0xfff8000000000000u;
#else
inline constexpr uint32_t kMadeNan32 = 0x7fc00000u;
inline constexpr uint64_t kMadeNan64 = 0x7ff8000000000000u;
#endif

TUTTI_DEVICE float Quiet(float nan) { return BitsAs<float>(BitsAs<uint32_t>(nan) | 0x400000u); }
TUTTI_DEVICE double Quiet(double nan) {
  return BitsAs<double>(BitsAs<uint64_t>(nan) | 0x8000000000000u);
}
TUTTI_DEVICE float MadeNan(float) { return BitsAs<float>(kMadeNan32); }
TUTTI_DEVICE double MadeNan(double) { return BitsAs<double>(kMadeNan64); }

// `result` of an operation on a and b, with the CPU's NaN where it is one.
template <class T>
TUTTI_DEVICE T WithNanOf(T a, T b, T result) {
  if (result == result) return result;
  return a != a ? Quiet(a) : b != b ? Quiet(b) : MadeNan(a);
}
template <class T>
TUTTI_DEVICE T Add(T a, T b) {
  return WithNanOf(a, b, a + b);
}
template <class T>
TUTTI_DEVICE T Sub(T a, T b) {
  return WithNanOf(a, b, a - b);
}
template <class T>
TUTTI_DEVICE T Mul(T a, T b) {
  return WithNanOf(a, b, a * b);
}
template <class T>
TUTTI_DEVICE T Div(T a, T b) {
  return WithNanOf(a, b, a / b);
}

TUTTI_DEVICE float ToFloat(Bf16 value) {
  return BitsAs<float>(static_cast<uint32_t>(value.bits) << 16);
}

TUTTI_DEVICE float ToFloat(F16 value) {
  const uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  if (magnitude > 0x0f800000u) return BitsAs<float>(sign | magnitude | 0x7fc00000u);
  if (magnitude == 0x0f800000u) return BitsAs<float>(sign | 0x7f800000u);
  return BitsAs<float>(sign | BitsAs<uint32_t>(BitsAs<float>(magnitude) * 0x1p112f));
}

// The same number, and some NaN of a NaN.
TUTTI_DEVICE float PlainToFloat(F16 value) {
#if defined(__CUDA_ARCH__)
  float number;
  asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(value.bits));
  return number;
#else
  return ToFloat(value);
#endif
}

TUTTI_DEVICE Bf16 ToBf16(float value) {
  const uint32_t bits = BitsAs<uint32_t>(value);
  if (value != value) return Bf16{static_cast<uint16_t>((bits >> 16) | 0x40u)};
#if defined(__CUDA_ARCH__)
  uint16_t rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return Bf16{rounded};
#else
  return Bf16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}

TUTTI_DEVICE F16 ToF16(float value) {
  const uint32_t bits = BitsAs<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return F16{static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu))};
  }
#if defined(__CUDA_ARCH__)
  uint16_t rounded;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return F16{rounded};
#else
  uint32_t half;
  if (magnitude >= 0x47800000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    half = BitsAs<uint32_t>(BitsAs<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return F16{static_cast<uint16_t>(sign | half)};
#endif
}

// NaNs keep what fits of their bits.
TUTTI_DEVICE float Narrow(double value) {
  if (value == value) return static_cast<float>(value);
  const uint64_t bits = BitsAs<uint64_t>(value);
  return BitsAs<float>(static_cast<uint32_t>(bits >> 32 & 0x80000000u) | 0x7fc00000u |
                       static_cast<uint32_t>(bits >> 29 & 0x3fffffu));
}
TUTTI_DEVICE double Widen(float value) {
  if (value == value) return static_cast<double>(value);
  const uint64_t bits = BitsAs<uint32_t>(value);
  return BitsAs<double>((bits & 0x80000000u) << 32 | 0x7ff8000000000000u |
                        (bits & 0x3fffffu) << 29);
}

template <class T>
struct NumberOf {
  static constexpr bool kInteger = true, kSigned = static_cast<T>(-1) < static_cast<T>(0);
  static constexpr T kMin =
      kSigned ? static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1)) : T{0};
  static constexpr T kMax = static_cast<T>(~static_cast<uint64_t>(kMin));
};
template <>
struct NumberOf<float> {
  static constexpr bool kInteger = false;
};
template <>
struct NumberOf<double> {
  static constexpr bool kInteger = false;
};

// Towards zero and saturated; NaN is 0.
template <class To, class From>
TUTTI_DEVICE To Truncated(From value) {
  using Limits = NumberOf<To>;
  // Both bounds are powers of two, or 0: exact in From.
  constexpr int kDigits = 8 * sizeof(To) - (Limits::kSigned ? 1 : 0);
  constexpr From kHigh = static_cast<From>(uint64_t{1} << (kDigits - 1)) * 2;
  constexpr From kLow = Limits::kSigned ? -kHigh : From{0};
  if (value != value) return To{0};
  if (value <= kLow) return Limits::kMin;
  if (value >= kHigh) return Limits::kMax;
  return static_cast<To>(value);
}

}  // namespace tutti::cuda

#endif  // TUTTI_CORE_CUDA_KERNELS_NUMBER_H_
