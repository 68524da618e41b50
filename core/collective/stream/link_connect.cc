// How the pairs of a large group get their links: at first use. The higher rank of a pair connects
// to the lower (link_connector.h).
//
// In a collective all are known to be in the call when its links are made, so that everybody makes
// those that are its to make. In a transfer the other side may be anywhere: the higher rank
// connects, and waits for the lower one to come; the lower one waits for the connection, and after
// a while asks for it. Whoever is in any call makes the link that it is asked for: so the two see
// each other's headers, and a mismatch is found where there is one.
//
// An error or a goodbye goes to all that a rank has links to, and they pass an error on. Where all
// pairs are linked everybody hears it at first hand. Here a rank that is in no call has to pass it
// on as well: it looks around every now and then. A rank whose parent in the tree has left links
// itself to the next lower rank that is there, so that all that are left stay connected: each but
// the lowest one to a lower one. And who has failed makes the links that it is asked for, in no
// call, to say so.

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/stream/link_transport_state.h"

namespace tutti {
namespace {

// A lower rank that wants a link asks for it if it has not come by then.
constexpr int64_t kWishAfterNs = 20 * kMillisecondNs;
// What all ranks leave together needs no new links.
constexpr int64_t kOrphanPatienceNs = 200 * kMillisecondNs;
// How often a rank looks around that is in no call.
constexpr int64_t kTickNs = 25 * kMillisecondNs;

}  // namespace

void LinkTransport::State::Begin() {
  if (!connector_) return;
  connector_->Watch([weak = weak_from_this()] {
    const std::shared_ptr<State> state = weak.lock();
    if (!state) return;
    state->links_changed_.store(true);
    state->waker_->Wake();
  });
  PostTick();
}

void LinkTransport::State::End() {
  if (!connector_) return;
  if (environment_->LeftBehindByFork()) {
    // Threads and locks are the parent's.
    (void)dialler_.release();
    (void)connector_.release();
    return;
  }
  while (busy_.exchange(true)) busy_.wait(true);
  ended_ = true;
  ReleaseAfter([this] {
    // Who holds the other end of a link that nobody has taken yet is told what all have been told:
    // an end without a word is a death.
    if (dialler_) dialler_->Stop();
    links_changed_.store(true);
    Adopt(nullptr, nullptr).rep();
    dialler_.reset();
    std::string last_words;
    for (const auto& [kind, reason] : {std::pair(FrameKind::kError, FailureSoFar()),
                                       std::pair(FrameKind::kGoodbye, LeaveReason())}) {
      if (reason.ok()) continue;
      std::string body;
      AppendStatus(reason, &body);
      last_words += LinkPeer::FrameOf(kind, options_.epoch, sequence_, body);
    }
    connector_->SetLastWords(std::move(last_words));
    connector_.reset();
  });
}

void LinkTransport::State::AddPeer(int64_t rank, std::unique_ptr<Link> link) {
  std::unique_ptr<LinkPeer>& peer = peers_[static_cast<size_t>(rank)];
  if (peer) return;
  const LinkPeer::Kind kind = !connector_                            ? LinkPeer::Kind::kEveryCall
                              : LinkTree::AreNeighbours(rank_, rank) ? LinkPeer::Kind::kTree
                                                                     : LinkPeer::Kind::kNoTree;
  near_[static_cast<size_t>(rank)] = link->is_near() && !IsElsewhere(rank);
  peer = std::make_unique<LinkPeer>(rank, options_.epoch, std::move(link), kind, Name(rank));
  num_links_.fetch_add(1);
  // What all peers have been told already.
  std::string error;
  std::string goodbye;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (error_told_.load()) AppendStatus(failure_, &error);
    if (goodbye_told_.load()) AppendStatus(leave_reason_, &goodbye);
  }
  if (!error.empty()) peer->QueueFrame(FrameKind::kError, sequence_, 0, error);
  if (!goodbye.empty()) peer->QueueFrame(FrameKind::kGoodbye, sequence_, 0, goodbye);
  peer->Send();
}

Status LinkTransport::State::Dial(int64_t rank, bool wish) {
  if (!dialler_) {
    Result<std::unique_ptr<LinkDialler>> started =
        LinkDialler::Start(*environment_, *connector_, [this] {
          links_changed_.store(true);
          waker_->Wake();
        });
    TUTTI_RETURN_IF_ERROR(started.status());
    dialler_ = std::move(started).value();
  }
  dialler_->Dial(rank, wish);
  return OkStatus();
}

void LinkTransport::State::ReplaceParent(LinkWait* wait) {
  if (rank_ == 0 || left_.load() || ended_) return;
  const LinkPeer* const parent = peers_[static_cast<size_t>(tree_.parent())].get();
  if (parent == nullptr || parent->leave_reason().ok()) return;
  const int64_t now = environment_->clock().NowNs();
  if (orphan_since_ns_ == 0) orphan_since_ns_ = now;
  if (now < orphan_since_ns_ + kOrphanPatienceNs) {
    if (wait != nullptr) wait->WakeAt(orphan_since_ns_ + kOrphanPatienceNs);
    return;
  }
  for (int64_t rank = rank_; rank-- > 0;) {
    const LinkPeer* const peer = peers_[static_cast<size_t>(rank)].get();
    if (peer == nullptr && unreachable_.contains(rank)) continue;
    if (peer != nullptr && (peer->closed() || !peer->leave_reason().ok())) continue;
    // Without a thread to connect with it is tried again.
    if (peer == nullptr) Dial(rank, /*wish=*/false).rep();
    return;
  }
}

