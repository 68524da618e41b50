#include "core/strategy/replica_runner.h"

#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/placement_log.h"
#include "core/collective/communicator/communicator.h"
#include "core/function/function.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/placements.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/strategy.h"
#include "core/strategy/team_channel.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

ReplicaRunner::ReplicaRunner(Strategy& strategy, size_t num_replicas, TeamChannel* team)
    : strategy_(strategy),
      team_(team),
      engine_(strategy.environment(), num_replicas,
              team == nullptr ? num_replicas
                              : static_cast<size_t>(team->team().replicas_on_this_machine())),
      lockstep_(num_replicas, strategy.environment().clock(),
                team == nullptr ? 0 : team->worker() * static_cast<int64_t>(num_replicas), team) {}

ReplicaRunner::~ReplicaRunner() = default;

class ReplicaRunner::RunJob final : public ReplicaEngine::Job {
 public:
  RunJob(ReplicaRunner& runner, Function& fn, const Value& args, const CallOptions& options,
         std::vector<Ref<Value>>* results)
      : runner_(runner),
        fn_(fn),
        args_(args),
        global_rows_(GlobalRows(args, results->size())),
        options_(options),
        results_(*results),
        observed_(TensorsAreObserved()),
        checked_(NumericsAreChecked()),
        step_(++runner.num_runs_) {
    if (runner.team_ != nullptr) runner.team_->set_step(step_);
  }
  ~RunJob() {
    if (runner_.team_ != nullptr) runner_.team_->set_step(-1);
  }

  // Replica 0 runs on the caller's thread, and its exception is the caller's.
  void RunReplica(size_t replica) override {
    if (replica == 0) return runner_.lockstep_.Return(0, Call(0));
    // The others need not wait for a function that ends its thread (pthread_exit).
    IfThreadEnds ends("run: the function", [&](const Status& why) {
      (void)CatchExceptions("run", [&] {
        runner_.lockstep_.Return(replica, why);
        return OkStatus();
      });
    });
    Status status = CatchExceptions("run: the function", [&] { return Call(replica); });
    ends.Stays();
    runner_.lockstep_.Return(replica, std::move(status));
  }
  void Interrupt(Status reason) override { runner_.lockstep_.Stop(std::move(reason)); }

  // When all have returned: what is observed of their results, on all workers where they check.
  Status ObserveResults(const CallOptions& options) {
    TeamChannel* const team = runner_.team_;
    const bool agreed = team != nullptr && team->observed();
    Status status;
    if (observed_ || agreed) {
      const ObservedScope observed(agreed ? Observed::kChecked : HowObserved(), step_);
      const int64_t first = runner_.strategy_.first_replica();
      for (size_t r = 0; status.ok() && r < results_.size(); ++r) {
        const int64_t replica = first + static_cast<int64_t>(r);
        if (results_[r]) status = ObserveResult(replica, *results_[r]);
      }
    }
    if (!agreed) return status;
    // A worker whose function has failed does not come, and has told the others so.
    status = team->Exchange(TeamLabel{"comparing what the replicas have returned"}, status, "",
                            options)
                 .status();
    all_know_ = !status.ok() && team->status().ok();
    return status;
  }
  // Whether the other workers fail with what ObserveResults has given.
  bool all_know() const { return all_know_; }

 private:
  Status Call(size_t replica) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> in, Select(args_, replica, results_.size(), "run"));
    ReplicaContext context(runner_.strategy_, runner_.lockstep_, replica, global_rows_, options_);
    std::optional<ObservedScope> observed;
    if (observed_) observed.emplace(HowObserved(), step_);
    CallbackScope scope(CallbackClass::kReplica);
    return fn_.Call(context, *in, &results_[replica]);
  }
  Observed HowObserved() const { return checked_ ? Observed::kChecked : Observed::kAsBefore; }

  static Status ObserveResult(int64_t replica, const Value& result) {
    for (size_t i = 0; i < result.num_leaves(); ++i) {
      if (!result.leaf(i).is_tensor()) continue;
      const std::string name = Format("the result{}", PathToString(result.spec().LeafPath(i)));
      TUTTI_RETURN_IF_ERROR(ObserveTensor({.op = "run", .name = name, .replica = replica},
                                          result.leaf(i).tensor()));
    }
    return OkStatus();
  }

  ReplicaRunner& runner_;
  Function& fn_;
  const Value& args_;
  const int64_t global_rows_;
  const CallOptions& options_;
  std::vector<Ref<Value>>& results_;
  const bool observed_;  // the caller's tensors are, and so are those of all replicas
  const bool checked_;   // likewise
  const int64_t step_;
  bool all_know_ = false;
};

namespace {

// While it lives, a cancellation stops the round.
class StopsWith {
 public:
  StopsWith(Lockstep* lockstep, Cancellation* cancellation) : cancellation_(cancellation) {
    if (cancellation == nullptr) return;
    listener_ = cancellation->AddListener(
        [lockstep, cancellation] { lockstep->Stop(cancellation->reason()); });
  }
  ~StopsWith() {
    if (cancellation_ != nullptr) cancellation_->RemoveListener(listener_);
  }
  StopsWith(const StopsWith&) = delete;
  StopsWith& operator=(const StopsWith&) = delete;

