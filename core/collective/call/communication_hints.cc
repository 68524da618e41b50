#include "core/collective/call/communication_hints.h"

#include "core/base/error.h"

namespace tutti {

const char* CommunicationImplementationName(CommunicationImplementation asked) {
  switch (asked) {
    case CommunicationImplementation::kAuto: return "AUTO";
    case CommunicationImplementation::kRing: return "RING";
    case CommunicationImplementation::kNccl: return "NCCL";
    case CommunicationImplementation::kSharedMemory: return "SHARED_MEMORY";
    case CommunicationImplementation::kTcp: return "TCP";
  }
  return "unknown";
}

Status CheckHints(const CommunicationHints& hints, std::string_view what) {
  if (hints.bytes_per_pack < 0) {
    return InvalidArgument("{}: bytes_per_pack is {}; pass the bytes of a pack, or 0", what,
                           hints.bytes_per_pack);
  }
  if (hints.implementation < CommunicationImplementation::kAuto ||
      hints.implementation > kLastCommunicationImplementation) {
    return InvalidArgument("{}: {} is no implementation of communication", what,
                           static_cast<int32_t>(hints.implementation));
  }
  return OkStatus();
}

}  // namespace tutti
