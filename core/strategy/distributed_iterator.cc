// Steps that are ready and not taken keep their elements, so that Save can write them: the sources
// have moved past them.

#include "core/strategy/distributed_iterator.h"

#include <algorithm>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/crc32c.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/wait.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/stage.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/rebatch.h"

namespace tutti {

namespace {

constexpr const char* kWhat = "distributed iterator";
constexpr TeamLabel kCreating{"iterating over a distributed dataset"};
constexpr TeamLabel kNext{"next of a distributed iterator"};

// The step is not used: it will be made again.
void NotTaken(LocalStep* local) {
  const LocalStep::Position begin = local->begin;
  *local = LocalStep();
  local->begin = begin;
}

}  // namespace

// ---- Life. ----

DistributedIterator::DistributedIterator(Ref<const DistributedDataset> dataset,
                                         std::vector<StepSource> sources,
                                         std::unique_ptr<TeamChannel> team, Stagings stagings)
    : Closable(Ref<Environment>::Retain(&dataset->strategy()->environment()), kWhat),
      dataset_(std::move(dataset)),
      team_(std::move(team)),
      closing_(MakeRef<Cancellation>()),
      steps_ahead_(dataset_->steps_ahead()),
      measures_(dataset_->sources()[0]->options().profile()),
      stagings_(std::move(stagings)),
      maker_(dataset_->plan(), std::move(sources)) {
  ready_.reserve(steps_ahead_ + 2);  // one that is wanted, and what the thread's end leaves
}

DistributedIterator::~DistributedIterator() = default;

Result<Ref<DistributedIterator>> DistributedIterator::Create(Ref<const DistributedDataset> dataset,
                                                             const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(kCreating.what));
  const Strategy& strategy = *dataset->strategy();
  TUTTI_RETURN_IF_ERROR(strategy.CheckOpen(kCreating.what));
  TeamChannel* workers = strategy.team_channel();
  if (workers != nullptr) TUTTI_RETURN_IF_ERROR(workers->Renew(call));
  std::vector<StepSource> sources;
  Status created;
  for (const Ref<const Dataset>& dataset_of_pipeline : dataset->sources()) {
    Result<Ref<Iterator>> source = Iterator::Create(dataset_of_pipeline, {}, call);
    created = source.status();
    if (!created.ok()) break;
    if (dataset->shared_part()) {
      SourcePart part = *dataset->shared_part();
      part.iterator = std::move(source).value();
      sources.emplace_back(std::vector<SourcePart>{std::move(part)}, 0);
    } else {
      sources.emplace_back(std::move(source).value());
    }
  }
  Stagings stagings(strategy.num_local_replicas());
  const InputOptions& input = dataset->options();
  if (input.prefetch_to_device && input.replication == InputReplication::kPerWorker) {
    for (size_t i = 0; i < stagings.size() && created.ok(); ++i) {
      if (strategy.device(i).id().is_cpu()) continue;
      Result<std::unique_ptr<GpuStaging>> staging = GpuStaging::Create(strategy.device(i));
      created = staging.status();
      if (created.ok()) stagings[i] = std::move(staging).value();
    }
  }
  std::unique_ptr<TeamChannel> team;
  if (workers == nullptr) {
    TUTTI_RETURN_IF_ERROR(created);
  } else {
    TUTTI_RETURN_IF_ERROR(workers->Exchange(kCreating, created, {}, call).status());
    team = std::make_unique<TeamChannel>(
        strategy.environment(), Ref<WorkerTeam>::Retain(strategy.team()),
        Format("{} iterator #{}", strategy.name(), strategy.team()->DrawNumber()));
    TUTTI_RETURN_IF_ERROR(team->Renew(call));
  }
  Ref<DistributedIterator> iterator =
      MakeRef<DistributedIterator>(std::move(dataset), std::move(sources), std::move(team),
                                   std::move(stagings));
  TUTTI_RETURN_IF_ERROR(iterator->Register());
  return iterator;
}

