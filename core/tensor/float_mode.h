// How the thread computes floats: what becomes of numbers near zero (subnormal ones), and how is
// rounded. A host may have changed it on its threads and not on ours, as frameworks do that flush
// subnormal numbers to zero. Which thread folds a tensor is nobody's business; so a fold is done in
// the default mode, on every rank, and the host finds its own again.
//
// Threads: of the thread that calls.

#ifndef TUTTI_CORE_TENSOR_FLOAT_MODE_H_
#define TUTTI_CORE_TENSOR_FLOAT_MODE_H_

#include <cstdint>

namespace tutti {

#if defined(__x86_64__)
// Of MXCSR: flush to zero, rounding, and subnormal inputs are zeros.
inline constexpr uint64_t kFloatModeBits = 0xE040;
inline constexpr uint64_t kFlushSubnormals = 0x8040;
inline uint64_t GetFloatMode() noexcept { return __builtin_ia32_stmxcsr(); }
inline void SetFloatMode(uint64_t mode) noexcept {
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(mode));
}
#elif defined(__aarch64__)
// Of FPCR: default NaN, flush to zero, rounding, and flush to zero of 16-bit floats.
inline constexpr uint64_t kFloatModeBits = 0x3C80000;
inline constexpr uint64_t kFlushSubnormals = 0x1080000;
inline uint64_t GetFloatMode() noexcept {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void SetFloatMode(uint64_t mode) noexcept { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
inline constexpr uint64_t kFloatModeBits = 0;
inline constexpr uint64_t kFlushSubnormals = 0;
inline uint64_t GetFloatMode() noexcept { return 0; }
inline void SetFloatMode(uint64_t) noexcept {}
#endif

// While it lives the thread computes in the default mode.
class DefaultFloatMode {
 public:
  DefaultFloatMode() noexcept : before_(GetFloatMode()) {
    if ((before_ & kFloatModeBits) != 0) Change(before_ & ~kFloatModeBits);
  }
  ~DefaultFloatMode() {
    if ((before_ & kFloatModeBits) != 0) Change(before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  // The compiler knows of no mode: what is computed from memory must not cross the change.
  static void Change(uint64_t mode) noexcept {
    asm volatile("" : : : "memory");
    SetFloatMode(mode);
    asm volatile("" : : : "memory");
  }
  const uint64_t before_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_FLOAT_MODE_H_
