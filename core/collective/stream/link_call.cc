// Collectives over links: everybody tells everybody which call it is in, and then the call's
// algorithm moves the payload. And the loop that does all sending and receiving of a call.

#include <algorithm>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/stream/link_transport_state.h"

namespace tutti {
namespace {

// Looks at all links, a third of a microsecond each, before a rank that may spin goes to sleep.
constexpr int kPollRounds = 100;
// While data flows, deadline and cancellation are looked at every so many rounds.
constexpr int kRoundsBetweenChecks = 16;

}  // namespace

Status LinkTransport::State::Run(CollectiveCall* call) {
  TUTTI_RETURN_IF_ERROR(FailureSoFar());
  const CollectiveOp op = call->header.op;
  const bool is_transfer = op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
  LinkWait wait(*environment_, call->options, *waker_);
  if (!asking_.empty()) links_changed_.store(true);
  Status status = is_transfer ? RunTransfer(call, &wait) : RunCollective(call, &wait);
  if (status.ok()) return status;
  return RecordIn(*call, std::move(status));
}

Status LinkTransport::State::InCall(Status status, const CollectiveCall& call) const {
  if (status.FindDetail("sequence") != nullptr) return status;
  const CollectiveCall& named = call.named();
  status = std::move(status).WithPrefix(Format(
      "rank {}: {} #{}", Name(rank_), CollectiveOpName(named.header.op), named.sequence));
  return WithCallDetails(std::move(status), Name(rank_), named.header.op, Label(named.sequence));
}

Status LinkTransport::State::RunCollective(CollectiveCall* call, LinkWait* wait) {
  sequence_ = call->sequence;
  data_kind_ = FrameKind::kData;
  data_sequence_ = call->sequence;
  if (call->header.op != CollectiveOp::kBarrier) {
    call->algorithm = static_cast<int32_t>(ChooseLinkAlgorithm(Context(*call)).algorithm);
  }
  data_over_tree_ = connector_ != nullptr && call->header.op == CollectiveOp::kBroadcast &&
                    call->algorithm == static_cast<int32_t>(CollectiveAlgorithm::kTree);
  named_before_ = std::exchange(named_sequence_, call->named().sequence);
  TUTTI_RETURN_IF_ERROR(WriteHeader(*call));
  if (connector_) {
    bool done = false;
    TUTTI_RETURN_IF_ERROR(MeetOverTree(call, wait, &done));
    if (done) return OkStatus();
    TUTTI_RETURN_IF_ERROR(ConnectPartners(*call, wait));
  }
  TUTTI_RETURN_IF_ERROR(Prepare(call));
  TUTTI_RETURN_IF_ERROR(Meet(*call, wait));
  if (!algorithm_) return OkStatus();
  // All are in the same call: what remains is to move its payload.
  TUTTI_RETURN_IF_ERROR(algorithm_->Begin(payloads_));
  if (!algorithm_->complete()) {
    TUTTI_RETURN_IF_ERROR(Exchange(*call, algorithm_.get(), wait));
  }
  return algorithm_->Finish(call);
}

Status LinkTransport::State::WriteHeader(const CollectiveCall& call) {
  const CallHeader& header = call.named().header;
  own_body_.clear();
  AppendCallHeader(header, &own_body_);
  if (own_body_.size() > kMaxCallHeaderBytes) {
    return WithCallDetails(
        InvalidArgument("rank {}: {} #{} has {} tensors, whose dtypes and shapes take {} bytes; "
                        "at most {} travel between processes: make several calls",
                        Name(rank_), CollectiveOpName(header.op), call.named().sequence,
                        header.num_tensors, own_body_.size(), kMaxCallHeaderBytes),
        Name(rank_), header.op, Label(call.named().sequence));
  }
  return OkStatus();
}

Status LinkTransport::State::Prepare(CollectiveCall* call) {
  TUTTI_ASSIGN_OR_RETURN(
      algorithm_,
      MakeLinkAlgorithm(Context(*call)));
  for (const std::unique_ptr<LinkPeer>& peer : peers_) {
    if (!peer || !IsPartner(peer->rank()) || !peer->may_start_frame()) continue;
    MemoryParts payload;
    uint64_t announced = 0;
    if (algorithm_) {
      announced = algorithm_->Announce(peer->rank());
      algorithm_->AddPayload(peer->rank(), &payload);
    }
    peer->StartFrame(FrameKind::kCall, call->sequence, announced, own_body_, &payload);
    peer->Send();
  }
  return OkStatus();
}

Status LinkTransport::State::Meet(const CollectiveCall& call, LinkWait* wait) {
  TUTTI_RETURN_IF_ERROR(Loop(call, nullptr, wait, [&] {
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer || !IsPartner(peer->rank())) continue;
      if (peer->call(call.sequence) == nullptr || peer->sending()) return false;
    }
    return true;
  }));
  return CheckHeaders(call);
}

