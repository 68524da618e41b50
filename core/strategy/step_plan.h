// StepPlan: which rows of a dataset's batches make one step of one worker.
//
// The N replicas of all workers get slices of batches. CEIL (rebatch.h) cuts every batch into N;
// EVEN cuts the rows, whatever batches they come in, into slices whose sizes repeat: with G rows to
// a batch, f = floor(G / N) and c = G - N * f they are [f + 1] * c + [f] * (N - c).
//
// A step of a worker is a block of R slices that follow each other. When every worker reads all
// batches (policy DATA) block w of each N slices is worker w's. When each has batches of its own
// (FILE, HINT, OFF) it takes all blocks, one step after the other; EVEN then starts at block w in
// the list, so that the slices of one step of all workers have G rows. N = 4, R = 2, W = 2, CEIL,
// batches of 8:
//
//   batch         0 1   2 3   4 5   6 7
//   DATA          worker 0, step 1    |  worker 1, step 1
//   FILE          step 1              |  step 2              (of this worker's batches)

#ifndef TUTTI_CORE_STRATEGY_STEP_PLAN_H_
#define TUTTI_CORE_STRATEGY_STEP_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace tutti {

struct StepPlan {
  enum class Cut : int32_t {
    kNone = 0,  // elements are dealt out as they come, one per replica
    kCeil = 1,
    kEven = 2,
  };

  Cut cut = Cut::kNone;
  size_t num_replicas = 1;  // of this worker: R
  size_t num_slices = 1;    // of a batch, or in the list of EVEN: N
  // The blocks of every N slices that are this worker's, in this order, beginning with first_block.
  size_t first_block = 0;
  size_t num_blocks = 1;
  std::vector<int64_t> sizes;  // EVEN: rows of each of the N slices

  // The slices of block `i` (0 .. num_blocks - 1 in the order of the steps): [first, first + R).
  size_t FirstSlice(size_t i) const {
    return (first_block + i) % (num_slices / num_replicas) * num_replicas;
  }
  // All workers read the same batches.
  bool shares_batches() const {
    return cut != Cut::kNone && num_blocks * num_replicas < num_slices;
  }
  // EVEN: the rows from one step to the next, of which `skip` are others' before the block.
  struct Window {
    int64_t rows = 0;
    int64_t skip = 0;
  };
  Window WindowOf(size_t block) const;

  // "CEIL, slices 2 to 3 of every 4".
  std::string ToString() const;
};

// The sizes of EVEN.
std::vector<int64_t> EvenSizes(int64_t batch_size, size_t num_slices);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_STEP_PLAN_H_