Status DistributedIterator::OnClose(const CallOptions& options) {
  std::vector<Ref<Iterator>> opening;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    opening = opening_;
  }
  changed_.notify_all();
  closing_->Cancel(Cancelled("the distributed iterator was closed"));
  // From here on nobody puts others in their place.
  TUTTI_RETURN_IF_ERROR(maker_.CloseSources(options));
  for (const Ref<Iterator>& iterator : opening) TUTTI_RETURN_IF_ERROR(iterator->Close(options));
  {
    std::unique_lock<std::mutex> lock(mutex_);
    TUTTI_RETURN_IF_ERROR(WaitUntil(
        lock, changed_, environment().clock(), options, [this] { return !inside_; },
        "close: waiting for the call that uses the iterator"));
  }
  TUTTI_RETURN_IF_ERROR(thread_.Join(options));
  return team_ ? team_->Close(options) : OkStatus();
}

// ---- Calls, one at a time. ----

DistributedIterator::Turn::~Turn() {
  if (!entered_) return;
  {
    std::lock_guard<std::mutex> lock(iterator_.mutex_);
    iterator_.inside_ = false;
  }
  iterator_.changed_.notify_all();
}

Status DistributedIterator::Turn::Enter(const CallOptions& call, const char* what) {
  DistributedIterator& self = iterator_;
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(what));
  TUTTI_RETURN_IF_ERROR(self.environment().CheckUsable(what));
  std::unique_lock<std::mutex> lock(self.mutex_);
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, self.changed_, self.environment().clock(), call,
      [&] { return !self.inside_ || self.stopping_; }, what));
  if (self.stopping_) return FailedPrecondition("{}: the iterator has been closed", what);
  self.inside_ = entered_ = true;
  return OkStatus();
}

Status DistributedIterator::WaitForThread(std::unique_lock<std::mutex>& lock,
                                          const CallOptions& call, const char* what) {
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, changed_, environment().clock(), call,
      [this] { return stopping_ || (!running_ && !WantsStep()); }, what));
  if (stopping_) return FailedPrecondition("{}: the iterator was closed meanwhile", what);
  return OkStatus();
}

Result<Ref<Value>> DistributedIterator::Next(const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "next"));
  if (!measures_) return NextInside(call);
  const int64_t then = environment().clock().NowNs();
  Result<Ref<Value>> step = NextInside(call);
  const int64_t now = environment().clock().NowNs();
  std::lock_guard<std::mutex> lock(mutex_);
  if (consumer_.turns++ == 0) first_next_ns_ = then;
  consumer_.rows += step.ok() && *step ? 1 : 0;
  consumer_.waited_ns += now - then;
  consumer_.elapsed_ns = now - first_next_ns_;
  return step;
}

Result<Ref<Value>> DistributedIterator::NextInside(const CallOptions& call) {
  Step step;
  const bool on_thread = steps_ahead_ > 0 || team_ != nullptr;
  TUTTI_RETURN_IF_ERROR(on_thread ? TakeStep(call, &step) : MakeStep(call, &step));
  if (step.value || !step.failure.ok()) ++steps_given_;
  TUTTI_RETURN_IF_ERROR(std::move(step.failure));
  for (StagedValue& part : step.staged) TUTTI_RETURN_IF_ERROR(part.Arrive());
  return std::move(step.value);
}

Result<Ref<Value>> DistributedIterator::NextOptional(const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> step, Next(call));
  return Value::OfLeaf(Leaf::OfOptional(std::move(step)));
}

RunReport DistributedIterator::Explain() const {
  std::vector<Ref<Iterator>> iterators;
  RunProfile::Totals consumer;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const StepSource& source : maker_.sources()) {
      for (const SourcePart& part : source.parts()) iterators.push_back(part.iterator);
    }
    consumer = consumer_;
  }
  std::vector<std::pair<std::string, RunReport>> runs;
  for (const Ref<Iterator>& iterator : iterators) {
    runs.emplace_back(Format("pipeline {}", runs.size()), iterator->Explain());
  }
  RunReport report = RunReport::Sum(std::move(runs));
  report.SetConsumer(consumer,
                     team_ ? "the other workers: the reports of all ranks, gathered, tell which of "
                             "them is slow"
                           : "what is done between the pipeline and the replicas: batches are cut, "
                             "and copied to devices");
  return report;
}

// ---- Steps ahead. ----

// Another one takes its place: what it had begun is lost, and said to be.
Status DistributedIterator::JoinThreadThatEnded() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_ended_) return OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(thread_.Join(CallOptions::Default()));
  std::lock_guard<std::mutex> lock(mutex_);
  thread_ended_ = false;
  return OkStatus();
}

