// Asynchronous calls: an issued call waits in the rank's queue (call_queue.h), which runs it as the
// same call without a future.
//
// A call that waits behind others may have to end before its turn. So its cancellation is listened
// to, and it gets a timer unless what is before it ends no later; both end the epoch, as they do
// when a running call finds them.

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/task.h"
#include "core/base/text.h"
#include "core/base/usable_cores.h"
#include "core/collective/call/transport.h"
#include "core/collective/call/observed_names.h"
#include "core/collective/communicator/call_scope.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"
#include "core/tensor/tensor_observer.h"
#include "core/tensor/value.h"

namespace tutti {

class Communicator::AsyncCall final : public CallQueue::Call {
 public:
  AsyncCall(Communicator* self, CollectiveOp op, bool is_transfer, const CollectiveOptions& options,
            AsyncBody body, Ref<Future> future)
      : self_(self),
        op_(op),
        is_transfer_(is_transfer),
        options_(options),
        cancellation_(Ref<Cancellation>::Retain(options.cancellation)),
        body_(std::move(body)),
        future_(std::move(future)),
        checked_(NumericsAreChecked()),
        step_(ObservedStep()),
        names_(ObservedNames::Current()) {}
  // Of a call that has run nothing is left to undo, and the communicator may be gone.
  ~AsyncCall() override {
    StopWatching();
    if (is_counted_) CountAsBegun();
  }

  // Before it is pushed: counts it among those that have no number yet.
  void Count() {
    if (is_transfer_) return;
    const std::lock_guard<std::mutex> lock(self_->issue_mutex_);
    ++self_->num_unbegun_;
    is_counted_ = true;
  }
  // Before it is pushed behind others. One that is cancelled already ends the epoch here and now.
  void WatchCancellation() {
    if (!cancellation_) return;
    listener_ = cancellation_->AddListener([this] {
      EndElsewhere(self_, op_, [&] { return EndUnbegun(self_, op_, cancellation_->reason()); });
    });
  }
  void WatchDeadline() {
    Environment& environment = self_->environment();
    delay_ns_ = options_.deadline.RemainingNs(environment.clock());
    decided_ = std::make_shared<std::atomic<bool>>(false);
    // The task may run when this call is done, and must not find the communicator gone.
    timer_ = environment.executor().PostAfter(
        delay_ns_, Task([self = Ref<Communicator>::Retain(self_), op = op_, delay_ns = delay_ns_,
                         decided = decided_] {
          if (decided->exchange(true)) return;
          EndElsewhere(self.get(), op, [&] { return EndLate(self.get(), op, delay_ns); });
        }));
  }

  void Run() noexcept override {
    const int64_t number_before = self_->sequence();
    const bool was_counted = std::exchange(is_counted_, false);
    try {
      StopWatching();
      // Either the call begins or its timer ends the epoch, though the task may come later.
      const bool is_late = decided_ && decided_->exchange(true);
      status_ = is_late ? EndLate(self_, op_, delay_ns_) : OfThisCall(self_->epoch_status());
      if (status_.ok()) {
        std::optional<ObservedScope> observed;
        if (checked_) observed.emplace(Observed::kChecked, step_);
        const ObservedNames names(names_);
        status_ = body_(options_, &value_);
        // Nobody may ever look at the future.
        if (!status_.ok() && self_->epoch_status().ok()) status_ = self_->transport_->Fail(status_);
      }
    } catch (...) {
      status_ = self_->FailForException(op_);
    }
    body_ = nullptr;
    if (was_counted && self_->sequence() == number_before) CountAsBegun();
  }

  void Complete() noexcept override {
    try {
      future_->Complete(std::move(status_), std::move(value_)).rep();
    } catch (const std::bad_alloc&) {
      // It is done; whom there was no memory to notify may still ask.
    }
  }

  bool EndsWithin(const CallOptions& options) const override {
    return options.cancellation == nullptr &&
           options_.deadline.time_ns() <= options.deadline.time_ns();
  }

 private:
  // Of a peer that is gone the first call that fails of it says which one that is.
  Status OfThisCall(Status status) const {
    const bool of_a_peer = status.code() == StatusCode::kUnavailable &&
                           status.FindDetail("rank") != nullptr &&
                           status.FindDetail("worker") != nullptr;
    if (!of_a_peer || status.FindDetail("op") != nullptr) return status;
    const char* what = CollectiveOpName(op_);
    return std::move(status)
        .WithPrefix(Format("rank {}: {}", self_->rank_, what))
        .With("op", what);
  }

  static Status EndUnbegun(Communicator* self, CollectiveOp op, Status why) {
    const char* what = CollectiveOpName(op);
    return self->transport_->Fail(std::move(why)
                                      .WithPrefix(Format("rank {}: {}", self->rank_, what))
                                      .With("rank", self->rank_)
                                      .With("op", what)
                                      .With("epoch", self->epoch_)
                                      .With("communicator", self->group_name_));
  }
  static Status EndLate(Communicator* self, CollectiveOp op, int64_t delay_ns) {
    return EndUnbegun(self, op,
                      DeadlineExceeded("not begun after {}, for the calls before it are not done",
                                       HumanDuration(delay_ns)));
  }

