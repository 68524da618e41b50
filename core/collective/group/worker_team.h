// WorkerTeam: the workers that a strategy spans, as one of them sees it. Collectives between
// workers have one rank per worker; what replicas of one worker do together is the worker's own
// business.
//
// ClusterTeam (cluster_team.h) is several processes; LocalTeam (local_team.h) is several workers
// within one process, for tests and simulations.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_WORKER_TEAM_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_WORKER_TEAM_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/collective_transport.h"
#include "core/collective/communicator/communicator.h"

namespace tutti {

class WorkerTeam : public RefCounted {
 public:
  virtual int64_t worker() const = 0;
  virtual int64_t num_workers() const = 0;
  // "worker 1 (pid 4711)".
  virtual std::string Describe(int64_t worker) const = 0;
  // Replicas of all workers that share this machine with this one, itself included, and the cores
  // they can use: who has more replicas than cores does not spin.
  virtual int64_t replicas_on_this_machine() const = 0;

  // Every worker calls it with the same key, each key once; gives what every worker brought, in
  // order. For small facts and rare occasions: it goes over the control channel.
  virtual Result<std::vector<std::string>> Exchange(std::string_view key, std::string bytes,
                                                    const CallOptions& call) = 0;
  // A communicator with one rank per worker. Every worker calls it with the same name and epoch,
  // each pair once. The caller closes it. `transport`: before that of the team, where there is a
  // choice; the same on all workers.
  virtual Result<Ref<Communicator>> CreateCommunicator(
      std::string_view name, int64_t epoch, const CallOptions& call,
      std::optional<CollectiveTransport> transport = std::nullopt) = 0;
  // This worker wants the same bits of a fold however replicas are spread over workers; who asks
  // all of them gives it to all when one of them does.
  virtual bool reproducible() const = 0;
  // The failure that has ended the job for all, or OK.
  virtual Status failure() const = 0;

  // 1, 2, ...: tells apart what every worker makes in the same order.
  int64_t DrawNumber() { return numbers_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  std::atomic<int64_t> numbers_{0};
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_WORKER_TEAM_H_
