// Asynchronous calls: an issued call waits in the rank's queue (call_queue.h) and runs on the
// worker as the same call without a future.
//
// A call that waits behind others may have to end before its turn. So its cancellation is listened
// to, and a deadline earlier than one before it gets a timer; both end the epoch, as they do when a
// running call finds them.

#include <memory>
#include <mutex>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/text.h"
#include "core/collective/call_scope.h"
#include "core/collective/communicator.h"
#include "core/collective/future.h"
#include "core/collective/transport.h"
#include "core/collective/usable_cores.h"
#include "core/tensor/value.h"

namespace tutti {

class Communicator::AsyncCall final : public CallQueue::Call {
 public:
  AsyncCall(Communicator* self, CollectiveOp op, bool is_transfer, const CallOptions& options,
            AsyncBody body, Ref<Future> future)
      : self_(self),
        op_(op),
        is_transfer_(is_transfer),
        options_(options),
        cancellation_(Ref<Cancellation>::Retain(options.cancellation)),
        body_(std::move(body)),
        future_(std::move(future)) {}

  // Before it is pushed behind others.
  void WatchCancellation() {
    if (!cancellation_ || cancellation_->cancelled()) return;
    listener_ = cancellation_->AddListener(
        [this] { EndUnbegun(self_, op_, cancellation_->reason()); });
  }
  void WatchDeadline() {
    Environment& environment = self_->environment();
    const int64_t delay_ns = options_.deadline.RemainingNs(environment.clock());
    // The task may run when this call is done, and must not find the communicator gone.
    timer_ = environment.executor().PostAfter(
        delay_ns, Task([self = Ref<Communicator>::Retain(self_), op = op_, delay_ns] {
          EndUnbegun(self.get(), op,
                     DeadlineExceeded("not begun after {}, for the calls before it are not done",
                                      HumanDuration(delay_ns)));
        }));
  }

  void Run() override {
    if (listener_ != 0) cancellation_->RemoveListener(listener_);
    if (timer_ != 0) self_->environment().executor().CancelTimer(timer_);
    const int64_t number_before = self_->sequence();
    status_ = self_->epoch_status();
    if (status_.ok()) {
      status_ = body_(options_, &value_);
      // Nobody may ever look at the future.
      if (!status_.ok() && self_->epoch_status().ok()) status_ = self_->transport_->Fail(status_);
    }
    body_ = nullptr;
    if (!is_transfer_ && self_->sequence() == number_before) {
      const std::lock_guard<std::mutex> lock(self_->issue_mutex_);
      --self_->num_unbegun_;
    }
  }

  void Complete() override { future_->Complete(std::move(status_), std::move(value_)).rep(); }

 private:
  static void EndUnbegun(Communicator* self, CollectiveOp op, Status why) {
    const char* what = CollectiveOpName(op);
    self->transport_
        ->Fail(std::move(why)
                   .WithPrefix(Format("rank {}: {}", self->rank_, what))
                   .With("rank", self->rank_)
                   .With("op", what)
                   .With("epoch", self->epoch_)
                   .With("communicator", self->group_name_))
        .rep();
  }

  Communicator* const self_;  // waits for its calls before it goes
  const CollectiveOp op_;
  const bool is_transfer_;
  const CallOptions options_;
  const Ref<Cancellation> cancellation_;
  AsyncBody body_;
  const Ref<Future> future_;
  uint64_t listener_ = 0;
  uint64_t timer_ = 0;
  Status status_;
  Ref<Value> value_;
};

Result<Ref<Future>> Communicator::Issue(CollectiveOp op, int64_t peer, const CallOptions& options,
                                        Status arguments, AsyncBody body) {
  const char* what = CollectiveOpName(op);
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed(what));
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  TUTTI_RETURN_IF_ERROR(CheckNotClosing(what));
  const bool is_transfer = op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
  if (!arguments.ok()) {
    return CallScope(this, op).RefuseToQueue(is_transfer ? peer : -1, std::move(arguments));
  }
  TUTTI_RETURN_IF_ERROR(StartWorker());
  Ref<Future> future = MakeRef<Future>(Ref<Environment>::Retain(&environment()));
  auto call =
      std::make_unique<AsyncCall>(this, op, is_transfer, options, std::move(body), future);

  const CallQueue::Ahead ahead = calls_.Announce();
  Status closing = CheckNotClosing(what);
  if (!closing.ok()) {
    calls_.Withdraw();
    return closing;
  }
  bool earlier = false;
  {
    const std::lock_guard<std::mutex> lock(issue_mutex_);
    if (!is_transfer) ++num_unbegun_;
    // How long a call on its caller's thread may take is not known here.
    if (!ahead.queued) latest_deadline_ = ahead.caller ? Deadline::Infinite() : options.deadline;
    earlier = options.deadline.time_ns() < latest_deadline_.time_ns();
    if (!earlier) latest_deadline_ = options.deadline;
  }
  if (ahead.caller || ahead.queued) call->WatchCancellation();
  if (earlier) call->WatchDeadline();
  calls_.Push(std::move(call));
  return future;
}

Status Communicator::StartWorker() {
  if (worker_runs_.load(std::memory_order_acquire)) return OkStatus();
  return StartUnlessClosed([this]() -> Status {
    if (worker_runs_.load()) return OkStatus();
    // As many cores as there are ranks and workers, if all ranks are here.
    const bool spin = UsableCores() >= static_cast<size_t>(2 * size_);
    TUTTI_ASSIGN_OR_RETURN(worker_, environment().StartThread("tutti-collective", [this, spin] {
      calls_.Work(spin);
    }));
    worker_runs_.store(true, std::memory_order_release);
    return OkStatus();
  });
}

int64_t Communicator::NextNumber() {
  const std::lock_guard<std::mutex> lock(issue_mutex_);
  return sequence() + num_unbegun_ + 1;
}

}  // namespace tutti