  // On a thread that has nothing to do with the call, and must go on.
  template <typename End>
  static void EndElsewhere(Communicator* self, CollectiveOp op, const End& end) noexcept {
    try {
      end().rep();
    } catch (const std::bad_alloc&) {
      self->FailForException(op).rep();
    }
  }

  void StopWatching() {
    if (listener_ != 0) cancellation_->RemoveListener(std::exchange(listener_, 0));
    if (timer_ != 0) self_->environment().executor().CancelTimer(std::exchange(timer_, 0));
  }
  void CountAsBegun() {
    const std::lock_guard<std::mutex> lock(self_->issue_mutex_);
    --self_->num_unbegun_;
  }

  Communicator* const self_;  // waits for its calls before it goes
  const CollectiveOp op_;
  const bool is_transfer_;
  const CollectiveOptions options_;
  const Ref<Cancellation> cancellation_;
  AsyncBody body_;
  const Ref<Future> future_;
  const bool checked_;  // numerics, by the thread that has issued it
  const int64_t step_;
  const TensorNames names_;  // likewise
  bool is_counted_ = false;
  uint64_t listener_ = 0;
  uint64_t timer_ = 0;
  int64_t delay_ns_ = 0;
  std::shared_ptr<std::atomic<bool>> decided_;  // with a timer: whether the call has begun or ended
  Status status_;
  Ref<Value> value_;
};

Result<Ref<Future>> Communicator::Issue(CollectiveOp op, int64_t peer,
                                        const CollectiveOptions& options, Status arguments,
                                        AsyncBody body) {
  const char* what = CollectiveOpName(op);
  TUTTI_RETURN_IF_ERROR(CheckCollectiveAllowed(what));
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  TUTTI_RETURN_IF_ERROR(CheckNotClosing(what));
  TUTTI_RETURN_IF_ERROR(CheckHints(options.hints, what));
  const bool is_transfer = op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
  if (!arguments.ok()) {
    return CallScope(this, op).RefuseToQueue(is_transfer ? peer : -1, std::move(arguments));
  }
  CollectiveOptions kept = options;
  if (options.stream) {
    TUTTI_ASSIGN_OR_RETURN(kept.stream_point, GpuEvent::Create(options.stream->place(), false));
    TUTTI_RETURN_IF_ERROR(kept.stream_point->Record(*options.stream));
  }
  TUTTI_RETURN_IF_ERROR(StartWorker());
  Ref<Future> future = MakeRef<Future>(Ref<Environment>::Retain(&environment()), calls_);
  auto call =
      std::make_unique<AsyncCall>(this, op, is_transfer, kept, std::move(body), future);

  CallQueue::Announced announced(calls_.get());
  TUTTI_RETURN_IF_ERROR(CheckNotClosing(what));
  call->Count();
  const bool behind_caller = announced.is_behind_caller();
  const bool behind_queued = announced.is_behind_queued();
  const int64_t end_ns = options.deadline.time_ns();
  if (!behind_queued || end_ns > latest_deadline_.time_ns()) latest_deadline_ = options.deadline;
  if (behind_caller || behind_queued) call->WatchCancellation();
  // How long a call on its caller's thread may take is not known here.
  const Deadline before = behind_caller ? Deadline::Infinite() : latest_deadline_;
  if (end_ns < before.time_ns()) call->WatchDeadline();
  announced.Push(std::move(call));
  return future;
}

Status Communicator::FailForException(CollectiveOp op) noexcept {
  try {
    const char* what = CollectiveOpName(op);
    return transport_->Fail(
        ResourceExhausted("rank {}: {} was left in the middle, most likely for lack of memory",
                          rank_, what)
            .With("rank", rank_)
            .With("op", what)
            .With("epoch", epoch_)
            .With("communicator", group_name_));
  } catch (...) {
  }
  try {
    return transport_->Fail(Status::OutOfMemory());
  } catch (...) {
    return Status::OutOfMemory();
  }
}

Status Communicator::StartWorker() {
  if (worker_runs_.load(std::memory_order_acquire)) return OkStatus();
  return StartUnlessClosed([this]() -> Status {
    if (worker_runs_.load()) return OkStatus();
    // As many cores as there are ranks and workers, if all ranks are here.
    const bool cores_to_spare = UsableCores() >= static_cast<size_t>(2 * size_);
    calls_->Prepare(cores_to_spare);
    Task work([calls = calls_] { calls->Work(); });
    TUTTI_ASSIGN_OR_RETURN(worker_,
                           environment().StartThread("tutti-collective", std::move(work)));
    worker_runs_.store(true, std::memory_order_release);
    return OkStatus();
  });
}

int64_t Communicator::NextNumber() {
  const std::lock_guard<std::mutex> lock(issue_mutex_);
  return sequence() + num_unbegun_ + 1;
}

}  // namespace tutti
