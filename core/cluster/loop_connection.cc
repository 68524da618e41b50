#include "core/cluster/loop_connection.h"

#include <string>
#include <utility>

namespace tutti {

// Touched on the strand alone, but for the destructor of the owner, which comes after the strand.
struct LoopConnection::State {
  explicit State(Ref<ControlNetwork> of) : network(std::move(of)) {}

  void Tell(int side, Status reason) {
    const std::unique_ptr<ControlHandler> handler = std::move(handlers[side]);
    if (handler != nullptr) handler->OnClosed(std::move(reason));
  }

  const Ref<ControlNetwork> network;
  bool closed = false;
  std::unique_ptr<ControlHandler> handlers[2];
};

class LoopConnection::End final : public ControlConnection {
 public:
  End(std::shared_ptr<State> state, int side) : state_(std::move(state)), side_(side) {}

  void Send(std::string message) override {
    if (state_->closed) return;
    (void)state_->network->Post([state = state_, to = 1 - side_, message = std::move(message)] {
      if (state->handlers[to] != nullptr) state->handlers[to]->OnMessage(message);
    });
  }

  void Close(Status reason) override {
    if (std::exchange(state_->closed, true)) return;
    (void)state_->network->Post([state = state_, side = side_, reason = std::move(reason)] {
      state->Tell(1 - side, reason);
      state->Tell(side, reason);
    });
  }

  std::string peer_address() const override { return "this process"; }

 private:
  const std::shared_ptr<State> state_;
  const int side_;
};

LoopConnection::LoopConnection(Ref<ControlNetwork> network)
    : state_(std::make_shared<State>(std::move(network))) {}

LoopConnection::~LoopConnection() {
  // The handlers own the ends, which own the state.
  state_->closed = true;
  for (std::unique_ptr<ControlHandler>& handler : state_->handlers) {
    const std::unique_ptr<ControlHandler> dropped = std::move(handler);
  }
}

Ref<ControlConnection> LoopConnection::Connect(std::unique_ptr<ControlHandler> handler,
                                               const Accept& accept) {
  state_->handlers[0] = std::move(handler);
  state_->handlers[1] = accept(MakeRef<End>(state_, 1));
  (void)state_->network->Post([state = state_] {
    if (state->handlers[0] != nullptr) state->handlers[0]->OnConnected();
  });
  return MakeRef<End>(state_, 0);
}

}  // namespace tutti
