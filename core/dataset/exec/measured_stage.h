// Stages that are measured: beside each of them stands one that reads the clock before and behind
// its calls, and writes what they took into the StatsAggregator of the dataset's options. Where
// there is no aggregator no such stage is made, so that what is not measured costs nothing.
#ifndef TUTTI_CORE_DATASET_EXEC_MEASURED_STAGE_H_
#define TUTTI_CORE_DATASET_EXEC_MEASURED_STAGE_H_

#include <memory>
#include <string_view>

#include "core/dataset/exec/stage.h"

namespace tutti {

// `stage`, measured under `tag`: elements that it gives count, with the time that they took, what
// stands below included; what is passed over, the end and interruptions do not. An element that
// failed is a failure. The stage itself where nobody wants to know.
std::unique_ptr<Stage> MeasuredAs(std::string_view tag, const Node& node,
                                  std::unique_ptr<Stage> stage, const ExecContext& context);

// The same of every stage where the option latency_all_edges is set, as "record_latency::" and the
// name of its node; without one, what it is and its depth: "record_latency::batch/2".
std::unique_ptr<Stage> MeasuredIfAll(const Node& node, std::unique_ptr<Stage> stage,
                                     const ExecContext& context);

// `stage` with what it does written into context.record; the stage itself where there is none.
std::unique_ptr<Stage> Profiled(const Node& node, std::unique_ptr<Stage> stage,
                                const ExecContext& context);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_MEASURED_STAGE_H_
