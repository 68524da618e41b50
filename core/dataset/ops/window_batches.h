// Batches of windows without the windows: `window(...)` behind which a flat_map, or an interleave
// of one dataset at a time, has a traced function that only makes batches of its window:
//
//   w -> w.batch(n)      (x, y) -> zip(x, y).batch(n)      (x, y) -> zip(x.batch(n), y.batch(n))
//
// Then one stage makes the batches of the input's rows: a change of shape where windows follow each
// other and are whole batches, else a copy of each run of rows. Elements, failures and their order
// are those of the two operations; only how soon the input is asked differs, by as many windows as
// are wanted. Where the option experimental_optimization.apply_default_optimizations is false, or
// what rows are is not promised by all operations before, both run as they are written.
//
// A position that the two operations have saved is gone on from by the two, whatever was made.
#ifndef TUTTI_CORE_DATASET_OPS_WINDOW_BATCHES_H_
#define TUTTI_CORE_DATASET_OPS_WINDOW_BATCHES_H_

#include <memory>
#include <string_view>

#include "core/base/status.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"

namespace tutti {

// The section of its positions.
inline constexpr std::string_view kWindowBatchesSection = "window_batches";

// The input of the window that `node` makes such batches of; null where it does anything else.
const Node* InputOfWindowBatches(const Node& node, const ExecContext& context);

// The stage of such a node, on that input's.
Result<std::unique_ptr<Stage>> MakeWindowBatches(const Node& node, const ExecContext& context,
                                                 StageInputs inputs);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_WINDOW_BATCHES_H_
