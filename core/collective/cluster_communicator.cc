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
#include "core/cluster/cluster.h"
#include "core/collective/communicator.h"
#include "core/collective/group_forming.h"
#include "core/collective/transport.h"

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
};

using Exchange = decltype(GroupFormingOptions::exchange);

// The caller's cancellation, which the end of the job throws as well: who waits for the answer of a
// peer that is gone learns of it at once.
class UntilJobEnds {
 public:
  UntilJobEnds(Ref<Cluster> cluster, const CallOptions& call)
      : cluster_(std::move(cluster)), call_(call) {
    Cancellation* const caller = call.cancellation;
    cancellation_ = caller != nullptr && caller->is_polled()
                        ? MakeRef<Cancellation>(&PollCaller, caller, Ref<const RefCounted>())
                        : MakeRef<Cancellation>();
    if (caller != nullptr) {
      caller_listener_ = caller->AddListener([this] {
        cancellation_->Cancel(call_.cancellation->reason());
      });
    }
    job_listener_ = cluster_->AddListener([this](const ClusterEvent& event) {
      if (event.worker < 0) cancellation_->Cancel(event.status);
    });
  }
  ~UntilJobEnds() {
    cluster_->RemoveListener(job_listener_);
    if (call_.cancellation != nullptr) call_.cancellation->RemoveListener(caller_listener_);
  }
  UntilJobEnds(const UntilJobEnds&) = delete;
  UntilJobEnds& operator=(const UntilJobEnds&) = delete;

  CallOptions options() const { return CallOptions{call_.deadline, cancellation_.get()}; }

 private:
  static bool PollCaller(void* caller) { return static_cast<Cancellation*>(caller)->PollNow(); }

  const Ref<Cluster> cluster_;
  const CallOptions call_;
  Ref<Cancellation> cancellation_;
  uint64_t caller_listener_ = 0;
  uint64_t job_listener_ = 0;
};

// Forms the group with the other workers in it, who call it as well.
Result<std::unique_ptr<Transport>> FormWatched(Ref<Cluster> cluster, GroupFacts facts,
                                               Exchange exchange, const CallOptions& options);

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
  Status Execute(CollectiveCall* call) override {
    Status status = group_.transport->Execute(call);
    if (status.ok()) return status;
    return InCall(*call, std::move(status));
  }
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
    return FormWatched(cluster_, std::move(part), request.exchange, options);
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
      if (rank < 0 || rank == facts_.rank || group_.has_left == nullptr || group_.has_left(rank)) {
        return;
      }
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
                                               Exchange exchange, const CallOptions& options) {
  Environment& environment = cluster->environment();
  GroupFormingOptions forming;
  forming.name = facts.name;
  forming.label = facts.label;
  forming.epoch = facts.epoch;
  forming.transport = facts.transport;
  forming.table = facts.table;
  forming.worker = facts.rank;
  for (int64_t worker : facts.workers) forming.workers.push_back(cluster->info(worker));
  forming.secret = cluster->secret();
  forming.listener = cluster->listener();
  forming.exchange = std::move(exchange);
  const UntilJobEnds until_job_ends(cluster, options);
  TUTTI_ASSIGN_OR_RETURN(FormedGroup group,
                         FormGroup(Ref<Environment>::Retain(&environment), std::move(forming),
                                   until_job_ends.options()));
  environment.log().Info(Format("communicator {}: worker {} of {} uses {}", facts.name,
                                cluster->worker(), facts.workers.size(), group.kind));
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
                         FormWatched(cluster, std::move(facts), exchange, options));
  return CreateOver(&environment, name, rank, size, epoch, std::move(formed));
}

}  // namespace tutti
