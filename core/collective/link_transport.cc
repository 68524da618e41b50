#include "core/collective/link_transport.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/log.h"
#include "core/collective/call_header_wire.h"
#include "core/collective/link_exchange.h"
#include "core/collective/link_peer.h"
#include "core/collective/link_wait.h"

namespace tutti {
namespace {

// Looks at all links, half a microsecond each, before a rank that may spin goes to sleep.
constexpr int kSpinRounds = 30;
// While data flows, deadline and cancellation are looked at every so many rounds.
constexpr int kRoundsBetweenChecks = 16;
// How many segments go to one peer before the others get their turn.
constexpr int kMaxSegmentsInARow = 4;
// An error waits so long for a peer to take what was begun before it, if the peer takes anything.
constexpr int64_t kLingerNs = 200 * kMillisecondNs;
constexpr int64_t kLingerIdleNs = 20 * kMillisecondNs;
// What it has not taken by then is sent in the background.
constexpr int64_t kFlushIntervalNs = 10 * kMillisecondNs;

}  // namespace

class LinkTransport::State : public std::enable_shared_from_this<State> {
 public:
  State(Ref<Environment> environment, Options options, std::unique_ptr<LinkWaker> waker,
        std::vector<std::unique_ptr<Link>> links)
      : environment_(std::move(environment)),
        options_(std::move(options)),
        rank_(options_.rank),
        size_(options_.size),
        waker_(std::move(waker)),
        headers_(static_cast<size_t>(size_)),
        payloads_(static_cast<size_t>(size_)) {
    for (int64_t peer = 0; peer < size_; ++peer) {
      std::unique_ptr<Link>& link = links[static_cast<size_t>(peer)];
      peers_.push_back(peer == rank_ ? nullptr
                                     : std::make_unique<LinkPeer>(peer, options_.epoch,
                                                                  std::move(link)));
    }
  }

  Status Execute(CollectiveCall* call) {
    TUTTI_RETURN_IF_ERROR(FailureSoFar());
    const CollectiveOp op = call->header.op;
    if (op > CollectiveOp::kBarrier || (op == CollectiveOp::kAllGather && !call->header.uneven)) {
      return Unimplemented("{} over links", CollectiveOpName(op));
    }
    // Only Fail, Leave and failure() hold the links besides calls, and none of them waits.
    while (busy_.exchange(true)) busy_.wait(true);
    sequence_ = call->sequence;
    Status status = Run(call);
    if (!status.ok()) LeaveCallEarly();
    Release();
    return status;
  }

