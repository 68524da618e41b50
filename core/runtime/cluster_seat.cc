#include "core/runtime/cluster_seat.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/wait.h"

namespace tutti {

Result<Ref<Cluster>> ClusterSeat::Take(Ref<Environment> environment, ClusterOptions options,
                                       const CallOptions& call) {
  Ref<Cluster> former;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    TUTTI_RETURN_IF_ERROR(WaitUntil(
        lock, changed_, environment->clock(), call, [this] { return !joining_; },
        "joining a cluster: waiting for another thread that joins it"));
    if (cluster_ && !cluster_->closed() && cluster_->failure().ok()) {
      if (addresses_ == options.addresses && cluster_->worker() == options.worker &&
          num_replicas_ == options.num_replicas) {
        return cluster_;
      }
      return FailedPrecondition(
          "joining a cluster: this runtime is worker {} of {} with {} replicas, and cannot be "
          "worker "
          "{} of {} with {} replicas at the same time; close the first one, or use another runtime",
          cluster_->worker(), Join(addresses_, ", "), num_replicas_, options.worker,
          Join(options.addresses, ", "), options.num_replicas);
    }
    former = std::move(cluster_);
    joining_ = true;
  }
  // Also when the host throws: others may try.
  const struct Joining {
    ClusterSeat& seat;
    Ref<Cluster>& former;
    ~Joining() {
      {
        std::lock_guard<std::mutex> lock(seat.mutex_);
        seat.joining_ = false;
        if (!seat.cluster_ && former && !former->closed()) seat.cluster_ = std::move(former);
      }
      seat.changed_.notify_all();
    }
  } joining{*this, former};
  std::vector<std::string> addresses = options.addresses;
  const int64_t num_replicas = options.num_replicas;
  // Its address is free only after it has been closed.
  if (former) {
    TUTTI_RETURN_IF_ERROR(
        former->Close(call).WithPrefix("joining a cluster: closing the one that has failed"));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Cluster> joined,
                         Cluster::Join(environment, std::move(options), call));
  std::lock_guard<std::mutex> lock(mutex_);
  cluster_ = joined;
  team_.reset();
  shared_.reset();
  epochs_.clear();
  addresses_ = std::move(addresses);
  num_replicas_ = num_replicas;
  return joined;
}

Status ClusterSeat::CheckCurrent(const Cluster& cluster) const {
  if (cluster_.get() == &cluster) return OkStatus();
  return FailedPrecondition(
      "this cluster is not the one that the runtime is in; it was closed, or its job has failed "
      "and "
      "another one was joined");
}

Result<Ref<ClusterTeam>> ClusterSeat::Team(const Cluster& cluster, CollectiveTransport transport,
                                           std::shared_ptr<const SelectorTable> table) {
  std::lock_guard<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckCurrent(cluster));
  if (!team_) team_ = ClusterTeam::Create(cluster_, transport, std::move(table));
  return team_;
}

Result<int64_t> ClusterSeat::NextEpoch(const Cluster& cluster, const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckCurrent(cluster));
  return ++epochs_[name];
}

Ref<Cluster> ClusterSeat::current() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return cluster_ && !cluster_->closed() ? cluster_ : Ref<Cluster>();
}

Result<Ref<Communicator>> ClusterSeat::SharedCommunicator(
    const Cluster& cluster,
    const std::function<Result<Ref<Communicator>>(const Ref<Cluster>& cluster)>& create) {
  Ref<Cluster> joined;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TUTTI_RETURN_IF_ERROR(CheckCurrent(cluster));
    if (shared_ && !shared_->closed() && shared_->epoch_status().ok()) return shared_;
    joined = cluster_;
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> made, create(joined));
  Ref<Communicator> former = made;  // given up after the lock
  std::lock_guard<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckCurrent(cluster));
  std::swap(shared_, former);
  return made;
}

void ClusterSeat::Fail(Status reason) {
  Ref<Cluster> cluster;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    cluster = cluster_;
  }
  if (cluster) cluster->Fail(std::move(reason));
}

void ClusterSeat::Clear() {
  // Given up after the lock.
  Ref<Cluster> former;
  Ref<ClusterTeam> former_team;
  Ref<Communicator> former_shared;
  std::lock_guard<std::mutex> lock(mutex_);
  former = std::move(cluster_);
  former_team = std::move(team_);
  former_shared = std::move(shared_);
}

}  // namespace tutti
