// ClusterSpec: which tasks a cluster has and where they listen: job name -> task index -> address.
// The reference's tf.train.ClusterSpec.
//
//   {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"]}   lists are dense
//   {"worker": {"0": "10.0.0.1:2222", "7": "10.0.0.8:2222"}}                     objects are sparse
//
// OrderWorkers gives the tasks of a multi-worker job their numbers.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_SPEC_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_SPEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tutti {

class ClusterSpec {
 public:
  // Task indices are at most this.
  static constexpr int64_t kMaxTaskIndex = 1'000'000;
  // Index -> address.
  using Job = std::map<int64_t, std::string>;

  ClusterSpec() = default;
  // `what` names the text in messages ("TF_CONFIG: cluster"). INVALID_ARGUMENT with the position of
  // what is no JSON, or with the job and the index of what has the wrong type.
  static Result<ClusterSpec> FromJson(std::string_view json,
                                      std::string_view what = "cluster spec");

  // A job without tasks; nothing where the job is there.
  Status AddJob(const std::string& job);
  // INVALID_ARGUMENT for a negative index, an empty address, and for a task that is there already
  // with another address.
  Status AddTask(const std::string& job, int64_t index, const std::string& address);

  bool empty() const { return jobs_.empty(); }
  // In alphabetical order.
  std::vector<std::string> jobs() const;
  bool HasJob(std::string_view job) const;
  // INVALID_ARGUMENT for a job or a task that is not there, listing what is.
  Result<int64_t> num_tasks(std::string_view job) const;
  Result<std::vector<int64_t>> task_indices(std::string_view job) const;
  Result<std::string> task_address(std::string_view job, int64_t index) const;
  // By index up to the largest one; an empty text where there is no task.
  Result<std::vector<std::string>> job_tasks(std::string_view job) const;

  // Jobs whose indices are 0 .. n-1 become lists, the others objects.
  std::string ToJson() const;
  // "chief:0, worker:0, worker:1", for messages.
  std::string ListTasks() const;

  bool operator==(const ClusterSpec&) const = default;

 private:
  Result<const Job*> FindJob(std::string_view job) const;

  std::map<std::string, Job, std::less<>> jobs_;
};

// The workers of a MultiWorkerMirrored job: the chief first, then worker 0, 1, ... Parameter
// servers and the evaluator are no part of it.
struct WorkerOrder {
  std::vector<std::string> tasks;      // "chief:0", "worker:0", ...
  std::vector<std::string> addresses;  // "host:port", the same order
  int64_t worker = 0;                  // the place of the task asked for
  bool is_chief = false;

  int64_t num_workers() const { return static_cast<int64_t>(tasks.size()); }
};

// An evaluator is alone: a job of one worker. INVALID_ARGUMENT for a task that is not in the
// cluster (listing what is), for a parameter server, two chiefs or evaluators, an address without a
// port, and two tasks with the same address.
Result<WorkerOrder> OrderWorkers(const ClusterSpec& cluster, std::string_view task_type,
                                 int64_t task_id);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_CLUSTER_SPEC_H_
