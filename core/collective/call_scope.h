// CallScope: one call of a rank, from the checks that may refuse it to the records of its end. For
// the communicator's own files.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_SCOPE_H_
#define TUTTI_CORE_COLLECTIVE_CALL_SCOPE_H_

#include <cstdint>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/collective/communicator.h"
#include "core/collective/transport.h"

namespace tutti {

class Communicator::CallScope {
 public:
  CallScope(Communicator* self, CollectiveOp op) : self_(self), op_(op) { call_.header.op = op; }
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  CollectiveCall& call() { return call_; }

  // Whether the call becomes part of the sequence. A refusal leaves the epoch alone.
  Status Begin(const CallOptions& options);
  // The same for a transfer, which is counted with those to or from the same peer.
  Status BeginTransfer(int64_t peer, const CallOptions& options);

  // Runs the call, whose header is complete, with the peers.
  Status Run(int64_t bytes);

  // This rank cannot take part; its peers must not wait for it.
  Status Refuse(Status status);
  // The same of a call that was to be queued, as the next of its kind. Instead of Begin.
  Status RefuseToQueue(int64_t peer, Status status);

 private:
  Status Enter(const CallOptions& options);
  Status EnterBehindQueued(const CallOptions& options);
  // Records the end; the status then says where the flight record of a failure is.
  Status End(Status status);

  Communicator* const self_;
  const CollectiveOp op_;
  CollectiveCall call_;
  bool begun_ = false;
  bool queued_ = false;  // it runs on the worker, whose turn it is
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_SCOPE_H_