  // The error that ends the epoch is `error`, unless there is one.
  Status Record(Status error, int64_t told_by = -1) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) {
      failure_ = std::move(error);
      told_by_ = told_by;
      failed_.store(true);
    }
    return failure_;
  }

  Status Fail(Status error) {
    Status first = Record(std::move(error));
    Attend();
    return first;
  }

  void Leave(Status reason) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (left_.load()) return;
      leave_reason_ = std::move(reason);
      left_.store(true);
    }
    Attend();
  }

  Status failure() {
    if (!failed_.load() && !busy_.exchange(true)) {
      LookAround();
      Release();
    }
    return FailureSoFar();
  }

  bool ClaimFlightRecord() { return !flight_record_claimed_.exchange(true); }

 private:
  Status FailureSoFar() const {
    if (!failed_.load()) return OkStatus();
    std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  }

  // ---- Who holds the links ----

  // Wakes the holder, or does what there is to say oneself.
  void Attend() {
    waker_->Wake();
    if (!busy_.exchange(true)) Release();
  }
  bool HasNews() const {
    return (failed_.load() && !error_told_.load()) || (left_.load() && !goodbye_told_.load());
  }
  // Gives the links up. What others asked for meanwhile is done by whoever gets hold of them.
  void Release() {
    while (true) {
      if (HasNews()) TellNews();
      if (HasUnsentNews() && !flush_posted_.exchange(true)) PostFlush();
      busy_.store(false);
      busy_.notify_one();
      if (!HasNews() || busy_.exchange(true)) return;
    }
  }
  // Only between frames of a call.
  void TellNews() {
    std::string error;
    std::string goodbye;
    int64_t told_by = -1;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (failed_.load() && !error_told_.exchange(true)) AppendStatus(failure_, &error);
      if (left_.load() && !goodbye_told_.exchange(true)) AppendStatus(leave_reason_, &goodbye);
      told_by = told_by_;
    }
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer || peer->closed()) continue;
      if (!error.empty() && peer->rank() != told_by) {
        peer->QueueFrame(FrameKind::kError, sequence_, error);
      }
      if (!goodbye.empty()) peer->QueueFrame(FrameKind::kGoodbye, sequence_, goodbye);
      peer->Send();
    }
  }

  // An error or a goodbye waits behind something that a peer has not taken yet.
  bool HasUnsentNews() const {
    if (!failed_.load() && !left_.load()) return false;
    return std::any_of(peers_.begin(), peers_.end(), [](const std::unique_ptr<LinkPeer>& peer) {
      return peer && Owes(*peer);
    });
  }
  // Whether the peer has to be told something, and cares.
  static bool Owes(LinkPeer& peer) {
    return peer.sending() && !peer.closed() && peer.error().ok() && peer.leave_reason().ok();
  }
  void PostFlush() {
    const uint64_t timer = environment_->executor().PostAfter(
        kFlushIntervalNs, Task([weak = weak_from_this()] {
          if (const std::shared_ptr<State> state = weak.lock()) state->Flush();
        }));
    // After shutdown there is nobody to do it.
    if (timer == 0) flush_posted_.store(false);
  }
  void Flush() {
    if (busy_.exchange(true)) return PostFlush();
    flush_posted_.store(false);
    bool progress = false;
    SendAndDiscard(&progress);
    Release();
  }
  void SendAndDiscard(bool* progress) {
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer || peer->closed()) continue;
      *progress |= peer->Send();
      // A peer that has failed itself, or has left, says so; other nonsense does not matter now.
      (void)peer->Receive(sequence_, nullptr, progress).ok();
    }
  }

  // Between calls: has a peer said or suffered something?
  void LookAround() {
    CallOptions now;
    now.deadline = Deadline::At(0);
    LinkWait(*environment_, now, *waker_).Sleep(peers_);
    bool progress = false;
    Status status = Step(nullptr, &progress);
    if (status.ok()) {
      for (const std::unique_ptr<LinkPeer>& peer : peers_) {
        if (status.ok() && peer && peer->gone()) status = GoneError(*peer, nullptr);
      }
    }
    if (!status.ok()) Record(std::move(status)).rep();
  }

  // The call has failed: no memory of the caller's is used any more, and the peers are told.
  void LeaveCallEarly() {
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer) continue;
      peer->Detach();
      peer->Discard();
    }
    TellNews();
    // A peer in the middle of the same call reads on; whoever knows of the error, or takes nothing,
    // is not waited for.
    CallOptions idle;
    const Deadline end = Deadline::After(environment_->clock(), kLingerNs);
    while (!end.Expired(environment_->clock())) {
      bool progress = false;
      SendAndDiscard(&progress);
      if (!HasUnsentNews()) return;
      if (progress) continue;
      idle.deadline = Deadline::After(environment_->clock(), kLingerIdleNs);
      LinkWait wait(*environment_, idle, *waker_);
      wait.Sleep(peers_);
      if (!wait.Check().ok()) return;
    }
  }

  // ---- One call ----

  Status Run(CollectiveCall* call) {
    TUTTI_RETURN_IF_ERROR(FailureSoFar());
    const CallLabel label{call->sequence, options_.epoch, &options_.name};
    Status status = Prepare(call, label);
    LinkWait wait(*environment_, call->options, *waker_);
    if (status.ok()) status = Meet(*call, label, &wait);
    if (status.ok()) status = Move(call, &wait);
    if (status.ok()) return status;
    if (status.FindDetail("sequence") == nullptr) {
      const char* op = CollectiveOpName(call->header.op);
      status = std::move(status).WithPrefix(Format("rank {}: {} #{}", rank_, op, call->sequence));
      status = WithCallDetails(std::move(status), rank_, call->header.op, label);
    }
    return Record(std::move(status));
  }

  // Sends everybody the header, and the payload when it is small.
  Status Prepare(CollectiveCall* call, const CallLabel& label) {
    gather_.reset();
    own_body_.clear();
    AppendCallHeader(call->header, &own_body_);
    const CallHeader& header = call->header;
    if (own_body_.size() > kMaxCallHeaderBytes) {
      return WithCallDetails(
          InvalidArgument("rank {}: {} #{} has {} tensors, whose dtypes and shapes take {} bytes; "
                          "at most {} travel between processes: make several calls",
                          rank_, CollectiveOpName(header.op), call->sequence, header.num_tensors,
                          own_body_.size(), kMaxCallHeaderBytes),
          rank_, header.op, label);
    }
    context_ = LinkCallContext{rank_, size_, call, &scratch_};
    MemoryParts payload;
    uint64_t total = 0;
    if (header.op == CollectiveOp::kAllReduce) {
      total = LinkFoldBytes(header);
      if (total <= LinkEagerBytes(size_)) AddLinkFoldInput(*call, &payload);
    } else if (header.op == CollectiveOp::kBroadcast) {
      total = static_cast<uint64_t>(header.first.num_elements()) * ItemSize(header.first.dtype);
      if (rank_ == header.root && total <= LinkEagerBytes(size_)) {
        payload.Add(call->memory[0].input, total);
      }
    } else if (header.op == CollectiveOp::kAllGather) {
      TUTTI_ASSIGN_OR_RETURN(gather_, MakeLinkAllGather(context_));
      total = gather_->payload_bytes();
      if (total <= LinkEagerBytes(size_)) gather_->AddPayload(&payload);
    }
    eager_ = size_ == 1 || total <= LinkEagerBytes(size_);
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer || !peer->may_start_frame()) continue;
      peer->StartFrame(FrameKind::kCall, call->sequence, total, own_body_, &payload);
      peer->Send();
    }
    return OkStatus();
  }

  // Waits until everybody's header is here, and everybody has this rank's.
  Status Meet(const CollectiveCall& call, const CallLabel& label, LinkWait* wait) {
    const auto met = [&] {
      for (const std::unique_ptr<LinkPeer>& peer : peers_) {
        if (peer && (peer->call(call.sequence) == nullptr || peer->sending())) return false;
      }
      return true;
    };
    TUTTI_RETURN_IF_ERROR(Loop(call, nullptr, wait, met));
    return CheckHeaders(call, label);
  }

  Status CheckHeaders(const CollectiveCall& call, const CallLabel& label) {
    bool same = !call.header.uneven;
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      same = same && (!peer || peer->call(call.sequence)->body == own_body_);
    }
    std::vector<const CallHeader*> headers(static_cast<size_t>(size_), &call.header);
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer) continue;
      const auto r = static_cast<size_t>(peer->rank());
      const LinkPeer::Call& theirs = *peer->call(call.sequence);
      if (!same) {
        Result<CallHeader> parsed = ParseCallHeader(theirs.body);
        if (!parsed.ok()) {
          return Status(parsed.status().code(), Format("rank {} sent {}", r,
                                                       parsed.status().message()))
              .With("peer", r);
        }
        headers_[r] = std::move(parsed).value();
        headers[r] = &headers_[r];
      }
      payloads_[r] = LinkPeerPayload{headers[r], theirs.data.data(), theirs.data_bytes,
                                     theirs.total_bytes};
    }
    return same ? OkStatus() : CheckSameCall(headers, label);
  }

  // All are in the same call: what remains is to move its payload.
  Status Move(CollectiveCall* call, LinkWait* wait) {
    const CallHeader& header = call->header;
    if (header.op == CollectiveOp::kAllReduce) {
      if (eager_) return LinkFold(context_, payloads_);
      TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<LinkExchange> exchange,
                             MakeLinkSliceAndShare(context_));
      return Finish(*call, exchange.get(), wait);
    }
    if (header.op == CollectiveOp::kBroadcast) {
      if (eager_) return TakeBroadcast(*call);
      return Finish(*call, MakeLinkBroadcast(context_).get(), wait);
    }
    if (header.op == CollectiveOp::kAllGather) {
      TUTTI_RETURN_IF_ERROR(gather_->Begin(payloads_));
      TUTTI_RETURN_IF_ERROR(Finish(*call, gather_.get(), wait));
      TUTTI_ASSIGN_OR_RETURN(call->gathered, gather_->Join());
      gather_.reset();
    }
    return OkStatus();
  }

  Status TakeBroadcast(const CollectiveCall& call) {
    if (rank_ == call.header.root) return OkStatus();
    const LinkPeerPayload& payload = payloads_[static_cast<size_t>(call.header.root)];
    const TensorSignature& signature = call.header.first;
    const size_t bytes =
        static_cast<size_t>(signature.num_elements()) * ItemSize(signature.dtype);
    if (payload.bytes != bytes) {
      return DataLoss("rank {} sent {} bytes of a broadcast, expected {}", call.header.root,
                      payload.bytes, bytes);
    }
    if (bytes != 0) std::memcpy(call.memory[0].output, payload.data, bytes);
    return OkStatus();
  }

  Status Finish(const CollectiveCall& call, LinkExchange* exchange, LinkWait* wait) {
    return Loop(call, exchange, wait, [&] {
      if (!exchange->complete()) return false;
      for (const std::unique_ptr<LinkPeer>& peer : peers_) {
        if (peer && peer->sending()) return false;
      }
      return true;
    });
  }

  // Sends and receives what goes without waiting.
  Status Step(LinkExchange* exchange, bool* progress) {
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer) continue;
      *progress |= peer->Send();
      for (int i = 0; exchange != nullptr && i < kMaxSegmentsInARow; ++i) {
        MemoryParts memory;
        uint64_t segment = 0;
        if (!peer->may_start_frame() ||
            !exchange->NextSegment(peer->rank(), &segment, &memory)) {
          break;
        }
        peer->StartFrame(FrameKind::kData, sequence_, segment, "", &memory);
        *progress |= peer->Send();
      }
      if (peer->closed()) continue;
      TUTTI_RETURN_IF_ERROR(peer->Receive(sequence_, exchange, progress));
      if (!peer->error().ok()) Record(peer->error(), peer->rank()).rep();
    }
    return OkStatus();
  }

  bool FailedElsewhere(int64_t sequence) const {
    return std::any_of(peers_.begin(), peers_.end(), [&](const std::unique_ptr<LinkPeer>& peer) {
      return peer && !peer->error().ok() && peer->error_sequence() <= sequence;
    });
  }

  template <typename Done>
  Status Loop(const CollectiveCall& call, LinkExchange* exchange, LinkWait* wait, Done done) {
    int idle_rounds = 0;
    for (int round = 1;; ++round) {
      bool progress = false;
      Status status = Step(exchange, &progress);
      // What is ready is delivered, unless the call is known to have failed elsewhere.
      if (status.ok() && done() && !FailedElsewhere(call.sequence)) return status;
      if (status.ok()) status = FailureSoFar();
      if (status.ok()) status = CheckPeers(call, exchange);
      TUTTI_RETURN_IF_ERROR(std::move(status));
      if (progress) {
        idle_rounds = 0;
        if (round % kRoundsBetweenChecks != 0) continue;
      } else if (options_.spin && ++idle_rounds < kSpinRounds) {
        continue;
      }
      status = wait->Check();
      if (!status.ok()) return WaitError(call, exchange, std::move(status), wait->waited_ns());
      if (wait->TimeToLog()) {
        environment_->log().Warning(
            Format("communicator {}: rank {} has waited {} in {} #{}: {}", options_.name, rank_,
                   HumanDuration(LinkWait::kLogWaitNs), CollectiveOpName(call.header.op),
                   call.sequence, DescribePositions(Positions(call))));
      }
      if (!progress) wait->Sleep(peers_);
    }
  }

  // ---- Errors ----

  // Whether the call cannot go on because of a peer that has gone or left.
  Status CheckPeers(const CollectiveCall& call, LinkExchange* exchange) const {
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer) continue;
      if (peer->gone()) return GoneError(*peer, &call);
      if (peer->leave_reason().ok()) continue;
      const bool needed = exchange == nullptr ? peer->call(call.sequence) == nullptr
                                              : !exchange->Owed(peer->rank()).empty();
      if (needed || peer->sending() || (exchange != nullptr && peer->send_closed())) {
        return LeftError(*peer, call);
      }
    }
    return OkStatus();
  }

  std::string Describe(int64_t rank) const {
    const auto r = static_cast<size_t>(rank);
    if (r >= options_.descriptions.size()) return Format("rank {}", rank);
    return Format("rank {} ({})", rank, options_.descriptions[r]);
  }

  Status GoneError(LinkPeer& peer, const CollectiveCall* call) const {
    std::string text = Format("{} is gone: {}", Describe(peer.rank()), peer.link().CloseReason());
    const CallLabel label{sequence_, options_.epoch, &options_.name};
    CollectiveOp op = CollectiveOp::kNone;
    if (call != nullptr) {
      op = call->header.op;
      text = Format("{} #{}: {}", CollectiveOpName(op), call->sequence, text);
    }
    return WithCallDetails(Status(StatusCode::kUnavailable, text), peer.rank(), op, label)
        .With("worker", peer.rank());
  }

  Status LeftError(const LinkPeer& peer, const CollectiveCall& call) const {
    const char* op = CollectiveOpName(call.header.op);
    const CallLabel label{call.sequence, options_.epoch, &options_.name};
    Status error(peer.leave_reason().code(),
                 Format("rank {}: {} #{} needs rank {}: {}", rank_, op, call.sequence, peer.rank(),
                        peer.leave_reason().message()));
    error = std::move(error).WithCause(peer.leave_reason());
    return WithCallDetails(std::move(error), rank_, call.header.op, label)
        .With("peer", peer.rank());
  }

  std::vector<RankPosition> Positions(const CollectiveCall& call) const {
    std::vector<RankPosition> positions;
    for (int64_t rank = 0; rank < size_; ++rank) {
      const LinkPeer* peer = peers_[static_cast<size_t>(rank)].get();
      RankPosition position;
      position.rank = rank;
      position.arrived = peer == nullptr || peer->call(call.sequence) != nullptr;
      position.last_op = peer == nullptr ? call.header.op : peer->last_op();
      position.last_sequence = peer == nullptr ? call.sequence : peer->last_sequence();
      const auto r = static_cast<size_t>(rank);
      if (r < options_.descriptions.size()) position.who = options_.descriptions[r];
      positions.push_back(position);
    }
    return positions;
  }

  // Whom the call waits for, in words; *first is the lowest of them.
  std::string DescribeAwaited(const CollectiveCall& call, const LinkExchange* exchange,
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

  Status WaitError(const CollectiveCall& call, const LinkExchange* exchange, Status wait_status,
                   int64_t waited_ns) const {
    const CallLabel label{call.sequence, options_.epoch, &options_.name};
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
    return WithCallDetails(std::move(error), rank_, call.header.op, label).With("peer", first);
  }

  const Ref<Environment> environment_;
  const Options options_;
  const int64_t rank_;
  const int64_t size_;
  const std::unique_ptr<LinkWaker> waker_;

  // True while a thread uses the links: it alone touches the members down to the next line.
  std::atomic<bool> busy_{false};
  std::vector<std::unique_ptr<LinkPeer>> peers_;  // by rank; the own one is null
  int64_t sequence_ = 0;                          // of the last call
  std::string own_body_;
  bool eager_ = false;
  LinkCallContext context_;
  AlignedRoom scratch_;
  std::unique_ptr<LinkAllGather> gather_;
  std::vector<CallHeader> headers_;        // of the peers, where they are not the own one
  std::vector<LinkPeerPayload> payloads_;  // by rank
  // ----

  std::atomic<bool> failed_{false};
  std::atomic<bool> left_{false};
  std::atomic<bool> error_told_{false};
  std::atomic<bool> goodbye_told_{false};
  std::atomic<bool> flush_posted_{false};
  std::atomic<bool> flight_record_claimed_{false};
  mutable std::mutex mutex_;  // guards all below
  Status failure_;
  int64_t told_by_ = -1;  // the peer that knows of the failure, because it said so
  Status leave_reason_;
};

