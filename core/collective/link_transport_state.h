// LinkTransport::State: what a rank and its links are doing. One class in four files:
//
//   link_transport.cc  who holds the links, what peers are told, what happens between calls
//   link_call.cc       collectives, and the loop that sends and receives
//   link_transfer.cc   sends and receives
//   link_errors.cc     why a call cannot go on, in words

#ifndef TUTTI_CORE_COLLECTIVE_LINK_TRANSPORT_STATE_H_
#define TUTTI_CORE_COLLECTIVE_LINK_TRANSPORT_STATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call_header.h"
#include "core/collective/link_exchange.h"
#include "core/collective/link_frame.h"
#include "core/collective/link_peer.h"
#include "core/collective/link_transport.h"
#include "core/collective/link_wait.h"

namespace tutti {

class LinkTransport::State : public std::enable_shared_from_this<State> {
 public:
  State(Ref<Environment> environment, Options options, std::unique_ptr<LinkWaker> waker,
        std::vector<std::unique_ptr<Link>> links);

  Status Execute(CollectiveCall* call);
  // The error that ends the epoch is `error`, unless there is one.
  Status Record(Status error, int64_t told_by = -1);
  Status Fail(Status error);
  void Leave(Status reason);
  void PeerHasLeft(int64_t rank, Status reason, int64_t patience_ns);
  // `call`: that it is one of, though it runs elsewhere; may be null.
  Status failure(const CollectiveCall* call);
  bool ClaimFlightRecord() { return !flight_record_claimed_.exchange(true); }

 private:
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

  // ---- Who holds the links ----

  // Wakes the holder, or does what there is to say oneself.
  void Attend();
  bool HasNews() const;
  // Gives the links up. What others asked for meanwhile is done by whoever gets hold of them.
  void Release();
  // Only between frames of a call.
  void TellNews();
  // An error or a goodbye waits behind something that a peer has not taken yet.
  bool HasUnsentNews() const;
  void PostFlush();
  void Flush();
  void SendAndDiscard(bool* progress);
  // Between calls: has a peer said or suffered something?
  void LookAround(const CollectiveCall* call);
  // The call has failed: no memory of the caller's is used any more, and the peers are told.
  void LeaveCallEarly();

  // ---- One call ----

  Status Run(CollectiveCall* call);
  Status RunCollective(CollectiveCall* call, LinkWait* wait);
  // Sends everybody the header, and the payload when it is small.
  Status Prepare(CollectiveCall* call);
  // Waits until everybody's header is here, and everybody has this rank's.
  Status Meet(const CollectiveCall& call, LinkWait* wait);
  Status CheckHeaders(const CollectiveCall& call);

  Status RunTransfer(CollectiveCall* call, LinkWait* wait);
  // Both have come: whether the peer means the same transfer.
  Status CheckTransfer(const CollectiveCall& call, const LinkPeer::Call& theirs) const;
  Status MoveTransfer(const CollectiveCall& call, const LinkPeer::Call& theirs, LinkWait* wait);

  // Sends and receives what goes without waiting.
  Status Step(LinkExchange* exchange, bool* progress);
  // The same until done(), or until the call cannot go on.
  Status Loop(const CollectiveCall& call, LinkExchange* exchange, LinkWait* wait,
              const std::function<bool()>& done);
  Status Exchange(const CollectiveCall& call, LinkExchange* exchange, LinkWait* wait);

  // ---- Errors ----

  // Whether the call is known to have failed at a peer that was in it.
  bool FailedElsewhere(const CollectiveCall& call) const;
  // Whether the call needs the peer's header, and it is not here.
  bool Awaits(const LinkPeer& peer, const CollectiveCall& call) const;
  // Whether the call cannot go on because of a peer that has gone, has left, or waits for another
  // call of this rank.
  Status CheckPeers(const CollectiveCall& call, LinkExchange* exchange) const;
  // Whether the call is in want of the peer: of its header or data, or of room for what it is sent.
  bool Needs(const LinkPeer& peer, const CollectiveCall& call, LinkExchange* exchange) const;
  // Whether the call needs a peer that has left the job, over a link that has stood still since.
  Status CheckDepartures(const CollectiveCall& call, LinkExchange* exchange, LinkWait* wait);
  Status DepartedError(const LinkPeer& peer, const CollectiveCall& call,
                       const Departure& departure) const;
  Status GoneError(LinkPeer& peer, const CollectiveCall* call) const;
  Status LeftError(const LinkPeer& peer, const CollectiveCall& call) const;
  // Whether the awaited peer waits for this rank in a call that this rank does not come to while it
  // is in `call`: an error that both find, in the same words.
  Status CheckOrder(const LinkPeer& peer, const CollectiveCall& call) const;
  // The same for a call that does not go over these links, whose waits look at them as well.
  Status CheckOrderBeyond(const LinkPeer& peer, const CollectiveCall& call) const;
  std::string Describe(int64_t rank) const;
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
  // How messages number a collective of a peer's.
  int64_t NamedSequence(int64_t sequence) const;

  const Ref<Environment> environment_;
  const Options options_;
  const int64_t rank_;
  const int64_t size_;
  const Selector selector_;
  const std::unique_ptr<LinkWaker> waker_;

  // True while a thread uses the links: it alone touches the members down to the next line.
  std::atomic<bool> busy_{false};
  std::vector<std::unique_ptr<LinkPeer>> peers_;  // by rank; the own one is null
  int64_t sequence_ = 0;                          // of the last collective
  int64_t named_sequence_ = 0;                    // its number for messages
  int64_t named_before_ = 0;                      // that of the collective before
  std::string own_body_;
  AlignedRoom scratch_;
  std::unique_ptr<LinkAlgorithm> algorithm_;  // of the collective that runs
  std::vector<CallHeader> headers_;           // of the peers, where they are not the own one
  std::vector<LinkPeerPayload> payloads_;     // by rank
  FrameKind data_kind_ = FrameKind::kData;    // of what an exchange sends
  int64_t data_sequence_ = 0;
  int64_t failed_transfer_peer_ = -1;  // of the transfer that has failed, if one has
  uint64_t failed_transfer_ = 0;       // LinkPeer::FailedTransfer
  // ----

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
  int64_t told_by_ = -1;  // the peer that knows of the failure, because it said so
  Status leave_reason_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_LINK_TRANSPORT_STATE_H_
