#include "core/collective/streaming_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti {

#if defined(__x86_64__)

namespace {

// In stores of 16 bytes: wider ones take longer between cores, and no less to memory.
template <bool kAhead>
void Copy(char* to, const char* from, size_t bytes, const char* next) noexcept {
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
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64, next += kAhead ? 64 : 0) {
    if constexpr (kAhead) _mm_prefetch(next, _MM_HINT_T0);
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

}  // namespace

void StreamingCopy(void* destination, const void* source, size_t bytes) noexcept {
  Copy<false>(static_cast<char*>(destination), static_cast<const char*>(source), bytes, nullptr);
}

void StreamingCopyAhead(void* destination, const void* source, size_t bytes,
                        const void* next) noexcept {
  Copy<true>(static_cast<char*>(destination), static_cast<const char*>(source), bytes,
             static_cast<const char*>(next));
}

void StreamingFence() noexcept { _mm_sfence(); }

#else

void StreamingCopy(void* destination, const void* source, size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(destination, source, bytes);
}

void StreamingCopyAhead(void* destination, const void* source, size_t bytes,
                        const void*) noexcept {
  StreamingCopy(destination, source, bytes);
}

void StreamingFence() noexcept {}

#endif

}  // namespace tutti
