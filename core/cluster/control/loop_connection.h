// A connection within one process: how worker 0, as a member, speaks to the coordinator that it is
// itself. Messages become tasks of the network's strand.

#ifndef TUTTI_CORE_CLUSTER_CONTROL_LOOP_CONNECTION_H_
#define TUTTI_CORE_CLUSTER_CONTROL_LOOP_CONNECTION_H_

#include <functional>
#include <memory>
#include <vector>

#include "core/base/control_channel.h"
#include "core/base/ref.h"

namespace tutti {

class LoopConnection {
 public:
  // Gives the far side its handler, as ControlAcceptor does.
  using Accept = std::function<std::unique_ptr<ControlHandler>(Ref<ControlConnection>)>;

  explicit LoopConnection(Ref<ControlNetwork> network);
  // Drops the handlers without calling them.
  ~LoopConnection();
  LoopConnection(const LoopConnection&) = delete;
  LoopConnection& operator=(const LoopConnection&) = delete;

  // The near end of a new connection. On the strand.
  Ref<ControlConnection> Connect(std::unique_ptr<ControlHandler> handler, const Accept& accept);

 private:
  class End;
  struct State;
  const Ref<ControlNetwork> network_;
  std::vector<std::shared_ptr<State>> states_;  // of all connections so far
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_CONTROL_LOOP_CONNECTION_H_
