// A communicator between the workers of a job: a transport that the workers have formed
// (group_forming.h), which the cluster tells of workers that die.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/cluster/job/cluster.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/group/gpu_settings.h"
#include "core/collective/group/group_forming.h"
#include "core/collective/group/until_group_breaks.h"

namespace tutti {
namespace {

// What its members know of a group.
struct GroupFacts {
  std::string name;
  std::string label;  // empty: name and epoch tell it from others
  int64_t epoch = 1;
  CollectiveTransport transport = CollectiveTransport::kAuto;
  std::shared_ptr<const SelectorTable> table;
  std::vector<int64_t> workers;  // by rank
  int64_t rank = 0;
  Ref<SharedWindow> window;  // null: of its own
};

using Exchange = decltype(GroupFormingOptions::exchange);

// Forms the group with the other workers in it, who call it as well.
Result<std::unique_ptr<Transport>> FormWatched(Ref<Cluster> cluster, GroupFacts facts,
                                               Exchange exchange, UntilGroupBreaks::By by,
                                               const CallOptions& options);

// Passes everything on, and ends the epoch when the job has failed.
class WatchedTransport final : public Transport {
 public:
  WatchedTransport(Ref<Cluster> cluster, FormedGroup group, GroupFacts facts)
      : cluster_(std::move(cluster)), group_(std::move(group)), facts_(std::move(facts)) {
    listener_ = cluster_->AddListener(
        [this](const ClusterEvent& event) { OnEvent(event.worker, event.status); });
  }
  ~WatchedTransport() override { cluster_->RemoveListener(listener_); }

  const char* name() const override { return group_.transport->name(); }
  BufferAllocator* allocator() const override { return group_.transport->allocator(); }
  Status Execute(CollectiveCall* call) override {
    Status status = group_.transport->Execute(call);
    if (status.ok()) return status;
    return InCall(*call, std::move(status));
  }
  const char* WhyNoRing(CollectiveOp op) const override { return group_.transport->WhyNoRing(op); }
  bool is_reproducible() const override { return group_.transport->is_reproducible(); }
  GpuCollectivesSettings gpu_settings() const override { return GpuSettingsOf(*cluster_); }
  Result<std::unique_ptr<Transport>> Split(const SplitRequest& request,
                                           const CallOptions& options) override {
    GroupFacts part;
    part.name = request.name;
    part.label = Format("group {} epoch {} split {}", facts_.name, facts_.epoch, request.key);
    part.epoch = request.epoch;
    part.transport = facts_.transport;
    part.table = facts_.table;
    for (int64_t member : request.members) {
      part.workers.push_back(facts_.workers[static_cast<size_t>(member)]);
    }
    part.rank = request.rank;
    part.window = group_.window;
    // Members exchange through one of them: another one may be done, and leave, before the last
    // has its answer.
    return FormWatched(cluster_, std::move(part), request.exchange, UntilGroupBreaks::By::kLosses,
                       options);
  }
  Result<RenewedGroup> Renew(const RenewRequest&, const CallOptions&) override {
    return FailedPrecondition(
        "its job is not elastic: it has all workers, or ends; make another communicator of them, "
        "or set elastic for worker 0 (TUTTI_ELASTIC=1)");
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
    const int64_t rank = RankOf(std::get<int64_t>(lost->value));
    if (rank < 0) return status;
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
                           rank))
        .With("op", op)
        .With("sequence", call.sequence);
  }

  // -1: the worker is not in the group.
  int64_t RankOf(int64_t worker) const {
    const auto it = std::find(facts_.workers.begin(), facts_.workers.end(), worker);
    return it == facts_.workers.end() ? -1 : it - facts_.workers.begin();
  }

  void OnEvent(int64_t worker, const Status& status) {
    if (worker >= 0) {
      // Who leaves the job has closed its communicators before, and what it had to do for them is
      // done; otherwise the others would wait for it.
      const int64_t rank = RankOf(worker);
      if (rank < 0 || rank == facts_.rank) return;
      if (group_.peer_has_left != nullptr) {
        return group_.peer_has_left(rank, status, cluster_->PatienceAfterNs(status));
      }
      if (group_.has_left == nullptr || group_.has_left(rank)) return;
    }
    Status error = status.With("epoch", facts_.epoch).With("communicator", facts_.name);
    group_.transport->Fail(std::move(error)).rep();
  }

  const Ref<Cluster> cluster_;
  const FormedGroup group_;
  const GroupFacts facts_;
  uint64_t listener_ = 0;
};

Result<std::unique_ptr<Transport>> FormWatched(Ref<Cluster> cluster, GroupFacts facts,
                                               Exchange exchange, UntilGroupBreaks::By by,
                                               const CallOptions& options) {
  Environment& environment = cluster->environment();
  GroupFormingOptions forming;
  forming.name = facts.name;
  forming.label = facts.label;
  forming.epoch = facts.epoch;
  forming.transport = facts.transport;
  forming.table = facts.table;
  forming.window = facts.window;
  forming.worker = facts.rank;
  std::vector<MemberId> members;
  for (int64_t worker : facts.workers) {
    forming.workers.push_back(cluster->info(worker));
    members.push_back(cluster->member(worker));
  }
  forming.secret = cluster->secret();
  forming.listener = cluster->listener();
  forming.exchange = std::move(exchange);
  const UntilGroupBreaks until(cluster, std::move(members), by, options);
  TUTTI_ASSIGN_OR_RETURN(FormedGroup group,
                         FormGroup(Ref<Environment>::Retain(&environment), std::move(forming),
                                   until.options()));
  environment.log().Info(Format("communicator {}: worker {} of {} uses {}", facts.name,
                                cluster->worker(), facts.workers.size(),
                                group.kind + group.hosts));
  return std::unique_ptr<Transport>(std::make_unique<WatchedTransport>(
      std::move(cluster), std::move(group), std::move(facts)));
}

}  // namespace

Result<Ref<Communicator>> Communicator::Create(Ref<Cluster> cluster, std::string_view name,
                                               int64_t epoch, CollectiveTransport transport,
                                               std::shared_ptr<const SelectorTable> table,
                                               const CallOptions& options) {
  Environment& environment = cluster->environment();
  TUTTI_RETURN_IF_ERROR(environment.CheckUsable("create communicator"));
  GroupFacts facts;
  facts.name = std::string(name);
  facts.epoch = epoch;
  facts.transport = transport;
  facts.table = std::move(table);
  for (int64_t worker = 0; worker < cluster->num_workers(); ++worker) {
    facts.workers.push_back(worker);
  }
  facts.rank = cluster->worker();
  const int64_t rank = facts.rank;
  const int64_t size = cluster->num_workers();
  const auto exchange = [cluster](std::string_view key, std::string bytes,
                                  const CallOptions& call) {
    return cluster->Exchange(key, std::move(bytes), call);
  };
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Transport> formed,
                         FormWatched(cluster, std::move(facts), exchange,
                                     UntilGroupBreaks::By::kDepartures, options));
  return CreateOver(&environment, name, rank, size, epoch, std::move(formed));
}

}  // namespace tutti
