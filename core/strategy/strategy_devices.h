// Which devices the replicas of a strategy are on, by what a program names.

#ifndef TUTTI_CORE_STRATEGY_STRATEGY_DEVICES_H_
#define TUTTI_CORE_STRATEGY_STRATEGY_DEVICES_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/device.h"

namespace tutti {

struct MultiWorkerOptions;

// The devices of a mirrored strategy: those named, else all GPUs, else CPU:0. INVALID_ARGUMENT that
// begins with `type_name`, for one that is not there and for one that comes twice.
Result<std::vector<Ref<Device>>> FindDevices(const DeviceSet& devices,
                                             std::span<const std::string> names,
                                             const char* type_name);
// Of one worker: those named, or as many as are asked for, GPUs where there are enough.
Result<std::vector<Ref<Device>>> FindDevices(const DeviceSet& devices,
                                             const MultiWorkerOptions& options,
                                             const char* type_name);

size_t CountGpus(std::span<const Ref<Device>> devices);
// One warning where GPUs and CPUs are mixed, no error: a machine's CPU may be there to help.
void TellOfMixedDevices(Log& log, std::span<const Ref<Device>> devices, const char* type_name);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_STRATEGY_DEVICES_H_
