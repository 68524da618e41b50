// GrpcConnection: one end of a control connection over a gRPC stream. GrpcControlNetwork makes
// them, on both sides.
//
// Every gRPC message is a frame: a byte that says what it is, and the rest:
//   'W'                        the acceptor's first: the connection stands
//   'M' message                what Send was given
//   'C' code, text             what Close was given; the last one of its side
// A side that has closed ends its half of the stream; what does not end by itself within a second
// is cancelled.

#ifndef TUTTI_CORE_CLUSTER_CONTROL_GRPC_CONNECTION_H_
#define TUTTI_CORE_CLUSTER_CONTROL_GRPC_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/control_channel.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/control/control_strand.h"

struct grpc_byte_buffer;
struct grpc_call;
struct grpc_channel;
struct grpc_op;

namespace tutti {

class GrpcConnection;

// What is given to gRPC and comes back when an operation is done. Releasing and acquiring shows the
// order of the threads to those who cannot look into gRPC (ThreadSanitizer).
class GrpcTag {
 public:
  virtual ~GrpcTag() = default;
  // On the strand.
  virtual void OnDone(bool ok) = 0;
  void* HandOver() noexcept {
    handed_over_.store(true, std::memory_order_release);
    return this;
  }
  static GrpcTag* TakeBack(void* tag) noexcept {
    auto* const self = static_cast<GrpcTag*>(tag);
    [[maybe_unused]] const bool seen = self->handed_over_.load(std::memory_order_acquire);
    return self;
  }

 private:
  std::atomic<bool> handed_over_{false};
};

template <typename T>
class MemberTag final : public GrpcTag {
 public:
  MemberTag(T* owner, void (T::*done)(bool)) : owner_(owner), done_(done) {}
  void OnDone(bool ok) override { (owner_->*done_)(ok); }

 private:
  T* const owner_;
  void (T::*const done_)(bool);
};

// The network, as its connections see it.
class GrpcSite {
 public:
  GrpcSite(Clock& clock, Log* log) : strand(clock, log) {}
  virtual ~GrpcSite() = default;
  // On the strand. The connection has ended: the network gives up its reference.
  virtual void Forget(GrpcConnection* connection) = 0;
  // Ends the search for the peer that goes on for a connection, soon.
  virtual void CancelProbe(GrpcConnection* connection) = 0;

  ControlStrand strand;
};

class GrpcConnection final : public ControlConnection {
 public:
  enum class Side { kConnector, kAcceptor };
  GrpcConnection(std::shared_ptr<GrpcSite> site, Side side, std::string peer_address,
                 std::unique_ptr<ControlHandler> handler);

  void Send(std::string message) override;
  void Close(Status reason) override;
  std::string peer_address() const override { return peer_address_; }

  // All of the following on the strand.

  // Something is done for the connection that is no operation of its call: it does not end before.
  void BeginWork() { ++pending_; }
  void EndWork();
  bool closed() const { return closed_; }
  // Ends the attempt to connect when it has not succeeded after so long.
  void LimitConnecting(int64_t timeout_ns);
  // Takes both over.
  void StartConnector(grpc_channel* channel, grpc_call* call);
  void StartAcceptor(grpc_call* call, std::unique_ptr<ControlHandler> handler);
  // Closes; `tell` is false where the handler is not to be called any more.
  void CloseNow(Status reason, bool tell);
  // Ends what goes on without waiting for the peer.
  void Cancel();

 private:
  enum class Frame : char { kWelcome = 'W', kMessage = 'M', kClose = 'C' };
  // Where gRPC puts what it has received.
  struct Received;

  ~GrpcConnection() override;

  void Start(const grpc_op* operations, size_t count, GrpcTag* tag);
  void ReadNext();
  void WriteNext();
  void Enqueue(Frame frame, std::string_view body);
  void FinishSending();
  void EndHandler(Status reason, bool tell);
  void OnConnectingTooLong();

  void OnStarted(bool ok);
  void OnHeaders(bool ok);
  void OnReceived(bool ok);
  void OnSent(bool ok);
  void OnFinished(bool ok);
  void OnEnded(bool ok);

  void HandleFrame(std::string_view frame);
  Status BrokenStatus() const;

  const std::shared_ptr<GrpcSite> site_;
  const Side side_;
  const std::string peer_address_;

  // All below on the strand.
  std::unique_ptr<ControlHandler> handler_;
  grpc_channel* channel_ = nullptr;
  grpc_call* call_ = nullptr;
  const std::unique_ptr<Received> received_;
  int pending_ = 0;         // operations and work that have not ended
  bool connected_ = false;  // both sides know that it stands
  bool closed_ = false;     // the handler has been told
  bool may_write_ = false;  // the stream's beginning has been sent
  bool writing_ = false;
  bool finishing_ = false;  // this side has ended its half
  bool call_ended_ = false;
  uint64_t connect_timer_ = 0;
  uint64_t linger_timer_ = 0;
  int64_t connect_timeout_ns_ = 0;
  std::deque<std::string> outgoing_;
  size_t outgoing_bytes_ = 0;
  grpc_byte_buffer* sending_ = nullptr;

  MemberTag<GrpcConnection> started_{this, &GrpcConnection::OnStarted};
  MemberTag<GrpcConnection> headers_{this, &GrpcConnection::OnHeaders};
  MemberTag<GrpcConnection> read_{this, &GrpcConnection::OnReceived};
  MemberTag<GrpcConnection> sent_{this, &GrpcConnection::OnSent};
  MemberTag<GrpcConnection> finished_{this, &GrpcConnection::OnFinished};
  MemberTag<GrpcConnection> ended_{this, &GrpcConnection::OnEnded};
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_CONTROL_GRPC_CONNECTION_H_
