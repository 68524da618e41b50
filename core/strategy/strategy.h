// Strategy: the same function on several replicas, with the variables and reductions that keep them
// in lockstep.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Strategy> strategy, Strategy::CreateMirrored(environment, devices,
//   {"CPU:0", "CPU:1"})); TUTTI_ASSIGN_OR_RETURN(Ref<Value> losses, strategy->Run(step,
//   batch.get(), options)); TUTTI_ASSIGN_OR_RETURN(Ref<Value> loss,
//   strategy->Reduce(ReduceOp::kSum, *losses, std::nullopt, options));
//
// Replicas run concurrently: replica 0 on the thread that calls Run, the others on persistent
// threads that start with the first run (replica_runner.h). What replicas do together, collectives
// and merge calls, goes through the contexts that their functions receive (replica_context.h).
//
// After a run that failed the strategy is usable again: the next one gets fresh communicators.
// Threads: any; of two concurrent runs the later one fails.
//
// MultiWorkerMirrored spans the workers of a team (collective/group/worker_team.h), each with
// equally many replicas; replica i of worker w has the number w * R + i. Its runs, reductions,
// variables and distributed datasets are collective: every worker makes the same calls in the same
// order. A worker that makes another call is told so together with the others (team_channel.h); one
// that fails ends the others' runs.

#ifndef TUTTI_CORE_STRATEGY_STRATEGY_H_
#define TUTTI_CORE_STRATEGY_STRATEGY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/closable.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/resolve/cluster_resolver.h"
#include "core/collective/communicator/communication_options.h"
#include "core/collective/group/worker_team.h"
#include "core/device/device.h"
#include "core/strategy/cross_device_ops.h"
#include "core/tensor/reduce.h"
#include "core/tensor/value.h"

namespace tutti {

class Environment;
class Function;
class NcclFolds;
class ReplicaRunner;
class TeamChannel;
class Variable;

struct StrategyOptions {
  std::string name;  // for messages; empty: the type's name
  // How the replicas of a Mirrored strategy reduce (cross_device_ops.h): reduce, reduce_to, what
  // replicas write into variables, and their all_reduce of SUM and MEAN. Null: the library chooses.
  Ref<CrossDeviceOps> cross_device_ops;
  // Folds of floats on several GPUs go in the order of the replicas, with the host's bits, even
  // where NCCL would do them in its own (nccl_folds.h).
  bool in_replica_order = true;
};

struct MultiWorkerOptions {
  StrategyOptions strategy;
  Ref<WorkerTeam> team;                 // null: this worker is alone
  Ref<const ClusterResolver> resolver;  // whom it asked for the team, for users
  CommunicationOptions communication;   // the same on all workers
  std::vector<std::string> devices;     // one replica each; empty: as num_replicas says
  // Of this worker, on as many devices, GPUs where there are enough; 0: as Mirrored does.
  int64_t num_replicas = 0;
};

class Strategy final : public Closable {
 public:
  // ---- Making ----

  // What holds outside of every scope: one replica, nothing distributed.
  static Result<Ref<Strategy>> CreateDefault(Ref<Environment> environment,
                                             const DeviceSet& devices);
  // Everything on one device. NOT_FOUND for a device that this machine does not have.
  static Result<Ref<Strategy>> CreateOneDevice(Ref<Environment> environment,
                                               const DeviceSet& devices, std::string_view device,
                                               const StrategyOptions& options = {});
  // One replica per device; none named: all GPUs, else the CPU. GPUs beside CPUs are a warning: all
  // that they do together is copied through the host. INVALID_ARGUMENT naming a device that comes
  // twice or is unknown.
  static Result<Ref<Strategy>> CreateMirrored(Ref<Environment> environment,
                                              const DeviceSet& devices,
                                              std::span<const std::string> names,
                                              const StrategyOptions& options = {});

