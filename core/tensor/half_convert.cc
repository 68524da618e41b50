// float16 through F16C where the CPU has it; bfloat16 is shifts, which the compiler vectorises.
#include "core/tensor/half_convert.h"

#include "core/tensor/half.h"
#include "core/tensor/simd.h"

#if defined(TUTTI_HAS_AVX2_KERNELS)
#include <immintrin.h>
#endif

namespace tutti {
namespace {

constexpr int kBlock = 64;

struct WidenBfloat16 {
  static TUTTI_ALWAYS_INLINE void Run(const Bfloat16* source, float* destination, int64_t n) {
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
      for (int j = 0; j < kBlock; ++j) destination[i + j] = ToFloat(source[i + j]);
    }
    for (; i < n; ++i) destination[i] = ToFloat(source[i]);
  }
};

struct NarrowToBfloat16 {
  static TUTTI_ALWAYS_INLINE void Run(const float* source, Bfloat16* destination, int64_t n) {
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
      for (int j = 0; j < kBlock; ++j) destination[i + j] = ToBfloat16(source[i + j]);
    }
    for (; i < n; ++i) destination[i] = ToBfloat16(source[i]);
  }
};

#if defined(TUTTI_HAS_AVX2_KERNELS)

TUTTI_TARGET_AVX2 int64_t WidenFloat16Avx2(const Float16* source, float* destination, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(destination + i, _mm256_cvtph_ps(halves));
  }
  return i;
}

TUTTI_TARGET_AVX2 int64_t NarrowToFloat16Avx2(const float* source, Float16* destination,
                                              int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + i), halves);
  }
  return i;
}

#endif

}  // namespace

void ConvertToFloat(const Bfloat16* source, float* destination, int64_t n) {
  tensor_internal::RunBest<WidenBfloat16>(source, destination, n);
}

void ConvertFromFloat(const float* source, Bfloat16* destination, int64_t n) {
  tensor_internal::RunBest<NarrowToBfloat16>(source, destination, n);
}

void ConvertToFloat(const Float16* source, float* destination, int64_t n) {
  int64_t i = 0;
#if defined(TUTTI_HAS_AVX2_KERNELS)
  if (tensor_internal::CpuHasAvx2()) i = WidenFloat16Avx2(source, destination, n);
#endif
  for (; i < n; ++i) destination[i] = ToFloat(source[i]);
}

void ConvertFromFloat(const float* source, Float16* destination, int64_t n) {
  int64_t i = 0;
#if defined(TUTTI_HAS_AVX2_KERNELS)
  if (tensor_internal::CpuHasAvx2()) i = NarrowToFloat16Avx2(source, destination, n);
#endif
  for (; i < n; ++i) destination[i] = ToFloat16(source[i]);
}

}  // namespace tutti