 private:
  Cancellation* const cancellation_;
  uint64_t listener_ = 0;
};

}  // namespace

Status ReplicaRunner::Enter() {
  if (busy_.exchange(true)) {
    return FailedPrecondition(
        "run: a run of strategy {} is running; a strategy does one at a time: wait until the other "
        "call has returned, or use a strategy of its own",
        strategy_.name());
  }
  running_thread_.store(std::this_thread::get_id());
  // Close looks at busy_ after it has set closing_: one of us sees the other.
  if (!closing_.load()) return OkStatus();
  Leave();
  return strategy_.CheckOpen("run");
}

void ReplicaRunner::Leave() {
  running_thread_.store(std::thread::id());
  busy_.store(false);
  idle_.Wake();
}

Status ReplicaRunner::PrepareCommunicators(const CallOptions& options) {
  if (team_ != nullptr) return team_->Renew(options);
  if (lockstep_.communicators_usable()) return OkStatus();
  Communicator::LocalOptions local;
  local.name = strategy_.name();
  local.epoch = ++epoch_;
  TUTTI_ASSIGN_OR_RETURN(
      std::vector<Ref<Communicator>> communicators,
      Communicator::CreateLocal(&strategy_.environment(), engine_.num_replicas(), local));
  lockstep_.SetCommunicators(std::move(communicators));
  return OkStatus();
}

Status ReplicaRunner::RunAll(Function& fn, const Value& args, const CallOptions& options,
                             std::vector<Ref<Value>>* results, bool* all_know) {
  TUTTI_RETURN_IF_ERROR(PrepareCommunicators(options));
  if (PlacementsAreLogged()) {
    const std::string what = Format("run #{}", num_runs_ + 1);
    LogStrategyPlacement(strategy_, what, "a call for each replica");
  }
  lockstep_.Begin(engine_.spin());
  // A Close before Begin has set this, one after it stops the round.
  if (closing_.load()) return strategy_.CheckOpen("run");
  RunJob job(*this, fn, args, options, results);
  {
    const StopsWith stops(&lockstep_, options.cancellation);
    TUTTI_RETURN_IF_ERROR(engine_.Run(job, options));
  }
  Status status = lockstep_.End();
  if (status.ok()) {
    // What has taken too long has, whether or not a replica had to wait for another one.
    if (!options.deadline.Expired(strategy_.environment().clock())) {
      status = job.ObserveResults(options);
      *all_know = job.all_know();
      return status;
    }
    return DeadlineExceeded(
        "run: the replicas have returned after the deadline; give a longer timeout");
  }
  if (status.code() != StatusCode::kAborted && !lockstep_.contradicted()) return status;
  // Replicas that gave up because context.cancelled() told them that time is up.
  TUTTI_RETURN_IF_ERROR(
      CheckCallOptions(options, strategy_.environment().clock(), "run").WithCause(status));
  return status;
}

Result<Ref<Value>> ReplicaRunner::Run(Function& fn, const Value& args, const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(Enter());
  const struct Entered {
    ReplicaRunner* runner;
    ~Entered() { runner->Leave(); }
  } entered{this};
  try {
    return RunInside(fn, args, options);
  } catch (...) {
    if (team_ != nullptr) team_->Abort(Status::OutOfMemory()).rep();
    throw;
  }
}

Status ReplicaRunner::CheckAsked(const Value& args, const CallOptions& options) const {
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, strategy_.environment().clock(), "run"));
  return CheckComponents(args, engine_.num_replicas(), "run");
}

Result<Ref<Value>> ReplicaRunner::RunInside(Function& fn, const Value& args,
                                            const CallOptions& options) {
  Status asked = CheckAsked(args, options);
  if (!asked.ok()) return team_ == nullptr ? asked : team_->Refuse(std::move(asked), options);
  std::vector<Ref<Value>> results(engine_.num_replicas());
  bool all_know = false;
  Status status = RunAll(fn, args, options, &results, &all_know);
  Result<Ref<Value>> value =
      status.ok() ? Regroup(results, Wrap::kWhereDifferent, "run's results") : std::move(status);
  // The other workers hear of every run that failed here.
  if (team_ != nullptr && !value.ok() && !all_know) return team_->Abort(std::move(value).status());
  return value;
}

Status ReplicaRunner::Close(const CallOptions& options) {
  if (running_thread_.load() == std::this_thread::get_id()) {
    return FailedPrecondition(
        "close: strategy {} is closed from inside its own run, which it would wait for; close it "
        "after the run has returned",
        strategy_.name());
  }
  closing_.store(true);
  if (busy_.load()) {
    lockstep_.Stop(Cancelled("strategy {} was closed while it was running", strategy_.name()));
  }
  TUTTI_RETURN_IF_ERROR(idle_.Wait(strategy_.environment().clock(), options, /*spin=*/false,
                                   [this] { return !busy_.load(); },
                                   "close: waiting for the run to end"));
  TUTTI_RETURN_IF_ERROR(engine_.Stop(options));
  lockstep_.SetCommunicators({});
  return OkStatus();
}

}  // namespace tutti
