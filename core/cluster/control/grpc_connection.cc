#include "core/cluster/control/grpc_connection.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <cassert>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

// How long a closed connection may take to deliver what was sent before.
constexpr int64_t kLingerNs = kSecondNs;
// A peer that reads nothing for so long that this much waits for it is as good as dead.
constexpr size_t kMaxOutgoingBytes = size_t{64} << 20;
constexpr size_t kMaxCloseTextBytes = 16 << 10;

// gRPC makes the copy: threads of its own wrote the slice, in an order that ThreadSanitizer cannot
// see from here.
std::string TextOf(const grpc_slice& slice) {
  const std::unique_ptr<char, void (*)(void*)> copy(grpc_slice_to_c_string(slice), gpr_free);
  return std::string(copy.get(), GRPC_SLICE_LENGTH(slice));
}

}  // namespace

struct GrpcConnection::Received {
  Received() {
    grpc_metadata_array_init(&headers);
    grpc_metadata_array_init(&trailers);
  }
  ~Received() {
    grpc_metadata_array_destroy(&headers);
    grpc_metadata_array_destroy(&trailers);
    grpc_slice_unref(status_text);
  }

  grpc_metadata_array headers;
  grpc_metadata_array trailers;
  grpc_byte_buffer* message = nullptr;
  grpc_status_code status = GRPC_STATUS_OK;
  grpc_slice status_text = grpc_empty_slice();
  int cancelled = 0;
};

GrpcConnection::GrpcConnection(std::shared_ptr<GrpcSite> site, Side side, std::string peer_address,
                               std::unique_ptr<ControlHandler> handler)
    : site_(std::move(site)),
      side_(side),
      peer_address_(std::move(peer_address)),
      handler_(std::move(handler)),
      received_(std::make_unique<Received>()) {}

GrpcConnection::~GrpcConnection() { assert(call_ == nullptr && pending_ == 0); }

void GrpcConnection::Send(std::string message) {
  if (message.size() > kMaxControlMessageBytes) {
    Close(ResourceExhausted("a control message to {} has {} bytes; at most {} are possible",
                            peer_address_, message.size(), kMaxControlMessageBytes));
    return;
  }
  site_->strand.Post([self = Ref<GrpcConnection>::Retain(this), text = std::move(message)] {
    if (!self->closed_) self->Enqueue(Frame::kMessage, text);
  });
}

void GrpcConnection::Close(Status reason) {
  site_->strand.Post([self = Ref<GrpcConnection>::Retain(this), why = std::move(reason)]() mutable {
    self->CloseNow(std::move(why), true);
  });
}

void GrpcConnection::LimitConnecting(int64_t timeout_ns) {
  if (timeout_ns == kNeverNs) return;
  connect_timeout_ns_ = timeout_ns;
  connect_timer_ = site_->strand.PostEventAfter(
      timeout_ns, [self = Ref<GrpcConnection>::Retain(this)] { self->OnConnectingTooLong(); });
}

void GrpcConnection::OnConnectingTooLong() {
  connect_timer_ = 0;
  if (connected_ || closed_) return;
  CloseNow(Unavailable("no answer from {} within {}; check that the worker there runs, and that "
                       "its machine is reachable from here",
                       peer_address_, HumanDuration(connect_timeout_ns_)),
           true);
}

void GrpcConnection::Start(const grpc_op* operations, size_t count, GrpcTag* tag) {
  ++pending_;
  const grpc_call_error error =
      grpc_call_start_batch(call_, operations, count, tag->HandOver(), nullptr);
  // It fails for misuse alone.
  assert(error == GRPC_CALL_OK);
  (void)error;
}

void GrpcConnection::StartConnector(grpc_channel* channel, grpc_call* call) {
  channel_ = channel;
  call_ = call;
  grpc_op begin{};
  begin.op = GRPC_OP_SEND_INITIAL_METADATA;
  Start(&begin, 1, &started_);
  grpc_op headers{};
  headers.op = GRPC_OP_RECV_INITIAL_METADATA;
  headers.data.recv_initial_metadata.recv_initial_metadata = &received_->headers;
  Start(&headers, 1, &headers_);
  grpc_op end{};
  end.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  end.data.recv_status_on_client.trailing_metadata = &received_->trailers;
  end.data.recv_status_on_client.status = &received_->status;
  end.data.recv_status_on_client.status_details = &received_->status_text;
  Start(&end, 1, &ended_);
}

