// LinkPeer: one peer rank as LinkTransport sees it: its link, the frame that goes out, the frame
// that comes in, and what the peer has said.
//
// Out: one frame at a time. Its data is the caller's memory until it is sent; Detach copies what is
// left of it when the call ends early, so that the frames behind it (an error, a goodbye) still
// follow at a border. In: frames are read into place. A peer can be one call ahead, so that the
// headers of two calls are kept; a data frame that the call has no room for yet stays in the link.
//
// Transfers, sends and receives, are numbered by pair and direction. Both sides say that they have
// come, and none goes on before the other has: there too a peer is one ahead at most.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_PEER_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_PEER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/memory_parts.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/collective/stream/link.h"
#include "core/collective/stream/link_frame.h"

namespace tutti {

class LinkPeer {
 public:
  // What the peer said about a call or transfer.
  struct Call {
    int64_t sequence = 0;
    std::string body;  // the serialised header
    AlignedRoom data;
    size_t data_bytes = 0;
    uint64_t announced = 0;
  };

  // What comes from it. kEveryCall: a kCall of each collective. In groups whose calls begin with a
  // tree: kTree, from neighbours there, a kTree of each, and perhaps a kCall behind it; kNoTree,
  // from others, a kCall of some.
  enum class Kind { kEveryCall, kTree, kNoTree };
  // The collective whose data may come, 0: none. It comes behind the peer's kCall of it, or behind
  // its kTree where that is all it says.
  struct Due {
    int64_t call = 0;
    bool over_tree = false;
  };

  // `name`: what messages call it, if not as its rank.
  LinkPeer(int64_t rank, int64_t epoch, std::unique_ptr<Link> link, Kind kind = Kind::kEveryCall,
           int64_t name = -1);

  int64_t rank() const { return rank_; }
  // Unless it has been dropped.
  Link& link() { return *link_; }

  // ---- Out ----

  // A frame is on its way, or waits.
  bool sending() const { return out_.remaining() != 0 || !queue_.empty(); }
  bool may_start_frame() const { return !sending() && !send_closed_; }
  bool send_closed() const { return send_closed_; }
  // Call only when may_start_frame(). `*data` is taken.
  void StartFrame(FrameKind kind, int64_t sequence, uint64_t argument, std::string_view body,
                  MemoryParts* data);
  // Goes out right before the frame that is started next.
  void Precede(FrameKind kind, int64_t sequence, std::string_view body);
  // A frame without data.
  static std::string FrameOf(FrameKind kind, int64_t epoch, int64_t sequence,
                             std::string_view body);
  // Puts a frame without data behind what is being sent.
  void QueueFrame(FrameKind kind, int64_t sequence, uint64_t argument, std::string_view body);
  // From here on nothing of the caller's memory is used: what of it is being sent is copied. Where
  // there is no memory for that, the link ends.
  void Detach() noexcept;
  // Ends the link: who cannot be told anything any more hears that.
  void Drop() noexcept;
  // Sends what goes. True when anything went.
  bool Send();

  // ---- In ----

  // Takes in what is there, up to some bound. `sequence` is that of this rank's last collective,
  // which may still run; `exchange` takes data and may be null. Sets *progress when anything came.
  // Fails when the peer sent what it must not ("rank 1 sent ...").
  Status Receive(int64_t sequence, Due due, LinkExchange* exchange, bool* progress);
  // Data in the middle of a frame goes nowhere from here on, and later frames' neither.
  void Discard();
  // A data frame has come for which there is no room yet.
  bool paused() const { return paused_; }

  // This rank has come to that transfer, of which the peer is the sender (kSend) or the receiver.
  void AnswerTransfer(CollectiveOp op, int64_t number) { TransfersOf(op).answered = number; }
  // From here on segments of what the peer sends for the `number`-th time are due; 0: of nothing.
  void ExpectSendData(int64_t number) { due_send_ = number; }

  // ---- What it has said ----