Status LinkTransport::State::Adopt(const CollectiveCall* call, LinkWait* wait) {
  ReplaceParent(wait);
  if (call != nullptr && wish_due_ns_ != 0) {
    if (environment_->clock().NowNs() < wish_due_ns_) {
      wait->WakeAt(wish_due_ns_);
    } else {
      wish_due_ns_ = 0;
      for (const int64_t rank : wanted_) {
        if (rank > rank_) TUTTI_RETURN_IF_ERROR(Dial(rank, /*wish=*/true));
      }
    }
  }
  if (!links_changed_.exchange(false)) return OkStatus();
  LinkConnector::Arrivals arrivals = connector_->TakeArrivals();
  for (auto& [rank, link] : arrivals.links) {
    AddPeer(rank, std::move(link));
    wanted_.erase(rank);
  }
  asking_.insert(arrivals.asking.begin(), arrivals.asking.end());
  Status status;
  if (dialler_) {
    for (LinkDialler::Outcome& outcome : dialler_->TakeOutcomes()) {
      const bool is_wanted = wanted_.contains(outcome.rank);
      if (!outcome.link.ok()) {
        // Whom it has not been made for asks no more, or is in trouble of its own.
        asking_.erase(outcome.rank);
        if (!outcome.wish) unreachable_.insert(outcome.rank);
        if (!is_wanted || call == nullptr || !status.ok()) continue;
        const CollectiveCall& named = call->named();
        status = outcome.link.status().WithPrefix(
            Format("rank {}: {} #{} needs rank {}", Name(rank_),
                   CollectiveOpName(named.header.op), named.sequence, Name(outcome.rank)));
        status = WithCallDetails(std::move(status), Name(rank_), named.header.op,
                                 Label(named.sequence))
                     .With("peer", Name(outcome.rank));
      } else if (!outcome.wish) {
        AddPeer(outcome.rank, std::move(outcome.link).value());
        wanted_.erase(outcome.rank);
      }
    }
  }
  std::erase_if(asking_, [&](int64_t rank) {
    return peers_[static_cast<size_t>(rank)] != nullptr;
  });
  // In no call they are kept for the next one, if there can be one.
  if (!status.ok() || ended_ || (call == nullptr && !failed_.load())) return status;
  for (const int64_t rank : asking_) TUTTI_RETURN_IF_ERROR(Dial(rank, /*wish=*/false));
  return OkStatus();
}

Status LinkTransport::State::ConnectPartners(const CollectiveCall& call, LinkWait* wait) {
  partners_ = LinkPartners(Context(call));
  for (int64_t rank = 0; rank < size_; ++rank) {
    if (!partners_[static_cast<size_t>(rank)] || peers_[static_cast<size_t>(rank)]) continue;
    wanted_.insert(rank);
    if (rank < rank_) TUTTI_RETURN_IF_ERROR(Dial(rank, /*wish=*/false));
  }
  if (!wanted_.empty()) {
    links_changed_.store(true);
    TUTTI_RETURN_IF_ERROR(Loop(call, nullptr, wait, [&] { return wanted_.empty(); }));
  }
  stage_ = Stage::kLinks;
  return OkStatus();
}

Status LinkTransport::State::ConnectTo(int64_t rank, const CollectiveCall& call, LinkWait* wait) {
  if (peers_[static_cast<size_t>(rank)]) return OkStatus();
  wanted_.insert(rank);
  links_changed_.store(true);
  if (rank < rank_) {
    TUTTI_RETURN_IF_ERROR(Dial(rank, /*wish=*/false));
  } else {
    wish_due_ns_ = environment_->clock().NowNs() + kWishAfterNs;
  }
  Status status = Loop(call, nullptr, wait, [&] { return wanted_.empty(); });
  wish_due_ns_ = 0;
  return status;
}

void LinkTransport::State::PostTick() {
  environment_->executor().PostAfter(kTickNs, Task([weak = weak_from_this()] {
                                       if (const std::shared_ptr<State> state = weak.lock()) {
                                         state->Tick();
                                       }
                                     }));
}

void LinkTransport::State::Tick() {
  if (!busy_.exchange(true)) {
    if (ended_) return Release();
    ReleaseAfter([this] {
      // Links are for the call that wants them.
      if (host_break_ == nullptr) {
        if (failed_.load() && !asking_.empty()) links_changed_.store(true);
        Adopt(nullptr, nullptr).rep();
        if (dialler_ && dialler_->idle()) dialler_.reset();
      }
      if (!failed_.load()) return LookAround(nullptr);
      bool progress = false;
      SendAndDiscard(&progress);
    });
  }
  PostTick();
}

}  // namespace tutti
