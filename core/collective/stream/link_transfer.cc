// Send and receive over the link of a pair. Both say that they have come and what they mean to
// move; a small payload goes along with the sender's word, is kept until the receiver comes, and is
// all that a sender ever sends ahead: it goes on only when it has heard from the receiver. The
// segments of a large one follow then, as fast as the receiver takes them.
//
// Both see both headers, so that both find the same mismatch.

#include <cstring>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/stream/link_transport_state.h"

namespace tutti {
namespace {

size_t TensorBytes(const CallHeader& header) {
  return static_cast<size_t>(header.first.num_elements()) * ItemSize(header.first.dtype);
}

// A payload that goes along with the header.
bool IsSmall(size_t bytes) { return bytes <= kMaxSendPayloadBytes; }

}  // namespace

Status LinkTransport::State::RunTransfer(CollectiveCall* call, LinkWait* wait) {
  const bool sends = call->header.op == CollectiveOp::kSend;
  const CollectiveOp their_op = sends ? CollectiveOp::kReceive : CollectiveOp::kSend;
  if (connector_) TUTTI_RETURN_IF_ERROR(ConnectTo(call->peer, *call, wait));
  LinkPeer& peer = *peers_[static_cast<size_t>(call->peer)];
  const size_t bytes = TensorBytes(call->header);
  own_body_.clear();
  AppendCallHeader(call->header, &own_body_);
  MemoryParts payload;
  const bool moves_nothing = sends && CollectiveCall::MovesNothing(call->header);
  if (sends && IsSmall(bytes) && !moves_nothing) payload.Add(call->memory[0].input, bytes);
  data_kind_ = FrameKind::kSendData;
  data_sequence_ = call->sequence;

  peer.AnswerTransfer(their_op, call->sequence);
  peer.ExpectSendData(sends || IsSmall(bytes) ? 0 : call->sequence);
  if (peer.may_start_frame()) {
    // So that it knows in which calls this rank has been before.
    const char last_op[] = {static_cast<char>(own_op_)};
    if (connector_) peer.Precede(FrameKind::kRoster, sequence_, std::string_view(last_op, 1));
    peer.StartFrame(sends ? FrameKind::kSend : FrameKind::kReceive, call->sequence, bytes,
                    own_body_, &payload);
    peer.Send();
  }
  TUTTI_RETURN_IF_ERROR(Loop(*call, nullptr, wait, [&] {
    return peer.transfer(their_op, call->sequence) != nullptr && !peer.sending();
  }));
  const LinkPeer::Call& theirs = *peer.transfer(their_op, call->sequence);
  CallHeader said;
  TUTTI_RETURN_IF_ERROR(CheckTransfer(*call, theirs, &said));
  call->peer_on_gpu = said.gpu_op != CollectiveOp::kNone;
  if (!CollectiveCall::MovesNothing(sends ? call->header : said)) {
    if (!sends && call->make_room) TUTTI_RETURN_IF_ERROR(call->make_room());
    TUTTI_RETURN_IF_ERROR(MoveTransfer(*call, theirs, wait));
  }
  peer.ExpectSendData(0);
  return OkStatus();
}

Status LinkTransport::State::CheckTransfer(const CollectiveCall& call,
                                           const LinkPeer::Call& theirs,
                                           CallHeader* said) const {
  const bool sends = call.header.op == CollectiveOp::kSend;
  Result<CallHeader> parsed = ParseCallHeader(theirs.body);
  if (!parsed.ok()) {
    return Status(parsed.status().code(),
                  Format("rank {} sent {}", call.peer, parsed.status().message()))
        .With("peer", call.peer);
  }
  const CollectiveOp expected = sends ? CollectiveOp::kReceive : CollectiveOp::kSend;
  if (parsed->op != expected || parsed->num_tensors != 1) {
    return DataLoss("rank {} sent the header of {} of {} tensors, expected {} of one", call.peer,
                    CollectiveOpName(parsed->op), parsed->num_tensors, CollectiveOpName(expected))
        .With("peer", call.peer);
  }
  *said = std::move(parsed).value();
  const CallHeader& send = sends ? call.header : *said;
  const CallHeader& receive = sends ? *said : call.header;
  return CheckSameTransfer(send, sends ? rank_ : call.peer, receive, sends ? call.peer : rank_,
                           Label(call.sequence));
}

Status LinkTransport::State::MoveTransfer(const CollectiveCall& call, const LinkPeer::Call& theirs,
                                          LinkWait* wait) {
  const size_t bytes = TensorBytes(call.header);
  if (!IsSmall(bytes)) {
    const std::unique_ptr<LinkExchange> exchange = MakeLinkTransferExchange(call);
    return Exchange(call, exchange.get(), wait);
  }
  if (call.header.op == CollectiveOp::kSend) return OkStatus();
  if (theirs.data_bytes != bytes) {
    return DataLoss("rank {} sent {} bytes of a tensor of {}", call.peer, theirs.data_bytes, bytes)
        .With("peer", call.peer);
  }
  if (bytes != 0) std::memcpy(call.memory[0].output, theirs.data.data(), bytes);
  return OkStatus();
}

}  // namespace tutti
