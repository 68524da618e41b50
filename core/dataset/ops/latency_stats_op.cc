// latency_stats: the elements as they are; how long each took is written into the StatsAggregator
// of the dataset's options, under `tag`. Without an aggregator there is no stage at all.
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/measured_stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

Status CheckLatencyStats(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckText(node, "tag"));
  if (!node.attributes().Get<std::string>("tag")->empty()) return OkStatus();
  return InvalidArgument(
      "{}: the tag is empty; give the name under which the aggregator shall have the latencies",
      node.label());
}

Result<std::unique_ptr<Stage>> MakeLatencyStats(const Node& node, const ExecContext& context,
                                                StageInputs inputs) {
  return MeasuredAs(*node.attributes().Get<std::string>("tag"), node, std::move(inputs[0]),
                    context);
}

}  // namespace

constinit const OpTraits kLatencyStatsOp = {
    .name = "latency_stats",
    .attributes = {{"tag"}},
    .row_ratio = RowRatio::kOneToOne,
    .can_seek = true,
    .passes_elements = true,
    .check = CheckLatencyStats,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakeLatencyStats,
};

}  // namespace tutti
