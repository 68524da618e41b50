// ClusterSeat: the one place that a runtime has in a cluster. A worker listens at one address and
// is one member of the job, however many strategies and communicators it makes; they share the
// seat.

#ifndef TUTTI_CORE_RUNTIME_CLUSTER_SEAT_H_
#define TUTTI_CORE_RUNTIME_CLUSTER_SEAT_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/job/cluster.h"
#include "core/collective/communicator/collective_transport.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/group/cluster_team.h"

namespace tutti {

class Environment;

class ClusterSeat {
 public:
  // Joins as Cluster::Join, or gives the seat that is taken already, if it is the one that
  // `options` describe: FAILED_PRECONDITION for another cluster, another place in it, or another
  // number of replicas. A seat whose job has failed or that has been closed is given up for a new
  // one.
  Result<Ref<Cluster>> Take(Ref<Environment> environment, ClusterOptions options,
                            const CallOptions& call);
  // The team of the cluster that Take has given; all strategies share it, for it counts what they
  // make. FAILED_PRECONDITION when the runtime has another seat by now.
  Result<Ref<ClusterTeam>> Team(const Cluster& cluster, CollectiveTransport transport,
                                std::shared_ptr<const SelectorTable> table);
  // 1, 2, ...: how often the host has asked for a communicator of this name. The same errors.
  Result<int64_t> NextEpoch(const Cluster& cluster, const std::string& name);
  // The cluster that this process sits in; null when there is none, or it is closed.
  Ref<Cluster> current() const;
  // The communicator of all workers that the host gets from its strategies: the same one until its
  // epoch has ended, then the next. Every worker asks for it, for it forms with all of them.
  Result<Ref<Communicator>> SharedCommunicator(
      const Cluster& cluster,
      const std::function<Result<Ref<Communicator>>(const Ref<Cluster>& cluster)>& create);
  // Cluster::Fail of the seat, if there is one.
  void Fail(Status reason);
  // Forgets the seat, which shutdown has closed.
  void Clear();

 private:
  Status CheckCurrent(const Cluster& cluster) const;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool joining_ = false;
  Ref<Cluster> cluster_;
  Ref<ClusterTeam> team_;
  Ref<Communicator> shared_;
  std::map<std::string, int64_t> epochs_;
  std::vector<std::string> addresses_;
  int64_t num_replicas_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_CLUSTER_SEAT_H_
