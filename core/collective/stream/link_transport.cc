#include "core/collective/stream/link_transport.h"

#include <algorithm>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/stream/link_transport_state.h"

namespace tutti {
namespace {

// An error waits so long for a peer to take what was begun before it, if the peer takes anything.
constexpr int64_t kLingerNs = 200 * kMillisecondNs;
constexpr int64_t kLingerIdleNs = 20 * kMillisecondNs;
// What it has not taken by then is sent in the background.
constexpr int64_t kFlushIntervalNs = 10 * kMillisecondNs;
// How often who has failed reads on, as long as nothing comes.
constexpr int64_t kReadOnIntervalNs = 50 * kMillisecondNs;

// Whether the peer may be in a call still that has failed here. What it sends may have to be taken
// before it can read as far as the error.
bool MayGoOn(const LinkPeer& peer) {
  return !peer.closed() && peer.error().ok() && peer.leave_reason().ok();
}
// Whether the peer has to be told something, and cares.
bool Owes(const LinkPeer& peer) {
  return peer.sending() && MayGoOn(peer);
}

}  // namespace

LinkTransport::State::State(Ref<Environment> environment, Options options,
                            std::unique_ptr<LinkWaker> waker,
                            std::vector<std::unique_ptr<Link>> links,
                            std::unique_ptr<LinkConnector> connector)
    : environment_(std::move(environment)),
      options_(std::move(options)),
      rank_(options_.rank),
      size_(options_.size),
      selector_(options_.table.get(), options_.locality, size_),
      waker_(std::move(waker)),
      tree_{rank_, size_},
      connector_(std::move(connector)),
      headers_(static_cast<size_t>(size_)),
      payloads_(static_cast<size_t>(size_)) {
  peers_.resize(static_cast<size_t>(size_));
  near_.resize(static_cast<size_t>(size_));
  for (int64_t peer = 0; peer < size_; ++peer) {
    std::unique_ptr<Link>& link = links[static_cast<size_t>(peer)];
    if (link) AddPeer(peer, std::move(link));
  }
}

LinkTransport::State::~State() = default;

Status LinkTransport::State::Execute(CollectiveCall* call) {
  TUTTI_RETURN_IF_ERROR(FailureSoFar());
  // Only Fail, Leave and failure() hold the links besides calls, and none of them waits.
  while (busy_.exchange(true)) busy_.wait(true);
  if (host_break_ != nullptr) {
    // A call that the host makes when it is asked.
    const int64_t running = host_break_->call.named().sequence;
    Release();
    return FailedPrecondition("rank {}: {} while the host is asked whether call #{} goes on",
                              Name(rank_), CollectiveOpName(call->header.op),
                              running);
  }
  Status status;
  try {
    status = Run(call);
    if (!status.ok()) LeaveCallEarly();
    algorithm_.reset();
    // An answer to somebody who has asked for a link may be under way. Of a call that has failed a
    // peer may hold its end of a link already: it is told why over that link, by Tick, and does not
    // take its end for a death.
    if (dialler_ && !status.ok()) dialler_->GiveUpRest();
    if (dialler_ && dialler_->idle()) dialler_.reset();
  } catch (...) {
    LeaveCallByException(*call);
    Release();
    throw;
  }
  Release();
  return status;
}

Status LinkTransport::State::Record(Status error, int64_t told_by) {
  const StatusDetail* const lost = error.FindDetail("rank");
  if (told_by >= 0 && error.code() == StatusCode::kUnavailable && lost != nullptr &&
      lost->value == StatusDetail{"rank", Name(rank_)}.value) {
    // Here nobody is gone: it is the other one's word.
    error = std::move(error).WithPrefix(Format("rank {} says", Name(told_by)));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.ok()) {
    failure_ = std::move(error);
    failed_.store(true);
  }
  return failure_;
}

// In a forked child the links still are its parent's, which goes on with them: Fail, Leave and
// failure() say nothing there and take nothing.
Status LinkTransport::State::Fail(Status error) {
  if (environment_->LeftBehindByFork()) return error;
  Status first = Record(std::move(error));
  Attend();
  return first;
}

void LinkTransport::State::Leave(Status reason) {
  if (environment_->LeftBehindByFork()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (left_.load()) return;
    leave_reason_ = std::move(reason);
    left_.store(true);
  }
  Attend();
}

void LinkTransport::State::PeerHasLeft(int64_t rank, Status reason, int64_t patience_ns) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    departures_.push_back(Departure{rank, std::move(reason), patience_ns,
                                    0, environment_->clock().NowNs(), false});
    some_departed_.store(true);
  }
  waker_->Wake();
}

