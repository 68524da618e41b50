#include "core/collective/group/cluster_team.h"

#include <utility>

#include "core/cluster/job/cluster.h"
#include "core/collective/select/selector.h"

namespace tutti {

Ref<ClusterTeam> ClusterTeam::Create(Ref<Cluster> cluster, CollectiveTransport transport,
                                     std::shared_ptr<const SelectorTable> table) {
  return MakeRef<ClusterTeam>(std::move(cluster), transport, std::move(table));
}

ClusterTeam::ClusterTeam(Ref<Cluster> cluster, CollectiveTransport transport,
                         std::shared_ptr<const SelectorTable> table)
    : cluster_(std::move(cluster)), transport_(transport), table_(std::move(table)) {}

ClusterTeam::~ClusterTeam() = default;

int64_t ClusterTeam::worker() const { return cluster_->worker(); }
int64_t ClusterTeam::num_workers() const { return cluster_->num_workers(); }
std::string ClusterTeam::Describe(int64_t worker) const { return cluster_->Describe(worker); }

int64_t ClusterTeam::replicas_on_this_machine() const {
  const std::string& here = cluster_->info(cluster_->worker()).boot_id;
  int64_t replicas = 0;
  for (int64_t worker = 0; worker < cluster_->num_workers(); ++worker) {
    const WorkerInfo& info = cluster_->info(worker);
    if (worker == cluster_->worker() || info.boot_id == here) replicas += info.num_replicas;
  }
  return replicas;
}

Result<std::vector<std::string>> ClusterTeam::Exchange(std::string_view key, std::string bytes,
                                                       const CallOptions& call) {
  return cluster_->Exchange(key, std::move(bytes), call);
}

Result<Ref<Communicator>> ClusterTeam::CreateCommunicator(
    std::string_view name, int64_t epoch, const CallOptions& call,
    std::optional<CollectiveTransport> transport) {
  return Communicator::Create(cluster_, name, epoch, transport.value_or(transport_), table_, call);
}

bool ClusterTeam::reproducible() const { return table_ != nullptr && table_->reproducible(); }

Status ClusterTeam::failure() const { return cluster_->failure(); }

}  // namespace tutti
