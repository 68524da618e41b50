#include "core/collective/stream/link_peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/error.h"
#include "core/collective/call/call_header_wire.h"

namespace tutti {
namespace {

// Holds a small call's frame with its payload, so that one system call takes it in.
constexpr size_t kBufferBytes = 72 << 10;
// While large payloads come, more than a header is better read into place.
constexpr size_t kHeaderReadBytes = 1024;
// Reads in a row before the other peers get their turn.
constexpr int kMaxRounds = 24;

// What the peer does that sent a kSend or kReceive.
CollectiveOp TransferOp(FrameKind kind) {
  return kind == FrameKind::kSend ? CollectiveOp::kSend : CollectiveOp::kReceive;
}

FrameHeader HeaderOf(FrameKind kind, int64_t epoch, int64_t sequence, uint64_t argument,
                     std::string_view body) {
  FrameHeader header;
  header.kind = kind;
  header.epoch = epoch;
  header.sequence = sequence;
  header.argument = argument;
  header.body_bytes = static_cast<uint32_t>(body.size());
  header.body_crc = Crc32c(body.data(), body.size());
  return header;
}

void AppendFrame(const FrameHeader& header, std::string_view body, std::string* frame) {
  const size_t begin = frame->size();
  frame->resize(begin + kFrameHeaderBytes);
  EncodeFrameHeader(header, frame->data() + begin);
  frame->append(body);
}

}  // namespace

LinkPeer::LinkPeer(int64_t rank, int64_t epoch, std::unique_ptr<Link> link, Kind kind,
                   int64_t name)
    : rank_(rank),
      name_(name < 0 ? rank : name),
      epoch_(epoch),
      link_(std::move(link)),
      kind_(kind),
      buffer_(kBufferBytes) {
  // What stands in a string can be sent without memory.
  out_.Reserve(1);
}

// ---- Out ----

void LinkPeer::SetOut(const FrameHeader& header, std::string_view body, MemoryParts* data) {
  out_head_ = std::exchange(prelude_, std::string());
  AppendFrame(header, body, &out_head_);
  out_.Clear();
  // No frame goes out in part for lack of memory.
  out_.Reserve(1 + (data == nullptr ? 0 : data->rest().size()));
  out_.Add(out_head_.data(), out_head_.size());
  if (data == nullptr) return;
  for (const iovec& part : data->rest()) out_.Add(part.iov_base, part.iov_len);
}

void LinkPeer::StartFrame(FrameKind kind, int64_t sequence, uint64_t argument,
                          std::string_view body, MemoryParts* data) {
  FrameHeader header = HeaderOf(kind, epoch_, sequence, argument, body);
  header.data_bytes = data == nullptr ? 0 : static_cast<uint32_t>(data->remaining());
  SetOut(header, body, data);
}

std::string LinkPeer::FrameOf(FrameKind kind, int64_t epoch, int64_t sequence,
                              std::string_view body) {
  std::string frame;
  AppendFrame(HeaderOf(kind, epoch, sequence, 0, body), body, &frame);
  return frame;
}

void LinkPeer::QueueFrame(FrameKind kind, int64_t sequence, uint64_t argument,
                          std::string_view body) {
  if (send_closed_) return;
  std::string frame;
  AppendFrame(HeaderOf(kind, epoch_, sequence, argument, body), body, &frame);
  queue_.push_back(std::move(frame));
}

void LinkPeer::Precede(FrameKind kind, int64_t sequence, std::string_view body) {
  AppendFrame(HeaderOf(kind, epoch_, sequence, 0, body), body, &prelude_);
}

void LinkPeer::Detach() noexcept {
  std::string rest;
  try {
    rest.reserve(out_.remaining());
    for (const iovec& part : out_.rest()) {
      rest.append(static_cast<const char*>(part.iov_base), part.iov_len);
    }
  } catch (...) {
    return Drop();
  }
  out_head_ = std::move(rest);
  out_.Clear();
  out_.Add(out_head_.data(), out_head_.size());
}

void LinkPeer::Drop() noexcept {
  closed_ = send_closed_ = true;
  link_.reset();
  out_.Clear();
  queue_.clear();
  in_.Clear();
  // It is this rank's doing, and no death.
  if (error_.ok()) error_ = Status::OutOfMemory();
}

bool LinkPeer::Send() {
  bool progress = false;
  while (!send_closed_) {
    if (out_.remaining() == 0) {
      if (queue_.empty()) break;
      out_head_ = std::move(queue_.front());
      queue_.pop_front();
      out_.Clear();
      out_.Add(out_head_.data(), out_head_.size());
    }
    const int64_t sent = link_->TrySend(out_.rest());
    if (sent == 0) break;
    if (sent < 0) {
      // Why is for the receiving side to find out: what the peer said last may still be there.
      send_closed_ = true;
      out_.Clear();
      queue_.clear();
      break;
    }
    out_.Advance(static_cast<size_t>(sent));
    progress = true;
  }
  return progress;
}

// ---- In ----

Status LinkPeer::Protocol(Status status) const {
  return Status(status.code(), Format("rank {} sent {}", name_, status.message()))
      .With("peer", name_);
}

size_t LinkPeer::TakeBuffered(void* destination, size_t bytes) {
  const size_t taken = std::min(bytes, buffer_end_ - buffer_begin_);
  if (taken != 0) std::memcpy(destination, buffer_.data() + buffer_begin_, taken);
  buffer_begin_ += taken;
  return taken;
}

bool LinkPeer::ReadHeaderBytes(size_t buffer_room) {
  if (buffer_begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, buffer_end_ - buffer_begin_);
    buffer_end_ -= buffer_begin_;
    buffer_begin_ = 0;
  }
  const iovec part{buffer_.data() + buffer_end_,
                   std::min(buffer_room, buffer_.size()) - buffer_end_};
  const int64_t received = link_->TryReceive(std::span<const iovec>(&part, 1));
  if (received < 0) closed_ = true;
  if (received <= 0) return false;
  buffer_end_ += static_cast<size_t>(received);
  return true;
}

