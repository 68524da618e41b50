#include "core/collective/call_scope.h"

#include <array>
#include <iterator>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace tutti {
namespace {

using FlightNames = std::array<const char*, kFlightArguments>;
constexpr FlightNames kFlightNames = {"rank", "sequence", "epoch", "bytes", "code"};
// Transfers have numbers of their own, which must not be taken for the group's sequence.
constexpr FlightNames kTransferNames = {"rank", "peer", "number", "bytes", "code"};
constexpr FlightEventType kFlightEvents[] = {
    {"none", kFlightNames},           {"all_reduce", kFlightNames}, {"broadcast", kFlightNames},
    {"all_gather", kFlightNames},     {"barrier", kFlightNames},    {"reduce", kFlightNames},
    {"reduce_scatter", kFlightNames}, {"gather", kFlightNames},     {"scatter", kFlightNames},
    {"all_to_all", kFlightNames},     {"send", kTransferNames},     {"receive", kTransferNames},
};
static_assert(std::size(kFlightEvents) == static_cast<size_t>(kLastCollectiveOp) + 1);

}  // namespace

Communicator::CallScope::~CallScope() {
  if (!begun_) return;
  Record(FlightPhase::kEnd);
  // Whoever cancels knows why; closing an iterator ends its exchange so.
  const bool failed = code_ != StatusCode::kOk && code_ != StatusCode::kCancelled;
  if (failed && self_->transport_->ClaimFlightRecord()) WriteFlightRecord();
  self_->EndCall();
}

Status Communicator::CallScope::Enter(const CallOptions& options) {
  const char* what = CollectiveOpName(op_);
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed(what));
  TUTTI_RETURN_IF_ERROR(self_->environment().CheckUsable(what));
  if (self_->in_call_.exchange(true)) {
    return FailedPrecondition(
        "rank {}: {} while another call of the same rank runs; use one thread per rank",
        self_->rank_, what);
  }
  if (self_->closing_.load()) {
    self_->EndCall();
    return FailedPrecondition("rank {}: {} after close of communicator {}", self_->rank_, what,
                              self_->group_name_);
  }
  begun_ = true;
  call_.options = options;
  return OkStatus();
}

Status Communicator::CallScope::Begin(const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(Enter(options));
  call_.sequence = self_->sequence_.load(std::memory_order_relaxed) + 1;
  self_->sequence_.store(call_.sequence, std::memory_order_relaxed);
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
  bytes_ = bytes;
  Record(FlightPhase::kBegin);
  Status status = self_->transport_->Execute(&call_);
  code_ = status.code();
  return status;
}

Status Communicator::CallScope::Refuse(Status status) {
  code_ = status.code();
  const CallLabel label{call_.sequence, self_->epoch_, &self_->group_name_};
  status = std::move(status).WithPrefix(
      Format("rank {}: {} #{}", self_->rank_, CollectiveOpName(op_), call_.sequence));
  return self_->transport_->Fail(WithCallDetails(std::move(status), self_->rank_, op_, label));
}

void Communicator::CallScope::Record(FlightPhase phase) {
  const FlightEventType& type = kFlightEvents[static_cast<int>(op_)];
  const auto code = static_cast<int64_t>(code_);
  if (call_.peer >= 0) {
    self_->environment().recorder().Record(
        type, phase, {self_->rank_, call_.peer, call_.sequence, bytes_, code});
  } else {
    self_->environment().recorder().Record(
        type, phase, {self_->rank_, call_.sequence, self_->epoch_, bytes_, code});
  }
}

// What the ranks of this process did last, for whoever asks why the epoch ended. A record that
// cannot be written is logged; the call's own error is what counts.
void Communicator::CallScope::WriteFlightRecord() {
  Environment& environment = self_->environment();
  const Result<std::string> path = environment.WriteFlightRecord();
  if (!path.ok()) {
    environment.log().Warning(
        Format("the flight record of communicator {} was not written: {}", self_->group_name_,
               path.status().message()));
  } else if (!path->empty()) {
    environment.log().Warning(
        Format("the flight record of communicator {}: {}", self_->group_name_, *path));
  }
}

}  // namespace tutti
