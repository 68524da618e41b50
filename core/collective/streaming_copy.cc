#include "core/collective/streaming_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti {

#if defined(__x86_64__)

void StreamingCopy(void* destination, const void* source, size_t bytes) noexcept {
  auto* to = static_cast<char*>(destination);
  const auto* from = static_cast<const char*>(source);
  // Whole, aligned cache lines only: a line written in part costs more than it saves.
  const size_t head = (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64;
  if (bytes < head + 64) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16));
    const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 32));
    const __m128i d = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 48));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), a);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + 16), b);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + 32), c);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + 48), d);
  }
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void StreamingFence() noexcept { _mm_sfence(); }

#else

void StreamingCopy(void* destination, const void* source, size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(destination, source, bytes);
}

void StreamingFence() noexcept {}

#endif

}  // namespace tutti
