#include "core/cluster/control/loop_connection.h"

#include <string>
#include <utility>

#include "core/base/error.h"

namespace tutti {

// Touched on the strand alone, but for the destructor of the owner, which comes after the strand.
struct LoopConnection::State {
  explicit State(Ref<ControlNetwork> of) : network(std::move(of)) {}

  void Tell(int side, Status reason) {
    const std::unique_ptr<ControlHandler> handler = std::move(handlers[side]);
    if (handler != nullptr) handler->OnClosed(std::move(reason));
  }

  // The handlers own the ends, which own the state: this unties them.
  void Drop() {
    closed = true;
    for (std::unique_ptr<ControlHandler>& handler : handlers) {
      const std::unique_ptr<ControlHandler> dropped = std::move(handler);
    }
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

LoopConnection::LoopConnection(Ref<ControlNetwork> network) : network_(std::move(network)) {}

LoopConnection::~LoopConnection() {
  for (const std::shared_ptr<State>& state : states_) state->Drop();
}

Ref<ControlConnection> LoopConnection::Connect(std::unique_ptr<ControlHandler> handler,
                                               const Accept& accept) {
  const auto state = std::make_shared<State>(network_);
  states_.push_back(state);
  state->handlers[0] = std::move(handler);
  state->handlers[1] = accept(MakeRef<End>(state, 1));
  (void)network_->Post([state] {
    if (state->handlers[1] == nullptr && !state->closed) {
      state->closed = true;
      state->Tell(0, Unavailable("this process takes no more connections"));
    }
    if (state->handlers[0] != nullptr) state->handlers[0]->OnConnected();
  });
  return MakeRef<End>(state, 0);
}

}  // namespace tutti
