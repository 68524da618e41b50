// Randomness: Random is where unpredictable numbers come from (the kernel, or a seed under
// simulation); SplitMix64 is a small seeded generator for everything that must be reproducible.

#ifndef TUTTI_CORE_BASE_RANDOM_H_
#define TUTTI_CORE_BASE_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace tutti {

class Random {
 public:
  virtual ~Random() = default;
  // Any thread.
  virtual void Fill(void* data, size_t bytes) = 0;
  uint64_t Next() {
    uint64_t value = 0;
    Fill(&value, sizeof(value));
    return value;
  }
};

// The kernel's entropy; one for the whole process, without state.
Random& KernelRandom();

// Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014. The sequence
// of a seed never changes.
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(uint64_t seed) noexcept : state_(seed) {}
  constexpr uint64_t Next() noexcept {
    state_ += 0x9e3779b97f4a7c15u;
    return Mix(state_);
  }
  static constexpr uint64_t Mix(uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_RANDOM_H_
