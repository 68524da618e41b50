// Runs: walks tensors that are broadcast to one shape in few straight pieces.
//
//   const Runs runs(shape, {&x, &y});
//   runs.First([](const Run& run) { ... run.at[0], run.step[0], run.size ...; return -1; });
//
// Axes of length 1 are left out, and neighbouring axes that every operand walks with one step are
// joined: of contiguous tensors of one shape there is one run. An operand that is repeated along an
// axis has step 0 there.
#ifndef TUTTI_CORE_DEBUGGING_RUNS_H_
#define TUTTI_CORE_DEBUGGING_RUNS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tutti {

constexpr size_t kMaxRunOperands = 4;

struct Run {
  std::array<const void*, kMaxRunOperands> at{};  // the first element of each operand
  std::array<int64_t, kMaxRunOperands> step{};    // in elements
  int64_t size = 0;
};

class Runs {
 public:
  // At most kMaxRunOperands tensors, which outlive it, each of a shape that broadcasts to `shape`.
  Runs(const Shape& shape, std::initializer_list<const Tensor*> operands);

  // Calls fn(run) in row-major order until it returns a position in the run, 0 or more, and gives
  // that position among all elements; -1 when it never does.
  template <class Fn>
  int64_t First(Fn&& fn) const {
    if (num_elements_ == 0) return -1;
    std::vector<int64_t> index(axes_.size(), 0);
    Run run;
    run.size = axes_.back().size;
    run.step = axes_.back().step;
    for (int64_t begin = 0; begin < num_elements_; begin += run.size) {
      run.at = Place(index);
      const int64_t found = fn(static_cast<const Run&>(run));
      if (found >= 0) return begin + found;
      for (size_t axis = axes_.size() - 1; axis-- > 0;) {
        if (++index[axis] < axes_[axis].size) break;
        index[axis] = 0;
      }
    }
    return -1;
  }

  // The element of operand `i` at a position in row-major order.
  const void* ElementAt(size_t i, int64_t position) const;

 private:
  struct Axis {
    int64_t size = 1;
    std::array<int64_t, kMaxRunOperands> step{};
  };

  std::array<const void*, kMaxRunOperands> Place(const std::vector<int64_t>& index) const;

  int64_t num_elements_;
  size_t num_operands_;
  std::array<const Tensor*, kMaxRunOperands> operands_{};
  std::vector<Axis> axes_;  // at least one, the last is the run's
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEBUGGING_RUNS_H_
