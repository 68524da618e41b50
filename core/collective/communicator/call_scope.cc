#include "core/collective/communicator/call_scope.h"

#include <span>
#include <string>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/placement_log.h"
#include "core/base/recorder.h"
#include "core/base/text.h"
#include "core/collective/call/call_record.h"
#include "core/collective/communicator/communication_options.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

Status Communicator::CallScope::Enter(const CollectiveOptions& options) {
  options_ = &options;
  if (options.hints.any()) {
    TUTTI_RETURN_IF_ERROR(CheckHints(options.hints, CollectiveOpName(op_)));
  }
  const Environment& environment = self_->environment();
  if (CurrentCallbackClass() != CallbackClass::kNone || environment.is_shut_down() ||
      environment.LeftBehindByFork()) {
    const char* what = CollectiveOpName(op_);
    TUTTI_RETURN_IF_ERROR(CheckCollectiveAllowed(what));
    TUTTI_RETURN_IF_ERROR(environment.CheckUsable(what));
  }
  if (!self_->calls_->TryBegin()) TUTTI_RETURN_IF_ERROR(EnterBehindQueued(options));
  if (!queued_ && self_->closing_.load()) {
    self_->calls_->End();
    return self_->CheckNotClosing(CollectiveOpName(op_));
  }
  begun_ = true;
  return OkStatus();
}

Status Communicator::CallScope::EnterBehindQueued(const CollectiveOptions& options) {
  const char* what = CollectiveOpName(op_);
  if (self_->calls_->RunsHere()) {
    queued_ = true;
    return OkStatus();
  }
  const int64_t number = self_->NextNumber();
  // Made before there is a place, which nothing may leave behind.
  const std::string waits_as =
      Format("rank {}: {} #{}, behind asynchronous calls of the rank", self_->rank_, what, number);
  switch (self_->calls_->TakePlace()) {
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
  try {
    Status status = self_->calls_->AwaitTurn(options, waits_as);
    if (status.ok()) return status;
    TUTTI_RETURN_IF_ERROR(self_->CheckNotClosing(what));
    // The other ranks must not wait for it.
    const CallLabel label{number, self_->epoch_, &self_->group_name_};
    return self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label));
  } catch (...) {
    self_->FailForException(op_).rep();
    throw;
  }
}

Status Communicator::CallScope::Begin(const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(Enter(options));
  sequence_ = self_->sequence_.load(std::memory_order_relaxed) + 1;
  if (!queued_) {
    self_->sequence_.store(sequence_, std::memory_order_relaxed);
  } else {
    const std::lock_guard<std::mutex> lock(self_->issue_mutex_);
    self_->sequence_.store(sequence_, std::memory_order_relaxed);
    --self_->num_unbegun_;
  }
  return OkStatus();
}

Status Communicator::CallScope::BeginTransfer(int64_t peer, const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(Enter(options));
  auto& counts = op_ == CollectiveOp::kSend ? self_->num_sent_ : self_->num_received_;
  peer_ = peer;
  sequence_ = ++counts[peer];
  self_->in_transfer_.store(true, std::memory_order_relaxed);
  return OkStatus();
}

void Communicator::CallScope::MakeCall() {
  CollectiveCall& call = call_.emplace();
  call.header.op = op_;
  call.sequence = sequence_;
  call.peer = peer_;
  call.account = &self_->environment().memory();
  if (options_ == nullptr) return;
  call.options = *options_;
  if (peer_ >= 0 || !options_->hints.any()) return;
  call.header.hints = options_->hints;
}

