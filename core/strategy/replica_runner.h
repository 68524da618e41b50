// ReplicaRunner: one run of a strategy after the other. It joins the engine, which has the threads,
// with the lockstep, which has the meeting points, and says who may run when.

#ifndef TUTTI_CORE_STRATEGY_REPLICA_RUNNER_H_
#define TUTTI_CORE_STRATEGY_REPLICA_RUNNER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/strategy/lockstep.h"
#include "core/strategy/parking_spot.h"
#include "core/strategy/replica_engine.h"
#include "core/tensor/value.h"

namespace tutti {

class Function;
class Strategy;
class TeamChannel;

class ReplicaRunner {
 public:
  // Is a part of `strategy`, as `team` is (null: there is one worker).
  ReplicaRunner(Strategy& strategy, size_t num_replicas, TeamChannel* team);
  ~ReplicaRunner();

  // What Strategy::Run does; the caller has looked at the context.
  Result<Ref<Value>> Run(Function& fn, const Value& args, const CallOptions& options);

  bool closing() const { return closing_.load(); }
  // Stops the run that is running, refuses new ones, joins the threads. May be called again when it
  // failed.
  Status Close(const CallOptions& options);

 private:
  class RunJob;

  // Makes the caller the one that runs, or says why not.
  Status Enter();
  void Leave();
  // Fresh communicators when there are none, or when the last ones have seen an error.
  Status PrepareCommunicators(const CallOptions& options);
  // What can be wrong with a run before it begins.
  Status CheckAsked(const Value& args, const CallOptions& options) const;
  // The value of a whole run.
  Result<Ref<Value>> RunInside(Function& fn, const Value& args, const CallOptions& options);
  // `all_know`: the other workers fail with the same, and the epoch goes on.
  Status RunAll(Function& fn, const Value& args, const CallOptions& options,
                std::vector<Ref<Value>>* results, bool* all_know);

  Strategy& strategy_;
  TeamChannel* const team_;
  ReplicaEngine engine_;
  Lockstep lockstep_;
  int64_t epoch_ = 0;  // of the communicators; used by the caller that runs
  int64_t num_runs_ = 0;  // that have begun; likewise

  std::atomic<bool> busy_{false};
  std::atomic<std::thread::id> running_thread_{};
  std::atomic<bool> closing_{false};
  ParkingSpot idle_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_REPLICA_RUNNER_H_
