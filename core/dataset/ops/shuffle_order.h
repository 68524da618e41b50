// ShuffleOrder: which element of the buffer comes next. The order that a seed gives is a promise of
// compatibility: it is golden in shuffle_op_test.cc, and kVersion stands in every saved state. A
// better generator gets a new version and leaves this one as it is.
//
// Version 1: SplitMix64 from a key that mixes seed, iteration and epoch; a number below n by
// Lemire's method ("Fast random integer generation in an interval", 2019), unbiased.
#ifndef TUTTI_CORE_DATASET_OPS_SHUFFLE_ORDER_H_
#define TUTTI_CORE_DATASET_OPS_SHUFFLE_ORDER_H_

#include <cstdint>

#include "core/base/random.h"

namespace tutti {

class ShuffleOrder {
 public:
  static constexpr int64_t kVersion = 1;
  static constexpr uint64_t kGamma = 0x9e3779b97f4a7c15u;

  ShuffleOrder() = default;
  ShuffleOrder(int64_t seed, int64_t iteration, int64_t epoch)
      : state_(Absorb(Absorb(Absorb(0, seed), iteration), epoch)) {}

  // Uniform in [0, n), n > 0.
  uint64_t Below(uint64_t n) {
    unsigned __int128 product = static_cast<unsigned __int128>(Draw()) * n;
    if (static_cast<uint64_t>(product) < n) {
      const uint64_t threshold = -n % n;
      while (static_cast<uint64_t>(product) < threshold) {
        product = static_cast<unsigned __int128>(Draw()) * n;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

  uint64_t state() const { return state_; }
  void set_state(uint64_t state) { state_ = state; }

 private:
  static uint64_t Absorb(uint64_t key, int64_t value) {
    return SplitMix64::Mix(key + kGamma) ^ SplitMix64::Mix(static_cast<uint64_t>(value) + kGamma);
  }
  uint64_t Draw() {
    state_ += kGamma;
    return SplitMix64::Mix(state_);
  }

  uint64_t state_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_SHUFFLE_ORDER_H_