  // Replicas on `compute` (none named: all GPUs, else the CPU), variables on the one device
  // `parameter` (empty: the GPU where `compute` is one, else the CPU), where replicas' updates are
  // aggregated and happen once.
  // INVALID_ARGUMENT as of CreateMirrored.
  static Result<Ref<Strategy>> CreateCentralStorage(Ref<Environment> environment,
                                                    const DeviceSet& devices,
                                                    std::span<const std::string> compute,
                                                    std::string_view parameter,
                                                    const StrategyOptions& options = {});

  // Mirrored over the workers of a team; waits for all of them. INVALID_ARGUMENT on all workers
  // when one of them has other numbers of replicas or devices that it cannot use.
  static Result<Ref<Strategy>> CreateMultiWorkerMirrored(Ref<Environment> environment,
                                                         const DeviceSet& devices,
                                                         const MultiWorkerOptions& options,
                                                         const CallOptions& call);

  // ---- What it is ----

  // Replicas of all workers, and of this process.
  int64_t num_replicas_in_sync() const {
    return static_cast<int64_t>(devices_.size()) * num_workers_;
  }
  size_t num_local_replicas() const { return devices_.size(); }
  int64_t num_workers() const { return num_workers_; }
  int64_t worker() const { return worker_; }
  // The number of this worker's first replica.
  int64_t first_replica() const { return static_cast<int64_t>(devices_.size()) * worker_; }
  // Null with one worker, as the channel to the others is.
  WorkerTeam* team() const { return team_.get(); }
  TeamChannel* team_channel() const { return team_channel_.get(); }
  // For the collectives of replicas whose own hints ask for nothing.
  const CommunicationHints& hints() const { return hints_; }
  // Whom MultiWorkerMirrored asked for the workers; null of others.
  const ClusterResolver* cluster_resolver() const { return resolver_.get(); }
  // Of a local replica.
  const Device& device(size_t replica) const { return *devices_[replica]; }
  const DeviceSet& device_set() const { return *device_set_; }
  // Where variables lie: the replicas' devices, or the one of a CentralStorage strategy.
  size_t num_parameter_devices() const {
    return parameter_device_ ? 1 : devices_.size();
  }
  const Device& parameter_device(size_t i) const {
    return parameter_device_ ? *parameter_device_ : *devices_[i];
  }
  // Whether one of this process's replicas is on a GPU: what replicas do together goes by
  // device_values.h then.
  bool has_gpus() const { return has_gpus_; }
  // For AllReduceOnDevices.
  NcclFolds& nccl_folds() const { return *nccl_folds_; }
  // Whether variables lie on one device, apart from the replicas'.
  bool has_central_storage() const { return parameter_device_ != nullptr; }
  // "/job:localhost/replica:0/task:0/device:CPU:0"; null past the last one. As long-lived as the
  // strategy.
  const std::string* full_worker_device(size_t replica) const;
  const std::string* full_parameter_device(size_t i) const;
  // "DefaultStrategy", "OneDeviceStrategy", "MirroredStrategy", "MultiWorkerMirroredStrategy",
  // "CentralStorageStrategy"; static.
  const char* type_name() const { return type_name_; }
  const std::string& name() const { return closable_name(); }
  bool is_default() const;
  // False for the default and the one-device strategy, whose variables are plain ones.
  bool is_mirrored() const { return is_mirrored_; }

  // ---- Running ----

  // Calls `fn` once per local replica, concurrently, and returns when none of the calls is running
  // any more. `args` (null: a none) is split by Select, the results are joined by Regroup. The
  // first error of a replica stops the others and is returned, with "replica" among its details.
  // FAILED_PRECONDITION while another run is running, and after Close.
  Result<Ref<Value>> Run(Function& fn, const Value* args, const CallOptions& options);

  // ---- Values ----

