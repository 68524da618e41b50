// How two ranks of one machine come to a ring between them (ring_link.h): the lower one makes it
// and passes it over a Unix socket, which then is the ring's.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_RING_PASSING_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_RING_PASSING_H_

#include <memory>

#include "core/base/call_options.h"
#include "core/base/file_descriptor.h"
#include "core/base/status.h"
#include "core/collective/stream/ring_link.h"

namespace tutti {

class Environment;

Result<std::unique_ptr<RingLink>> OfferRing(Environment& environment, FileDescriptor socket,
                                            const CallOptions& call);
// DATA_LOSS where what comes is no ring.
Result<std::unique_ptr<RingLink>> TakeRing(Environment& environment, FileDescriptor socket,
                                           const CallOptions& call);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_RING_PASSING_H_
