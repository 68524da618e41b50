// What every worker of a job knows of every other one.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_WORKER_INFO_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_WORKER_INFO_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

struct WorkerInfo {
  int64_t worker = 0;         // its place in the job, 0 is the coordinator
  std::string task;           // "chief:0", "worker:1"
  int64_t num_replicas = 1;
  int64_t usable_cores = 1;   // that the process may use (affinity, cgroup)
  int64_t pid = 0;
  int64_t pid_start_time = 0; // of /proc/<pid>/stat: tells it from a later one of the same pid
  std::string host;           // name of the machine, for messages
  std::string boot_id;        // equal on the same machine since the same boot
  std::string pid_namespace;  // inode: equal where pids mean the same
  std::string tcp_address;    // where its PeerListener accepts, "10.0.0.2:40123"
  std::string local_address;  // the same within one machine, "@tutti-..."
  std::string build;          // "tutti 0.1.0"
};

// Who has, or had, a seat: those with which the job began have the arrival 0, each process that
// takes a seat of a running job has a number of its own.
struct MemberId {
  int64_t worker = 0;
  uint64_t arrival = 0;
  friend auto operator<=>(const MemberId&, const MemberId&) = default;
};

// "worker 1 (pid 4711)", or "worker 1 (pid 4711 on node-b)" when its host is not `from_host`.
std::string DescribeWorker(const WorkerInfo& info, const std::string& from_host);

// UNAVAILABLE, with the details "rank" and "worker".
Status BlameWorker(int64_t worker, std::string message);

// What is said of a worker that has been silent for too long.
std::string DescribeSilence(std::string_view who, int64_t duration_ns);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_WORKER_INFO_H_
