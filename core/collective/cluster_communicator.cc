// A communicator between the workers of a job: a transport that the workers have formed
// (group_forming.h), which the cluster tells of workers that die.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/cluster/cluster.h"
#include "core/collective/communicator.h"
#include "core/collective/group_forming.h"
#include "core/collective/transport.h"

namespace tutti {
namespace {

// Passes everything on, and ends the epoch when the job has failed.
class WatchedTransport final : public Transport {
 public:
  WatchedTransport(Ref<Cluster> cluster, FormedGroup group, std::string name, int64_t epoch)
      : cluster_(std::move(cluster)),
        group_(std::move(group)),
        name_(std::move(name)),
        epoch_(epoch) {
    listener_ = cluster_->AddListener(
        [this](const ClusterEvent& event) { OnEvent(event.worker, event.status); });
  }
  ~WatchedTransport() override { cluster_->RemoveListener(listener_); }

  const char* name() const override { return group_.transport->name(); }
  Status Execute(CollectiveCall* call) override {
    Status status = group_.transport->Execute(call);
    if (status.ok()) return status;
    return InCall(*call, std::move(status));
  }
  Status Fail(Status error) override { return group_.transport->Fail(std::move(error)); }
  Status failure() const override { return group_.transport->failure(); }
  bool ClaimFlightRecord() override { return group_.transport->ClaimFlightRecord(); }
  void Leave(Status reason) override { group_.transport->Leave(std::move(reason)); }

 private:
  // What the cluster said of a lost worker, as the failure of a call: "all_reduce #41 (float32[8],
  // SUM) needs rank 1: worker 1 (pid 4711) is gone: ...".
  Status InCall(const CollectiveCall& call, Status status) const {
    const StatusDetail* lost = status.FindDetail("worker");
    if (lost == nullptr || status.FindDetail("op") != nullptr) return status;
    const char* op = CollectiveOpName(call.header.op);
    std::string what;
    if (call.header.num_tensors > 0) {
      what = call.header.first.ToString();
      if (call.header.num_tensors > 1) what += Format(" and {} more", call.header.num_tensors - 1);
      if (call.header.op == CollectiveOp::kAllReduce) {
        what += Format(", {}", ReduceOpName(call.header.reduction));
      }
      what = Format(" ({})", what);
    }
    return std::move(status)
        .WithPrefix(Format("{} #{}{} needs rank {}", op, call.sequence, what,
                           std::get<int64_t>(lost->value)))
        .With("op", op)
        .With("sequence", call.sequence);
  }

  void OnEvent(int64_t worker, const Status& status) {
    if (worker >= 0) {
      // Who leaves the job has closed its communicators before, and what it had to do for them is
      // done; otherwise the others would wait for it.
      if (worker == cluster_->worker() || group_.has_left == nullptr || group_.has_left(worker)) {
        return;
      }
    }
    Status error = status.With("epoch", epoch_).With("communicator", name_);
    group_.transport->Fail(std::move(error)).rep();
  }

  const Ref<Cluster> cluster_;
  const FormedGroup group_;
  const std::string name_;
  const int64_t epoch_;
  uint64_t listener_ = 0;
};

}  // namespace

Result<Ref<Communicator>> Communicator::Create(Ref<Cluster> cluster, std::string_view name,
                                               int64_t epoch, CollectiveTransport transport,
                                               std::shared_ptr<const SelectorTable> table,
                                               const CallOptions& options) {
  Environment& environment = cluster->environment();
  TUTTI_RETURN_IF_ERROR(environment.CheckUsable("create communicator"));
  GroupFormingOptions forming;
  forming.name = std::string(name);
  forming.epoch = epoch;
  forming.transport = transport;
  forming.table = std::move(table);
  forming.worker = cluster->worker();
  for (int64_t worker = 0; worker < cluster->num_workers(); ++worker) {
    forming.workers.push_back(cluster->info(worker));
  }
  forming.secret = cluster->secret();
  forming.listener = cluster->listener();
  forming.exchange = [&](std::string_view key, std::string bytes, const CallOptions& call) {
    return cluster->Exchange(key, std::move(bytes), call);
  };
  TUTTI_ASSIGN_OR_RETURN(
      FormedGroup group,
      FormGroup(Ref<Environment>::Retain(&environment), std::move(forming), options));
  environment.log().Info(Format("communicator {}: worker {} of {} uses {}", name,
                                cluster->worker(), cluster->num_workers(), group.kind));
  const int64_t rank = cluster->worker();
  const int64_t size = cluster->num_workers();
  auto watched = std::make_unique<WatchedTransport>(std::move(cluster), std::move(group),
                                                    std::string(name), epoch);
  return CreateOver(&environment, name, rank, size, epoch, std::move(watched));
}

}  // namespace tutti
