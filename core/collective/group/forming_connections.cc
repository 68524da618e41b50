#include "core/collective/group/forming_connections.h"

#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/cluster/sockets/peer_listener.h"

namespace tutti {

FormingConnections::FormingConnections(Ref<Environment> environment, JobSecret secret,
                                       PeerListener* listener, int64_t worker)
    : environment_(std::move(environment)),
      secret_(std::move(secret)),
      listener_(listener),
      worker_(worker) {}

std::string FormingConnections::Purpose(std::string_view stage) const {
  return Format("{} {}", id_, stage);
}

FormingConnections::Stage::Stage(const FormingConnections& connections, std::string_view name)
    : listener_(connections.listener_), purpose_(connections.Purpose(name)) {}

FormingConnections::Stage::~Stage() { listener_->Refuse(purpose_); }

Result<FileDescriptor> FormingConnections::Connect(int64_t worker, const std::string& address,
                                                   std::string_view stage,
                                                   const CallOptions& call) const {
  return ConnectPeer(*environment_, secret_, address, {Purpose(stage), worker_, worker}, call);
}

Result<FileDescriptor> FormingConnections::Accept(int64_t worker, std::string_view stage,
                                                  const CallOptions& call) const {
  return listener_->Accept(Purpose(stage), worker, call);
}

}  // namespace tutti
