#include "core/collective/call_scope.h"

#include <string>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/recorder.h"
#include "core/base/text.h"
#include "core/collective/call_record.h"

namespace tutti {

Communicator::CallScope::~CallScope() {
  if (!begun_) return;
  self_->in_transfer_.store(false, std::memory_order_relaxed);
  if (!queued_) self_->calls_.End();
}

Status Communicator::CallScope::Enter(const CallOptions& options) {
  const char* what = CollectiveOpName(op_);
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed(what));
  TUTTI_RETURN_IF_ERROR(self_->environment().CheckUsable(what));
  if (!self_->calls_.TryBegin()) TUTTI_RETURN_IF_ERROR(EnterBehindQueued(options));
  if (!queued_) {
    Status status = self_->CheckNotClosing(what);
    if (!status.ok()) {
      self_->calls_.End();
      return status;
    }
  }
  begun_ = true;
  call_.options = options;
  call_.account = &self_->environment().memory();
  return OkStatus();
}

Status Communicator::CallScope::EnterBehindQueued(const CallOptions& options) {
  const char* what = CollectiveOpName(op_);
  if (self_->calls_.OnWorker()) {
    queued_ = true;
    return OkStatus();
  }
  switch (self_->calls_.TakePlace()) {
    case CallQueue::Place::kFirst:
      return OkStatus();
    case CallQueue::Place::kNone:
      return FailedPrecondition(
          "rank {}: {} while another call of the same rank runs; use one thread per rank, or "
          "asynchronous calls",
          self_->rank_, what);
    case CallQueue::Place::kBehind:
      break;
  }
  const int64_t number = self_->NextNumber();
  Status status = self_->calls_.AwaitTurn(
      self_->environment().clock(), options,
      Format("rank {}: {} #{}, behind asynchronous calls of the rank", self_->rank_, what,
             number));
  if (status.ok()) return status;
  TUTTI_RETURN_IF_ERROR(self_->CheckNotClosing(what));
  // The other ranks must not wait for it.
  const CallLabel label{number, self_->epoch_, &self_->group_name_};
  return self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label));
}

Status Communicator::CallScope::Begin(const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(Enter(options));
  call_.sequence = self_->sequence_.load(std::memory_order_relaxed) + 1;
  if (!queued_) {
    self_->sequence_.store(call_.sequence, std::memory_order_relaxed);
  } else {
    const std::lock_guard<std::mutex> lock(self_->issue_mutex_);
    self_->sequence_.store(call_.sequence, std::memory_order_relaxed);
    --self_->num_unbegun_;
  }
  return OkStatus();
}

Status Communicator::CallScope::BeginTransfer(int64_t peer, const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(Enter(options));
  auto& counts = op_ == CollectiveOp::kSend ? self_->num_sent_ : self_->num_received_;
  call_.peer = peer;
  call_.sequence = ++counts[peer];
  self_->in_transfer_.store(true, std::memory_order_relaxed);
  return OkStatus();
}

Status Communicator::CallScope::Run(int64_t bytes) {
  RecordCallBegin(&self_->environment().recorder(), self_->flight_subject_, call_, bytes);
  return End(self_->transport_->Execute(&call_));
}

Status Communicator::CallScope::Refuse(Status status) {
  const CallLabel label{call_.sequence, self_->epoch_, &self_->group_name_};
  status = std::move(status).WithPrefix(
      Format("rank {}: {} #{}", self_->rank_, CollectiveOpName(op_), call_.sequence));
  return End(self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label)));
}

Status Communicator::CallScope::RefuseToQueue(int64_t peer, Status status) {
  const char* what = CollectiveOpName(op_);
  call_.peer = peer;
  call_.sequence = self_->NextNumber();
  const CallLabel label{call_.sequence, self_->epoch_, &self_->group_name_};
  status = std::move(status).WithPrefix(
      peer >= 0 ? Format("rank {}: {}", self_->rank_, what)
                : Format("rank {}: {} #{}", self_->rank_, what, call_.sequence));
  return End(self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label)));
}

Status Communicator::CallScope::End(Status status) {
  Environment& environment = self_->environment();
  RecordCallEnd(&environment.recorder(), self_->flight_subject_, call_, status.code());
  return WithFlightRecord(&environment, self_->transport_.get(), self_->group_name_,
                          std::move(status));
}

}  // namespace tutti
