// flat_map: the elements of the datasets that a function gives, one dataset after the other.
//
// It is the interleave over one slot (interleave_stage.h).
#include <utility>

#include "core/dataset/exec/inner_stages.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/inner_spec.h"
#include "core/dataset/ops/interleave_stage.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/window_batches.h"

namespace tutti {
namespace {

Status CheckFlatMap(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckSeed(node));
  return CheckGivesDatasets(node);
}

int64_t FlatMapCardinality(const Node&) { return kUnknownCardinality; }

Result<std::unique_ptr<Stage>> MakeFlatMap(const Node& node, const ExecContext& context,
                                           StageInputs inputs) {
  return MakeInterleaveStage(node, context, std::move(inputs), Cycle{1, 1});
}

}  // namespace

constinit const OpTraits kFlatMapOp = {
    .name = "flat_map",
    .attributes = {{"seed"}, {"seed_given", true}, {"seed_by_element"}},
    .row_ratio = RowRatio::kExpanding,
    .gives_datasets = true,
    .determinism = Determinism::kSeeded,
    .serializability = Serializability::kWithFunctions,
    .check = CheckFlatMap,
    .cardinality = FlatMapCardinality,
    .element_spec = PromisedInnerSpec,
    .look_at_dataset = LookAtInnerDataset,
    .make_stage = MakeFlatMap,
    .input_of_fused = InputOfWindowBatches,
    .make_fused = MakeWindowBatches,
};

}  // namespace tutti
