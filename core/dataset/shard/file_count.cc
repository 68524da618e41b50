#include "core/dataset/shard/file_count.h"

#include <memory>

#include "core/base/environment.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

// Counting ends here: the input may never end.
constexpr int64_t kMostNames = int64_t{1} << 24;

int64_t NamesIn(const Slab& slab) {
  int64_t names = 0;
  for (const Column& column : slab.columns) {
    for (int64_t row = 0; row < slab.rows; ++row) {
      const Leaf leaf = column.Row(row);
      if (leaf.is_tensor()) names += leaf.tensor().num_elements();
    }
  }
  return names;
}

// Computes the elements: their number, or that of the names in them.
Result<std::optional<int64_t>> Compute(const Dataset& dataset, const Node& node, bool count_rows,
                                       const CallOptions& call) {
  Environment& environment = dataset.environment()->environment();
  ExecContext context{dataset.environment().get(), &environment.memory(), &dataset.options(),
                      true};
  context.depth_around = node.depth();
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Stage> stage, MakeStage(node, context));
  int64_t count = 0;
  while (count <= kMostNames) {
    TUTTI_RETURN_IF_ERROR(CheckCallOptions(call, environment.clock(), "counting files"));
    Slab slab;
    stage->Next(Demand{kMaxSlabRows, count_rows}, call, &slab);
    count += count_rows ? slab.rows : NamesIn(slab);
    if (slab.end) return std::optional<int64_t>(count);
    if (!slab.status.ok()) return slab.status.WithPrefix("counting files");
  }
  return std::optional<int64_t>();
}

}  // namespace

Result<std::optional<int64_t>> CountElements(const Dataset& dataset, const Node& node,
                                             const CallOptions& call) {
  if (node.cardinality() >= 0) return std::optional<int64_t>(node.cardinality());
  if (node.cardinality() == kInfiniteCardinality) return std::optional<int64_t>();
  const RowRatio ratio = node.op().row_ratio;
  if (ratio == RowRatio::kOneToOne || ratio == RowRatio::kPermuted) {
    return CountElements(dataset, node.input(), call);
  }
  if (node.has_host_functions()) return std::optional<int64_t>();
  return Compute(dataset, node, true, call);
}

bool HoldsOneName(const Node& names) {
  const Ref<const ElementSpec> spec = names.element_spec();
  return spec != nullptr && spec->num_leaves() == 1 && spec->leaf(0).is_tensor() &&
         spec->leaf(0).shape.has_rank() && spec->leaf(0).shape.rank() == 0;
}

Result<std::optional<int64_t>> CountFileNames(const Dataset& dataset, const Node& names,
                                              const CallOptions& call) {
  if (HoldsOneName(names)) return CountElements(dataset, names, call);
  if (names.cardinality() == kInfiniteCardinality || names.has_host_functions()) {
    return std::optional<int64_t>();
  }
  return Compute(dataset, names, false, call);
}

}  // namespace tutti
