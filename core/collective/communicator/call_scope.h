// CallScope: one call of a rank, from the checks that may refuse it to the records of its end. For
// the communicator's own files.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_SCOPE_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_SCOPE_H_

#include <cstdint>
#include <optional>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/known_calls.h"

namespace tutti {

class Communicator::CallScope {
 public:
  CallScope(Communicator* self, CollectiveOp op) : self_(self), op_(op) {}
  ~CallScope() {
    if (!begun_) return;
    // An exception leaves it; the peers must not wait for it.
    if (!ended_) self_->FailForException(op_).rep();
    if (peer_ >= 0) self_->in_transfer_.store(false, std::memory_order_relaxed);
    if (!queued_) self_->calls_->End();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  // Whether the call becomes part of the sequence. A refusal leaves the epoch alone.
  Status Begin(const CollectiveOptions& options);
  // The same for a transfer, which is counted with those to or from the same peer.
  Status BeginTransfer(int64_t peer, const CollectiveOptions& options);

  // After either: what the transport gets.
  CollectiveCall& call() {
    if (!call_) MakeCall();
    return *call_;
  }
  // Runs the call, whose header is complete, with the peers.
  Status Run(int64_t bytes);
  // The same of one that is like an earlier one.
  Status RunKnown(KnownCalls::Entry* known, const void* input, void* output);

  // This rank cannot take part; its peers must not wait for it.
  Status Refuse(Status status);
  // The same of a call that was to be queued, as the next of its kind. Instead of Begin.
  Status RefuseToQueue(int64_t peer, Status status);

 private:
  Status Enter(const CollectiveOptions& options);
  Status EnterBehindQueued(const CollectiveOptions& options);
  void MakeCall();
  // What is observed of a call (tensor/tensor_observer.h): the tensors that this rank brings, and
  // those that a fold gives.
  Status ObserveInputs(const CollectiveCall& call) const;
  Status ObserveResults(const CollectiveCall& call) const;
  void LogPlacementOf(const CollectiveCall& call) const;
  // Records the end; the status then says where the flight record of a failure is.
  Status End(const CollectiveCall& call, Status status);

  Communicator* const self_;
  const CollectiveOp op_;
  const CollectiveOptions* options_ = nullptr;
  int64_t sequence_ = 0;
  int64_t peer_ = -1;
  bool begun_ = false;
  bool ended_ = false;
  bool queued_ = false;  // it is a queued one, whose turn it is
  std::optional<CollectiveCall> call_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_SCOPE_H_
