// CheckpointTeam: the workers that write one checkpoint together, as one of them sees it. Whoever
// makes checkpoints injects it; by default there is one worker.
#ifndef TUTTI_CORE_CHECKPOINT_CHECKPOINT_TEAM_H_
#define TUTTI_CORE_CHECKPOINT_CHECKPOINT_TEAM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"

namespace tutti {

struct CheckpointTeam {
  int64_t worker = 0;
  int64_t num_workers = 1;
  // Gives what every worker brought, in the order of the workers. All of them call it with the same
  // keys in the same order; the same key may come again. Not called with one worker.
  std::function<Result<std::vector<std::string>>(std::string_view key, std::string bytes,
                                                 const CallOptions& call)>
      exchange = nullptr;
  // Asked before anything is written: whether this process may write as the worker that it says it
  // is. None: it may.
  std::function<Status()> may_write = nullptr;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CHECKPOINT_CHECKPOINT_TEAM_H_
