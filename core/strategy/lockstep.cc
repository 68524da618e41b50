#include "core/strategy/lockstep.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/strategy/team_channel.h"

namespace tutti {

Lockstep::Lockstep(size_t num_replicas, Clock& clock, int64_t first_replica, TeamChannel* team)
    : clock_(clock),
      num_replicas_(num_replicas),
      first_replica_(first_replica),
      team_(team),
      slots_(new Slot[num_replicas]) {}

Lockstep::~Lockstep() = default;

void Lockstep::SetCommunicators(std::vector<Ref<Communicator>> communicators) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    communicators_.swap(communicators);
  }
  // They have no threads and nobody is in a call: this cannot wait or fail.
  for (const Ref<Communicator>& old : communicators) (void)old->Close(CallOptions());
}

bool Lockstep::communicators_usable() const {
  return !stopped() && !communicators_.empty() && communicators_[0]->epoch_status().ok();
}

void Lockstep::Begin(bool spin) {
  std::lock_guard<std::mutex> lock(mutex_);
  spin_ = spin;
  for (size_t i = 0; i < num_replicas_; ++i) {
    slots_[i].progress.store(Pack(0, kRunning));
    slots_[i].steps = 0;
    slots_[i].what = "";
    slots_[i].part = nullptr;
    slots_[i].merge_status = OkStatus();
  }
  merging_.store(false);
  sharing_steps_.store(0);
  merged_steps_.store(0);
  contradicted_.store(false);
  reason_is_shared_ = false;
  reason_ = OkStatus();
  failures_.clear();
  stopped_.store(false);
}

Status Lockstep::End() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failures_.empty()) return OkStatus();
  const auto cause = std::find_if(failures_.begin(), failures_.end(), [](const Failure& failure) {
    return failure.status.code() != StatusCode::kAborted;
  });
  if (cause != failures_.end()) return WithReplica(cause->status, cause->replica);
  if (!reason_.ok()) return reason_;
  return WithReplica(failures_[0].status, failures_[0].replica);
}

Status Lockstep::WithReplica(Status status, size_t replica) const {
  // What another worker has said of a replica of its own.
  const bool passed_on =
      status.code() == StatusCode::kAborted || status.FindDetail("worker") != nullptr;
  if (team_ != nullptr && passed_on && status.FindDetail("replica") != nullptr) return status;
  return std::move(status).With("replica", Number(replica));
}

// ---- Steps. ----

void Lockstep::Publish(size_t replica, Kind kind) {
  const uint64_t mine = Pack(slots_[replica].steps, kind);
  slots_[replica].progress.store(mine);
  for (size_t i = 0; i < num_replicas_; ++i) {
    if (i == replica) continue;
    const uint64_t others = slots_[i].progress.load();
    const uint64_t their_steps = others >> 2;
    const auto their_kind = static_cast<Kind>(others & 3);
    const uint64_t my_steps = mine >> 2;
    const bool waiting = their_kind == kCollective || their_kind == kMerge;
    bool contradiction = false;
    if (kind == kReturned) {
      contradiction = waiting && their_steps > my_steps;
    } else if (their_kind == kReturned) {
      contradiction = their_steps < my_steps;
    } else {
      contradiction = waiting && their_steps == my_steps && their_kind != kind;
    }
    if (contradiction) return StopWithContradiction(replica, mine, i, others);
  }
}

std::string Lockstep::DescribeProgress(size_t replica, uint64_t progress) const {
  const uint64_t steps = progress >> 2;
  switch (static_cast<Kind>(progress & 3)) {
    case kReturned:
      return Format("replica {} returned after {} of them", Number(replica), steps);
    case kMerge:
      return Format("replica {} is in merge call (step #{})", Number(replica), steps);
    default:
      return Format("replica {} is in a collective (step #{})", Number(replica), steps);
  }
}

void Lockstep::StopWithContradiction(size_t replica, uint64_t mine, size_t other, uint64_t others) {
  std::string first = DescribeProgress(replica, mine);
  std::string second = DescribeProgress(other, others);
  if (other < replica) std::swap(first, second);
  contradicted_.store(true);
  StopRound(FailedPrecondition("run: the replicas have gone different ways: {}, {}; all replicas "
                               "must make the same collectives, merge calls and updates of "
                               "mirrored variables, in the same order",
                               first, second),
            /*shared=*/true);
}

Status Lockstep::EnterCollective(size_t replica, const char* what, const CallOptions& options) {
  if (stopped()) return StopStatus(replica, what);
  TUTTI_RETURN_IF_ERROR(CheckTime(options, what));
  slots_[replica].what = what;
  ++slots_[replica].steps;
  Publish(replica, kCollective);
  return stopped() ? StopStatus(replica, what) : OkStatus();
}

Status Lockstep::LeaveCollective(size_t replica, Status status) {
  // Other errors are the communicator's own, and the same on all replicas.
  if (status.code() != StatusCode::kAborted || !stopped()) return status;
  return StopStatus(replica, slots_[replica].what);
}

void Lockstep::Return(size_t replica, Status status) {
  if (!status.ok()) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      failures_.push_back(Failure{replica, status});
    }
    StopRound(WithReplica(std::move(status), replica), /*shared=*/false);
  }
  Publish(replica, kReturned);
}

// ---- Merges. ----

