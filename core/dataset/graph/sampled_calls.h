// SampledCalls: which calls are measured, where reading the processor's counter would cost more
// than what is measured. Of calls that take less than about a microsecond one of about eight is,
// drawn at random, and stands for those before it: on average that gives what measuring all would.
// Slower ones are measured each.
//
// Threads: one at a time.
#ifndef TUTTI_CORE_DATASET_GRAPH_SAMPLED_CALLS_H_
#define TUTTI_CORE_DATASET_GRAPH_SAMPLED_CALLS_H_

#include <cstdint>

namespace tutti {

class SampledCalls {
 public:
  // Whether this call is to be measured.
  bool IsDue() { return --until_due_ <= 0; }
  // How many calls the one that is due stands for, itself included.
  int64_t gap() const { return gap_; }
  // It took so long; draws the next one.
  void Measured(uint64_t ticks) {
    if (ticks >= kSlowTicks) {
      gap_ = 1;
    } else {
      // xorshift; 1 .. 15, of which the mean is 8.
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      gap_ = 1 + static_cast<int64_t>(random_ % 15);
    }
    until_due_ = gap_;
  }

 private:
  static constexpr uint64_t kSlowTicks = 2000;

  int64_t until_due_ = 1;
  int64_t gap_ = 1;
  uint64_t random_ = 0x9e3779b97f4a7c15;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_SAMPLED_CALLS_H_
