// Whether all replicas of a job have a core each, so that who waits may spin.

#include <algorithm>
#include <map>
#include <string>

#include "core/collective/group/group_forming.h"

namespace tutti {

bool ReplicasFitCores(const std::vector<WorkerInfo>& workers) {
  struct Machine {
    int64_t replicas = 0;
    int64_t cores = INT64_MAX;
  };
  std::map<std::string, Machine> machines;
  for (const WorkerInfo& worker : workers) {
    Machine& machine = machines[worker.boot_id];
    machine.replicas += worker.num_replicas;
    machine.cores = std::min(machine.cores, worker.usable_cores);
  }
  return std::all_of(machines.begin(), machines.end(),
                     [](const auto& entry) { return entry.second.replicas <= entry.second.cores; });
}

}  // namespace tutti
