#include "core/tensor/half_fold.h"

#include <type_traits>

#include "core/tensor/simd.h"

#if defined(TUTTI_HAS_AVX2_KERNELS)
#include <immintrin.h>
#endif

// Before a loop over the vectors of a block, which are registers.
#if defined(__clang__)
#define TUTTI_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define TUTTI_UNROLLED _Pragma("GCC unroll 4")
// Intrinsics of AVX-512 begin with a vector that they never read.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace tutti::tensor_internal {

#if defined(TUTTI_HAS_AVX2_KERNELS)

namespace {

// ---- AVX2: a vector has 16 elements ----

// Of bfloat16 `a` has the even elements and `b` the odd ones; of float16 the lower and upper half.
struct Floats256 {
  __m256 a;
  __m256 b;
};

TUTTI_TARGET_AVX2 TUTTI_ALWAYS_INLINE Floats256 Widen256(const Bfloat16* source) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
  const __m256i high = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
          _mm256_castsi256_ps(_mm256_and_si256(words, high))};
}

TUTTI_TARGET_AVX2 TUTTI_ALWAYS_INLINE Floats256 Widen256(const Float16* source) {
  const auto* const halves = reinterpret_cast<const __m128i*>(source);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}

// To nearest even. In 16 bits: what is cut off, and 0x7fff, and one more when what is kept is odd,
// carry into what is kept. An average has the carry at its upper end.
TUTTI_TARGET_AVX2 TUTTI_ALWAYS_INLINE void Narrow256(Floats256 floats, Bfloat16* out) {
  const __m256i even = _mm256_castps_si256(floats.a);
  const __m256i odd = _mm256_castps_si256(floats.b);
  const __m256i kept = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
  const __m256i cut = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
  const __m256i is_odd = _mm256_and_si256(kept, _mm256_set1_epi16(1));
  // An average adds one of its own.
  const __m256i half = _mm256_add_epi16(is_odd, _mm256_set1_epi16(0x7ffe));
  const __m256i carry = _mm256_srli_epi16(_mm256_avg_epu16(cut, half), 15);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_add_epi16(kept, carry));
}

TUTTI_TARGET_AVX2 TUTTI_ALWAYS_INLINE void Narrow256(Floats256 floats, Float16* out) {
  auto* const halves = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(floats.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(floats.b, _MM_FROUND_TO_NEAREST_INT));
}

template <HalfOp kOp>
TUTTI_TARGET_AVX2 TUTTI_ALWAYS_INLINE Floats256 Apply(Floats256 x, Floats256 y) {
  if constexpr (kOp == HalfOp::kProd) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  } else {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
}

template <HalfOp kOp, int kVectors, class T>
TUTTI_TARGET_AVX2 TUTTI_ALWAYS_INLINE int64_t FoldBlocks256(const void* const* inputs,
                                                            size_t count, int64_t i, int64_t n,
                                                            size_t own, T* out) {
  constexpr int kLanes = 16;
  constexpr int64_t kStep = kVectors * kLanes;
  constexpr int64_t kAhead = kBytesAhead / static_cast<int64_t>(sizeof(T));
  const __m256 divisor = _mm256_set1_ps(static_cast<float>(count));
  for (; i + kStep <= n; i += kStep) {
    const T* const first = static_cast<const T*>(inputs[0]) + i;
    const bool prefetches = own != SIZE_MAX && i + kStep + kAhead <= n;
    if (prefetches && own != 0) PrefetchAhead(first, kStep * sizeof(T));
    Floats256 folded[kVectors];
    TUTTI_UNROLLED
    for (int v = 0; v < kVectors; ++v) folded[v] = Widen256(first + v * kLanes);
    for (size_t r = 1; r < count; ++r) {
      const T* const input = static_cast<const T*>(inputs[r]) + i;
      if (prefetches && own != r) PrefetchAhead(input, kStep * sizeof(T));
      TUTTI_UNROLLED
      for (int v = 0; v < kVectors; ++v) {
        folded[v] = Apply<kOp>(folded[v], Widen256(input + v * kLanes));
      }
    }
    __m256 has_nan = _mm256_setzero_ps();
    TUTTI_UNROLLED
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kOp == HalfOp::kMean) {
        folded[v] = {_mm256_div_ps(folded[v].a, divisor), _mm256_div_ps(folded[v].b, divisor)};
      }
      has_nan = _mm256_or_ps(has_nan, _mm256_cmp_ps(folded[v].a, folded[v].b, _CMP_UNORD_Q));
    }
    if (_mm256_movemask_ps(has_nan) != 0) return i;
    TUTTI_UNROLLED
    for (int v = 0; v < kVectors; ++v) Narrow256(folded[v], out + i + v * kLanes);
  }
  return i;
}

template <HalfOp kOp, class T>
TUTTI_TARGET_AVX2 int64_t Fold256(const void* const* inputs, size_t count, int64_t i, int64_t n,
                                  size_t own, T* out) {
  i = FoldBlocks256<kOp, 4>(inputs, count, i, n, own, out);
  return i + kHalfBlock > n ? FoldBlocks256<kOp, 1>(inputs, count, i, n, SIZE_MAX, out) : i;
}

