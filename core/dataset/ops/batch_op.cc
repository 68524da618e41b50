// batch: consecutive elements stacked along a new axis 0.
//
// The rows of one batch that come in one piece are not copied: the batch is a view with another
// shape. Otherwise each piece is copied once.
#include <utility>

#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/ops/batch_stage.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

class EqualRows final : public RowStacker {
 public:
  // Batches whose rows differ from one to the next do not lie in one tensor.
  bool StacksTogether(std::span<const Slab> parts) const override { return RowsAreUniform(parts); }
  Result<Slab> Stack(std::vector<Slab> parts, int64_t rows_each,
                     MemoryAccount* account) override {
    return StackRows(std::move(parts), rows_each, account);
  }
};

Status CheckBatch(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckBatchArguments(node));
  const Ref<const ElementSpec> element = node.input().element_spec();
  return element ? StackedSpec(*element, 1, node.label()).status() : OkStatus();
}

Result<Ref<const ElementSpec>> BatchSpec(const Node& node) {
  Ref<const ElementSpec> element = node.input().element_spec();
  if (!element) return element;
  return SpecOfBatches(node, *element);
}

Result<std::unique_ptr<Stage>> MakeBatch(const Node& node, const ExecContext& context,
                                         StageInputs inputs) {
  return MakeBatchStage(node, context, std::move(inputs), std::make_unique<EqualRows>());
}

}  // namespace

constinit const OpTraits kBatchOp = {
    .name = "batch",
    .attributes = {{"batch_size"}, {"drop_remainder", false}},
    .row_ratio = RowRatio::kManyToOne,
    .can_seek = true,
    .check = CheckBatch,
    .cardinality = BatchCardinality,
    .element_spec = BatchSpec,
    .make_stage = MakeBatch,
};

}  // namespace tutti
