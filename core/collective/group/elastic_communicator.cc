// Communicators of an elastic job: their members come together by a regrouping (Cluster::Regroup),
// form a transport among themselves, and when one of them is lost, or the group is revoked, those
// that are left form the next epoch. So do the groups that are split from one, each for itself;
// only newcomers do not come to those.
//
// Revoking. Whoever revokes tells the members. A rank that hears of it stops: at once when it is in
// no call, else behind the call, and tells the others how many calls it has begun. A rank whose
// call needs more of a peer than the peer has begun fails the epoch with the reason; every other
// call may end. A call publishes that it has begun before it looks whether the group is revoked,
// and who revokes does so before it looks whether a call has begun: one of them sees the other.

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/cluster/job/cluster.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/call/transport.h"
#include "core/collective/call/wire_bytes.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/group/gpu_settings.h"
#include "core/collective/group/group_forming.h"
#include "core/collective/group/until_group_breaks.h"

namespace tutti {
namespace {

// What the next epoch is formed with, as this one was.
struct ElasticFacts {
  Ref<Cluster> cluster;
  std::string name;
  std::string id;  // the name, but of a part of another group: like no other of the job's
  bool is_part = false;
  CollectiveTransport transport = CollectiveTransport::kAuto;
  std::shared_ptr<const SelectorTable> table;
  Ref<SharedWindow> window = nullptr;  // of the epochs so far
};

// Of the meetings from which its epochs come.
std::string RegroupName(const ElasticFacts& facts) { return Format("communicator {}", facts.id); }

// Who is in an epoch.
struct Membership {
  std::vector<MemberId> members;  // by rank, as are:
  std::vector<WorkerInfo> infos;
  int64_t rank = 0;
  int64_t epoch = 1;
};

using Exchange = decltype(GroupFormingOptions::exchange);

// The members come together, and then form it.
Result<RenewedGroup> MeetAndForm(const ElasticFacts& facts, std::vector<MemberId> among,
                                 int64_t at_least, std::atomic<int64_t>* last_epoch,
                                 const CallOptions& options);
Result<std::unique_ptr<Transport>> Form(const ElasticFacts& facts, Membership membership,
                                        const Exchange& exchange, UntilGroupBreaks::By by,
                                        const CallOptions& options);

class ElasticTransport final : public Transport {
 public:
  ElasticTransport(ElasticFacts facts, FormedGroup group, std::vector<MemberId> members,
                   int64_t rank, int64_t epoch)
      : facts_(std::move(facts)),
        group_(std::move(group)),
        members_(std::move(members)),
        rank_(rank),
        epoch_(epoch),
        last_epoch_(epoch),
        topic_(Format("communicator {} epoch {}", facts_.id, epoch)) {
    facts_.cluster->SetNoteListener(
        topic_,
        [this](const MemberId& from, const std::string& content) { OnNote(from, content); });
    listener_ =
        facts_.cluster->AddListener([this](const ClusterEvent& event) { OnEvent(event); });
  }
  ~ElasticTransport() override {
    facts_.cluster->RemoveListener(listener_);
    facts_.cluster->RemoveNoteListener(topic_);
  }

  const char* name() const override { return group_.transport->name(); }
  BufferAllocator* allocator() const override { return group_.transport->allocator(); }
  const char* WhyNoRing(CollectiveOp op) const override { return group_.transport->WhyNoRing(op); }
  bool is_reproducible() const override { return group_.transport->is_reproducible(); }
  GpuCollectivesSettings gpu_settings() const override { return GpuSettingsOf(*facts_.cluster); }

  Status Execute(CollectiveCall* call) override {
    const bool transfer = call->peer >= 0;
    current_.store(transfer ? -1 - call->peer : call->sequence);
    if (revoked_.load()) {
      current_.store(0);
      std::lock_guard<std::mutex> lock(mutex_);
      TellStopped();
      return InCall(*call, reason_);
    }
    Status status = group_.transport->Execute(call);
    if (!transfer) begun_.store(call->sequence);
    current_.store(0);
    if (revoked_.load()) {
      std::lock_guard<std::mutex> lock(mutex_);
      TellStopped();
    }
    return status.ok() ? status : InCall(*call, std::move(status));
  }