// ---- AVX-512: a vector has 32 elements ----

struct Floats512 {
  __m512 a;
  __m512 b;
};

TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE Floats512 WidenWords(__m512i words) {
  const __m512i high = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(words, high))};
}

TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE Floats512 Widen512(const Bfloat16* source) {
  return WidenWords(_mm512_loadu_si512(source));
}

TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE Floats512 Widen512(const Float16* source) {
  const auto* const halves = reinterpret_cast<const __m256i*>(source);
  return {_mm512_cvtph_ps(_mm256_loadu_si256(halves)),
          _mm512_cvtph_ps(_mm256_loadu_si256(halves + 1))};
}

// The elements that the mask has, zeros for the others.
TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE Floats512 Widen512(__mmask32 mask,
                                                           const Bfloat16* source) {
  return WidenWords(_mm512_maskz_loadu_epi16(mask, source));
}

TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE Floats512 Widen512(__mmask32 mask,
                                                           const Float16* source) {
  const __m512i halves = _mm512_maskz_loadu_epi16(mask, source);
  return {_mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
          _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))};
}

// How the numbers of a vector are rounded, and which of them are not.
struct RoundsByCarry {
  static TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE __mmask16 Special(Floats512 floats) {
    return _mm512_cmp_ps_mask(floats.a, floats.b, _CMP_UNORD_Q);
  }
  // As Narrow256.
  static TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE __m512i Narrow(Floats512 floats, Bfloat16*) {
    constexpr __mmask32 kOdd = 0xaaaaaaaa;
    const __m512i even = _mm512_castps_si512(floats.a);
    const __m512i odd = _mm512_castps_si512(floats.b);
    const __m512i kept = _mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(even, 16), odd);
    const __m512i cut = _mm512_mask_blend_epi16(kOdd, even, _mm512_slli_epi32(odd, 16));
    const __m512i is_odd = _mm512_and_si512(kept, _mm512_set1_epi16(1));
    const __m512i half = _mm512_or_si512(is_odd, _mm512_set1_epi16(0x7ffe));
    const __m512i carry = _mm512_srli_epi16(_mm512_avg_epu16(cut, half), 15);
    return _mm512_add_epi16(kept, carry);
  }
  static TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE __m512i Narrow(Floats512 floats, Float16*) {
    const __m256i low = _mm512_cvtps_ph(floats.a, _MM_FROUND_TO_NEAREST_INT);
    const __m256i high = _mm512_cvtps_ph(floats.b, _MM_FROUND_TO_NEAREST_INT);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
};

// By the instruction of AVX512_BF16. It is written out, because a function that may use it by name
// cannot be the same one that does without.
struct RoundsByInstruction {
  static TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE __mmask16 Special(Floats512 floats) {
    constexpr int kQuietNan = 0x01;
    constexpr int kSubnormal = 0x20;
    constexpr int kSignallingNan = 0x80;
    constexpr int kSpecial = kQuietNan | kSubnormal | kSignallingNan;
    return static_cast<__mmask16>(_mm512_fpclass_ps_mask(floats.a, kSpecial) |
                                  _mm512_fpclass_ps_mask(floats.b, kSpecial));
  }
  static TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE __m512i Narrow(Floats512 floats, Bfloat16*) {
    __m512i halves;  // first those of `a`, then those of `b`
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(floats.b), "v"(floats.a));
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                           24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                           16, 0);
    return _mm512_permutexvar_epi16(order, halves);
  }
};

template <HalfOp kOp>
TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE Floats512 Apply(Floats512 x, Floats512 y) {
  if constexpr (kOp == HalfOp::kProd) {
    return {_mm512_mul_ps(x.a, y.a), _mm512_mul_ps(x.b, y.b)};
  } else {
    return {_mm512_add_ps(x.a, y.a), _mm512_add_ps(x.b, y.b)};
  }
}

template <HalfOp kOp, class Rounds, int kVectors, class T>
TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE int64_t FoldBlocks512(const void* const* inputs,
                                                              size_t count, int64_t i, int64_t n,
                                                              size_t own, T* out) {
  constexpr int kLanes = 32;
  constexpr int64_t kStep = kVectors * kLanes;
  constexpr int64_t kAhead = kBytesAhead / static_cast<int64_t>(sizeof(T));
  const __m512 divisor = _mm512_set1_ps(static_cast<float>(count));
  for (; i + kStep <= n; i += kStep) {
    const T* const first = static_cast<const T*>(inputs[0]) + i;
    const bool prefetches = own != SIZE_MAX && i + kStep + kAhead <= n;
    if (prefetches && own != 0) PrefetchAhead(first, kStep * sizeof(T));
    Floats512 folded[kVectors];
    TUTTI_UNROLLED
    for (int v = 0; v < kVectors; ++v) folded[v] = Widen512(first + v * kLanes);
    for (size_t r = 1; r < count; ++r) {
      const T* const input = static_cast<const T*>(inputs[r]) + i;
      if (prefetches && own != r) PrefetchAhead(input, kStep * sizeof(T));
      TUTTI_UNROLLED
      for (int v = 0; v < kVectors; ++v) {
        folded[v] = Apply<kOp>(folded[v], Widen512(input + v * kLanes));
      }
    }
    uint32_t special = 0;
    TUTTI_UNROLLED
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kOp == HalfOp::kMean) {
        folded[v] = {_mm512_div_ps(folded[v].a, divisor), _mm512_div_ps(folded[v].b, divisor)};
      }
      special |= Rounds::Special(folded[v]);
    }
    if (special != 0) return i;
    TUTTI_UNROLLED
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_si512(out + i + v * kLanes, Rounds::Narrow(folded[v], out));
    }
  }
  return i;
}