  // Its header of the call, or null.
  const Call* call(int64_t sequence) const {
    const Call& slot = calls_[sequence & 1];
    return slot.sequence == sequence ? &slot : nullptr;
  }
  // Its word of the call in the tree, or null.
  const Call* tree(int64_t sequence) const {
    const Call& slot = trees_[sequence & 1];
    return slot.sequence == sequence ? &slot : nullptr;
  }
  // Whom it knows to be in the call, '1' at a rank's place, or empty.
  std::string_view roster(int64_t sequence) const {
    return roster_sequence_ == sequence ? std::string_view(roster_) : std::string_view();
  }
  int64_t last_sequence() const { return last_sequence_; }
  CollectiveOp last_op() const { return last_op_; }
  // Its header of the transfer of that number, or null; kSend: it is the sender.
  const Call* transfer(CollectiveOp op, int64_t number) const {
    const Transfers& transfers = TransfersOf(op);
    const Call& slot = transfers.slots[number & 1];
    return slot.sequence == number ? &slot : nullptr;
  }
  // The number of the transfer to which it has come, while this rank has not; 0 when there is none.
  int64_t unanswered_transfer(CollectiveOp op) const {
    const Transfers& transfers = TransfersOf(op);
    return transfers.last > transfers.answered ? transfers.last : 0;
  }
  const Status& error() const { return error_; }              // that ended the epoch for it
  int64_t error_sequence() const { return error_sequence_; }  // its last call then
  // The transfer with this rank in which it failed, as FailedTransfer() numbers it; 0: in none.
  uint64_t error_transfer() const { return error_transfer_; }
  static uint64_t FailedTransfer(CollectiveOp op, int64_t number) {
    return static_cast<uint64_t>(number) << 1 | (op == CollectiveOp::kSend ? 1 : 0);
  }
  const Status& leave_reason() const { return goodbye_; }     // not OK: it has left
  int64_t leave_sequence() const { return goodbye_sequence_; }  // its last call then
  // How often bytes have gone or come; whoever sends and receives counts.
  uint64_t num_moves() const { return num_moves_; }
  void CountMove() { ++num_moves_; }
  // Its link has ended without a goodbye or an error.
  bool gone() const { return closed_ && goodbye_.ok() && error_.ok(); }
  bool closed() const { return closed_; }

 private:
  enum class State { kHeader, kBody, kOffer, kData, kDiscard };

  // Transfers of one direction.
  struct Transfers {
    Call slots[2];
    int64_t last = 0;      // to which the peer has come
    int64_t answered = 0;  // to which this rank has come
  };

  Transfers& TransfersOf(CollectiveOp op) { return op == CollectiveOp::kSend ? sends_ : receives_; }
  const Transfers& TransfersOf(CollectiveOp op) const {
    return op == CollectiveOp::kSend ? sends_ : receives_;
  }
  void SetOut(const FrameHeader& header, std::string_view body, MemoryParts* data);
  Status BeginFrame(int64_t sequence, Due due);
  Status CheckDue(Due due) const;
  Status BeginPayload(Call* slot);
  Status FinishBody();
  void FinishCall(Call* slot);
  void TakeRoster();
  // The peer is in that collective.
  void Advance(int64_t sequence, uint8_t op);
  Status BeginData(LinkExchange* exchange);
  size_t TakeBuffered(void* destination, size_t bytes);
  // Fills the parts of in_, and reads beyond them into the buffer. False when nothing came.
  bool ReadInto(size_t buffer_room);
  bool ReadHeaderBytes(size_t buffer_room);
  bool DiscardBytes();
  // What follows is no frame that can be told from others: none of it counts up to the link's end.
  void DiscardRest();
  Status Protocol(Status status) const;

  const int64_t rank_;
  const int64_t name_;
  const int64_t epoch_;
  std::unique_ptr<Link> link_;  // null once it is dropped, and closed then
  const Kind kind_;

  MemoryParts out_;
  std::string out_head_;  // header and body of the frame that goes out, or what Detach has copied
  std::string prelude_;
  std::deque<std::string> queue_;
  bool send_closed_ = false;

  State state_ = State::kHeader;
  FrameHeader header_;  // of the frame that comes in
  MemoryParts in_;
  std::string body_;
  size_t discard_bytes_ = 0;
  bool discard_all_ = false;
  bool paused_ = false;
  bool closed_ = false;
  std::vector<char> buffer_;
  size_t buffer_begin_ = 0;
  size_t buffer_end_ = 0;

  int64_t due_send_ = 0;

  Call calls_[2];
  int64_t last_call_ = 0;  // among them
  Call trees_[2];
  int64_t last_tree_ = 0;
  std::string roster_;
  int64_t roster_sequence_ = 0;
  Transfers sends_;     // of the peer to this rank
  Transfers receives_;  // of the peer from this rank
  int64_t last_sequence_ = 0;
  CollectiveOp last_op_ = CollectiveOp::kNone;
  Status error_;
  int64_t error_sequence_ = 0;
  uint64_t error_transfer_ = 0;
  Status goodbye_;
  int64_t goodbye_sequence_ = 0;
  uint64_t num_moves_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_PEER_H_