Status LinkTransport::State::CheckHeaders(const CollectiveCall& call) {
  const CallHeader& own = call.named().header;
  bool same = !own.uneven;
  for (const std::unique_ptr<LinkPeer>& peer : peers_) {
    if (!peer || !IsPartner(peer->rank())) continue;
    same = same && peer->call(call.sequence)->body == own_body_;
  }
  std::vector<const CallHeader*> headers(static_cast<size_t>(size_), &own);
  for (const std::unique_ptr<LinkPeer>& peer : peers_) {
    if (!peer) continue;
    const auto r = static_cast<size_t>(peer->rank());
    payloads_[r] = LinkPeerPayload();
    if (!IsPartner(peer->rank())) continue;
    const LinkPeer::Call& theirs = *peer->call(call.sequence);
    if (!same) {
      Result<CallHeader> parsed = ParseCallHeader(theirs.body);
      if (!parsed.ok()) {
        const int64_t name = Name(peer->rank());
        return Status(parsed.status().code(),
                      Format("rank {} sent {}", name, parsed.status().message()))
            .With("peer", name);
      }
      headers_[r] = std::move(parsed).value();
      headers[r] = &headers_[r];
    }
    // Who is in the same call is in the same part of it.
    payloads_[r] = LinkPeerPayload{same ? &call.header : headers[r], theirs.data.data(),
                                   theirs.data_bytes, theirs.announced};
  }
  return same ? OkStatus() : CheckSameCall(headers, Label(call.named().sequence));
}

Status LinkTransport::State::Exchange(const CollectiveCall& call, LinkExchange* exchange,
                                      LinkWait* wait) {
  return Loop(call, exchange, wait, [&] {
    if (!exchange->complete()) return false;
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (peer && peer->sending()) return false;
    }
    return true;
  });
}

Status LinkTransport::State::Step(LinkExchange* exchange, bool* progress) {
  // Every rank begins with another peer: else all would serve rank 0 first, and then wait for it.
  for (int64_t turn = 1; turn < size_; ++turn) {
    LinkPeer* const peer = peers_[static_cast<size_t>((rank_ + turn) % size_)].get();
    if (peer == nullptr) continue;
    bool moved = peer->Send();
    // One segment at a turn: what has come is taken in between, while a cache holds it.
    MemoryParts memory;
    uint64_t segment = 0;
    if (exchange != nullptr && peer->may_start_frame() &&
        exchange->NextSegment(peer->rank(), &segment, &memory)) {
      peer->StartFrame(data_kind_, data_sequence_, segment, "", &memory);
      moved |= peer->Send();
    }
    if (!peer->closed()) {
      TUTTI_RETURN_IF_ERROR(peer->Receive(sequence_, DueData(), exchange, &moved));
    }
    if (exchange != nullptr && peer->send_closed() && peer->paused()) {
      // Room for what it offers may depend on what cannot be sent to it any more. It lacks that, so
      // that the call cannot succeed: what it said last, or its end, is behind the offer.
      peer->Discard();
      moved = true;
    }
    if (moved) {
      peer->CountMove();
      *progress = true;
    }
    if (!peer->error().ok()) Record(peer->error(), peer->rank()).rep();
  }
  return OkStatus();
}

