// ScarceMemory: allocations that fail where a test says so, by an operator new of the program. For
// one source of a test program, which is no part of a unity build.

#ifndef TUTTI_CORE_BASE_SCARCE_MEMORY_TESTING_H_
#define TUTTI_CORE_BASE_SCARCE_MEMORY_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// Of this thread: how many allocations still succeed; less than 0: all.
thread_local int allocations_left = -1;
thread_local int num_refused = 0;

}  // namespace

// ThreadSanitizer knows what a library without instruments has freed by its own operator delete.
#if defined(__SANITIZE_THREAD__)
constexpr bool kMemoryCanBeScarce = false;
#else
constexpr bool kMemoryCanBeScarce = true;

static void* Allocate(size_t bytes) noexcept {
  if (allocations_left == 0) {
    ++num_refused;
    return nullptr;
  }
  if (allocations_left > 0) --allocations_left;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

// Not inlined: a compiler that sees malloc and free in there takes them for mismatched.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* const room = Allocate(bytes)) return room;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes);
}
[[gnu::noinline]] void operator delete(void* room) noexcept { std::free(room); }
[[gnu::noinline]] void operator delete(void* room, size_t) noexcept { std::free(room); }
[[gnu::noinline]] void operator delete(void* room, const std::nothrow_t&) noexcept {
  std::free(room);
}
#endif

namespace tutti {
namespace {

// While it lives, allocations of this thread fail but for the first few.
class ScarceMemory {
 public:
  explicit ScarceMemory(int allocations) {
    num_refused = 0;
    allocations_left = allocations;
  }
  ~ScarceMemory() { allocations_left = -1; }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  static bool HasRefused() { return num_refused != 0; }
};

// However little memory there is, up to where it is enough.
template <typename Body>
void ForEachShortage(const Body& body) {
  if (!kMemoryCanBeScarce) GTEST_SKIP() << "ThreadSanitizer keeps its own operator new";
  constexpr int kMost = 1000;
  int allocations = 0;
  while (allocations < kMost && body(allocations)) ++allocations;
  EXPECT_GT(allocations, 0);
  EXPECT_LT(allocations, kMost);
}

}  // namespace
}  // namespace tutti

#endif  // TUTTI_CORE_BASE_SCARCE_MEMORY_TESTING_H_
