// The LinkConnector between workers of a job: TCP connections by way of their listeners.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_PEER_CONNECTOR_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_PEER_CONNECTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/cluster/auth/job_secret.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/collective/stream/link_connector.h"

namespace tutti {

class Environment;

// `label` is like no other group's. What comes for it once the connector is gone is refused.
struct PeerConnectorOptions {
  std::string label;
  JobSecret secret;
  Ref<PeerListener> listener;
  int64_t rank = 0;
  std::vector<std::pair<int64_t, std::string>> peers;  // workers and their addresses, by rank
};
std::unique_ptr<LinkConnector> MakePeerConnector(Ref<Environment> environment,
                                                 PeerConnectorOptions options);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_PEER_CONNECTOR_H_
