#include "core/collective/call/call_order.h"

#include <utility>

#include "core/base/error.h"

namespace tutti {

std::string WaitingCall::ToString() const {
  return Format("{} #{}", CollectiveOpName(op), sequence);
}

Status TransferDuringCollective(const WaitingCall& transfer, const WaitingCall& collective,
                                const CallLabel& label) {
  Status error = InvalidArgument(
      "rank {}: {} {} rank {}, which waits for rank {} in {}; make the calls in an order that both "
      "ranks can follow",
      transfer.rank, transfer.ToString(), transfer.op == CollectiveOp::kSend ? "to" : "from",
      collective.rank, transfer.rank, collective.ToString());
  return WithCallDetails(std::move(error), transfer.rank, transfer.op, label)
      .With("peer", collective.rank);
}

Status TransfersCollide(const WaitingCall& low, const WaitingCall& high, const CallLabel& label) {
  const bool sends = low.op == CollectiveOp::kSend;
  Status error = InvalidArgument(
      "rank {}: {} {} rank {}, which is in {} {} rank {}: each waits for the other; let one of "
      "them {} first",
      low.rank, low.ToString(), sends ? "to" : "from", high.rank, high.ToString(),
      sends ? "to" : "from", low.rank, sends ? "receive" : "send");
  return WithCallDetails(std::move(error), low.rank, low.op, label).With("peer", high.rank);
}

}  // namespace tutti
