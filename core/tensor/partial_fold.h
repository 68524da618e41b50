// PartialFold: a fold that comes one input after the other, as where ranks pass on what they have
// folded so far. The bits are those of ReduceInto over all inputs at once, in the same order: what
// is passed on is its accumulator. That is mostly the element itself; sums and products of 16-bit
// floats are float32, sums of integers that become a mean are exact.
#ifndef TUTTI_CORE_TENSOR_PARTIAL_FOLD_H_
#define TUTTI_CORE_TENSOR_PARTIAL_FOLD_H_

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/reduce.h"

namespace tutti {

class PartialFold {
 public:
  // The largest growth().
  static constexpr int64_t kMostGrowth = 8;

  // CheckReducible(op, dtype) is OK.
  PartialFold(ReduceOp op, DType dtype);

  // An accumulator is so many times as large as an element; 1: it is one.
  int64_t growth() const { return growth_; }
  // The accumulators of n elements of the first input. Accumulators are aligned to 16 bytes.
  void Begin(const void* input, int64_t n, void* partial) const;
  // Folds the next input into them.
  Status Add(const void* input, int64_t n, void* partial) const;
  // Folds the last one, the `count`-th, and divides and rounds: `out` has elements again. It may be
  // the input.
  Status Finish(const void* partial, const void* input, int64_t count, int64_t n,
                void* out) const;

 private:
  enum class Kind { kOwn, kFloat, kInt64, kInt128 };

  const DType dtype_;
  const bool is_mean_;
  const ReduceOp op_;  // between two operands
  const Kind kind_;
  const int64_t growth_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_PARTIAL_FOLD_H_