Status Lockstep::Merge(size_t replica, MergePart* part, const CallOptions& options) {
  if (stopped()) return StopStatus(replica, "merge call");
  TUTTI_RETURN_IF_ERROR(CheckTime(options, "merge call"));
  Slot& slot = slots_[replica];
  slot.what = "merge call";
  slot.part = part;
  ++slot.steps;
  Publish(replica, kMerge);
  if (replica == 0) return LeadMerge(options);
  leader_.Wake();
  return FollowMerge(replica, options);
}

Status Lockstep::CheckTime(const CallOptions& options, const char* what) {
  Status status = CheckCallOptions(options, clock_, what);
  if (!status.ok()) StopRound(status, /*shared=*/false);
  return status;
}

Status Lockstep::LeadMerge(const CallOptions& options) {
  const uint64_t step = slots_[0].steps;
  const uint64_t arrived = Pack(step, kMerge);
  const auto all_have_come = [&] {
    if (stopped()) return true;
    for (size_t i = 1; i < num_replicas_; ++i) {
      if (slots_[i].progress.load() != arrived) return false;
    }
    return true;
  };
  Status status = leader_.Wait(clock_, options, spin_, all_have_come,
                               "merge call: waiting for the other replicas");
  if (!status.ok()) {
    StopRound(status, /*shared=*/false);
    return status;
  }
  merging_.store(true);
  if (stopped()) {
    merging_.store(false);
    followers_.Wake();
    return StopStatus(0, "merge call");
  }
  std::vector<MergePart*> parts(num_replicas_);
  for (size_t i = 0; i < num_replicas_; ++i) parts[i] = slots_[i].part;
  status = CompareParts(parts);
  if (status.ok()) {
    status = parts[0]->Execute(parts);
    if (status.ok() && parts[0]->HasShares()) ShareOut(parts[0], step);
  } else {
    StopRound(status, /*shared=*/true);
  }
  // The other workers are in the same step, or wait for us to come to it, whatever our replicas
  // make of the error.
  if (!status.ok() && team_ != nullptr) status = team_->Abort(std::move(status));
  for (size_t i = 1; i < num_replicas_; ++i) slots_[i].merge_status = status;
  merged_steps_.store(step);
  merging_.store(false);
  followers_.Wake();
  return status;
}

void Lockstep::ShareOut(MergePart* part, uint64_t step) {
  open_shares_.store(num_replicas_ - 1);
  sharing_steps_.store(step);
  followers_.Wake();
  part->DoShare(0, num_replicas_);
  // Nobody can fail or leave.
  (void)leader_.Wait(
      clock_, CallOptions(), spin_, [this] { return open_shares_.load() == 0; },
      "merge call: waiting for the replicas' shares");
}

Status Lockstep::FollowMerge(size_t replica, const CallOptions& options) {
  Slot& slot = slots_[replica];
  const uint64_t step = slot.steps;
  bool has_shared = false;
  const auto over = [&] { return merged_steps_.load() >= step || (stopped() && !merging_.load()); };
  const auto wanted = [&] { return over() || (!has_shared && sharing_steps_.load() == step); };
  CallOptions limits = options;
  Status interruption;
  while (!over()) {
    Status status = followers_.Wait(clock_, limits, spin_, wanted,
                                    "merge call: waiting for the other replicas");
    if (!status.ok()) {
      StopRound(status, /*shared=*/false);
      interruption = std::move(status);
      limits = CallOptions();  // the merge may be running on this replica's part
    } else if (!has_shared && sharing_steps_.load() == step) {
      has_shared = true;
      slot.part->DoShare(replica, num_replicas_);
      if (open_shares_.fetch_sub(1) == 1) leader_.Wake();
    }
  }
  if (merged_steps_.load() >= step) return std::move(slot.merge_status);
  return interruption.ok() ? StopStatus(replica, "merge call") : interruption;
}

Status Lockstep::CompareParts(std::span<MergePart* const> parts) {
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i]->identity() == parts[0]->identity()) continue;
    return InvalidArgument(
               "merge call (step #{}): the replicas merge different things: replica {} is in {}, "
               "replica {} in {}; all replicas must make the same calls in the same order",
               slots_[0].steps, Number(0), parts[0]->Describe(), Number(i), parts[i]->Describe())
        .With("peer", Number(i));
  }
  return OkStatus();
}

// ---- Stopping. ----

void Lockstep::Stop(Status reason) { StopRound(std::move(reason), /*shared=*/false); }

void Lockstep::StopRound(Status reason, bool shared) {
  Ref<Communicator> communicator;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_.load()) return;
    reason_ = reason;
    reason_is_shared_ = shared;
    stopped_.store(true);
    if (!communicators_.empty()) communicator = communicators_[0];
  }
  if (communicator) {
    communicator->Abort(
        Aborted("the run was stopped: {}", reason.message()).WithCause(std::move(reason)));
  } else if (team_ != nullptr) {
    (void)team_->Abort(std::move(reason));
  }
  leader_.Wake();
  followers_.Wake();
}

Status Lockstep::StopStatus(size_t replica, const char* what) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (reason_is_shared_) return reason_;
  const StatusDetail* failed = reason_.FindDetail("replica");
  const std::string who = failed == nullptr
                              ? "the run was stopped"
                              : Format("replica {} failed", std::get<int64_t>(failed->value));
  return Aborted("{} of replica {}: {}: {}", what, Number(replica), who, reason_.message())
      .WithCause(reason_);
}

}  // namespace tutti
