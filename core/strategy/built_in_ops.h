// The cross-device ops that the library brings. On CPUs all of them fold in the order of the
// replicas, so that their results have the same bits; they differ in how the tensors travel, which
// memory of one machine's CPUs makes little of. So they do on GPUs, but for
// HierarchicalCopyAllReduce with more than two (device/gpu_tree.h says which bits those are) and
// for NCCL.

#ifndef TUTTI_CORE_STRATEGY_BUILT_IN_OPS_H_
#define TUTTI_CORE_STRATEGY_BUILT_IN_OPS_H_

#include <cstdint>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "core/function/function.h"
#include "core/strategy/cross_device_ops.h"

namespace tutti {

// "AllReduce": what a strategy does that was given nothing: every element is read from all replicas
// and written once.
Ref<CrossDeviceOps> MakeAllReduce();

// "ReductionToOneDevice": all to one device, and from there to where they go. `device_name` "": the
// first destination; NOT_FOUND and INVALID_ARGUMENT for one that is not there. `accumulation`
// (null: addition) makes one tensor of a tuple of all replicas' tensors, of their dtype and shape;
// MEAN divides what it gives by their number, and other operations than these two do without it.
Result<Ref<CrossDeviceOps>> MakeReductionToOneDevice(const DeviceSet& devices,
                                                     std::string_view device_name,
                                                     Ref<Function> accumulation);

// "HierarchicalCopyAllReduce": the tensors of a batch are put into `num_packs` packs, one fold
// each, and more where a pack would have more than the bytes_per_pack of the call; 0: none is
// packed. Between GPUs packs go along a tree of the links between them and back
// (device/gpu_tree.h); what is no all_reduce of one tensor of each GPU goes to the first device
// that it is wanted on. INVALID_ARGUMENT for a negative number.
Result<Ref<CrossDeviceOps>> MakeHierarchicalCopyAllReduce(int64_t num_packs);

// "NcclAllReduce": NVIDIA's library, between GPUs of which each has one tensor. What it cannot
// serve goes as by AllReduce, and the first such use says why in one warning. num_packs: as above.
Result<Ref<CrossDeviceOps>> MakeNcclAllReduce(int64_t num_packs);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_BUILT_IN_OPS_H_
