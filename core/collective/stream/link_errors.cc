// Why a call over links cannot go on, in words: who is gone, has left, is late, or waits for
// another call than the one that this rank is in.

#include <algorithm>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/call/call_order.h"
#include "core/collective/stream/link_transport_state.h"

namespace tutti {
namespace {

bool IsSendOrReceive(CollectiveOp op) {
  return op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
}
CollectiveOp Counterpart(CollectiveOp op) {
  return op == CollectiveOp::kSend ? CollectiveOp::kReceive : CollectiveOp::kSend;
}

}  // namespace

bool LinkTransport::State::FailedElsewhere(const CollectiveCall& call) const {
  if (IsSendOrReceive(call.header.op)) {
    const LinkPeer* const peer = peers_[static_cast<size_t>(call.peer)].get();
    return peer != nullptr && !peer->error().ok() &&
           peer->error_transfer() ==
               LinkPeer::FailedTransfer(Counterpart(call.header.op), call.sequence);
  }
  return std::any_of(peers_.begin(), peers_.end(), [&](const std::unique_ptr<LinkPeer>& peer) {
    return peer && !peer->error().ok() && peer->error_sequence() <= call.sequence;
  });
}

bool LinkTransport::State::Awaits(const LinkPeer& peer, const CollectiveCall& call) const {
  if (!IsSendOrReceive(call.header.op)) {
    if (stage_ == Stage::kLinks) {
      return IsPartner(peer.rank()) && peer.call(call.sequence) == nullptr;
    }
    if (stage_ == Stage::kAllHere) return false;
    // A rank may have come through the call before this one, and be in a transfer since.
    const bool waits_elsewhere = peer.last_sequence() < call.sequence &&
                                 (peer.unanswered_transfer(CollectiveOp::kSend) != 0 ||
                                  peer.unanswered_transfer(CollectiveOp::kReceive) != 0);
    const bool is_due = stage_ == Stage::kTreeUp ? LinkTree::ParentOf(peer.rank()) == rank_
                                                 : peer.rank() == tree_.parent();
    return waits_elsewhere || (is_due && peer.tree(call.sequence) == nullptr);
  }
  return peer.rank() == call.peer &&
         peer.transfer(Counterpart(call.header.op), call.sequence) == nullptr;
}

Status LinkTransport::State::CheckOrder(const LinkPeer& peer, const CollectiveCall& call) const {
  const WaitingCall own{rank_, call.header.op, call.sequence};
  if (!IsSendOrReceive(own.op)) {
    for (const CollectiveOp op : {CollectiveOp::kSend, CollectiveOp::kReceive}) {
      const WaitingCall theirs{peer.rank(), op, peer.unanswered_transfer(op)};
      if (theirs.sequence == 0) continue;
      return TransferDuringCollective(theirs, own, Label(theirs.sequence));
    }
    return OkStatus();
  }
  if (peer.last_sequence() > sequence_) {
    const WaitingCall theirs{peer.rank(), peer.last_op(), peer.last_sequence()};
    return TransferDuringCollective(own, theirs, Label(own.sequence));
  }
  const WaitingCall theirs{peer.rank(), own.op, peer.unanswered_transfer(own.op)};
  if (theirs.sequence == 0) return OkStatus();
  const WaitingCall& low = rank_ < peer.rank() ? own : theirs;
  return TransfersCollide(low, rank_ < peer.rank() ? theirs : own, Label(low.sequence));
}

Status LinkTransport::State::CheckOrderBeyond(const LinkPeer& peer,
                                              const CollectiveCall& call) const {
  for (const CollectiveOp op : {CollectiveOp::kSend, CollectiveOp::kReceive}) {
    const WaitingCall theirs{peer.rank(), op, peer.unanswered_transfer(op)};
    if (theirs.sequence == 0) continue;
    const LinkPeer::Call* const transfer = peer.transfer(op, theirs.sequence);
    const Result<CallHeader> header = ParseCallHeader(transfer->body);
    // Who was in this call already is ahead: this rank comes to the transfer behind it.
    if (!header.ok() || header->root < 0 || header->root >= call.sequence) continue;
    return TransferDuringCollective(theirs, WaitingCall{rank_, call.header.op, call.sequence},
                                    Label(theirs.sequence));
  }
  return OkStatus();
}

bool LinkTransport::State::AwaitsNews(const LinkPeer& peer, LinkWait* wait) {
  if (options_.news_ns == 0) return false;
  const int64_t now = environment_->clock().NowNs();
  const int64_t due_ns =
      ended_ns_.try_emplace(peer.rank(), now).first->second + options_.news_ns;
  if (now >= due_ns) return false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Departure& departure : departures_) {
      if (departure.rank == peer.rank()) return false;
    }
  }
  if (wait != nullptr) wait->WakeAt(due_ns);
  return true;
}