  // Reduces every leaf over all replicas; the result is on the host. Only SUM and MEAN. With `axis`
  // (negative counts from the end) also along it inside each replica, MEAN over the true number of
  // elements. Of a leaf that is not distributed MEAN gives the leaf, SUM INVALID_ARGUMENT when
  // there are several replicas; of a mirrored one MEAN without an axis gives the value, SUM adds
  // the components. Indexed slices are joined (slices_reduce.h), without an axis. None stays none.
  Result<Ref<Value>> Reduce(ReduceOp op, const Value& value, std::optional<int64_t> axis,
                            const CollectiveOptions& options);
  // Joins the components of every distributed leaf along `axis`, in replica order. Collective when
  // a leaf is distributed.
  Result<Ref<Value>> Gather(const Value& value, int64_t axis, const CollectiveOptions& options);
  // A tuple of what each local replica holds; of a value that is not distributed a tuple of one.
  Result<Ref<Value>> LocalResults(const Value& value) const;
  // A distributed value from one call of `fn` per local replica, in order, in cross-replica
  // context; its input is the dict {"num_replicas_in_sync", "replica_id_in_sync_group"} of int64
  // scalars.
  Result<Ref<Value>> CreateValues(Function& fn, const CallOptions& options);
  // A distributed value from one value per local replica.
  Result<Ref<Value>> CreatePerReplica(std::span<const Ref<Value>> components) const;
  // `value` for every local replica: each leaf, none and texts too, as a mirrored one.
  Result<Ref<Value>> CreateMirroredValue(const Value& value) const;

  // ---- On devices, in cross-replica context (strategy_extended.cc) ----

  // One value (cross_device_ops.h says which) reduced to the devices that `destinations` stands
  // for, over the replicas of all workers: a tensor on one device, a mirrored value on several.
  Result<Ref<Value>> ReduceTo(ReduceOp op, const Value& value, const Value& destinations,
                              const CollectiveOptions& options);
  // `pairs`: a tuple or list of (value, destinations); a tuple of results.
  Result<Ref<Value>> BatchReduceTo(ReduceOp op, const Value& pairs,
                                   const CollectiveOptions& options);
  Result<Ref<Value>> BroadcastTo(const Value& value, const Value& destinations,
                                 const CollectiveOptions& options);
  // Calls fn((variable, args...)) on this thread, once for each device of this process that the
  // variable has a copy on, in an update context, in which reads and writes of variables are those
  // of that copy. `args` (null: none) is a tuple, or one argument; replicas' components go to their
  // devices. The results as one value, mirrored where no argument differs between devices, or with
  // group false as a tuple of one each. The first error ends it. INVALID_ARGUMENT for a variable of
  // another strategy, and for distributed arguments where the variable has one copy.
  Result<Ref<Value>> Update(Variable& variable, Function& fn, const Value* args, bool group,
                            const CallOptions& options);
  // The same of fn(args...), on each device that `colocate_with` stands for: one value as for
  // ReduceTo, or a tuple or list of names.
  Result<Ref<Value>> UpdateNonSlot(const Value& colocate_with, Function& fn, const Value* args,
                                   bool group, const CallOptions& options);
  // The variable that `component` is a copy of, by its memory; NOT_FOUND for what is none.
  Result<Ref<Variable>> FindVariable(const Tensor& component) const;
  // For Variable: its life.
  void AddVariable(Variable* variable);
  void RemoveVariable(Variable* variable) noexcept;
  // OK for a variable of this strategy, else INVALID_ARGUMENT.
  Status CheckOwns(const Variable& variable, std::string_view what) const;

  // Cross-device ops that it was given; null: none.
  CrossDeviceOps* given_ops() const { return given_ops_.get(); }
  // What they were used for.
  void NoteUse(std::string_view what, ReduceOp op, const Tensor& tensor);
  void NoteUse(const Tensor& broadcast);
  // Lines that say what it is, how it reduces and, where it was given cross-device ops, what these
  // were used for.
  std::string Explain() const;

  // OK when one tensor for all replicas can be reduced: `label` names it.
  Status CheckPlainReduce(ReduceOp op, const Tensor& tensor, std::string_view label) const;

  // FAILED_PRECONDITION after Close, after shutdown and in a forked child; `what` names the caller.
  Status CheckOpen(std::string_view what) const;

 protected:
  // Ends a run that is running (its replicas are told to stop), joins the threads.
  Status OnClose(const CallOptions& options) override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);

