// One call of tensors on GPUs, mapped to NCCL or composed of its calls. For GpuRanks.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_CALL_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_CALL_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/gpu_ranks.h"
#include "core/device/gpu_communicator.h"

namespace tutti {

struct NcclRanks {
  GpuCommunicator& communicator;
  Ref<GpuStream> stream;  // which no other rank has
  int64_t rank = 0;
  int64_t size = 1;
  int64_t peer = -1;  // of a transfer
};

// Returns when what NCCL does is done; copies of it go on in the order of the tensors' streams.
Status RunByNccl(const NcclRanks& ranks, CollectiveCall* call, const GpuRanks::Agreement& agreed,
                 const GpuWait& wait);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_CALL_H_
