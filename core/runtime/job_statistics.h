// Statistics of datasets of a whole job: what the aggregators of all ranks have, added up, and what
// explain tells on all of them.
#ifndef TUTTI_CORE_RUNTIME_JOB_STATISTICS_H_
#define TUTTI_CORE_RUNTIME_JOB_STATISTICS_H_

#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communicator.h"
#include "core/dataset/graph/run_report.h"
#include "core/tensor/value.h"

namespace tutti {

class Runtime;

// The sum of what StatsAggregator::Read gave, several times, and as "ranks" these parts as a list.
// INVALID_ARGUMENT for other values.
Result<Ref<Value>> SumStatistics(std::span<const Ref<Value>> parts);

// The same of all ranks: a collective call.
Result<Ref<Value>> GatherStatistics(Runtime& runtime, Communicator& communicator,
                                    const Value& mine, const CollectiveOptions& options);

// The reports of all ranks as one: a collective call.
Result<RunReport> GatherReports(Runtime& runtime, Communicator& communicator,
                                const RunReport& mine, const CollectiveOptions& options);

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_JOB_STATISTICS_H_
