// SlurmClusterResolver: reads what srun tells each task of a step, anew at each access.
//
//   SLURM_STEP_NODELIST        n[1-2]     the nodes (host_list.h)
//   SLURM_STEP_TASKS_PER_NODE  2(x2)      the tasks on each of them
//   SLURM_STEP_NUM_TASKS       4          all tasks
//   SLURM_PROCID               3          which of them this one is
//   SLURM_DISTRIBUTION         block      how they are numbered: node by node, or cyclic
//
// In blocks, srun's default, task 3 above is the second one of n2; dealt in turn, too, and task 1
// is the first one of n2. The jobs' tasks follow each other in that order, and listen at port_base
// and up on each node. A process whose own SLURM_NODEID and SLURM_LOCALID say something else was
// dealt otherwise: FAILED_PRECONDITION, as for what lacks in the environment.
//
// The GPUs of a node are split evenly among its tasks, through the CUDA_VISIBLE_DEVICES that is
// there: a task's own part is put into that variable when the cluster is read, unless auto_set_gpu
// is false, or Slurm has given each task its own (srun --gpus-per-task). Threads: any; no other may
// read or change the environment while the cluster is read.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_SLURM_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_SLURM_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cluster/resolve/cluster_resolver.h"

namespace tutti {

class SlurmClusterResolver final : public ClusterResolver {
 public:
  using Variables = const char* (*)(const char* name);

  static constexpr int64_t kPortBase = 8888;

  struct Options {
    // Job -> tasks, in the order in which they take Slurm's tasks; empty: all are workers. Fewer
    // than Slurm has are possible: the rest are of no job.
    std::vector<std::pair<std::string, int64_t>> jobs;
    int64_t port_base = kPortBase;
    std::optional<int64_t> gpus_per_node;  // unset: those that nvidia-smi lists, 0 without it
    std::optional<int64_t> gpus_per_task;  // unset: those of a node by its tasks, rounded down
    std::optional<int64_t> tasks_per_node;         // the same for all nodes
    std::map<std::string, int64_t> tasks_of_node;  // or by their names; empty: as Slurm says
    bool auto_set_gpu = true;
    std::string rpc_layer = "grpc";
    std::optional<std::string> task_type;  // beats what is found
    std::optional<int64_t> task_id;
    Variables variables = nullptr;         // null: the process's own
    int64_t (*count_gpus)() = nullptr;     // null: asks nvidia-smi, 20 seconds at most
    void (*set_visible)(const std::string& devices) = nullptr;  // null: sets the variable
  };
  // INVALID_ARGUMENT for numbers that are none, and jobs that come twice.
  static Result<Ref<SlurmClusterResolver>> Create(Options options);

  // "worker:3, ps:1"; `what` names the text in messages.
  static Result<std::vector<std::pair<std::string, int64_t>>> ParseCounts(std::string_view text,
                                                                          std::string_view what);

  std::string name() const override { return "SlurmClusterResolver"; }
  Result<ClusterSpec> cluster_spec() const override;
  Result<std::optional<std::string>> task_type() const override;
  Result<std::optional<int64_t>> task_id() const override;
  Result<std::string> rpc_layer() const override { return options_.rpc_layer; }
  Result<std::string> master(const std::optional<std::string>& task_type,
                             std::optional<int64_t> task_id,
                             const std::optional<std::string>& rpc_layer) const override;
  // GPUs of one task.
  Result<AcceleratorCounts> num_accelerators(const std::optional<std::string>& task_type,
                                             std::optional<int64_t> task_id) const override;
  Result<Ref<ClusterResolver>> Changed(const ResolverChange& change) const override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  struct Step;

  explicit SlurmClusterResolver(Options options);
  ~SlurmClusterResolver() override;

  Result<Step> ReadStep() const;
  Result<std::vector<int64_t>> TasksOfNodes(const std::vector<std::string>& nodes) const;
  // Of one task, where srun was told.
  std::optional<int64_t> GpusBySlurm() const;
  // Of one task, where the fullest node has so many tasks.
  Result<int64_t> GpusOfTask(int64_t most_tasks) const;
  Status SetVisibleDevices(const Step& step) const;
  // The job of Slurm's task `rank` and its index there; unset for one of no job.
  std::optional<std::pair<std::string, int64_t>> TaskOf(const Step& step, int64_t rank) const;

  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_SLURM_CLUSTER_RESOLVER_H_