namespace {

const char* NameOf(const std::vector<std::unique_ptr<Link>>& links) {
  bool tcp = false, rings = false;
  for (const std::unique_ptr<Link>& link : links) {
    if (link) (link->kind() == std::string_view("tcp") ? tcp : rings) = true;
  }
  return tcp && rings ? "mixed" : rings ? "shared_memory" : "tcp";
}

}  // namespace

Result<std::unique_ptr<LinkTransport>> LinkTransport::Create(
    Ref<Environment> environment, Options options, std::vector<std::unique_ptr<Link>> links) {
  if (environment->clock().is_virtual()) {
    return Unimplemented("communicator {}: links between processes have no virtual time",
                         options.name);
  }
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<LinkWaker> waker, LinkWaker::Create());
  const char* name = NameOf(links);
  return std::unique_ptr<LinkTransport>(new LinkTransport(
      name, std::make_shared<State>(std::move(environment), std::move(options), std::move(waker),
                                    std::move(links))));
}

LinkTransport::LinkTransport(const char* name, std::shared_ptr<State> state)
    : name_(name), state_(std::move(state)) {}
LinkTransport::~LinkTransport() = default;

Status LinkTransport::Execute(CollectiveCall* call) { return state_->Execute(call); }
Status LinkTransport::Fail(Status error) { return state_->Fail(std::move(error)); }
Status LinkTransport::failure() const { return state_->failure(); }
bool LinkTransport::ClaimFlightRecord() { return state_->ClaimFlightRecord(); }
void LinkTransport::Leave(Status reason) { state_->Leave(std::move(reason)); }

}  // namespace tutti
