// Why a call over links cannot go on, in words: who is gone, has left, is late, or waits for
// another call than the one that this rank is in.

#include <algorithm>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/collective/link_transport_state.h"

namespace tutti {
namespace {

bool IsTransfer(CollectiveOp op) {
  return op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
}
CollectiveOp Counterpart(CollectiveOp op) {
  return op == CollectiveOp::kSend ? CollectiveOp::kReceive : CollectiveOp::kSend;
}

// A call that a rank waits in.
struct Waiting {
  int64_t rank = 0;
  CollectiveOp op = CollectiveOp::kNone;
  int64_t sequence = 0;

  std::string ToString() const { return Format("{} #{}", CollectiveOpName(op), sequence); }
};

// `transfer` is with the rank that is in `collective` instead. The same words on both.
Status TransferDuringCollective(const Waiting& transfer, const Waiting& collective,
                                const CallLabel& label) {
  Status error = InvalidArgument(
      "rank {}: {} {} rank {}, which waits for rank {} in {}; make the calls in an order that both "
      "ranks can follow",
      transfer.rank, transfer.ToString(), transfer.op == CollectiveOp::kSend ? "to" : "from",
      collective.rank, transfer.rank, collective.ToString());
  return WithCallDetails(std::move(error), transfer.rank, transfer.op, label)
      .With("peer", collective.rank);
}

// Both send to each other, or both receive.
Status TransfersCollide(const Waiting& low, const Waiting& high, const CallLabel& label) {
  const bool sends = low.op == CollectiveOp::kSend;
  Status error = InvalidArgument(
      "rank {}: {} {} rank {}, which is in {} {} rank {}: each waits for the other; let one of "
      "them {} first",
      low.rank, low.ToString(), sends ? "to" : "from", high.rank, high.ToString(),
      sends ? "to" : "from", low.rank, sends ? "receive" : "send");
  return WithCallDetails(std::move(error), low.rank, low.op, label).With("peer", high.rank);
}

}  // namespace

bool LinkTransport::State::FailedElsewhere(const CollectiveCall& call) const {
  if (IsTransfer(call.header.op)) {
    const LinkPeer& peer = *peers_[static_cast<size_t>(call.peer)];
    return !peer.error().ok() &&
           peer.error_transfer() ==
               LinkPeer::FailedTransfer(Counterpart(call.header.op), call.sequence);
  }
  return std::any_of(peers_.begin(), peers_.end(), [&](const std::unique_ptr<LinkPeer>& peer) {
    return peer && !peer->error().ok() && peer->error_sequence() <= call.sequence;
  });
}

bool LinkTransport::State::Awaits(const LinkPeer& peer, const CollectiveCall& call) const {
  if (!IsTransfer(call.header.op)) return peer.call(call.sequence) == nullptr;
  return peer.rank() == call.peer &&
         peer.transfer(Counterpart(call.header.op), call.sequence) == nullptr;
}

Status LinkTransport::State::CheckOrder(const LinkPeer& peer, const CollectiveCall& call) const {
  const Waiting own{rank_, call.header.op, call.sequence};
  if (!IsTransfer(own.op)) {
    for (const CollectiveOp op : {CollectiveOp::kSend, CollectiveOp::kReceive}) {
      const Waiting theirs{peer.rank(), op, peer.unanswered_transfer(op)};
      if (theirs.sequence == 0) continue;
      return TransferDuringCollective(theirs, own, Label(theirs.sequence));
    }
    return OkStatus();
  }
  if (peer.last_sequence() > sequence_) {
    const Waiting theirs{peer.rank(), peer.last_op(), peer.last_sequence()};
    return TransferDuringCollective(own, theirs, Label(own.sequence));
  }
  const Waiting theirs{peer.rank(), own.op, peer.unanswered_transfer(own.op)};
  if (theirs.sequence == 0) return OkStatus();
  const Waiting& low = rank_ < peer.rank() ? own : theirs;
  return TransfersCollide(low, rank_ < peer.rank() ? theirs : own, Label(low.sequence));
}

Status LinkTransport::State::CheckPeers(const CollectiveCall& call, LinkExchange* exchange) const {
  for (const std::unique_ptr<LinkPeer>& peer : peers_) {
    if (!peer) continue;
    if (peer->gone()) return GoneError(*peer, &call);
    const bool awaited = exchange == nullptr && Awaits(*peer, call);
    if (awaited) TUTTI_RETURN_IF_ERROR(CheckOrder(*peer, call));
    if (peer->leave_reason().ok()) continue;
    const bool needed = awaited || (exchange != nullptr && !exchange->Owed(peer->rank()).empty());
    if (needed || peer->sending() || (exchange != nullptr && peer->send_closed())) {
      return LeftError(*peer, call);
    }
  }
  return OkStatus();
}

std::string LinkTransport::State::Describe(int64_t rank) const {
  const auto r = static_cast<size_t>(rank);
  if (r >= options_.descriptions.size()) return Format("rank {}", rank);
  return Format("rank {} ({})", rank, options_.descriptions[r]);
}

Status LinkTransport::State::GoneError(LinkPeer& peer, const CollectiveCall* call) const {
  std::string text = Format("{} is gone: {}", Describe(peer.rank()), peer.link().CloseReason());
  const CallLabel label = Label(call != nullptr ? call->sequence : sequence_);
  CollectiveOp op = CollectiveOp::kNone;
  if (call != nullptr) {
    op = call->header.op;
    text = Format("{} #{}: {}", CollectiveOpName(op), call->sequence, text);
  }
  return WithCallDetails(Status(StatusCode::kUnavailable, text), peer.rank(), op, label)
      .With("worker", peer.rank());
}

Status LinkTransport::State::LeftError(const LinkPeer& peer, const CollectiveCall& call) const {
  const char* op = CollectiveOpName(call.header.op);
  Status error(peer.leave_reason().code(),
               Format("rank {}: {} #{} needs rank {}: {}", rank_, op, call.sequence, peer.rank(),
                      peer.leave_reason().message()));
  error = std::move(error).WithCause(peer.leave_reason());
  return WithCallDetails(std::move(error), rank_, call.header.op, Label(call.sequence))
      .With("peer", peer.rank());
}

std::vector<RankPosition> LinkTransport::State::Positions(const CollectiveCall& call) const {
  std::vector<RankPosition> positions;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const LinkPeer* peer = peers_[static_cast<size_t>(rank)].get();
    RankPosition position;
    position.rank = rank;
    position.arrived = peer == nullptr || !Awaits(*peer, call);
    if (peer != nullptr) {
      position.last_op = peer->last_op();
      position.last_sequence = peer->last_sequence();
    } else if (IsTransfer(call.header.op)) {
      position.transfer = call.header.op;
      position.transfer_peer = call.peer;
    } else {
      position.last_op = call.header.op;
      position.last_sequence = call.sequence;
    }
    const auto r = static_cast<size_t>(rank);
    if (r < options_.descriptions.size()) position.who = options_.descriptions[r];
    positions.push_back(position);
  }
  return positions;
}

