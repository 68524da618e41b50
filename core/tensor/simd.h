// Running a kernel with the instructions that this CPU has.
//
// A kernel is a struct with a static, always-inlined Run(...), written so that the compiler
// vectorises it: loops of a constant number of steps over local blocks. RunBest<Kernel>(...) calls
// the copy of it that was compiled for AVX2 when the CPU has that, else the one for the baseline;
// both give the same bits, because the build forbids contracted multiply-adds. Resolved at every
// call by a test of a bit: ifunc would run before sanitizers are ready.
#ifndef TUTTI_CORE_TENSOR_SIMD_H_
#define TUTTI_CORE_TENSOR_SIMD_H_

#include <cstdint>

#define TUTTI_ALWAYS_INLINE inline __attribute__((always_inline))

// Before a loop whose steps read and write elements of their own only, though arrays may be the
// same: without it the compiler takes them for overlapping, and copies.
#if defined(__clang__)
#define TUTTI_ELEMENT_BY_ELEMENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TUTTI_ELEMENT_BY_ELEMENT _Pragma("GCC ivdep")
#else
#define TUTTI_ELEMENT_BY_ELEMENT
#endif

#if defined(__x86_64__)
#define TUTTI_HAS_AVX2_KERNELS 1
#define TUTTI_TARGET_AVX2 __attribute__((target("avx2,f16c")))
#define TUTTI_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#endif

namespace tutti::tensor_internal {

// How far ahead of its use a line is asked for that lies with another core: about as many as can be
// on their way.
inline constexpr int64_t kBytesAhead = 2048;

// Asks for the lines of `bytes`, kBytesAhead of `data`.
TUTTI_ALWAYS_INLINE void PrefetchAhead(const void* data, int64_t bytes) {
  const char* const ahead = static_cast<const char*>(data) + kBytesAhead;
  for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(ahead + line);
}

#if defined(TUTTI_HAS_AVX2_KERNELS)

inline bool CpuHasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
}

template <class Kernel, class... Args>
TUTTI_TARGET_AVX2 void RunAvx2(Args... args) {
  Kernel::Run(args...);
}

template <class Kernel, class... Args>
void RunBest(Args... args) {
  if (CpuHasAvx2()) {
    RunAvx2<Kernel>(args...);
  } else {
    Kernel::Run(args...);
  }
}

inline bool CpuHasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && CpuHasAvx2();
}

#else

template <class Kernel, class... Args>
void RunBest(Args... args) {
  Kernel::Run(args...);
}

#endif

}  // namespace tutti::tensor_internal

#endif  // TUTTI_CORE_TENSOR_SIMD_H_
