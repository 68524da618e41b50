// What observers see of the calls between workers, and how all of them come to the same verdict.
//
// A result is the same bits on all workers, so that all find the same in it. What they find is
// looked for in what each of them brought only then, or where a fold may hide it (MIN, MAX): they
// tell each other, and the first worker that has brought something is the error on all.
#ifndef TUTTI_CORE_STRATEGY_OBSERVED_TEAM_H_
#define TUTTI_CORE_STRATEGY_OBSERVED_TEAM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/strategy/team_channel.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

// After a call over all workers: OK, or, where the channel is observed(), the same error on all of
// them.
// brought[i][replica] are this worker's parts of results[i]. `hides`: a result may be finite though
// what was brought is not. Collective where the channel is observed().
Status ObserveOverTeam(TeamChannel& channel, const TeamLabel& label,
                       std::span<const std::vector<const Tensor*>> brought,
                       std::span<const Tensor* const> results, bool hides,
                       const CallOptions& call);

// After a broadcast of worker 0's tensor: the same, without asking anybody.
Status ObserveOfWorker0(const TeamChannel& channel, const TeamLabel& label, const Tensor& tensor);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_OBSERVED_TEAM_H_