  Strategy(Ref<Environment> environment, const char* type_name, bool is_mirrored,
           std::vector<Ref<Device>> devices, const StrategyOptions& options, Ref<WorkerTeam> team,
           std::unique_ptr<TeamChannel> team_channel, const DeviceSet& device_set,
           Ref<Device> parameter_device);
  ~Strategy() override;
  static Result<Ref<Strategy>> Make(Ref<Environment> environment, const DeviceSet& device_set,
                                    const char* type_name, bool is_mirrored,
                                    std::vector<Ref<Device>> devices,
                                    const StrategyOptions& options, Ref<WorkerTeam> team = nullptr,
                                    std::unique_ptr<TeamChannel> team_channel = nullptr,
                                    Ref<Device> parameter_device = nullptr);

  // One warning for each implementation that is asked for where no worker is to be reached.
  void TellOfImplementation(const CommunicationHints& hints, std::string_view what);
  // What can be wrong with a reduce or gather before it begins.
  Status CheckReduction(const Value& value, std::string_view what,
                        const CollectiveOptions& options) const;
  Status CheckPlainReduce(ReduceOp op, const Leaf& leaf, std::string_view label) const;
  // `value` with the tensors of variables that have one copy for several replicas in their place.
  Result<Ref<Value>> WithCentralValues(const Value& value) const;
  // Reduce by the given ops.
  Result<Ref<Value>> ReduceByOps(ReduceOp op, const Value& value, std::optional<int64_t> axis,
                                 const CollectiveOptions& options);
  // What calls of ReduceTo and its like have in common.
  Status CheckToDevices(std::string_view what, const CollectiveOptions& options) const;
  CrossDeviceOps& ops() const { return given_ops_ ? *given_ops_ : *default_ops_; }
  Result<std::vector<Ref<Value>>> ReduceEachTo(ReduceOp op, std::span<const Value* const> values,
                                               std::span<const Value* const> destinations,
                                               std::string_view what,
                                               const CollectiveOptions& options);
  Result<Ref<Value>> UpdateOn(std::span<const Ref<Device>> devices, const Ref<Value>& variable,
                              Function& fn, const Value* args, bool group, std::string_view what,
                              const CallOptions& options);
  Result<Ref<Value>> GatherLeaves(const Value& value, int64_t axis, bool over_workers,
                                  const CollectiveOptions& options);
  // A plain tensor under several workers with one replica each is that replica's: what run gave.
  bool IsComponent(const Leaf& leaf) const;
  bool IsSpreadOverWorkers(const Value& value) const;
  // Reduce of a structure with indexed slices.
  Result<Ref<Value>> ReduceSlices(ReduceOp op, const Value& value, std::span<const size_t> slices,
                                  const CollectiveOptions& options);
  Result<Ref<Value>> TeamReduceValue(ReduceOp op, const Value& value, std::optional<int64_t> axis,
                                     const CollectiveOptions& options);

  const char* const type_name_;
  const bool is_mirrored_;
  const std::vector<Ref<Device>> devices_;
  const bool has_gpus_;
  const Ref<const DeviceSet> device_set_;
  const Ref<Device> parameter_device_;  // of CentralStorage
  const Ref<CrossDeviceOps> given_ops_;
  const Ref<CrossDeviceOps> default_ops_;
  const std::unique_ptr<CrossDeviceUses> uses_;
  const std::unique_ptr<NcclFolds> nccl_folds_;
  const Ref<WorkerTeam> team_;
  const int64_t worker_;
  const int64_t num_workers_;
  const std::unique_ptr<TeamChannel> team_channel_;
  std::vector<std::string> full_worker_devices_;     // set once, when it is made
  std::vector<std::string> full_parameter_devices_;  // likewise
  Ref<const ClusterResolver> resolver_;  // set once, when it is made
  CommunicationHints hints_;             // likewise
  std::atomic<uint32_t> told_of_{0};     // a bit per CommunicationImplementation
  const std::unique_ptr<ReplicaRunner> runner_;

  mutable std::mutex variables_mutex_;  // guards variables_
  std::set<Variable*> variables_;       // those that live
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_STRATEGY_H_