Status LinkTransport::State::CheckPeers(const CollectiveCall& call, LinkExchange* exchange,
                                        bool waits, LinkWait* wait) {
  for (const std::unique_ptr<LinkPeer>& peer : peers_) {
    if (!peer) continue;
    if (peer->gone()) {
      if (waits && AwaitsNews(*peer, wait)) continue;
      return GoneError(*peer, &call);
    }
    const bool awaited = exchange == nullptr && Awaits(*peer, call);
    if (awaited) TUTTI_RETURN_IF_ERROR(CheckOrder(*peer, call));
    if (peer->leave_reason().ok()) continue;
    if (Needs(*peer, call, exchange) || (exchange != nullptr && peer->send_closed())) {
      return LeftError(*peer, call);
    }
  }
  return OkStatus();
}

bool LinkTransport::State::Needs(const LinkPeer& peer, const CollectiveCall& call,
                                 LinkExchange* exchange) const {
  if (peer.sending()) return true;
  return exchange == nullptr ? Awaits(peer, call) : !exchange->Owed(peer.rank()).empty();
}

Status LinkTransport::State::CheckDepartures(const CollectiveCall& call, LinkExchange* exchange,
                                             LinkWait* wait) {
  const int64_t now = environment_->clock().NowNs();
  std::lock_guard<std::mutex> lock(mutex_);
  for (Departure& departure : departures_) {
    const LinkPeer* const peer = peers_[static_cast<size_t>(departure.rank)].get();
    uint64_t num_moves = 0;
    if (peer == nullptr) {
      if (!wanted_.contains(departure.rank)) continue;
    } else {
      if (peer->closed() || !peer->error().ok() || !peer->leave_reason().ok()) continue;
      if (!Needs(*peer, call, exchange)) continue;
      num_moves = peer->num_moves();
    }
    if (peer != nullptr && peer->paused() && !peer->sending()) {
      // What it has sent waits here until another rank has made room.
      departure.still_ns = now;
      departure.overdue = false;
      continue;
    }
    const bool moves = departure.moves != num_moves;
    departure.moves = num_moves;
    // What came while nobody looked is no progress of now, and neither is it standstill.
    if (moves || departure.still_ns < wait->start_ns()) {
      departure.still_ns = now;
      departure.overdue = false;
    }
    const int64_t due_ns = departure.still_ns + departure.patience_ns;
    if (now < due_ns) {
      wait->WakeAt(due_ns);
      continue;
    }
    // This thread itself may have been held up: it looks once more.
    if (!std::exchange(departure.overdue, true)) {
      wait->WakeAt(now);
      continue;
    }
    return DepartedError(call, departure);
  }
  return OkStatus();
}

std::string LinkTransport::State::Describe(int64_t rank) const {
  const auto r = static_cast<size_t>(rank);
  if (r >= options_.descriptions.size()) return Format("rank {}", Name(rank));
  return Format("rank {} ({})", Name(rank), options_.descriptions[r]);
}

int64_t LinkTransport::State::NamedSequence(int64_t sequence) const {
  if (sequence == sequence_) return named_sequence_;
  return sequence < sequence_ ? named_before_ : named_sequence_ + 1;
}

Status LinkTransport::State::GoneError(LinkPeer& peer, const CollectiveCall* call) const {
  std::string text = Format("{} is gone: {}", Describe(peer.rank()), peer.link().CloseReason());
  const int64_t gone = Name(peer.rank());
  if (call == nullptr) {
    // The call that fails of it adds which one that is.
    return Status(StatusCode::kUnavailable, std::move(text))
        .With("rank", gone)
        .With("epoch", options_.epoch)
        .With("communicator", options_.name)
        .With("worker", WorkerOf(peer.rank()));
  }
  const CollectiveOp op = call->named().header.op;
  const CallLabel label = Label(call->named().sequence);
  text = Format("{} #{}: {}", CollectiveOpName(op), label.sequence, text);
  return WithCallDetails(Status(StatusCode::kUnavailable, text), gone, op, label)
      .With("worker", WorkerOf(peer.rank()));
}

Status LinkTransport::State::LeftError(const LinkPeer& peer, const CollectiveCall& call) const {
  const CollectiveCall& named = call.named();
  const char* op = CollectiveOpName(named.header.op);
  Status error(peer.leave_reason().code(),
               Format("rank {}: {} #{} needs rank {}: {}", Name(rank_), op, named.sequence,
                      Name(peer.rank()), peer.leave_reason().message()));
  error = std::move(error).WithCause(peer.leave_reason());
  return WithCallDetails(std::move(error), Name(rank_), named.header.op, Label(named.sequence))
      .With("peer", Name(peer.rank()));
}

Status LinkTransport::State::CheckLeftBetweenCalls() const {
  for (const std::unique_ptr<LinkPeer>& left : peers_) {
    if (!left || left->leave_reason().ok()) continue;
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer || !peer->leave_reason().ok() ||
          peer->last_sequence() <= std::max(left->leave_sequence(), sequence_)) {
        continue;
      }
      const int64_t sequence = NamedSequence(peer->last_sequence());
      Status error(left->leave_reason().code(),
                   Format("rank {}: {} #{} needs rank {}: {}", Name(peer->rank()),
                          CollectiveOpName(peer->last_op()), sequence, Name(left->rank()),
                          left->leave_reason().message()));
      error = std::move(error).WithCause(left->leave_reason());
      return WithCallDetails(std::move(error), Name(peer->rank()), peer->last_op(),
                             Label(sequence))
          .With("peer", Name(left->rank()));
    }
  }
  return OkStatus();
}