void GrpcConnection::StartAcceptor(grpc_call* call, std::unique_ptr<ControlHandler> handler) {
  call_ = call;
  handler_ = std::move(handler);
  connected_ = true;
  grpc_op begin{};
  begin.op = GRPC_OP_SEND_INITIAL_METADATA;
  Start(&begin, 1, &started_);
  grpc_op end{};
  end.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  end.data.recv_close_on_server.cancelled = &received_->cancelled;
  Start(&end, 1, &ended_);
  if (handler_ == nullptr) {
    CloseNow(Unavailable("the worker that listens there does not take the connection"), false);
    return;
  }
  Enqueue(Frame::kWelcome, {});
  ReadNext();
}

void GrpcConnection::ReadNext() {
  grpc_op read{};
  read.op = GRPC_OP_RECV_MESSAGE;
  read.data.recv_message.recv_message = &received_->message;
  Start(&read, 1, &read_);
}

void GrpcConnection::Enqueue(Frame frame, std::string_view body) {
  std::string bytes;
  bytes.reserve(1 + body.size());
  bytes.push_back(static_cast<char>(frame));
  bytes += body;
  outgoing_bytes_ += bytes.size();
  outgoing_.push_back(std::move(bytes));
  if (outgoing_bytes_ > kMaxOutgoingBytes && !closed_) {
    CloseNow(ResourceExhausted("{} does not read: {} wait for it", peer_address_,
                               HumanBytes(outgoing_bytes_)),
             true);
    Cancel();
    return;
  }
  WriteNext();
}

void GrpcConnection::WriteNext() {
  if (call_ == nullptr || !may_write_ || writing_ || call_ended_) return;
  if (outgoing_.empty()) {
    if (closed_) FinishSending();
    return;
  }
  const std::string& bytes = outgoing_.front();
  grpc_slice slice = grpc_slice_from_copied_buffer(bytes.data(), bytes.size());
  sending_ = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  outgoing_bytes_ -= bytes.size();
  outgoing_.pop_front();
  writing_ = true;
  grpc_op write{};
  write.op = GRPC_OP_SEND_MESSAGE;
  write.data.send_message.send_message = sending_;
  Start(&write, 1, &sent_);
}

void GrpcConnection::FinishSending() {
  if (std::exchange(finishing_, true)) return;
  grpc_op end{};
  if (side_ == Side::kConnector) {
    end.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  } else {
    end.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    end.data.send_status_from_server.status = GRPC_STATUS_OK;
  }
  Start(&end, 1, &finished_);
}

void GrpcConnection::EndHandler(Status reason, bool tell) {
  closed_ = true;
  if (connect_timer_ != 0) site_->strand.CancelTimer(std::exchange(connect_timer_, 0));
  const std::unique_ptr<ControlHandler> handler = std::move(handler_);
  if (tell && handler != nullptr) handler->OnClosed(std::move(reason));
}

void GrpcConnection::CloseNow(Status reason, bool tell) {
  if (closed_) return;
  BeginWork();
  EndHandler(reason, tell);
  site_->CancelProbe(this);
  if (call_ != nullptr && !call_ended_) {
    linger_timer_ = site_->strand.PostEventAfter(
        kLingerNs, [self = Ref<GrpcConnection>::Retain(this)] { self->Cancel(); });
    if (connected_) {
      std::string body(1, static_cast<char>(reason.code()));
      body += reason.message().substr(0, kMaxCloseTextBytes);
      Enqueue(Frame::kClose, body);
    } else {
      Cancel();
    }
  }
  EndWork();
}

void GrpcConnection::Cancel() {
  if (call_ != nullptr && !call_ended_) grpc_call_cancel(call_, nullptr);
}

void GrpcConnection::EndWork() {
  if (--pending_ > 0 || !closed_) return;
  if (call_ != nullptr) grpc_call_unref(std::exchange(call_, nullptr));
  if (channel_ != nullptr) grpc_channel_destroy(std::exchange(channel_, nullptr));
  if (linger_timer_ != 0) site_->strand.CancelTimer(std::exchange(linger_timer_, 0));
  // The network's reference may be the last one.
  site_->Forget(this);
}

