// TeamChannel: what one strategy says to its other workers, call by call, over one communicator per
// epoch with one rank per worker.
//
// Every call carries a label, "assign_add of variable 'w'", whose hash travels with the data:
// workers that have gone different ways meet in some call, and it fails on all of them, naming both
// labels, instead of mixing a gradient with a batch norm's mean or waiting for ever.
//
// The first failure ends the epoch for all workers. A worker whose own calls had not failed yet is
// told once, by its next call; after that Renew forms the communicator of the next epoch. So every
// worker sees every failure, and they come together again. When the job itself has failed (a worker
// died) nothing is formed any more and that failure is what every call says.
//
// Threads: any; calls wait for each other. The order of calls must be the same on all workers.

#ifndef TUTTI_CORE_STRATEGY_TEAM_CHANNEL_H_
#define TUTTI_CORE_STRATEGY_TEAM_CHANNEL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communication_options.h"
#include "core/collective/group/worker_team.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Environment;
struct ReplicaOrderOperand;

// What a call is, for comparison between workers and for messages: "WHAT 'NAME' of STRUCTURE".
struct TeamLabel {
  std::string_view what;            // "assign_add of variable"
  std::string_view name = {};       // "w"
  std::string_view structure = {};  // "{'loss': leaf}"

  uint64_t Hash() const;
  std::string ToString() const;
};

class TeamChannel {
 public:
  // `environment` outlives the channel. No communicator is formed before Renew. `communication` is
  // the same on all workers.
  TeamChannel(Environment& environment, Ref<WorkerTeam> team, std::string name,
              const CommunicationOptions& communication = {});
  ~TeamChannel();
  TeamChannel(const TeamChannel&) = delete;
  TeamChannel& operator=(const TeamChannel&) = delete;

  WorkerTeam& team() const { return *team_; }
  int64_t worker() const { return team_->worker(); }
  int64_t num_workers() const { return team_->num_workers(); }
  // Floats of several replicas a worker are folded in the order of all replicas: a worker wants it.
  // Set before the channel is shared.
  bool in_replica_order() const { return in_replica_order_; }
  void set_in_replica_order(bool ordered) { in_replica_order_ = ordered; }

  // Whether tensors of the last call that was made are looked at (tensor/tensor_observer.h): a
  // worker wants it. The same on all workers.
  bool observed() const { return observed_.load(std::memory_order_relaxed); }
  // The number of the run that calls are made in, for messages; -1 outside of runs.
  int64_t step() const { return step_.load(std::memory_order_relaxed); }
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }

  // OK when calls can be made, by forming a communicator where it must; collective then. A failure
  // that this worker has not been told of yet is returned instead. Inside callbacks it only looks:
  // an epoch does not change in the middle of a run.
  Status Renew(const CallOptions& call);

  // What has ended the epoch or the job; OK while calls can be made.
  Status status();

  // ---- Collective calls; a failure names the label. ----

  // Only compares labels.
  Status Agree(const TeamLabel& label, const CallOptions& call);
  // Communicator::AllReduce over the workers; `op` is not MEAN. It and AllGather are made by
  // call.hints and, where these ask for nothing, as the strategy's options say; what else the
  // channel says to the others is not.
  Status AllReduce(const TeamLabel& label, ReduceOp op, std::span<const Tensor* const> inputs,
                   const CollectiveOptions& call, std::span<Tensor* const> outputs);
  // FoldInReplicaOrder over the workers, whose labels say what they bring.
  Status FoldReplicas(const TeamLabel& label, ReduceOp op,
                      std::span<const ReplicaOrderOperand> operands, const CallOptions& call);
  // Joins each input along `axis`, in the order of the workers.
  Result<std::vector<Ref<Tensor>>> AllGather(const TeamLabel& label,
                                             std::span<const Tensor* const> inputs, size_t axis,
                                             const CollectiveOptions& call);
  // Copies worker 0's tensor into everybody's.
  Status Broadcast(const TeamLabel& label, const CallOptions& call, Tensor* tensor);
  // What every worker brought. When one brought a failure, that of the first such worker is the
  // result on all of them.
  Result<std::vector<std::string>> Exchange(const TeamLabel& label, const Status& status,
                                            std::string bytes, const CallOptions& call);

  // ---- ----

  // Ends the epoch: the others' calls fail with ABORTED, this worker's name and `reason`; with the
  // reason's own code where an assertion has found it (its detail "assertion"). Gives `reason`.
  // Never blocks.
  Status Abort(Status reason);
  // Abort, for a call that this worker refuses before it begins; where there is nothing to tell the
  // others by, it is made first. Gives `reason`, whatever comes of that.
  Status Refuse(Status reason, const CallOptions& call);
  // Leaves for good. May be called again when it failed.
  Status Close(const CallOptions& call);

 private:
  class Turn;

  CollectiveOptions Hinted(const CollectiveOptions& call) const;
  Status Compare(Communicator& communicator, const TeamLabel& label, const CallOptions& call);
  Status AllReduceOn(Communicator& communicator, const TeamLabel& label, ReduceOp op,
                     std::span<const Tensor* const> inputs, const CollectiveOptions& call,
                     std::span<Tensor* const> outputs);
  Result<std::vector<std::string>> ExchangeOn(Communicator& communicator, const std::string& bytes,
                                              const CallOptions& call);
  Status Mismatch(Communicator& communicator, const TeamLabel& label, const CallOptions& call);

  Environment& environment_;
  const Ref<WorkerTeam> team_;
  const std::string name_;
  const CommunicationOptions communication_;
  bool in_replica_order_ = false;

  // Of whoever has the turn.
  const Ref<Tensor> my_label_;  // int64[workers]: the hash in this worker's place
  const Ref<Tensor> all_labels_;
  int64_t epoch_ = 0;
  std::atomic<bool> observed_{false};
  std::atomic<int64_t> step_{-1};

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool busy_ = false;
  bool closed_ = false;
  bool told_ = false;  // this worker knows how the epoch has ended
  Ref<Communicator> communicator_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_TEAM_CHANNEL_H_
