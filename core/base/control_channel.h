// The control channel: small messages between the workers of a job, over which the protocol state
// machines (membership, rendezvous, failure reports) speak. Never tensor data.
//
// A ControlNetwork is one worker's access to it: it listens, connects, keeps timers, and calls all
// handlers and tasks one at a time, in order, with no lock held. So a state machine that touches
// its state only from handlers and tasks of one network needs no lock, and runs the same over gRPC
// (cluster/control/grpc_control_network.h) and in virtual time (base/simulated_control_network.h).
//
// A connection delivers messages whole and in order until it closes; messages in flight may be lost
// then. Either side may close it with a status, which the other side is told where that is
// possible.

#ifndef TUTTI_CORE_BASE_CONTROL_CHANNEL_H_
#define TUTTI_CORE_BASE_CONTROL_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/task.h"

namespace tutti {

// Longer messages are refused before anything is allocated for them.
inline constexpr size_t kMaxControlMessageBytes = size_t{4} << 20;

// One end of a connection. Threads: any; nothing blocks.
class ControlConnection : public RefCounted {
 public:
  // In order; dropped once the connection is closed. A message that is too long closes it with
  // RESOURCE_EXHAUSTED.
  virtual void Send(std::string message) = 0;
  // After what was sent. The handler's OnClosed follows, with `reason`; so does the other side's,
  // with the same code and message.
  virtual void Close(Status reason) = 0;
  // "127.0.0.1:40112", for messages.
  virtual std::string peer_address() const = 0;
};

// Told what happens to a connection. Called on the network's strand.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  // A connection that was made by Connect stands. Not called on accepted ones.
  virtual void OnConnected() {}
  virtual void OnMessage(std::string_view message) = 0;
  // Once, and the last call: the handler is destroyed afterwards. `reason` is why: UNAVAILABLE when
  // nobody answers or the connection broke, UNAUTHENTICATED when the sides have different job
  // secrets, else what Close was given (an OK one: a plain end).
  virtual void OnClosed(Status reason) = 0;
};

// Gives each accepted connection its handler; called on the strand. Null refuses it.
class ControlAcceptor {
 public:
  virtual ~ControlAcceptor() = default;
  virtual std::unique_ptr<ControlHandler> OnAccept(Ref<ControlConnection> connection) = 0;
};

class ControlNetwork : public RefCounted {
 public:
  // Accepts connections at "host:port" from now until Shutdown. Port 0: any, which the result
  // tells. UNAVAILABLE when the port is in use or the address is not this machine's.
  virtual Result<std::string> Listen(const std::string& address,
                                     std::unique_ptr<ControlAcceptor> acceptor) = 0;
  // Tries once to connect; OnConnected or OnClosed tells how it went, within `timeout_ns`. The
  // connection can be used at once: what is sent waits.
  virtual Ref<ControlConnection> Connect(const std::string& address, int64_t timeout_ns,
                                         std::unique_ptr<ControlHandler> handler) = 0;

  // Runs a task on the strand. False after Shutdown; the task is still in `task` then.
  virtual bool Post(Task&& task) = 0;
  // The same after `delay_ns`. 0 after Shutdown.
  virtual uint64_t PostAfter(int64_t delay_ns, Task&& task) = 0;
  // True when the task had not started; it will not run.
  virtual bool CancelTimer(uint64_t timer) = 0;

  // Closes every connection after what was sent has left (within the options' limits), with
  // `reason`; calls no handler afterwards, joins its threads. Not from the strand. Can be called
  // again after it failed.
  virtual Status Shutdown(Status reason, const CallOptions& options) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_CONTROL_CHANNEL_H_
