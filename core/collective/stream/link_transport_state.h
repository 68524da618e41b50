// LinkTransport::State: what a rank and its links are doing. One class in six files:
//
//   link_transport.cc  who holds the links, what peers are told, what happens between calls
//   link_call.cc       collectives, and the loop that sends and receives
//   link_transfer.cc   sends and receives
//   link_tree.cc       collectives of groups whose pairs have no links yet: over a tree
//   link_connect.cc    how such pairs get their links
//   link_errors.cc     why a call cannot go on, in words

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_TRANSPORT_STATE_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_TRANSPORT_STATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/call_header.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/collective/stream/link_connector.h"
#include "core/collective/stream/link_dialler.h"
#include "core/collective/stream/link_frame.h"
#include "core/collective/stream/link_peer.h"
#include "core/collective/stream/link_transport.h"
#include "core/collective/stream/link_tree.h"
#include "core/collective/stream/link_wait.h"

namespace tutti {

class LinkTransport::State : public std::enable_shared_from_this<State> {
 public:
  State(Ref<Environment> environment, Options options, std::unique_ptr<LinkWaker> waker,
        std::vector<std::unique_ptr<Link>> links, std::unique_ptr<LinkConnector> connector);
  ~State();

  // After the constructor.
  void Begin();
  // Nothing is used any more; calls are over.
  void End();

  bool is_reproducible() const { return selector_.reproducible(); }
  Status Execute(CollectiveCall* call);
  // The error that ends the epoch is `error`, as that peer says, unless there is one.
  Status Record(Status error, int64_t told_by = -1);
  Status Fail(Status error);
  void Leave(Status reason);
  void PeerHasLeft(int64_t rank, Status reason, int64_t patience_ns);
  // `call`: that it is one of, though it runs elsewhere; may be null.
  Status failure(const CollectiveCall* call);
  int64_t num_links() const { return num_links_.load(); }
  bool ClaimFlightRecord() { return !flight_record_claimed_.exchange(true); }

 private:
  // What a collective is doing.
  enum class Stage { kLinks, kTreeUp, kTreeDown, kAllHere };

  // A peer that has left the job, while its link does not say so.
  struct Departure {
    int64_t rank = 0;
    Status reason;
    int64_t patience_ns = 0;
    // Of whoever holds the links:
    uint64_t moves = 0;      // of the link, as far as they were seen
    int64_t still_ns = 0;    // since when it has not moved in this call
    bool overdue = false;    // for too long; it gets one more look
  };

  Status FailureSoFar() const;
  Status LeaveReason() const;

  // A loop of a call whose thread asks the host now and then.
  struct HostBreak {
    const CollectiveCall& call;
    LinkExchange* const exchange;
    const std::function<bool()>& done;
    bool asked = false;
    bool failed = false;  // meanwhile: the exchange may be in any state, and is used no more
  };
  class HostBreakScope;

  // ---- Who holds the links ----

  // Wakes the holder, or does what there is to say oneself.
  void Attend();
  bool HasNews() const;
  // Gives the links up. What others asked for meanwhile is done by whoever gets hold of them.
  void Release() noexcept;
  // The same behind body(), which uses them. What leaves it by an exception ends the epoch.
  template <typename Body>
  void ReleaseAfter(const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      Record(Status::OutOfMemory()).rep();
    }
    Release();
  }
  // Only between frames of a call. Whom there is no memory to tell anything loses its link.
  void TellNews() noexcept;
  // An error or a goodbye waits behind something that a peer has not taken yet.
  bool HasUnsentNews() const;
  // When Flush has something to do again: until all know of an error somebody has to read on.
  int64_t FlushDelayNs() const;
  void PostFlush(int64_t delay_ns) noexcept;
  void Flush();
  // The collective whose data may come now.
  LinkPeer::Due DueData() const {
    return {data_kind_ == FrameKind::kData ? data_sequence_ : 0, data_over_tree_};
  }
  void SendAndDiscard(bool* progress);
  // For links that notice their end only there.
  void PollLinks();
  // Between calls: has a peer said or suffered something?
  void LookAround(const CollectiveCall* call);
  // While the host has the thread of a call: goes on with the call.
  Status LookAroundInCall();
  // The same, and ends the call where it fails.
  void GoOnWithCall() noexcept;
  // The call has failed: no memory of the caller's is used any more, and the peers are told.
  void LeaveCallEarly();
  // The same where an exception leaves the call, so that there may be no memory.
  void LeaveCallByException(const CollectiveCall& call) noexcept;

