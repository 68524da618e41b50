// NcclDevices: all_reduces between GPUs of this process by NCCL, each of them a rank, called from
// one thread for all: what stands behind cross-device ops. (Ranks that are threads or processes of
// their own have communicators: communicator.h.)
//
// The NCCL communicators are made for a set of devices when it is asked for first, and kept until
// another set is asked for, or an error has aborted them.
//
// With TUTTI_NCCL_REGISTER=1, and an NCCL that can, what is packed stands in memory that NCCL has
// allocated and that is registered with each communicator, kept from call to call: NCCL then reads
// and writes it where it lies, without a copy through buffers of its own.
//
// Threads: any; one call at a time is in NCCL, others wait for their turn as long as `wait` lets
// them.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_DEVICES_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_DEVICES_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/gpu_communicator.h"
#include "core/device/gpu_pack.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class NcclDevices {
 public:
  NcclDevices();
  // Aborts them, all at once.
  ~NcclDevices();
  NcclDevices(const NcclDevices&) = delete;
  NcclDevices& operator=(const NcclDevices&) = delete;

  // Why NCCL cannot do it, for tensors[d] of each device, whatever it is asked for: a tensor that
  // lies on the host, no NCCL, two on one device, an operation that it does not have. OK: AllReduce
  // can.
  static Status CheckCan(ReduceOp op, std::span<const Ref<Tensor>> tensors);

  // tensors[i][d] is the i-th of device d; of a tensor all have the same dtype and shape, and the
  // d-th lie on the same GPU. Gives new tensors of the same kind. The tensors go in `num_packs`
  // calls of nearly equal numbers of tensors, 0: each in one of its own; more where dtypes change
  // or there would be more than `bytes_per_pack` bytes (0: no limit). INVALID_ARGUMENT for a
  // negative number; errors as of CheckCan. Returns when it is done.
  Result<std::vector<std::vector<Ref<Tensor>>>> AllReduce(
      ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors, int64_t num_packs,
      int64_t bytes_per_pack, const GpuWait& wait);

 private:
  Status Prepare(std::span<const Ref<Tensor>> tensors, const GpuWait& wait);
  Status ReducePack(ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors,
                    std::span<std::vector<Ref<Tensor>>> results, const GpuWait& wait);
  // Where a pack of rank `d` stands; null: in memory of its own.
  Result<void*> ScratchOf(size_t d, const GpuPack& pack);
  void Abort();

  std::mutex mutex_;  // guards all below
  std::vector<int> ordinals_;
  std::vector<Ref<GpuCommunicator>> ranks_;
  bool registers_ = false;
  std::vector<Ref<GpuRegisteredMemory>> scratch_;  // of the ranks; null where none was needed
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_NCCL_DEVICES_H_
