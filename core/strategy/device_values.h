// Tensors of replicas wherever they lie: brought to a device, folded over several devices, written
// into copies of a variable. All of it is CPUs' work where everything lies on CPUs.
//
// AllReduceOnDevices is where values on GPUs become one: whoever has a faster way between devices
// puts it there. It folds by the plugin's kernels in the order of the replicas, so that the bits
// are those of a fold on the CPU. Small tensors are copied to each device, which folds all of them.
// Of large ones each device folds a part, of which the others get a copy:
//
//   GPU:0 has a0 a1, GPU:1 has b0 b1:  GPU:0 makes a0 + b0, GPU:1 a1 + b1, and they swap.
//
// What has no kernel (a device without machine code, a tensor on the host among those on GPUs) is
// folded on the host. Memory is there for all of a result before any of it is handed out.
//
// Threads: any; nobody guards the tensors.

#ifndef TUTTI_CORE_STRATEGY_DEVICE_VALUES_H_
#define TUTTI_CORE_STRATEGY_DEVICE_VALUES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {

class NcclFolds;

// Large enough that a part for each device is worth the second copy.
inline constexpr int64_t kDevicePartBytes = 256 * 1024;

inline bool IsOnGpu(const Tensor& tensor) { return !tensor.device().is_cpu(); }
bool AnyOnGpu(std::span<const Ref<Tensor>> tensors);
bool AnyOnGpu(const Value& value);  // its leaves, not what is inside distributed ones

// The tensor itself where it lies on `device` (null, and every CPU: the host), else a contiguous
// copy there. Byte strings stay on the host.
Result<Ref<Tensor>> OnDevice(const Tensor& tensor, const Device* device, const GpuWait& wait = {});
Result<std::vector<Ref<Tensor>>> AllOnHost(std::span<const Ref<Tensor>> tensors,
                                           const GpuWait& wait = {});
// Value by leaf: tensors of GPUs copied to the host; and each tensor copied to `device` where that
// of `like`, a value of the same structure, lies on a GPU.
Result<Ref<Value>> LeavesOnHost(const Value& value, const GpuWait& wait = {});
Result<Ref<Value>> LeavesWhere(const Value& value, const Value& like, const Device& device,
                               const GpuWait& wait = {});

// INVALID_ARGUMENT naming `what` for a tensor that lies on a GPU other than the replica's device.
Status CheckReplicaPlace(const Tensor& tensor, const Device& device, int64_t replica,
                         std::string_view what);

// The tensors (at least one, of one dtype and shape, for which `op` is defined) folded in their
// order, for each of `devices` (null: the host). Devices in the same memory get the same tensor; of
// one tensor it is that itself where it lies there. By `nccl` where that can do it, which may be
// told to fold floats in another order.
Result<std::vector<Ref<Tensor>>> AllReduceOnDevices(ReduceOp op,
                                                    std::span<const Ref<Tensor>> tensors,
                                                    std::span<const Device* const> devices,
                                                    const GpuWait& wait = {},
                                                    NcclFolds* nccl = nullptr);

// One write into a tensor, in two halves: what can fail for lack of memory comes before the first
// of several tensors is changed.
enum class InPlace { kAssign, kAdd, kSub };
class PreparedWrite {
 public:
  // Of `operand`, of the dtype and shape of `storage`, which lies on `device`.
  static Result<PreparedWrite> Make(InPlace write, const Tensor& storage, const Tensor& operand,
                                    const Device* device, const GpuWait& wait = {});
  Status Commit(Tensor* storage) const;

 private:
  InPlace write_ = InPlace::kAssign;
  Ref<Tensor> operand_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_DEVICE_VALUES_H_