  // ---- One call ----

  Status Run(CollectiveCall* call);
  Status RunCollective(CollectiveCall* call, LinkWait* wait);
  Status WriteHeader(const CollectiveCall& call);
  // Sends all partners the header, and the payload when it is small.
  Status Prepare(CollectiveCall* call);
  // Waits until the header of all partners is here, and all have this rank's.
  Status Meet(const CollectiveCall& call, LinkWait* wait);
  Status CheckHeaders(const CollectiveCall& call);
  LinkCallContext Context(const CollectiveCall& call) {
    return LinkCallContext{rank_, size_, &call, &scratch_, &selector_, &options_.names, &near_};
  }
  // Whether the peer and this rank tell each other of the running collective themselves. Where the
  // links are there from the beginning all do, and else those between which its algorithm sends.
  bool IsPartner(int64_t peer) const {
    return partners_.empty() || partners_[static_cast<size_t>(peer)];
  }

  // ---- Over the tree ----

  // All headers go up to rank 0, which compares them, and its word comes down: then all know that
  // all are in the call. Small payloads travel along, a broadcast follows. Sets *done where nothing
  // remains of the call.
  Status MeetOverTree(CollectiveCall* call, LinkWait* wait, bool* done);
  // Whether the call's payload travels along, and what comes down then: of an all_gather all
  // inputs, one behind the other.
  bool TravelsOverTree(const CollectiveCall& call);
  size_t TreeResultBytes(const CollectiveCall& call) const;
  void TakeTreeResult(const CollectiveCall& call, const std::byte* result) const;
  Status AwaitChildren(const CollectiveCall& call, LinkWait* wait);
  // The headers of all ranks below, from what the children say.
  Status GatherHeaders(const CollectiveCall& call);
  Status SendUp(const CollectiveCall& call, bool travels, LinkWait* wait);
  // Of rank 0: compares, and makes the result in scratch_.
  Status DecideAtRoot(const CollectiveCall& call, bool travels);
  Status SendDown(const CollectiveCall& call, const std::byte* result, size_t bytes,
                  LinkWait* wait);
  Status BroadcastOverTree(const CollectiveCall& call, LinkWait* wait);
  // Who waits long tells its neighbours whom it knows to be there.
  void ShareRoster(const CollectiveCall& call, LinkWait* wait);

  // ---- Links that are not there yet ----

  // Makes the links to all partners, each of which is in the call, or to the other side of a
  // transfer.
  Status ConnectPartners(const CollectiveCall& call, LinkWait* wait);
  Status ConnectTo(int64_t rank, const CollectiveCall& call, LinkWait* wait);
  // Takes what links have come, and makes those that others ask for. `call`: that runs, or null.
  Status Adopt(const CollectiveCall* call, LinkWait* wait);
  // Of a rank whose parent in the tree has left: links it to another one.
  void ReplaceParent(LinkWait* wait);
  // Whether the rank is known to be on another machine.
  bool IsElsewhere(int64_t rank) const {
    const std::vector<std::string>& machines = options_.machines;
    if (machines.empty()) return false;
    const std::string& here = machines[static_cast<size_t>(rank_)];
    const std::string& there = machines[static_cast<size_t>(rank)];
    return !here.empty() && !there.empty() && here != there;
  }
  void AddPeer(int64_t rank, std::unique_ptr<Link> link);
  Status Dial(int64_t rank, bool wish);
  // Where links are made at first use, who is in no call has to pass on what it hears, too.
  void PostTick();
  void Tick();