void GrpcConnection::OnStarted(bool ok) {
  may_write_ = ok;
  WriteNext();
  EndWork();
}

void GrpcConnection::OnHeaders(bool ok) {
  if (ok && !call_ended_) ReadNext();
  EndWork();
}

void GrpcConnection::OnSent(bool ok) {
  writing_ = false;
  grpc_byte_buffer_destroy(std::exchange(sending_, nullptr));
  if (!ok) {
    outgoing_.clear();  // the end of the call says why
    outgoing_bytes_ = 0;
  } else {
    WriteNext();
  }
  EndWork();
}

void GrpcConnection::OnFinished(bool) { EndWork(); }

void GrpcConnection::OnReceived(bool ok) {
  grpc_byte_buffer* const message = std::exchange(received_->message, nullptr);
  if (message == nullptr || !ok) {
    // The stream's end: of an acceptor's, that the connector has no more to say, which it should
    // have said.
    if (side_ == Side::kAcceptor && !closed_) CloseNow(BrokenStatus(), true);
  } else if (!closed_) {
    grpc_byte_buffer_reader reader;
    if (grpc_byte_buffer_reader_init(&reader, message) != 0) {
      const grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
      HandleFrame(std::string_view(reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(all)),
                                   GRPC_SLICE_LENGTH(all)));
      grpc_slice_unref(all);
      grpc_byte_buffer_reader_destroy(&reader);
    } else {
      CloseNow(DataLoss("{} sent a message that cannot be decompressed", peer_address_), true);
    }
  }
  if (message != nullptr) {
    grpc_byte_buffer_destroy(message);
    if (!call_ended_) ReadNext();
  }
  EndWork();
}

void GrpcConnection::HandleFrame(std::string_view frame) {
  const Frame kind = frame.empty() ? Frame{} : static_cast<Frame>(frame.front());
  const std::string_view body = frame.empty() ? frame : frame.substr(1);
  if (kind == Frame::kMessage && connected_) {
    handler_->OnMessage(body);
  } else if (kind == Frame::kWelcome && !connected_) {
    connected_ = true;
    if (connect_timer_ != 0) site_->strand.CancelTimer(std::exchange(connect_timer_, 0));
    handler_->OnConnected();
  } else if (kind == Frame::kClose && !body.empty() &&
             static_cast<uint8_t>(body.front()) <= GRPC_STATUS_UNAUTHENTICATED) {
    outgoing_.clear();
    outgoing_bytes_ = 0;
    linger_timer_ = site_->strand.PostEventAfter(
        kLingerNs, [self = Ref<GrpcConnection>::Retain(this)] { self->Cancel(); });
    EndHandler(Status(static_cast<StatusCode>(body.front()), std::string(body.substr(1))), true);
    WriteNext();
  } else {
    CloseNow(DataLoss("{} sent a control frame of kind {} and {} bytes, which does not belong "
                      "here; run the same version of Tutti everywhere",
                      peer_address_, frame.empty() ? -1 : static_cast<int>(frame.front()),
                      frame.size()),
             true);
  }
}

Status GrpcConnection::BrokenStatus() const {
  if (side_ == Side::kAcceptor) return Unavailable("the connection from {} broke", peer_address_);
  const std::string text = TextOf(received_->status_text);
  if (received_->status == GRPC_STATUS_UNIMPLEMENTED) {
    return FailedPrecondition("the worker at {} does not take control connections of this version "
                              "of Tutti; run the same version everywhere",
                              peer_address_);
  }
  if (!connected_) {
    return Unavailable("the worker at {} ended the connection before it stood: {}", peer_address_,
                       text);
  }
  if (received_->status == GRPC_STATUS_RESOURCE_EXHAUSTED) {
    return ResourceExhausted("{}: {}", peer_address_, text);
  }
  return Unavailable("the connection to {} broke: {}", peer_address_,
                     text.empty() ? "it ended without a reason" : text);
}

void GrpcConnection::OnEnded(bool) {
  call_ended_ = true;
  if (!closed_) EndHandler(BrokenStatus(), true);
  EndWork();
}

}  // namespace tutti