Status DistributedIterator::TakeStep(const CallOptions& call, Step* step) {
  TUTTI_RETURN_IF_ERROR(JoinThreadThatEnded());
  if (!thread_.joinable()) {
    TUTTI_ASSIGN_OR_RETURN(thread_,
                           environment().StartThread("tutti-prefetch", [this] { RunAhead(); }));
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    begun_ = true;
    wanted_ = ready_.empty();
    changed_.notify_all();
    TUTTI_RETURN_IF_ERROR(WaitUntil(
        lock, changed_, environment().clock(), call,
        [this] { return !ready_.empty() || stopping_; }, "next: waiting for the step"));
    if (stopping_) return FailedPrecondition("next: the iterator was closed meanwhile");
    *step = std::move(ready_.front());
    ready_.erase(ready_.begin());
  }
  changed_.notify_all();
  return OkStatus();
}

void DistributedIterator::RunAhead() {
  // A function of the dataset may end the thread (pthread_exit).
  IfThreadEnds ends(kWhat, [this](Status why) {
    std::lock_guard<std::mutex> lock(mutex_);
    thread_ended_ = true;
    Step step;
    step.failure = std::move(why);
    ready_.push_back(std::move(step));
    running_ = wanted_ = false;
    changed_.notify_all();
  });
  // The other workers would wait for this one.
  IfThreadEnds team_ends(kWhat, [this](const Status& why) {
    (void)CatchExceptions(kWhat, [&] { return team_ ? team_->Abort(why) : OkStatus(); });
  });
  MakeStepsAhead();
  team_ends.Stays();
  ends.Stays();
}

void DistributedIterator::MakeStepsAhead() {
  const CallOptions call{Deadline::Infinite(), closing_.get()};
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    Status status = WaitUntil(
        lock, changed_, environment().clock(), CallOptions(),
        [this] { return stopping_ || WantsStep(); },
        "prefetch thread: waiting for work");
    if (!status.ok() || stopping_) return;
    running_ = true;
    lock.unlock();
    Step step;
    status = MakeStep(call, &step);
    // Interrupted: the iterator is being closed, or its source was.
    if (!status.ok()) step.failure = std::move(status);
    lock.lock();
    ready_.push_back(std::move(step));
    running_ = wanted_ = false;
    changed_.notify_all();
  }
}

// ---- Making a step. ----

Status DistributedIterator::CheckWhole() const {
  if (!making_) return OkStatus();
  if (!exception_.ok()) return exception_;
  return Aborted(
      "{}: a thread was cancelled while it made a step, and the position is lost; restore one that "
      "was saved, or make a new iterator",
      kWhat);
}

// Throws nothing, as the thread calls it.
Status DistributedIterator::MakeStep(const CallOptions& call, Step* step) {
  if (making_ && !exception_.ok()) return exception_;
  return CatchExceptions(kWhat, [&]() -> Status {
    TUTTI_RETURN_IF_ERROR(CheckWhole());
    making_ = true;
    Status status = CatchExceptions(kWhat, [&]() -> Status {
      Status made = MakeStepOrThrow(call, step);
      making_ = false;
      return made;
    });
    if (!making_) return status;
    exception_ = status;
    // The others would wait for this worker.
    if (team_) return team_->Abort(std::move(status));
    return status;
  });
}

Status DistributedIterator::MakeStepOrThrow(const CallOptions& call, Step* step) {
  if (ended_) return OkStatus();
  TUTTI_RETURN_IF_ERROR(maker_.Make(call, &step->local));
  return team_ ? CompleteWithTeam(call, step) : CompleteAlone(step);
}

Status DistributedIterator::CompleteAlone(Step* step) {
  LocalStep& local = step->local;
  step->failure = local.failure;
  if (!step->failure.ok()) return OkStatus();
  maker_.Commit();
  if (local.parts.empty()) return OkStatus();
  Result<Ref<Value>> value = Assemble(std::move(local.parts), local.rows, &step->staged);
  if (value.ok()) {
    step->value = std::move(value).value();
  } else {
    step->failure = std::move(value).status();
  }
  return OkStatus();
}