  Status RunTransfer(CollectiveCall* call, LinkWait* wait);
  // Both have come: whether the peer means the same transfer, and what it has said.
  Status CheckTransfer(const CollectiveCall& call, const LinkPeer::Call& theirs,
                       CallHeader* said) const;
  Status MoveTransfer(const CollectiveCall& call, const LinkPeer::Call& theirs, LinkWait* wait);

  // Sends and receives what goes without waiting.
  Status Step(LinkExchange* exchange, bool* progress);
  // The same until done(), or until the call cannot go on.
  Status Loop(const CollectiveCall& call, LinkExchange* exchange, LinkWait* wait,
              const std::function<bool()>& done);
  Status Exchange(const CollectiveCall& call, LinkExchange* exchange, LinkWait* wait);
  // Whether the wait is over. Where pairs have no links the others hear of each other through this
  // rank: while the host is asked, which may keep the thread for as long as it likes, others hold
  // the links, and go on with the call. Sets asked then.
  Status CheckWait(HostBreak* host_break, LinkWait* wait);

  // ---- Errors ----

  // Whether the call is known to have failed at a peer that was in it.
  bool FailedElsewhere(const CollectiveCall& call) const;
  // Whether the call needs the peer's header, and it is not here.
  bool Awaits(const LinkPeer& peer, const CollectiveCall& call) const;
  // Whether the call cannot go on because of a peer that has gone, has left, or waits for another
  // call of this rank.
  // With `waits`, a link that has ended may be waited for the news of (AwaitsNews).
  Status CheckPeers(const CollectiveCall& call, LinkExchange* exchange, bool waits, LinkWait* wait);
  // Whether it may still be told what has ended the link of a peer that is gone; then `wait`, if
  // any, ends when that is over.
  bool AwaitsNews(const LinkPeer& peer, LinkWait* wait);
  // Whether the call is in want of the peer: of its header or data, or of room for what it is sent.
  bool Needs(const LinkPeer& peer, const CollectiveCall& call, LinkExchange* exchange) const;
  // Whether the call needs a peer that has left the job, over a link that has stood still since.
  Status CheckDepartures(const CollectiveCall& call, LinkExchange* exchange, LinkWait* wait);
  // Of a rank in no call, through which others hear of each other: whether one of them is in a call
  // to which another one, that has left, does not come.
  Status CheckLeftBetweenCalls() const;
  Status DepartedError(const CollectiveCall& call, const Departure& departure) const;
  Status GoneError(LinkPeer& peer, const CollectiveCall* call) const;
  Status LeftError(const LinkPeer& peer, const CollectiveCall& call) const;
  // A failure of the call, in the call's words where it has none yet.
  Status InCall(Status status, const CollectiveCall& call) const;
  // Such a failure is recorded, and what of it the peer of a transfer is told.
  Status RecordIn(const CollectiveCall& call, Status error);
  // Whether the awaited peer waits for this rank in a call that this rank does not come to while it
  // is in `call`: an error that both find, in the same words.
  Status CheckOrder(const LinkPeer& peer, const CollectiveCall& call) const;
  // The same for a call that does not go over these links, whose waits look at them as well.
  Status CheckOrderBeyond(const LinkPeer& peer, const CollectiveCall& call) const;
  std::string Describe(int64_t rank) const;
  // Whether the rank is known to have come to the call.
  bool HasArrived(int64_t rank, const CollectiveCall& call) const;
  std::vector<RankPosition> Positions(const CollectiveCall& call) const;
  // Whom the call waits for, in words; *first is the lowest of them.
  std::string DescribeAwaited(const CollectiveCall& call, const LinkExchange* exchange,
                              int64_t* first) const;
  void LogLongWait(const CollectiveCall& call) const;
  Status WaitError(const CollectiveCall& call, const LinkExchange* exchange, Status wait_status,
                   int64_t waited_ns) const;
  CallLabel Label(int64_t sequence) const {
    return CallLabel{sequence, options_.epoch, &options_.name, &options_.names};
  }
  int64_t Name(int64_t rank) const {
    return options_.names.empty() ? rank : options_.names[static_cast<size_t>(rank)];
  }
  int64_t WorkerOf(int64_t rank) const {
    return options_.workers.empty() ? Name(rank) : options_.workers[static_cast<size_t>(rank)];
  }
  // How messages number a collective of a peer's.
  int64_t NamedSequence(int64_t sequence) const;

