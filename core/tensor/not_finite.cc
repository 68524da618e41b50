// Not finite are numbers of which all bits of the exponent are set.
#include "core/tensor/not_finite.h"

#include <cmath>
#include <type_traits>

#include "core/tensor/half.h"
#include "core/tensor/simd.h"

namespace tutti {

using tensor_internal::RunBest;

namespace {

constexpr int64_t kFiniteBlock = 256;
constexpr int64_t kAllFinite = -1;
constexpr uint64_t kDoubleExponent = 0x7ff0000000000000u;

// Without its sign a number that is not finite is at least `exponent`, so that the largest of a
// block tells of all.
template <class Bits, Bits exponent>
struct FiniteBlocks {
  static constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;

  static TUTTI_ALWAYS_INLINE void Run(const Bits* x, int64_t n, int64_t* first) {
    int64_t at = 0;
    for (; at + kFiniteBlock <= n; at += kFiniteBlock) {
      Bits largest = 0;
      for (int64_t i = 0; i < kFiniteBlock; ++i) {
        const auto magnitude = static_cast<Bits>(x[at + i] & kMagnitude);
        largest = magnitude > largest ? magnitude : largest;
      }
      if (largest >= exponent) break;
    }
    for (; at < n; ++at) {
      if ((x[at] & exponent) == exponent) {
        *first = at;
        return;
      }
    }
    *first = kAllFinite;
  }
};

#if defined(TUTTI_HAS_AVX2_KERNELS)
template <class Bits, Bits exponent>
TUTTI_TARGET_AVX512 void FindWithAvx512(const Bits* x, int64_t n, int64_t* first) {
  FiniteBlocks<Bits, exponent>::Run(x, n, first);
}
#endif

template <class Bits, Bits exponent>
int64_t FirstInRun(const void* data, int64_t step, int64_t n) {
  const auto* const x = static_cast<const Bits*>(data);
  if (step != 1) {
    for (int64_t i = 0; i < n; ++i) {
      if ((x[i * step] & exponent) == exponent) return i;
    }
    return kAllFinite;
  }
  int64_t first = kAllFinite;
#if defined(TUTTI_HAS_AVX2_KERNELS)
  if (tensor_internal::CpuHasAvx512()) {
    FindWithAvx512<Bits, exponent>(x, n, &first);
    return first;
  }
#endif
  RunBest<FiniteBlocks<Bits, exponent>>(x, n, &first);
  return first;
}

void CountOne(double value, NumericsCounts* counts) {
  if (std::isnan(value)) {
    ++counts->nan;
  } else if (std::isinf(value)) {
    ++(value > 0 ? counts->positive_infinity : counts->negative_infinity);
  }
}

template <class T>
void CountRun(const T* x, int64_t step, int64_t n, NumericsCounts* counts) {
  for (int64_t i = 0; i < n; ++i) {
    const T& item = x[i * step];
    if constexpr (kIsComplex<T>) {
      CountOne(item.real, counts);
      CountOne(item.imag, counts);
    } else if constexpr (kIsHalf<T>) {
      CountOne(ToFloat(item), counts);
    } else {
      CountOne(item, counts);
    }
  }
}

}  // namespace

int64_t FirstNotFiniteElement(DType dtype, const void* data, int64_t step, int64_t n) {
  switch (dtype) {
    case DType::kFloat16: return FirstInRun<uint16_t, 0x7c00u>(data, step, n);
    case DType::kBfloat16: return FirstInRun<uint16_t, 0x7f80u>(data, step, n);
    case DType::kFloat32: return FirstInRun<uint32_t, 0x7f800000u>(data, step, n);
    case DType::kFloat64: return FirstInRun<uint64_t, kDoubleExponent>(data, step, n);
    case DType::kComplex64:
    case DType::kComplex128: {
      const DType part = dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
      if (step == 1) {
        const int64_t first = FirstNotFiniteElement(part, data, 1, 2 * n);
        return first == kAllFinite ? first : first / 2;
      }
      for (int64_t i = 0; i < n; ++i) {
        const void* at = static_cast<const char*>(data) +
                         i * step * static_cast<int64_t>(ItemSize(dtype));
        if (FirstNotFiniteElement(part, at, 1, 2) != kAllFinite) return i;
      }
      return kAllFinite;
    }
    default: return kAllFinite;
  }
}

void CountNotFiniteElements(DType dtype, const void* data, int64_t step, int64_t n,
                            NumericsCounts* counts) {
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsHalf<T> || kIsComplex<T> || std::is_floating_point_v<T>) {
      CountRun(static_cast<const T*>(data), step, n, counts);
    }
  });
}

}  // namespace tutti
