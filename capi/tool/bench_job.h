// The runtime of a worker of `tutti bench`, and its ranks: one that is a worker of a cluster, or
// all of them as threads of one process.

#ifndef TUTTI_CAPI_TOOL_BENCH_JOB_H_
#define TUTTI_CAPI_TOOL_BENCH_JOB_H_

#include <tutti/tutti.h>

#include <functional>
#include <string>
#include <vector>

#include "capi/tool/bench_options.h"
#include "capi/tool/c_handles.h"
#include "capi/tool/rank_hosts.h"

namespace tutti::tool {

class BenchJob {
 public:
  explicit BenchJob(const BenchOptions& options) : options_(options) {}
  ~BenchJob();

  CStatus Start();
  tutti_runtime* runtime() const { return runtime_.get(); }
  int workers() const { return workers_; }
  // After the first Connect.
  const RankHosts& hosts() const { return hosts_; }
  // Communicators of this process's ranks. Every worker makes the same calls.
  CStatus Connect(const std::string& name, std::vector<CCommunicator>* communicators);
  // Calls `rank`, with its place among those of this process, on a thread for each; the first
  // status that is not 0. Not on the calling thread, from which the runtime's threads would inherit
  // the core.
  int OnRanks(const std::function<int(size_t place)>& rank) const;
  // Whether each rank of a host has a core of its own, where BindRank takes its thread.
  bool BindsRanks() const;
  void BindRank(int64_t rank) const;

  static int Failed(const std::string& who, const CStatus& status);

 private:
  const BenchOptions& options_;
  CRuntime runtime_;
  CCluster cluster_;
  int workers_ = 1;
  RankHosts hosts_;
  bool has_hosts_ = false;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_BENCH_JOB_H_