  const Ref<Environment> environment_;
  const Options options_;
  const int64_t rank_;
  const int64_t size_;
  const Selector selector_;
  const std::unique_ptr<LinkWaker> waker_;
  const LinkTree tree_;
  // Null where all links are there from the beginning.
  std::unique_ptr<LinkConnector> connector_;

  // True while a thread uses the links: it alone touches the members down to the next line.
  std::atomic<bool> busy_{false};
  std::vector<std::unique_ptr<LinkPeer>> peers_;  // by rank; the own one is null
  int64_t sequence_ = 0;                          // of the last collective
  int64_t named_sequence_ = 0;                    // its number for messages
  int64_t named_before_ = 0;                      // that of the collective before
  std::string own_body_;
  std::vector<bool> near_;  // by rank
  AlignedRoom scratch_;
  std::unique_ptr<LinkAlgorithm> algorithm_;  // of the collective that runs
  std::vector<CallHeader> headers_;           // of the peers, where they are not the own one
  std::vector<LinkPeerPayload> payloads_;     // by rank
  FrameKind data_kind_ = FrameKind::kData;    // of what an exchange sends
  int64_t data_sequence_ = 0;
  bool data_over_tree_ = false;  // is what follows the meeting there, with no kCall before it
  int64_t failed_transfer_peer_ = -1;  // of the transfer that has failed, if one has
  uint64_t failed_transfer_ = 0;       // LinkPeer::FailedTransfer
  bool flush_moves_ = false;           // the last Flush has sent or received something
  HostBreak* host_break_ = nullptr;    // null: no call's thread asks the host
  // With a connector only:
  std::vector<bool> partners_;  // of the collective that runs, by rank
  Stage stage_ = Stage::kLinks;
  CollectiveOp own_op_ = CollectiveOp::kNone;       // of the last collective
  CollectiveOp previous_op_ = CollectiveOp::kNone;  // of the one before
  std::vector<std::string> below_;  // headers of ranks below that differ from the own one, by rank
  std::string roster_;              // '1' for a rank that is known to be in the call
  std::string roster_told_;         // to the neighbours
  int64_t roster_due_ns_ = 0;
  std::set<int64_t> wanted_;     // peers whose links the call waits for
  int64_t wish_due_ns_ = 0;      // when a higher rank is asked to connect; 0: it has been
  std::set<int64_t> asking_;     // lower ranks that want a link
  int64_t orphan_since_ns_ = 0;  // since when the parent is known to have left
  std::set<int64_t> unreachable_;  // lower ranks that no link could be made to
  std::unique_ptr<LinkDialler> dialler_;
  bool ended_ = false;
  std::map<int64_t, int64_t> ended_ns_;  // when the links of ranks that are gone were seen to end
  // ----

  std::atomic<bool> links_changed_{false};
  std::atomic<int64_t> num_links_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> left_{false};
  std::atomic<bool> error_told_{false};
  std::atomic<bool> goodbye_told_{false};
  std::atomic<bool> flush_posted_{false};
  std::atomic<bool> flight_record_claimed_{false};
  std::atomic<bool> some_departed_{false};
  mutable std::mutex mutex_;  // guards all below
  std::vector<Departure> departures_;
  Status failure_;
  Status leave_reason_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_TRANSPORT_STATE_H_