Status DistributedIterator::CompleteWithTeam(const CallOptions& call, Step* step) {
  LocalStep& local = step->local;
  const int64_t failed = local.failure.ok() ? 0 : 1;
  int64_t replicas_with_data = 0;
  int64_t rows = 0;
  if (dataset_->whole_steps() && !maker_.is_dealt()) {
    // All workers have the same. A failure cannot be made up for without an exchange: it is the
    // end.
    Status status = failed != 0 ? team_->Abort(local.failure) : team_->status();
    if (!status.ok()) {
      step->failure = std::move(status);
      if (failed == 0) NotTaken(&local);
      return OkStatus();
    }
    const int64_t workers = team_->num_workers();
    replicas_with_data = static_cast<int64_t>(local.parts.size()) * workers;
    rows = local.rows * workers;
  } else {
    const Ref<Tensor> sums =
        Tensor::Vector<int64_t>({static_cast<int64_t>(local.parts.size()), local.rows, failed});
    const Tensor* inputs[] = {sums.get()};
    Tensor* outputs[] = {sums.get()};
    Status status = team_->AllReduce(kNext, ReduceOp::kSum, inputs, call, outputs);
    if (!status.ok()) {
      step->failure = std::move(status);
      if (failed == 0) NotTaken(&local);
      return OkStatus();
    }
    const auto* all = static_cast<const int64_t*>(sums->data());
    if (all[2] > 0) return FailWithTeam(call, step);
    replicas_with_data = all[0];
    rows = all[1];
  }
  maker_.Commit();
  ended_ = replicas_with_data == 0;
  if (ended_) return OkStatus();
  if (replicas_with_data < dataset_->strategy()->num_replicas_in_sync()) {
    // Judged by the spec, on which all agree: either every worker can go on, or none.
    step->failure = NothingOfSpec().status();
    if (!step->failure.ok()) return OkStatus();
  }
  Result<Ref<Value>> value = Assemble(std::move(local.parts), rows, &step->staged);
  if (value.ok()) {
    step->value = std::move(value).value();
  } else {
    step->failure = std::move(value).status();
  }
  return OkStatus();
}

Status DistributedIterator::FailWithTeam(const CallOptions& call, Step* step) {
  LocalStep& local = step->local;
  Status shared = team_->Exchange(kNext, local.failure, {}, call).status();
  const bool own = !local.failure.ok();
  step->failure = own ? local.failure : std::move(shared);
  if (own) return OkStatus();
  if (dataset_->plan().shares_batches()) {
    // The batch that the other could not make is this one.
    maker_.Commit();
  } else {
    NotTaken(&local);
  }
  return OkStatus();
}

Result<Ref<Value>> DistributedIterator::NothingOfSpec() const {
  constexpr const char* kEnd = "a step in which the data ends";
  const ElementSpec& spec = dataset_->element_spec();
  return dataset_->plan().cut == StepPlan::Cut::kNone ? NoElementOf(spec, kEnd)
                                                      : EmptyBatchOf(spec, kEnd);
}

Result<Ref<Value>> DistributedIterator::NothingLike(const Value& part) const {
  constexpr const char* kEnd = "a step in which the data ends";
  if (dataset_->plan().cut == StepPlan::Cut::kNone) return NoElementLike(part, kEnd);
  TUTTI_RETURN_IF_ERROR(BatchRows(part, kEnd).status());
  return EmptyBatchLike(part);
}

Result<Ref<Value>> DistributedIterator::Assemble(std::vector<Ref<Value>> parts,
                                                 int64_t global_rows,
                                                 std::vector<StagedValue>* staged) {
  parts.resize(dataset_->strategy()->num_local_replicas());
  const auto is_there = [](const Ref<Value>& part) { return part.get() != nullptr; };
  if (!std::all_of(parts.begin(), parts.end(), is_there)) {
    const auto last = std::find_if(parts.rbegin(), parts.rend(), is_there);
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> nothing,
                           last == parts.rend() ? NothingOfSpec() : NothingLike(**last));
    for (Ref<Value>& part : parts) {
      if (!part) part = nothing;
    }
  }
  // What it may wait for, the copy of the step before the last one, is short: only closing ends it,
  // so that no step is lost.
  const CallOptions closing{Deadline::Infinite(), closing_.get()};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!stagings_[i]) continue;
    TUTTI_ASSIGN_OR_RETURN(
        StagedValue sent,
        stagings_[i]->Send(*parts[i], GpuWait{&closing, &environment().clock()}));
    parts[i] = sent.value();
    staged->push_back(std::move(sent));
  }
  return JoinStep(parts, kWhat, global_rows);
}

}  // namespace tutti
