// TakeNextLines: asks early for the cache lines that a rank writes in its next call.
//
// Two calls ago the peers have read these lines, and so they lie in the peers' caches as well: a
// store to one of them waits until all others have dropped it. Once all peers have arrived in this
// call they read the lines no more: asked for behind the fold, they are there, or on their way,
// when the next call writes.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_NEXT_LINES_H_
#define TUTTI_CORE_COLLECTIVE_CALL_NEXT_LINES_H_

#include <cstddef>

namespace tutti {

inline constexpr size_t kLineBytes = 64;

// Where it was measured to save something, between siblings and between cores: of fewer lines the
// stores wait as long as the asking takes, and of more the asking is in the way of the next call.
inline constexpr bool TakesNextLines(size_t bytes) noexcept {
  return bytes >= 512 && bytes < 2048;
}

// `begin` is that of a line.
inline void TakeNextLines(const std::byte* begin, size_t bytes) noexcept {
  for (size_t at = 0; at < bytes; at += kLineBytes) {
#if defined(__x86_64__)
    // The builtin asks for reading, unless the compiler is told of the instruction.
    asm volatile("prefetchw %0" : : "m"(begin[at]));
#else
    __builtin_prefetch(begin + at, /*rw=*/1);
#endif
  }
}

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_NEXT_LINES_H_
