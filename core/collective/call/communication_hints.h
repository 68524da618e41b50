// CommunicationHints: what one collective call says about how it is made; CollectiveOptions: the
// options of a call with them, and with a stream. What takes CallOptions takes no notice of any.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_COMMUNICATION_HINTS_H_
#define TUTTI_CORE_COLLECTIVE_CALL_COMMUNICATION_HINTS_H_

#include <cstdint>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/gpu_stream.h"

namespace tutti {

enum class CommunicationImplementation : int32_t {
  kAuto = 0,          // nothing is asked for: as the strategy says, or the table of algorithms
  kRing = 1,          // from neighbour to neighbour where the ranks are linked by byte streams
  kNccl = 2,          // GPU to GPU; kAuto takes its place, with a warning
  kSharedMemory = 3,  // these two are the transport's, which is chosen before any call
  kTcp = 4,
};
inline constexpr CommunicationImplementation kLastCommunicationImplementation =
    CommunicationImplementation::kTcp;

// "AUTO" and so on; static.
const char* CommunicationImplementationName(CommunicationImplementation asked);

// The same on all ranks of a call, which compare them. Results do not depend on them.
struct CommunicationHints {
  CommunicationImplementation implementation = CommunicationImplementation::kAuto;
  // Of the packs in which many tensors are reduced (collective/communicator/packing.h); 0: nothing
  // is asked for.
  int64_t bytes_per_pack = 0;

  bool any() const {
    return bytes_per_pack != 0 || implementation != CommunicationImplementation::kAuto;
  }
  // These, and those of `others` where these ask for nothing.
  CommunicationHints Or(const CommunicationHints& others) const {
    CommunicationHints both = *this;
    if (bytes_per_pack == 0) both.bytes_per_pack = others.bytes_per_pack;
    if (implementation == CommunicationImplementation::kAuto) {
      both.implementation = others.implementation;
    }
    return both;
  }
  friend bool operator==(const CommunicationHints& a, const CommunicationHints& b) = default;
};

// INVALID_ARGUMENT for a negative bytes_per_pack and for no implementation; `what` is the call.
Status CheckHints(const CommunicationHints& hints, std::string_view what);

struct CollectiveOptions : CallOptions {
  CollectiveOptions() = default;
  // Those of a call that says nothing.
  CollectiveOptions(const CallOptions& call) : CallOptions(call) {}  // NOLINT: meant
  CollectiveOptions(const CallOptions& call, const CommunicationHints& said)
      : CallOptions(call), hints(said) {}

  CommunicationHints hints;
  // One of the caller's, of the GPU that the tensors of a communicator's call lie on: the call
  // comes behind what was given to it before the call, and what is given to it after the call, or
  // when the call's future is done, comes behind the results. Null: the tensors' own streams say
  // all. INVALID_ARGUMENT for one of another device, and for tensors of the host.
  Ref<GpuStream> stream;
  // Where the stream was when an asynchronous call was issued; of the communicator.
  Ref<GpuEvent> stream_point;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_COMMUNICATION_HINTS_H_
