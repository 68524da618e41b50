// The stages of flat_map and interleave.
//
// A cycle goes over `cycle_length` slots. A slot takes the next element of the input when the cycle
// reaches it, calls the function for it, and gives up to `block_length` elements of that dataset a
// visit. A dataset's end is found when it is asked for more: then the cycle goes on, and the slot
// takes another element when it comes back. Elements of the input and calls of the function that
// fail are reported where the slot would have given its first element, and the slot takes the next
// one; an inner element that fails counts as one of its block. flat_map is the cycle over one slot.
#ifndef TUTTI_CORE_DATASET_OPS_INTERLEAVE_STAGE_H_
#define TUTTI_CORE_DATASET_OPS_INTERLEAVE_STAGE_H_

#include <cstdint>
#include <memory>

#include "core/dataset/exec/stage.h"

namespace tutti {

struct Cycle {
  int64_t length = 1;
  int64_t block_length = 1;
};

// On the iterating thread: nothing is called or made before it is asked for.
std::unique_ptr<Stage> MakeInterleaveStage(const Node& node, const ExecContext& context,
                                           StageInputs inputs, const Cycle& cycle);

struct Parallelism {
  int64_t threads = 1;  // where it tunes, to begin with
  bool tunes = false;
  int64_t most_threads = 1;
  // Elements come in the order of the cycle; else from whichever slot has some.
  bool deterministic = true;
};

// On threads, which take elements of the input, call the function and make elements of its datasets
// ahead, for all slots and for those that will take their places.
std::unique_ptr<Stage> MakeParallelInterleaveStage(const Node& node, const ExecContext& context,
                                                   StageInputs inputs, const Cycle& cycle,
                                                   const Parallelism& parallelism);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_INTERLEAVE_STAGE_H_