bool LinkPeer::ReadInto(size_t buffer_room) {
  // What is buffered comes first.
  while (in_.remaining() != 0 && buffer_begin_ != buffer_end_) {
    const iovec part = in_.rest().front();
    in_.Advance(TakeBuffered(part.iov_base, part.iov_len));
  }
  if (in_.remaining() == 0) return true;

  buffer_begin_ = buffer_end_ = 0;
  iovec parts[Link::kMaxParts];
  const std::span<const iovec> rest = in_.rest();
  size_t count = std::min(rest.size(), Link::kMaxParts - 1);
  size_t wanted = 0;
  for (size_t i = 0; i < count; ++i) {
    parts[i] = rest[i];
    wanted += rest[i].iov_len;
  }
  if (count == rest.size()) parts[count++] = iovec{buffer_.data(), buffer_room};
  const int64_t result = link_->TryReceive(std::span<const iovec>(parts, count));
  if (result < 0) closed_ = true;
  if (result <= 0) return false;
  const auto received = static_cast<size_t>(result);
  in_.Advance(std::min(received, wanted));
  if (received > wanted) buffer_end_ = received - wanted;
  return true;
}

bool LinkPeer::DiscardBytes() {
  const size_t buffered = std::min(discard_bytes_, buffer_end_ - buffer_begin_);
  buffer_begin_ += buffered;
  discard_bytes_ -= buffered;
  if (discard_bytes_ == 0) return true;
  buffer_begin_ = buffer_end_ = 0;
  const iovec part{buffer_.data(), std::min(buffer_.size(), discard_bytes_)};
  const int64_t received = link_->TryReceive(std::span<const iovec>(&part, 1));
  if (received < 0) closed_ = true;
  if (received <= 0) return false;
  discard_bytes_ -= static_cast<size_t>(received);
  return true;
}

