// CommunicationOptions: what a user may say about the collectives of a strategy.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATION_OPTIONS_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATION_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "core/collective/communicator/collective_transport.h"

namespace tutti {

enum class CommunicationImplementation : int32_t {
  kAuto = 0,          // as the setting transport says
  kRing = 1,          // the library's own collectives on the host's memory: kAuto
  kNccl = 2,          // GPU to GPU; kAuto takes its place, with a warning
  kSharedMemory = 3,  // these two go before the setting transport
  kTcp = 4,
};

struct CommunicationOptions {
  CommunicationImplementation implementation = CommunicationImplementation::kAuto;
  // Of the packs in which many tensors are reduced (packing.h), also within one process; 0: as
  // large as it goes. A fold in the order of all replicas (strategy/replica_order_fold.h) has
  // slices of its own.
  int64_t bytes_per_pack = 0;

  // What the implementation says about the transport; nothing: as the team has it.
  std::optional<CollectiveTransport> transport() const {
    switch (implementation) {
      case CommunicationImplementation::kSharedMemory:
        return CollectiveTransport::kSharedMemory;
      case CommunicationImplementation::kTcp:
        return CollectiveTransport::kTcp;
      default:
        return std::nullopt;
    }
  }
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATION_OPTIONS_H_
