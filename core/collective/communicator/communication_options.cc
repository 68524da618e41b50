#include "core/collective/communicator/communication_options.h"

#include "core/base/text.h"

namespace tutti {

std::string OtherwiseThanAsked(std::string_view who, CommunicationImplementation asked,
                               std::string_view why) {
  const char* const name = CommunicationImplementationName(asked);
  switch (asked) {
    case CommunicationImplementation::kNccl:
      return Format(
          "{} asks for the communication NCCL, which is not used: {}; it goes by the library's own "
          "collectives instead, to the same results. Ask for AUTO to say that this is meant",
          who, why.empty() ? "it reduces between GPUs, and none is used here" : why);
    case CommunicationImplementation::kRing:
      return Format("{} asks for the communication RING: {}; it goes as AUTO, to the same results",
                    who, why);
    default:
      return Format(
          "{} asks for the communication {} in one call: how ranks reach each other is chosen when "
          "the strategy or the communicator is made; it goes as AUTO, to the same results",
          who, name);
  }
}

}  // namespace tutti
