#include "core/collective/communicator/communication_options.h"

#include "core/base/text.h"

namespace tutti {

std::string OtherwiseThanAsked(std::string_view who, CommunicationImplementation asked,
                               std::string_view why_no_ring) {
  const char* const name = CommunicationImplementationName(asked);
  switch (asked) {
    case CommunicationImplementation::kNccl:
      return Format(
          "{} asks for the communication NCCL, which this build has not; it reduces by the "
          "library's own collectives instead, to the same results. Ask for AUTO to say that this "
          "is meant",
          who);
    case CommunicationImplementation::kRing:
      return Format("{} asks for the communication RING: {}; it goes as AUTO, to the same results",
                    who, why_no_ring);
    default:
      return Format(
          "{} asks for the communication {} in one call: how ranks reach each other is chosen when "
          "the strategy or the communicator is made; it goes as AUTO, to the same results",
          who, name);
  }
}

}  // namespace tutti