std::string LinkTransport::State::DescribeAwaited(const CollectiveCall& call,
                                                  const LinkExchange* exchange,
                                                  int64_t* first) const {
  const std::vector<RankPosition> positions = Positions(call);
  std::string text = DescribeMissing(positions);
  *first = -1;
  for (const std::unique_ptr<LinkPeer>& peer : peers_) {
    if (!peer) continue;
    const bool arrived = positions[static_cast<size_t>(peer->rank())].arrived;
    std::string owed;
    if (arrived && exchange != nullptr) owed = exchange->Owed(peer->rank());
    if (arrived && owed.empty() && peer->sending()) owed = "it does not take what is sent to it";
    if (*first < 0 && (!arrived || !owed.empty())) *first = peer->rank();
    if (owed.empty()) continue;
    if (!text.empty()) text += ", and for ";
    text += Format("{}, which is in the call; {}", Describe(peer->rank()), owed);
  }
  return text;
}

void LinkTransport::State::LogLongWait(const CollectiveCall& call) const {
  environment_->log().Warning(
      Format("communicator {}: rank {} has waited {} in {} #{}: {}", options_.name, rank_,
             HumanDuration(LinkWait::kLogWaitNs), CollectiveOpName(call.header.op), call.sequence,
             DescribePositions(Positions(call))));
}

Status LinkTransport::State::WaitError(const CollectiveCall& call, const LinkExchange* exchange,
                                       Status wait_status, int64_t waited_ns) const {
  const char* op = CollectiveOpName(call.header.op);
  int64_t first = -1;
  const std::string awaited = DescribeAwaited(call, exchange, &first);
  Status error;
  if (wait_status.code() == StatusCode::kDeadlineExceeded && wait_status.message().empty()) {
    error = DeadlineExceeded("rank {}: {} #{} waited {} for {}", rank_, op, call.sequence,
                             HumanDuration(waited_ns), awaited)
                .With("waited_ns", waited_ns);
  } else {
    error = std::move(wait_status)
                .WithPrefix(Format("{} #{}", op, call.sequence))
                .WithPrefix(Format("rank {}: while it waited for {}", rank_, awaited));
  }
  return WithCallDetails(std::move(error), rank_, call.header.op, Label(call.sequence))
      .With("peer", first);
}

}  // namespace tutti