Status LinkTransport::State::failure(const CollectiveCall* call) {
  if (environment_->LeftBehindByFork()) {
    return environment_->CheckUsable(Format("communicator {}", options_.name));
  }
  if (!failed_.load() && !busy_.exchange(true)) ReleaseAfter([&] { LookAround(call); });
  return FailureSoFar();
}

Status LinkTransport::State::FailureSoFar() const {
  if (!failed_.load()) return OkStatus();
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

Status LinkTransport::State::LeaveReason() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return leave_reason_;
}

// ---- Who holds the links ----

void LinkTransport::State::Attend() {
  waker_->Wake();
  if (!busy_.exchange(true)) Release();
}
bool LinkTransport::State::HasNews() const {
  return (failed_.load() && !error_told_.load()) || (left_.load() && !goodbye_told_.load());
}
void LinkTransport::State::Release() noexcept {
  while (true) {
    if (HasNews()) TellNews();
    if (const int64_t delay_ns = FlushDelayNs();
        delay_ns != kNeverNs && !flush_posted_.exchange(true)) {
      PostFlush(delay_ns);
    }
    busy_.store(false);
    busy_.notify_one();
    if (!HasNews() || busy_.exchange(true)) return;
  }
}
void LinkTransport::State::TellNews() noexcept {
  try {
    std::string error;
    std::string goodbye;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (failed_.load() && !error_told_.exchange(true)) AppendStatus(failure_, &error);
      if (left_.load() && !goodbye_told_.exchange(true)) AppendStatus(leave_reason_, &goodbye);
    }
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!peer || peer->closed()) continue;
      // Who has told it hears it as well: that nobody has to read on for this rank.
      if (!error.empty()) {
        const uint64_t transfer = peer->rank() == failed_transfer_peer_ ? failed_transfer_ : 0;
        peer->QueueFrame(FrameKind::kError, sequence_, transfer, error);
      }
      if (!goodbye.empty()) peer->QueueFrame(FrameKind::kGoodbye, sequence_, 0, goodbye);
      peer->Send();
    }
  } catch (...) {
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (peer) peer->Drop();
    }
  }
}

bool LinkTransport::State::HasUnsentNews() const {
  if (!failed_.load() && !left_.load()) return false;
  return std::any_of(peers_.begin(), peers_.end(), [](const std::unique_ptr<LinkPeer>& peer) {
    return peer && Owes(*peer);
  });
}
int64_t LinkTransport::State::FlushDelayNs() const {
  if (HasUnsentNews()) return kFlushIntervalNs;
  // With a connector Tick reads on.
  if (!failed_.load() || connector_ || ended_) return kNeverNs;
  // Nor does a peer that has told its error stop reading before it has got this rank's.
  const bool some_go_on =
      std::any_of(peers_.begin(), peers_.end(), [](const std::unique_ptr<LinkPeer>& peer) {
        return peer && (MayGoOn(*peer) || (peer->sending() && !peer->closed() &&
                                           peer->leave_reason().ok()));
      });
  if (!some_go_on) return kNeverNs;
  return flush_moves_ ? kFlushIntervalNs : kReadOnIntervalNs;
}
void LinkTransport::State::PostFlush(int64_t delay_ns) noexcept {
  uint64_t timer = 0;
  try {
    timer = environment_->executor().PostAfter(
        delay_ns, Task([weak = weak_from_this()] {
          if (const std::shared_ptr<State> state = weak.lock()) state->Flush();
        }));
  } catch (...) {
    // As after shutdown.
  }
  // After shutdown there is nobody to do it.
  if (timer == 0) flush_posted_.store(false);
}
void LinkTransport::State::Flush() {
  if (busy_.exchange(true)) return PostFlush(kFlushIntervalNs);
  flush_posted_.store(false);
  ReleaseAfter([&] {
    if (host_break_ != nullptr && !failed_.load()) return LookAround(nullptr);
    flush_moves_ = false;
    PollLinks();
    SendAndDiscard(&flush_moves_);
  });
}
void LinkTransport::State::SendAndDiscard(bool* progress) {
  for (const std::unique_ptr<LinkPeer>& peer : peers_) {
    if (!peer || peer->closed()) continue;
    *progress |= peer->Send();
    // Whatever call this is data of, it has failed.
    if (failed_.load()) peer->Discard();
    // A peer that has failed itself, or has left, says so; other nonsense does not matter now.
    (void)peer->Receive(sequence_, DueData(), nullptr, progress).ok();
  }
}

