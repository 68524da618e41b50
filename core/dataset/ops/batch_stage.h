// The stage of operations that make one element of several consecutive ones, and what their trait
// records have in common. How rows become an element is the operation's own business: its
// RowStacker.
#ifndef TUTTI_CORE_DATASET_OPS_BATCH_STAGE_H_
#define TUTTI_CORE_DATASET_OPS_BATCH_STAGE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/dataset/exec/stage.h"

namespace tutti {

class RowStacker {
 public:
  virtual ~RowStacker() = default;

  // Whether all batches of these rows have one shape, so that they can be stacked in one call.
  virtual bool StacksTogether(std::span<const Slab> parts) const = 0;
  // A slab whose row k is the batch of the rows [k * rows_each, (k + 1) * rows_each) of the parts,
  // of which there are a multiple of rows_each.
  virtual Result<Slab> Stack(std::vector<Slab> parts, int64_t rows_each,
                             MemoryAccount* account) = 0;
};

// Of a node with the attributes "batch_size" and "drop_remainder".
std::unique_ptr<Stage> MakeBatchStage(const Node& node, const ExecContext& context,
                                      StageInputs inputs,
                                      std::unique_ptr<RowStacker> stacker);

// INVALID_ARGUMENT unless these two attributes are what they must be.
Status CheckBatchArguments(const Node& node);
int64_t BatchCardinality(const Node& node);
// The spec of batches of rows of this one.
Result<Ref<const ElementSpec>> SpecOfBatches(const Node& node, const ElementSpec& rows);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_BATCH_STAGE_H_