void Communicator::TellOfImplementation(const CallHeader& header, std::string_view why_no_nccl) {
  const CommunicationImplementation asked = header.hints.implementation;
  std::string_view why = why_no_nccl;
  if (asked == CommunicationImplementation::kRing) {
    const char* const why_no_ring = size_ == 1 ? nullptr : transport_->WhyNoRing(header.op);
    if (why_no_ring == nullptr) return;
    why = why_no_ring;
  }
  // Ranks of one process share its log.
  if (rank_ != 0 && transport_->name() == std::string_view("in_process")) return;
  const uint32_t bit = uint32_t{1} << static_cast<uint32_t>(asked);
  if ((told_of_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  environment().log().Warning(OtherwiseThanAsked(
      Format("communicator {}, rank {}: {}", group_name_, rank_, CollectiveOpName(header.op)),
      asked, why));
}

Status Communicator::CallScope::Run(int64_t bytes) {
  CollectiveCall& call = this->call();
  if (options_->stream && gpu_ == nullptr) {
    Status stream = CheckStream();
    if (!stream.ok()) return Refuse(std::move(stream));
  }
  if (is_direct()) {
    call.memory = {};
    call.gather_input = nullptr;
    call.on_gpu = on_gpu_;
  }
  if (exchanged_ && route_ != GpuRoute::kNccl) NextSequence();
  if (call.header.hints.implementation != CommunicationImplementation::kAuto &&
      route_ != GpuRoute::kNccl) {
    self_->TellOfImplementation(call.header, WhyNoNccl());
  }
  const bool observed = TensorsAreObserved();
  call.checks_fold = observed && NumericsAreChecked() && self_->transport_->ChecksFold(call);
  if (observed) [[unlikely]] {
    Status inputs = ObserveInputs(call);
    if (!inputs.ok()) return Refuse(std::move(inputs));
  }
  if (PlacementsAreLogged()) [[unlikely]] LogPlacementOf(call);
  RecordCallBegin(&self_->environment().recorder(), self_->flight_subject_, call, bytes);
  Status status = peer_ >= 0                  ? RunTransfer()
                  : route_ == GpuRoute::kNccl ? RunByNccl()
                                              : self_->transport_->Execute(&call);
  if (status.ok() && options_->stream) status = LetStreamFollow();
  if (observed && status.ok()) [[unlikely]] status = ObserveResults(call);
  return End(call, std::move(status));
}

Status Communicator::CallScope::RunKnown(KnownCalls::Entry* known, const void* input,
                                         void* output) {
  if (options_->stream) [[unlikely]] return Refuse(CheckStream());
  CollectiveCall& call = known->call;
  call.sequence = sequence_;
  call.options = *options_;
  known->memory = {input, output};
  call.memory = std::span<const CollectiveMemory>(&known->memory, 1);
  known->begin_record[kFlightSequence] = sequence_;
  call.recorder = &self_->environment().recorder();
  call.begin_record = &known->begin_record;
  const bool observed = TensorsAreObserved();
  call.checks_fold = observed && NumericsAreChecked() && self_->transport_->ChecksFold(call);
  if (observed) [[unlikely]] {
    Status inputs = ObserveInputs(call);
    if (!inputs.ok()) return Refuse(std::move(inputs));
  }
  if (PlacementsAreLogged()) [[unlikely]] LogPlacementOf(call);
  if (!self_->transport_->RecordsKnownCalls()) RecordKnownCall(&call);
  Status status = self_->transport_->Execute(&call);
  if (observed && status.ok()) [[unlikely]] status = ObserveResults(call);
  return End(call, std::move(status));
}

Status Communicator::CallScope::Refuse(Status status) {
  const CallLabel label{sequence_, self_->epoch_, &self_->group_name_};
  status = std::move(status).WithPrefix(
      Format("rank {}: {} #{}", self_->rank_, CollectiveOpName(op_), sequence_));
  status = self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label));
  return End(call(), std::move(status));
}

Status Communicator::CallScope::RefuseToQueue(int64_t peer, Status status) {
  const char* what = CollectiveOpName(op_);
  peer_ = peer;
  sequence_ = self_->NextNumber();
  const CallLabel label{sequence_, self_->epoch_, &self_->group_name_};
  status = std::move(status).WithPrefix(
      peer >= 0 ? Format("rank {}: {}", self_->rank_, what)
                : Format("rank {}: {} #{}", self_->rank_, what, sequence_));
  status = self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label));
  return End(call(), std::move(status));
}

Status Communicator::CallScope::End(const CollectiveCall& call, Status status) {
  ended_ = true;
  Environment& environment = self_->environment();
  RecordCallEnd(&environment.recorder(), self_->flight_subject_, call, status.code());
  if (status.ok()) return status;
  return WithFlightRecord(&environment, self_->transport_.get(), self_->group_name_,
                          std::move(status));
}

}  // namespace tutti
