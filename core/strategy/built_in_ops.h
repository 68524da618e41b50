// The cross-device ops that the library brings. All of them fold in the order of the replicas, so
// that their results have the same bits; they differ in how the tensors travel, which memory of one
// machine's CPUs makes little of.

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
// each; 0: none is packed. INVALID_ARGUMENT for a negative number.
Result<Ref<CrossDeviceOps>> MakeHierarchicalCopyAllReduce(int64_t num_packs);

// "NcclAllReduce": NVIDIA's library, of which this build has no plugin: the first use says so in
// one warning, and the folds are those of AllReduce. num_packs: as above.
Result<Ref<CrossDeviceOps>> MakeNcclAllReduce(int64_t num_packs);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_BUILT_IN_OPS_H_