Status LinkPeer::BeginFrame(int64_t sequence, Due due) {
  TUTTI_RETURN_IF_ERROR(DecodeFrameHeader(buffer_.data() + buffer_begin_, epoch_, &header_));
  buffer_begin_ += kFrameHeaderBytes;
  in_.Clear();
  if (header_.kind == FrameKind::kData || header_.kind == FrameKind::kSendData) {
    TUTTI_RETURN_IF_ERROR(CheckDue(due));
    state_ = State::kOffer;
    return OkStatus();
  }
  body_.resize(header_.body_bytes);
  in_.Add(body_.data(), body_.size());
  state_ = State::kBody;
  if (header_.kind == FrameKind::kCall) {
    // Each call needs everybody, so that nobody is two ahead.
    const bool follows = kind_ == Kind::kEveryCall ? header_.sequence == last_call_ + 1
                                                   : header_.sequence > last_call_;
    if (!follows || header_.sequence > sequence + 1) {
      return DataLoss("call #{} after its call #{}, while this rank has made {} calls",
                      header_.sequence, last_call_, sequence);
    }
    if (kind_ == Kind::kTree && header_.sequence != last_tree_) {
      return DataLoss("call #{} behind its word of call #{}", header_.sequence, last_tree_);
    }
    return BeginPayload(&calls_[header_.sequence & 1]);
  }
  if (header_.kind == FrameKind::kTree || header_.kind == FrameKind::kRoster) {
    const bool is_roster = header_.kind == FrameKind::kRoster;
    if (kind_ == Kind::kEveryCall || header_.sequence > sequence + 1 ||
        (is_roster ? header_.sequence < last_tree_ : header_.sequence != last_tree_ + 1)) {
      return DataLoss("{} of call #{} after its call #{}, while this rank has made {} calls",
                      is_roster ? "the roster" : "its word", header_.sequence, last_tree_,
                      sequence);
    }
    if (is_roster) return OkStatus();
    return BeginPayload(&trees_[header_.sequence & 1]);
  }
  if (header_.kind == FrameKind::kSend || header_.kind == FrameKind::kReceive) {
    const CollectiveOp op = TransferOp(header_.kind);
    Transfers& transfers = TransfersOf(op);
    if (header_.sequence != transfers.last + 1 || header_.sequence > transfers.answered + 1) {
      return DataLoss("{} #{} after its {} #{}, while this rank has answered {}",
                      CollectiveOpName(op), header_.sequence, CollectiveOpName(op), transfers.last,
                      transfers.answered);
    }
    return BeginPayload(&transfers.slots[header_.sequence & 1]);
  }
  return OkStatus();
}

Status LinkPeer::CheckDue(Due due) const {
  if (discard_all_) return OkStatus();
  if (header_.kind == FrameKind::kSendData) {
    if (due_send_ != 0 && header_.sequence == due_send_ && sends_.last == due_send_) {
      return OkStatus();
    }
    return DataLoss("data of its send #{}, which is not due", header_.sequence);
  }
  const int64_t said = due.over_tree ? last_tree_ : last_call_;
  if (due.call != 0 && header_.sequence == due.call && said == due.call) return OkStatus();
  return DataLoss("data of call #{} after its call #{}, while {} is due", header_.sequence, said,
                  due.call == 0 ? "none" : Format("call #{}", due.call));
}

Status LinkPeer::BeginPayload(Call* slot) {
  slot->sequence = 0;
  if (!slot->data.Reserve(header_.data_bytes)) {
    return ResourceExhausted("a payload of {} bytes, for which there is no memory",
                             header_.data_bytes);
  }
  slot->data_bytes = header_.data_bytes;
  slot->announced = header_.argument;
  in_.Add(slot->data.data(), slot->data_bytes);
  return OkStatus();
}

