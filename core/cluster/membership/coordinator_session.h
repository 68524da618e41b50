// Coordinator::Session: a worker's connection as the coordinator sees it. Private to the files of
// the coordinator.

#ifndef TUTTI_CORE_CLUSTER_MEMBERSHIP_COORDINATOR_SESSION_H_
#define TUTTI_CORE_CLUSTER_MEMBERSHIP_COORDINATOR_SESSION_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "core/cluster/membership/coordinator.h"

namespace tutti {

// One connection. The network owns it; a seat, or the set of strangers, points to it while it is
// open.
class Coordinator::Session final : public ControlHandler {
 public:
  Session(Coordinator& coordinator, Ref<ControlConnection> connection)
      : connection(std::move(connection)), coordinator_(coordinator) {}
  void OnMessage(std::string_view message) override {
    if (!ending) coordinator_.OnMessage(*this, message);
  }
  void OnClosed(Status reason) override { coordinator_.OnClosed(*this, reason); }

  // Says nothing more and hears nothing more.
  void End(const Status& reason) {
    ending = true;
    connection->Close(reason);
  }

  const Ref<ControlConnection> connection;
  int64_t worker = -1;  // of the seat; -1: a stranger, or not seated any more
  bool ending = false;
  Silence silence;      // while a stranger

 private:
  Coordinator& coordinator_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_MEMBERSHIP_COORDINATOR_SESSION_H_
