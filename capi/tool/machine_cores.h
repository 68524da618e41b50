// The cores of this machine, and how many of them this process may use: the number that decides how
// many threads a worker gets. The affinity mask says which cores; a control group may allow fewer
// in time (cpu.max of version 2; cpu.cfs_quota_us over cpu.cfs_period_us of version 1), and so may
// every group above it.

#ifndef TUTTI_CAPI_TOOL_MACHINE_CORES_H_
#define TUTTI_CAPI_TOOL_MACHINE_CORES_H_

#include <optional>
#include <string>
#include <string_view>

namespace tutti::tool {

struct MachineCores {
  int online = 1;
  int affinity = 1;
  std::optional<double> quota;  // cores that the strictest control group allows; nothing: no limit
  int quota_version = 0;        // of the control group that sets `quota`: 1 or 2
  int usable = 1;               // at least 1
};

MachineCores ReadMachineCores();

// The path of this process's control group for `controller` out of /proc/self/cgroup; "" is version
// 2's. Nothing when there is none; the root is "".
std::optional<std::string> ControlGroupPath(std::string_view proc_self_cgroup,
                                            std::string_view controller);

// A small file of the kernel's without white space at the end; nothing when it cannot be read.
std::optional<std::string> ReadKernelFile(const std::string& path);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_MACHINE_CORES_H_
