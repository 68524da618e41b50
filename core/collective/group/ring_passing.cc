#include "core/collective/group/ring_passing.h"

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/collective/call/wire_bytes.h"

namespace tutti {

Result<std::unique_ptr<RingLink>> OfferRing(Environment& environment, FileDescriptor socket,
                                            const CallOptions& call) {
  const uint64_t token = environment.random().Next();
  TUTTI_ASSIGN_OR_RETURN(const FileDescriptor memory,
                         RingLink::CreateSegment(RingLink::kDefaultCapacity, token));
  std::string text;
  WireWriter(&text).Put(token);
  TUTTI_RETURN_IF_ERROR(SendDescriptor(environment, socket, memory, text, call));
  return RingLink::Attach(std::move(socket), memory, token, /*first=*/true);
}

Result<std::unique_ptr<RingLink>> TakeRing(Environment& environment, FileDescriptor socket,
                                           const CallOptions& call) {
  std::string text;
  TUTTI_ASSIGN_OR_RETURN(const FileDescriptor memory,
                         ReceiveDescriptor(environment, socket, &text, call));
  WireReader reader(text);
  const auto token = reader.Take<uint64_t>();
  if (!reader.complete()) return DataLoss("a token of {} bytes", text.size());
  return RingLink::Attach(std::move(socket), memory, token, /*first=*/false);
}

}  // namespace tutti
