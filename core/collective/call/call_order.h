// Calls of two ranks that cannot come together, because each waits for the other in another call:
// the errors that say so, in the same words whichever of the two has found it.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_CALL_ORDER_H_
#define TUTTI_CORE_COLLECTIVE_CALL_CALL_ORDER_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/collective/call/call_header.h"

namespace tutti {

// A call that a rank waits in.
struct WaitingCall {
  int64_t rank = 0;
  CollectiveOp op = CollectiveOp::kNone;
  int64_t sequence = 0;

  std::string ToString() const;
};

// `transfer` is with the rank that is in `collective`, which needs all, instead.
Status TransferDuringCollective(const WaitingCall& transfer, const WaitingCall& collective,
                                const CallLabel& label);

// Both send to each other, or both receive. The label's sequence is that of the lower rank's call.
Status TransfersCollide(const WaitingCall& low, const WaitingCall& high, const CallLabel& label);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_CALL_ORDER_H_