  Result<std::unique_ptr<Transport>> Split(const SplitRequest& request,
                                           const CallOptions& options) override;

  Status Fail(Status error) override { return group_.transport->Fail(std::move(error)); }
  Status failure() const override {
    Status failure = group_.transport->failure();
    if (!failure.ok() || !revoked_.load()) return failure;
    const Environment& environment = facts_.cluster->environment();
    if (environment.LeftBehindByFork()) return environment.CheckUsable("look at the epoch");
    std::lock_guard<std::mutex> lock(mutex_);
    return reason_;
  }
  bool ClaimFlightRecord() override { return group_.transport->ClaimFlightRecord(); }
  void Leave(Status reason) override {
    group_.transport->Leave(std::move(reason));
    // A thread of the parent may have held the mutex.
    if (facts_.cluster->environment().LeftBehindByFork()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    left_ = true;
    ResignIfDone();
  }

  void Revoke(Status reason) override {
    // A thread of the parent may have held the mutex.
    if (facts_.cluster->environment().LeftBehindByFork()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (revoked_.load()) return;
    Tell(kNobodyStopped, reason);
    TakeRevoke(std::move(reason));
  }

  Result<RenewedGroup> Renew(const RenewRequest& request, const CallOptions& options) override {
    if (request.grow && facts_.is_part) {
      return FailedPrecondition(
          "it is a part of another group, and newcomers do not know of it; grow the group that was "
          "split, and split the one that comes of it");
    }
    Renewing renewing(this);
    Result<RenewedGroup> renewed =
        MeetAndForm(facts_, request.grow ? std::vector<MemberId>() : members_, request.at_least,
                    &last_epoch_, options);
    if (renewed.ok()) renewing.Succeeds();
    return renewed;
  }

 private:
  static constexpr int64_t kNobodyStopped = -1;

  // A thread is in Renew.
  class Renewing {
   public:
    explicit Renewing(ElasticTransport* self) : self_(self) {
      std::lock_guard<std::mutex> lock(self_->mutex_);
      ++self_->renewing_;
    }
    ~Renewing() {
      std::lock_guard<std::mutex> lock(self_->mutex_);
      --self_->renewing_;
      self_->ResignIfDone();
    }
    Renewing(const Renewing&) = delete;
    Renewing& operator=(const Renewing&) = delete;
    void Succeeds() {
      std::lock_guard<std::mutex> lock(self_->mutex_);
      self_->renewed_ = true;
    }

   private:
    ElasticTransport* const self_;
  };

  // ---- Under mutex_
  // Whoever leaves without a next epoch of its own forms none with the others.
  void ResignIfDone() noexcept {
    if (!left_ || renewed_ || renewing_ != 0) return;
    try {
      facts_.cluster->Resign(RegroupName(facts_), members_, last_epoch_.load());
    } catch (const std::bad_alloc&) {
      // They wait for it, then, until they give up.
    }
  }
  void TakeRevoke(Status reason) {
    if (revoked_.load()) return;
    reason_ = std::move(reason);
    revoked_.store(true);
    if (current_.load() == 0) TellStopped();
  }
  void TellStopped() {
    if (!std::exchange(told_, true)) Tell(begun_.load(), reason_);
  }
  void Tell(int64_t stopped_at, const Status& reason) {
    std::vector<MemberId> others = members_;
    others.erase(others.begin() + static_cast<ptrdiff_t>(rank_));
    std::string content;
    WireWriter(&content).Put(stopped_at);
    AppendStatus(reason, &content);
    if (content.size() > Cluster::kMaxNoteBytes) {
      content.resize(sizeof(stopped_at));
      AppendStatus(Status(reason.code(), std::string(reason.message().substr(0, 1000))), &content);
    }
    facts_.cluster->Tell(std::move(others), topic_, std::move(content));
  }

  void OnNote(const MemberId& from, const std::string& content) {
    WireReader reader(content);
    const auto stopped_at = reader.Take<int64_t>();
    const int64_t peer = RankOf(from);
    if (peer < 0 || content.size() < sizeof(stopped_at)) return;
    Status reason = ParseStatus(std::string_view(content).substr(sizeof(stopped_at)));
    if (reason.ok()) reason = Aborted("the communicator was revoked");
    {
      std::lock_guard<std::mutex> lock(mutex_);
      TakeRevoke(std::move(reason));
      if (stopped_at == kNobodyStopped) return;
      const int64_t current = current_.load();
      const bool waits = current > 0 ? current > stopped_at : current == -1 - peer;
      if (!waits) return;
      reason = reason_;
    }
    group_.transport->Fail(std::move(reason)).rep();
  }

  // "all_reduce #41 needs rank 1: worker 1 (pid 4711) is gone: ...".
  Status InCall(const CollectiveCall& call, Status status) const {
    if (status.FindDetail("op") != nullptr) return status;
    const char* op = CollectiveOpName(call.header.op);
    const StatusDetail* lost = status.FindDetail("lost");
    const StatusDetail* rank = status.FindDetail("rank");
    std::string what = Format("{} #{}", op, call.sequence);
    if (lost != nullptr && rank != nullptr) {
      what += Format(" needs rank {}", std::get<int64_t>(rank->value));
    }
    return std::move(status).WithPrefix(what).With("op", op).With("sequence", call.sequence);
  }

  int64_t RankOf(const MemberId& member) const {
    const auto it = std::find(members_.begin(), members_.end(), member);
    return it == members_.end() ? -1 : it - members_.begin();
  }

  void OnEvent(const ClusterEvent& event) {
    Status error = event.status;
    if (event.worker >= 0) {
      const int64_t rank = RankOf({event.worker, event.arrival});
      if (rank < 0 || rank == rank_) return;
      // Who has left the group in good order has done for it what it had to do. Where only the
      // transport knows, it finds out about a goodbye, but not about a loss: a worker that was
      // stopped keeps its sockets.
      const bool lost = error.FindDetail("lost") != nullptr;
      if (!lost && group_.peer_has_left != nullptr) {
        return group_.peer_has_left(rank, error, facts_.cluster->PatienceAfterNs(error));
      }
      if (group_.has_left != nullptr ? group_.has_left(rank) : !lost) return;
      error = std::move(error).With("rank", rank);
    }
    error = std::move(error).With("epoch", epoch_).With("communicator", facts_.name);
    group_.transport->Fail(std::move(error)).rep();
  }

  const ElasticFacts facts_;
  const FormedGroup group_;
  const std::vector<MemberId> members_;
  const int64_t rank_;
  const int64_t epoch_;
  std::atomic<int64_t> last_epoch_;  // also of attempts that failed
  const std::string topic_;
  uint64_t listener_ = 0;

  // Of the call under way: its number, or -1 - the peer of a transfer; 0: none.
  std::atomic<int64_t> current_{0};
  std::atomic<int64_t> begun_{0};  // the last call's number
  std::atomic<bool> revoked_{false};
  mutable std::mutex mutex_;  // guards all below
  Status reason_;             // constant once revoked
  bool told_ = false;         // the others know that this rank has stopped
  bool left_ = false;         // for good
  bool renewed_ = false;      // this rank is in a next epoch
  int renewing_ = 0;          // threads in Renew
};

Result<RenewedGroup> MeetAndForm(const ElasticFacts& facts, std::vector<MemberId> among,
                                 int64_t at_least, std::atomic<int64_t>* last_epoch,
                                 const CallOptions& options) {
  Cluster& cluster = *facts.cluster;
  RegroupRequest request;
  request.name = RegroupName(facts);
  request.among = std::move(among);
  request.at_least = at_least;
  request.epoch = last_epoch == nullptr ? 0 : last_epoch->load();
  TUTTI_ASSIGN_OR_RETURN(Regrouped came, cluster.Regroup(std::move(request), options));
  if (last_epoch != nullptr) last_epoch->store(came.epoch);
  const MemberId self = cluster.member(cluster.worker());
  const auto place = std::find(came.members.begin(), came.members.end(), self);
  if (place == came.members.end()) {
    return Internal("communicator {}: worker {} is not in the epoch that it helped to form",
                    facts.name, self.worker);
  }
  const auto exchange = [&](std::string_view key, std::string bytes,
                            const CallOptions& call) -> Result<std::vector<std::string>> {
    RegroupRequest step;
    step.name = std::string(key);
    step.among = came.members;
    step.all = true;
    step.bytes = std::move(bytes);
    TUTTI_ASSIGN_OR_RETURN(Regrouped all, cluster.Regroup(std::move(step), call));
    return std::move(all.parts);
  };
  RenewedGroup renewed;
  renewed.rank = place - came.members.begin();
  renewed.size = static_cast<int64_t>(came.members.size());
  renewed.epoch = came.epoch;
  TUTTI_ASSIGN_OR_RETURN(
      renewed.transport,
      Form(facts, {came.members, std::move(came.infos), renewed.rank, renewed.epoch}, exchange,
           UntilGroupBreaks::By::kDepartures, options));
  return renewed;
}

Result<std::unique_ptr<Transport>> Form(const ElasticFacts& facts, Membership membership,
                                        const Exchange& exchange, UntilGroupBreaks::By by,
                                        const CallOptions& options) {
  Cluster& cluster = *facts.cluster;
  GroupFormingOptions forming;
  forming.name = facts.name;
  if (facts.is_part) forming.label = Format("group {} epoch {}", facts.id, membership.epoch);
  forming.epoch = membership.epoch;
  forming.transport = facts.transport;
  forming.table = facts.table;
  forming.window = facts.window;
  forming.worker = membership.rank;
  forming.workers = std::move(membership.infos);
  forming.secret = cluster.secret();
  forming.listener = cluster.listener();
  forming.exchange = exchange;
  const UntilGroupBreaks until(facts.cluster, membership.members, by, options);
  TUTTI_ASSIGN_OR_RETURN(FormedGroup group,
                         FormGroup(Ref<Environment>::Retain(&cluster.environment()),
                                   std::move(forming), until.options()));
  cluster.environment().log().Info(
      Format("communicator {}, epoch {}: worker {} is rank {} of {} and uses {}", facts.name,
             membership.epoch, cluster.worker(), membership.rank, membership.members.size(),
             group.kind + group.hosts));
  ElasticFacts next = facts;
  if (group.window) next.window = group.window;
  return std::unique_ptr<Transport>(
      std::make_unique<ElasticTransport>(std::move(next), std::move(group),
                                         std::move(membership.members), membership.rank,
                                         membership.epoch));
}

Result<std::unique_ptr<Transport>> ElasticTransport::Split(const SplitRequest& request,
                                                           const CallOptions& options) {
  ElasticFacts part = facts_;
  part.name = request.name;
  part.id = Format("{} epoch {} split {}", facts_.id, epoch_, request.key);
  part.is_part = true;
  Membership membership;
  for (int64_t rank : request.members) {
    const MemberId& member = members_[static_cast<size_t>(rank)];
    membership.members.push_back(member);
    membership.infos.push_back(facts_.cluster->info(member.worker));
  }
  membership.rank = request.rank;
  membership.epoch = request.epoch;
  // Members exchange through one of them: another one may be done, and leave, before the last has
  // its answer.
  return Form(part, std::move(membership), request.exchange, UntilGroupBreaks::By::kLosses,
              options);
}

}  // namespace

Result<Ref<Communicator>> Communicator::CreateOfPresent(
    Ref<Cluster> cluster, std::string_view name, int64_t at_least, CollectiveTransport transport,
    std::shared_ptr<const SelectorTable> table, const CallOptions& options) {
  Environment& environment = cluster->environment();
  TUTTI_RETURN_IF_ERROR(environment.CheckUsable("create communicator"));
  if (!cluster->elastic()) {
    return FailedPrecondition(
        "create communicator: the job is not elastic, and has all workers or ends; set elastic "
        "for worker 0 (TUTTI_ELASTIC=1)");
  }
  ElasticFacts facts;
  facts.cluster = std::move(cluster);
  facts.name = facts.id = std::string(name);
  facts.transport = transport;
  facts.table = std::move(table);
  TUTTI_ASSIGN_OR_RETURN(RenewedGroup formed,
                         MeetAndForm(facts, {}, at_least, nullptr, options));
  return CreateOver(&environment, name, formed.rank, formed.size, formed.epoch,
                    std::move(formed.transport));
}

}  // namespace tutti
