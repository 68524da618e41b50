// The stage of operations that make one element of several consecutive ones, and what their trait
// records have in common. How rows become an element is the operation's own business: its
// RowStacker.
#ifndef TUTTI_CORE_DATASET_OPS_BATCH_STAGE_H_
#define TUTTI_CORE_DATASET_OPS_BATCH_STAGE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
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

// Of a padded_batch, which outlives it (padded_batch_op.cc).
std::unique_ptr<RowStacker> MakePaddedRows(const Node& node);

// Of a node with the attribute "batch_size", and "drop_remainder" where the op has it.
std::unique_ptr<Stage> MakeBatchStage(const Node& node, const ExecContext& context,
                                      StageInputs inputs,
                                      std::unique_ptr<RowStacker> stacker);

// INVALID_ARGUMENT unless these attributes are what they must be.
Status CheckBatchArguments(const Node& node);
// The sizes of the shape that rows of a batch are given, -1 for the largest of a batch.
// INVALID_ARGUMENT naming `what` unless the leaf is a vector of integers that are no less than -1.
Result<std::vector<int64_t>> ReadSizes(const Leaf& leaf, const std::string& what);
int64_t BatchCardinality(const Node& node);
// The spec of batches of rows of this one.
Result<Ref<const ElementSpec>> SpecOfBatches(const Node& node, const ElementSpec& rows);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_BATCH_STAGE_H_
