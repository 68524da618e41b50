// What the options of a job's workers are in tests, and what a status says.

#ifndef TUTTI_CORE_CLUSTER_TESTING_CLUSTER_OPTIONS_TESTING_H_
#define TUTTI_CORE_CLUSTER_TESTING_CLUSTER_OPTIONS_TESTING_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/cluster/job/cluster.h"

namespace tutti {

inline std::string Message(const Status& status) { return std::string(status.message()); }

inline ClusterOptions OptionsOf(int64_t num_workers, int64_t worker) {
  ClusterOptions options;
  options.name = Format("cluster of worker {}", worker);
  for (int64_t i = 0; i < num_workers; ++i) {
    options.tasks.push_back(Format("worker:{}", i));
    options.addresses.push_back(Format("10.0.0.{}:2222", i + 1));
  }
  options.worker = worker;
  return options;
}

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_TESTING_CLUSTER_OPTIONS_TESTING_H_