void LinkTransport::State::PollLinks() {
  CallOptions now;
  now.deadline = Deadline::At(0);
  LinkWait(*environment_, now, *waker_).Sleep(peers_);
}

void LinkTransport::State::LookAround(const CollectiveCall* call) {
  PollLinks();
  if (host_break_ != nullptr) return GoOnWithCall();
  bool progress = false;
  Status status = Step(nullptr, &progress);
  if (status.ok()) {
    for (const std::unique_ptr<LinkPeer>& peer : peers_) {
      if (!status.ok() || !peer) continue;
      if (peer->gone()) {
        if (!AwaitsNews(*peer, nullptr)) status = GoneError(*peer, call);
      } else if (call != nullptr) {
        status = CheckOrderBeyond(*peer, *call);
      }
    }
  }
  if (status.ok() && connector_) status = CheckLeftBetweenCalls();
  if (!status.ok()) Record(std::move(status)).rep();
}

void LinkTransport::State::LeaveCallEarly() {
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

Status LinkTransport::State::RecordIn(const CollectiveCall& call, Status error) {
  if (call.header.op == CollectiveOp::kSend || call.header.op == CollectiveOp::kReceive) {
    failed_transfer_peer_ = call.peer;
    failed_transfer_ = LinkPeer::FailedTransfer(call.header.op, call.sequence);
  }
  return Record(InCall(std::move(error), call));
}

void LinkTransport::State::LeaveCallByException(const CollectiveCall& call) noexcept {
  try {
    RecordIn(call, ResourceExhausted("left in the middle, most likely for lack of memory")).rep();
  } catch (...) {
    Record(Status::OutOfMemory()).rep();
  }
  try {
    LeaveCallEarly();
    if (dialler_) dialler_->GiveUpRest();
  } catch (...) {
    // No memory to wait for peers with.
  }
  algorithm_.reset();
}

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
    Ref<Environment> environment, Options options, std::vector<std::unique_ptr<Link>> links,
    std::unique_ptr<LinkConnector> connector) {
  if (environment->clock().is_virtual()) {
    return Unimplemented("communicator {}: links between processes have no virtual time",
                         options.name);
  }
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<LinkWaker> waker, LinkWaker::Create());
  const char* name = NameOf(links);
  auto state = std::make_shared<State>(std::move(environment), std::move(options),
                                       std::move(waker), std::move(links), std::move(connector));
  state->Begin();
  return std::unique_ptr<LinkTransport>(new LinkTransport(name, std::move(state)));
}

LinkTransport::LinkTransport(const char* name, std::shared_ptr<State> state)
    : name_(name), state_(std::move(state)) {}
LinkTransport::~LinkTransport() { state_->End(); }

bool LinkTransport::is_reproducible() const { return state_->is_reproducible(); }
Status LinkTransport::Execute(CollectiveCall* call) { return state_->Execute(call); }
Status LinkTransport::Fail(Status error) { return state_->Fail(std::move(error)); }
Status LinkTransport::failure() const { return state_->failure(nullptr); }
Status LinkTransport::FailureIn(const CollectiveCall& call) const { return state_->failure(&call); }
int64_t LinkTransport::num_links() const { return state_->num_links(); }
bool LinkTransport::ClaimFlightRecord() { return state_->ClaimFlightRecord(); }
void LinkTransport::Leave(Status reason) { state_->Leave(std::move(reason)); }
void LinkTransport::PeerHasLeft(int64_t rank, Status reason, int64_t patience_ns) {
  state_->PeerHasLeft(rank, std::move(reason), patience_ns);
}

}  // namespace tutti
