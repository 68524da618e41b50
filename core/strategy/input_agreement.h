// What the workers of a strategy must agree on before the first step of a distributed dataset: how
// it is sharded and cut, the seed behind its random order, the spec of what each replica gets, and
// how many steps there are. A worker that could not build its part makes all of them fail, with its
// error.

#ifndef TUTTI_CORE_STRATEGY_INPUT_AGREEMENT_H_
#define TUTTI_CORE_STRATEGY_INPUT_AGREEMENT_H_

#include <cstdint>
#include <string>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/strategy/team_channel.h"
#include "core/tensor/element_spec.h"

namespace tutti {

// What one worker knows of its part.
struct InputFacts {
  Status status;     // why there is no part; the rest is empty then
  std::string plan;  // text that must be the same on all workers
  bool needs_seed = false;
  int64_t seed = 0;             // a draw of this worker's
  int64_t steps = 0;            // or kInfiniteCardinality, kUnknownCardinality
  bool whole_steps = false;     // every step has data for every replica, in equally many rows
  Ref<const ElementSpec> spec;  // of one replica's part; null when no element has shown it
};

struct AgreedInput {
  bool needs_seed = false;
  int64_t seed = 0;
  int64_t steps = 0;            // until no worker has data
  bool whole_steps = false;     // of all workers, all the way: nothing needs to be exchanged
  Ref<const ElementSpec> spec;  // with an unknown first dimension unless whole_steps
};

// One collective call. `what` names the function.
Result<AgreedInput> AgreeOnInput(TeamChannel& team, const char* what, const InputFacts& mine,
                                 const CallOptions& call);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_INPUT_AGREEMENT_H_