// Less than a vector: all that is left.
template <HalfOp kOp, class Rounds, class T>
TUTTI_TARGET_AVX512 TUTTI_ALWAYS_INLINE int64_t FoldRest512(const void* const* inputs,
                                                            size_t count, int64_t i, int64_t n,
                                                            T* out) {
  const __mmask32 mask = (uint32_t{1} << (n - i)) - 1;
  Floats512 folded = Widen512(mask, static_cast<const T*>(inputs[0]) + i);
  for (size_t r = 1; r < count; ++r) {
    folded = Apply<kOp>(folded, Widen512(mask, static_cast<const T*>(inputs[r]) + i));
  }
  if constexpr (kOp == HalfOp::kMean) {
    const __m512 divisor = _mm512_set1_ps(static_cast<float>(count));
    folded = {_mm512_div_ps(folded.a, divisor), _mm512_div_ps(folded.b, divisor)};
  }
  if (Rounds::Special(folded) != 0) return i;
  _mm512_mask_storeu_epi16(out + i, mask, Rounds::Narrow(folded, out));
  return n;
}

template <HalfOp kOp, class Rounds, class T>
TUTTI_TARGET_AVX512 int64_t Fold512(const void* const* inputs, size_t count, int64_t i, int64_t n,
                                    size_t own, T* out) {
  i = FoldBlocks512<kOp, Rounds, 4>(inputs, count, i, n, own, out);
  if (i + kHalfBlock <= n) return i;
  i = FoldBlocks512<kOp, Rounds, 1>(inputs, count, i, n, SIZE_MAX, out);
  return i + 32 > n && i < n ? FoldRest512<kOp, Rounds>(inputs, count, i, n, out) : i;
}

// ---- Choosing ----

template <HalfOp kOp, class T>
int64_t FoldOf(VectorWidth width, const void* const* inputs, size_t count, int64_t i, int64_t n,
               size_t own, T* out) {
  switch (width) {
    case VectorWidth::kAvx512Bfloat16:
      if constexpr (std::is_same_v<T, Bfloat16>) {
        return Fold512<kOp, RoundsByInstruction>(inputs, count, i, n, own, out);
      }
      [[fallthrough]];
    case VectorWidth::kAvx512:
      return Fold512<kOp, RoundsByCarry>(inputs, count, i, n, own, out);
    case VectorWidth::kAvx2: return Fold256<kOp>(inputs, count, i, n, own, out);
    case VectorWidth::kNone: break;
  }
  return i;
}

template <class T>
int64_t Fold(VectorWidth width, HalfOp op, const void* const* inputs, size_t count, int64_t i,
             int64_t n, size_t own, T* out) {
  switch (op) {
    case HalfOp::kSum: return FoldOf<HalfOp::kSum>(width, inputs, count, i, n, own, out);
    case HalfOp::kMean: return FoldOf<HalfOp::kMean>(width, inputs, count, i, n, own, out);
    case HalfOp::kProd: return FoldOf<HalfOp::kProd>(width, inputs, count, i, n, own, out);
  }
  return i;
}

}  // namespace

VectorWidth WidestVectors() {
  if (!CpuHasAvx2()) return VectorWidth::kNone;
  if (!CpuHasAvx512()) return VectorWidth::kAvx2;
  return __builtin_cpu_supports("avx512bf16") ? VectorWidth::kAvx512Bfloat16
                                              : VectorWidth::kAvx512;
}

#else

namespace {

template <class T>
int64_t Fold(VectorWidth, HalfOp, const void* const*, size_t, int64_t i, int64_t, size_t, T*) {
  return i;
}

}  // namespace

VectorWidth WidestVectors() { return VectorWidth::kNone; }

#endif

int64_t FoldHalves(VectorWidth width, HalfOp op, const void* const* inputs, size_t count,
                   int64_t begin, int64_t n, size_t own, Bfloat16* out) {
  return Fold(width, op, inputs, count, begin, n, own, out);
}

int64_t FoldHalves(VectorWidth width, HalfOp op, const void* const* inputs, size_t count,
                   int64_t begin, int64_t n, size_t own, Float16* out) {
  return Fold(width, op, inputs, count, begin, n, own, out);
}

}  // namespace tutti::tensor_internal