Status LinkTransport::State::DepartedError(const CollectiveCall& call,
                                           const Departure& departure) const {
  Status error = departure.reason.WithPrefix(
      Format("rank {}: {} #{} needs rank {}, and nothing has come from it for {}", Name(rank_),
             CollectiveOpName(call.named().header.op), call.named().sequence, Name(departure.rank),
             HumanDuration(departure.patience_ns)));
  return WithCallDetails(std::move(error), Name(departure.rank), call.named().header.op,
                         Label(call.named().sequence));
}

bool LinkTransport::State::HasArrived(int64_t rank, const CollectiveCall& call) const {
  const LinkPeer* const peer = peers_[static_cast<size_t>(rank)].get();
  if (IsSendOrReceive(call.header.op)) {
    return peer != nullptr ? !Awaits(*peer, call) : rank != call.peer;
  }
  if (stage_ == Stage::kLinks) return peer == nullptr || !Awaits(*peer, call);
  if (stage_ == Stage::kAllHere) return true;
  const auto r = static_cast<size_t>(rank);
  return r < roster_.size() && roster_[r] == '1';
}

std::vector<RankPosition> LinkTransport::State::Positions(const CollectiveCall& call) const {
  std::vector<RankPosition> positions;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const LinkPeer* peer = peers_[static_cast<size_t>(rank)].get();
    RankPosition position;
    position.rank = Name(rank);
    position.arrived = rank == rank_ || HasArrived(rank, call);
    if (rank != rank_ && connector_) {
      // Each collective needs all: who is not in this one has been in the one before.
      const bool known = peer != nullptr && peer->last_sequence() >= sequence_;
      const bool is_transfer = IsSendOrReceive(call.header.op);
      const bool here = !is_transfer && position.arrived;
      position.last_op = known ? peer->last_op() : is_transfer || here ? own_op_ : previous_op_;
      position.last_sequence = NamedSequence(
          known ? peer->last_sequence()
                : is_transfer || here ? sequence_ : sequence_ - 1);
    } else if (peer != nullptr) {
      position.last_op = peer->last_op();
      position.last_sequence = NamedSequence(peer->last_sequence());
    } else if (IsSendOrReceive(call.header.op)) {
      position.transfer = call.header.op;
      position.transfer_peer = call.peer;
    } else {
      position.last_op = call.named().header.op;
      position.last_sequence = call.named().sequence;
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
  for (int64_t rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const LinkPeer* const peer = peers_[static_cast<size_t>(rank)].get();
    const bool arrived = positions[static_cast<size_t>(rank)].arrived;
    std::string owed;
    if (arrived && peer != nullptr && exchange != nullptr) owed = exchange->Owed(rank);
    if (arrived && peer == nullptr && wanted_.contains(rank)) owed = "there is no connection yet";
    if (arrived && owed.empty() && peer != nullptr && peer->sending()) {
      owed = "it does not take what is sent to it";
    }
    if (*first < 0 && (!arrived || !owed.empty())) *first = Name(rank);
    if (owed.empty()) continue;
    if (!text.empty()) text += ", and for ";
    text += Format("{}, which is in the call; {}", Describe(rank), owed);
  }
  return text;
}

void LinkTransport::State::LogLongWait(const CollectiveCall& call) const {
  environment_->log().Warning(
      Format("communicator {}: rank {} has waited {} in {} #{}: {}", options_.name, Name(rank_),
             HumanDuration(LinkWait::kLogWaitNs), CollectiveOpName(call.named().header.op),
             call.named().sequence, DescribePositions(Positions(call))));
}

Status LinkTransport::State::WaitError(const CollectiveCall& call, const LinkExchange* exchange,
                                       Status wait_status, int64_t waited_ns) const {
  const CollectiveCall& named = call.named();
  const char* op = CollectiveOpName(named.header.op);
  int64_t first = -1;
  const std::string awaited = DescribeAwaited(call, exchange, &first);
  Status error;
  if (wait_status.code() == StatusCode::kDeadlineExceeded && wait_status.message().empty()) {
    error = DeadlineExceeded("rank {}: {} #{} waited {} for {}", Name(rank_), op,
                             named.sequence, HumanDuration(waited_ns), awaited)
                .With("waited_ns", waited_ns);
  } else {
    error = std::move(wait_status)
                .WithPrefix(Format("{} #{}", op, named.sequence))
                .WithPrefix(Format("rank {}: while it waited for {}", Name(rank_), awaited));
  }
  return WithCallDetails(std::move(error), Name(rank_), named.header.op, Label(named.sequence))
      .With("peer", first);
}

}  // namespace tutti
