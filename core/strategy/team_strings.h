// Byte strings from worker 0 to all: what TeamChannel::Broadcast does for numbers.
#ifndef TUTTI_CORE_STRATEGY_TEAM_STRINGS_H_
#define TUTTI_CORE_STRATEGY_TEAM_STRINGS_H_

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/strategy/team_channel.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Gives every worker a tensor with worker 0's strings. `tensor` is the worker's own, of a shape
// that all have; that of the others is only looked at.
Result<Ref<Tensor>> BroadcastStrings(TeamChannel& team, const TeamLabel& label,
                                     const CallOptions& call, const Tensor& tensor);

// The same of numbers: worker 0's tensor, of a shape that the others do not know.
Result<Ref<Tensor>> BroadcastOfWorker0(TeamChannel& team, const TeamLabel& label,
                                       const CallOptions& call, const Tensor& tensor);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_TEAM_STRINGS_H_
