// CommunicationOptions: what a user may say about the collectives of a strategy. Of one call it is
// said by its CollectiveOptions::hints, which go before these.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATION_OPTIONS_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATION_OPTIONS_H_

#include <optional>
#include <string>
#include <string_view>

#include "core/collective/call/communication_hints.h"
#include "core/collective/communicator/collective_transport.h"

namespace tutti {

// `bytes_per_pack` also within one process; 0: as large as it goes. A fold in the order of all
// replicas (strategy/replica_order_fold.h) has slices of its own.
struct CommunicationOptions : CommunicationHints {
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
  // What of it is said again by every call: the transport is chosen, and of what is missing the
  // program was told when the strategy was made.
  CommunicationHints of_calls() const {
    CommunicationHints hints = *this;
    if (implementation != CommunicationImplementation::kRing) {
      hints.implementation = CommunicationImplementation::kAuto;
    }
    return hints;
  }
};

// The warning that `asked`, which is not kAuto, is not what is done: `who` asks for it, "worker 1",
// and `why` says of kRing and kNccl why it is not (kNccl: "" where all is on the host). Hints are
// no errors: a program that asks for NCCL should run where there is none, on a laptop, in a test.
std::string OtherwiseThanAsked(std::string_view who, CommunicationImplementation asked,
                               std::string_view why);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COMMUNICATION_OPTIONS_H_