Status LinkTransport::State::Loop(const CollectiveCall& call, LinkExchange* exchange,
                                  LinkWait* wait, const std::function<bool()>& done) {
  HostBreak host_break{call, exchange, done};
  Status over;
  int idle_rounds = 0;
  for (int round = 1;; ++round) {
    bool progress = false;
    if (connector_) TUTTI_RETURN_IF_ERROR(Adopt(&call, wait));
    Status status = Step(exchange, &progress);
    // What is ready is delivered, unless the call is known to have failed elsewhere.
    if (status.ok() && done() && !FailedElsewhere(call)) return status;
    if (status.ok()) status = FailureSoFar();
    if (status.ok()) status = CheckPeers(call, exchange, over.ok(), wait);
    TUTTI_RETURN_IF_ERROR(std::move(status));
    if (connector_) ShareRoster(call, wait);
    if (!over.ok()) return WaitError(call, exchange, std::move(over), wait->waited_ns());
    if (progress) {
      idle_rounds = 0;
      if (round % kRoundsBetweenChecks != 0) continue;
    } else if (options_.spin && ++idle_rounds < kPollRounds) {
      continue;
    }
    if (!progress && some_departed_.load()) {
      TUTTI_RETURN_IF_ERROR(CheckDepartures(call, exchange, wait));
    }
    host_break.asked = false;
    over = CheckWait(&host_break, wait);
    if (host_break.failed) return FailureSoFar();
    // What others have done meanwhile, and what has come, may be all there was to do.
    if (!over.ok()) continue;
    if (wait->TimeToLog()) LogLongWait(call);
    if (!progress && !host_break.asked) wait->Sleep(peers_);
  }
}

// The links are given up, and taken again however it is left: the host may throw, and nobody else
// may find a call then that has gone.
class LinkTransport::State::HostBreakScope {
 public:
  HostBreakScope(State* state, HostBreak* host_break) : state_(state) {
    state_->host_break_ = host_break;
    state_->Release();
  }
  ~HostBreakScope() {
    while (state_->busy_.exchange(true)) state_->busy_.wait(true);
    state_->host_break_ = nullptr;
  }
  HostBreakScope(const HostBreakScope&) = delete;
  HostBreakScope& operator=(const HostBreakScope&) = delete;

 private:
  State* const state_;
};

Status LinkTransport::State::CheckWait(HostBreak* host_break, LinkWait* wait) {
  // A transfer's failure is told with its number, when it is over.
  const CollectiveOp op = host_break->call.header.op;
  const bool is_transfer = op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
  if (!connector_ || is_transfer || !wait->AsksHost()) return wait->Check();
  host_break->asked = true;
  const HostBreakScope others_hold_the_links(this, host_break);
  return wait->Check();
}

// As a round of Loop.
Status LinkTransport::State::LookAroundInCall() {
  const HostBreak& now = *host_break_;
  bool progress = false;
  Status status = Step(now.exchange, &progress);
  if (status.ok() && now.done() && !FailedElsewhere(now.call)) return status;
  if (status.ok()) status = FailureSoFar();
  if (status.ok()) status = CheckPeers(now.call, now.exchange, true, nullptr);
  return status.ok() ? status : InCall(std::move(status), now.call);
}

void LinkTransport::State::GoOnWithCall() noexcept {
  if (host_break_->failed) return;
  Status status;
  try {
    status = LookAroundInCall();
  } catch (...) {
    status = Status::OutOfMemory();
  }
  if (status.ok()) return;
  host_break_->failed = true;
  Record(std::move(status)).rep();
}

}  // namespace tutti