Status LinkPeer::FinishBody() {
  state_ = State::kHeader;
  if (Crc32c(body_.data(), body_.size()) != header_.body_crc) {
    return DataLoss("a frame whose contents have a wrong checksum");
  }
  switch (header_.kind) {
    case FrameKind::kError:
      if (error_.ok()) {
        error_ = ParseStatus(body_);
        error_sequence_ = header_.sequence;
        error_transfer_ = header_.argument;
      }
      break;
    case FrameKind::kGoodbye:
      goodbye_ = ParseStatus(body_);
      goodbye_sequence_ = header_.sequence;
      break;
    case FrameKind::kSend:
    case FrameKind::kReceive: {
      Transfers& transfers = TransfersOf(TransferOp(header_.kind));
      FinishCall(&transfers.slots[header_.sequence & 1]);
      transfers.last = header_.sequence;
      break;
    }
    case FrameKind::kTree: {
      Call& slot = trees_[header_.sequence & 1];
      FinishCall(&slot);
      last_tree_ = header_.sequence;
      Advance(slot.sequence, slot.body.empty() ? uint8_t{0} : static_cast<uint8_t>(slot.body[0]));
      break;
    }
    case FrameKind::kRoster:
      TakeRoster();
      break;
    default: {
      Call& slot = calls_[header_.sequence & 1];
      FinishCall(&slot);
      last_call_ = header_.sequence;
      Advance(slot.sequence, slot.body.empty() ? uint8_t{0} : static_cast<uint8_t>(slot.body[0]));
    }
  }
  return OkStatus();
}

void LinkPeer::Advance(int64_t sequence, uint8_t op) {
  if (sequence <= last_sequence_) return;
  last_sequence_ = sequence;
  last_op_ = op <= static_cast<uint8_t>(kLastCollectiveOp) ? static_cast<CollectiveOp>(op)
                                                           : CollectiveOp::kNone;
}

void LinkPeer::TakeRoster() {
  if (body_.empty()) return;
  Advance(header_.sequence, static_cast<uint8_t>(body_[0]));
  if (body_.size() == 1) return;
  roster_.assign(body_, 1);
  roster_sequence_ = header_.sequence;
}

void LinkPeer::FinishCall(Call* slot) {
  slot->body.swap(body_);
  slot->sequence = header_.sequence;
}

Status LinkPeer::BeginData(LinkExchange* exchange) {
  if (discard_all_) {
    discard_bytes_ = header_.data_bytes;
    state_ = State::kDiscard;
    return OkStatus();
  }
  if (exchange == nullptr) {
    paused_ = true;
    return OkStatus();
  }
  TUTTI_ASSIGN_OR_RETURN(const bool accepted, exchange->Accept(rank_, header_.argument,
                                                               header_.data_bytes, &in_));
  paused_ = !accepted;
  if (accepted) state_ = State::kData;
  return OkStatus();
}

Status LinkPeer::Receive(int64_t sequence, Due due, LinkExchange* exchange, bool* progress) {
  paused_ = false;
  const size_t buffer_room = exchange != nullptr ? kHeaderReadBytes : kBufferBytes;
  const bool ends_with_read = exchange != nullptr && exchange->takes_turns(rank_);
  bool ended = false;
  for (int round = 0; round < kMaxRounds && !ended && !closed_ && !paused_; ++round) {
    bool came = true;
    Status status;
    switch (state_) {
      case State::kHeader:
        if (buffer_end_ - buffer_begin_ >= kFrameHeaderBytes) {
          status = BeginFrame(sequence, due);
          if (!status.ok()) DiscardRest();
        } else {
          came = ReadHeaderBytes(buffer_room);
          ended = ends_with_read && came;
        }
        break;
      case State::kBody:
        came = ReadInto(buffer_room);
        if (in_.remaining() == 0) status = FinishBody();
        break;
      case State::kOffer:
        status = BeginData(exchange);
        came = !paused_;
        break;
      case State::kData:
        came = ReadInto(buffer_room);
        if (in_.remaining() == 0) {
          state_ = State::kHeader;
          status = exchange->Received(rank_);
        }
        ended = ends_with_read && came;
        break;
      case State::kDiscard:
        came = DiscardBytes();
        if (discard_bytes_ == 0) state_ = State::kHeader;
        break;
    }
    if (!status.ok()) return Protocol(std::move(status));
    if (!came) break;
    *progress = true;
  }
  return OkStatus();
}

void LinkPeer::DiscardRest() {
  in_.Clear();
  discard_bytes_ = SIZE_MAX;
  state_ = State::kDiscard;
}

void LinkPeer::Discard() {
  discard_all_ = true;
  if (state_ != State::kData) return;
  discard_bytes_ = in_.remaining();
  in_.Clear();
  state_ = State::kDiscard;
}

}  // namespace tutti
