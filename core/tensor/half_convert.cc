// float16 through F16C where the CPU has it; bfloat16 is shifts, which the compiler vectorises.
#include "core/tensor/half_convert.h"

#include "core/tensor/half.h"
#include "core/tensor/simd.h"

#if defined(TUTTI_HAS_AVX2_KERNELS)
#include <immintrin.h>
#endif

namespace tutti {
namespace {

constexpr int kConvertedAtOnce = 64;

struct WidenBfloat16 {
  static TUTTI_ALWAYS_INLINE void Run(const Bfloat16* source, float* destination, int64_t n) {
    int64_t i = 0;
    for (; i + kConvertedAtOnce <= n; i += kConvertedAtOnce) {
      for (int j = 0; j < kConvertedAtOnce; ++j) destination[i + j] = ToFloat(source[i + j]);
    }
    for (; i < n; ++i) destination[i] = ToFloat(source[i]);
  }
};

void NarrowToBfloat16(const float* source, Bfloat16* destination, int64_t n) {
  int64_t i = 0;
  for (; i + kConvertedAtOnce <= n; i += kConvertedAtOnce) {
    for (int j = 0; j < kConvertedAtOnce; ++j) destination[i + j] = ToBfloat16(source[i + j]);
  }
  for (; i < n; ++i) destination[i] = ToBfloat16(source[i]);
}

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

// As ToBfloat16, eight numbers at a time, each in the low half of its 32 bits.
TUTTI_TARGET_AVX2 TUTTI_ALWAYS_INLINE __m256i RoundToBfloat16(const float* source) {
  const __m256 value = _mm256_loadu_ps(source);
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i kept = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(kept, _mm256_set1_epi32(1));
  const __m256i below_half = _mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(below_half, odd), 16);
  const __m256i quiet = _mm256_or_si256(kept, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

// The compiler's own way through 32 bits and back takes half as long again.
TUTTI_TARGET_AVX2 int64_t NarrowToBfloat16Avx2(const float* source, Bfloat16* destination,
                                               int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i packed =
        _mm256_packus_epi32(RoundToBfloat16(source + i), RoundToBfloat16(source + i + 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination + i),
                        _mm256_permute4x64_epi64(packed, 0xd8));
  }
  return i;
}

#endif

}  // namespace

void ConvertToFloat(const Bfloat16* source, float* destination, int64_t n) {
  tensor_internal::RunBest<WidenBfloat16>(source, destination, n);
}

void ConvertFromFloat(const float* source, Bfloat16* destination, int64_t n) {
  int64_t i = 0;
#if defined(TUTTI_HAS_AVX2_KERNELS)
  if (tensor_internal::CpuHasAvx2()) i = NarrowToBfloat16Avx2(source, destination, n);
#endif
  NarrowToBfloat16(source + i, destination + i, n - i);
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
