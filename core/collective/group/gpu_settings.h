// What communicators between GPUs are told of a job: the network interface on which its workers
// reach each other, and a key of its secret's.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_GPU_SETTINGS_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_GPU_SETTINGS_H_

#include <string>
#include <string_view>

#include "core/device/gpu_communicator.h"

namespace tutti {

class Cluster;

GpuCollectivesSettings GpuSettingsOf(const Cluster& cluster);

// The interface of this machine that has the IPv4 or IPv6 address of "host:port", "[host]:port"; ""
// where none has, or the host is a name.
std::string InterfaceOf(std::string_view address);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_GPU_SETTINGS_H_
