// How many cores this process may really use: what decides whether waiting ranks may spin.

#ifndef TUTTI_CORE_BASE_USABLE_CORES_H_
#define TUTTI_CORE_BASE_USABLE_CORES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

// The process's affinity, cut down by the CPU quota of its control group (versions 1 and 2, and the
// groups above it). At least 1. Reads a few small files.
size_t UsableCores();

// The cores that cgroup v2's cpu.max allows, rounded up: "150000 100000" is 2. Nothing for
// "max ..." and for what is no cpu.max.
std::optional<size_t> CoresOfCpuMax(std::string_view text);
// The same of version 1's cpu.cfs_quota_us (-1: no limit) and cpu.cfs_period_us.
std::optional<size_t> CoresOfCfsQuota(std::string_view quota_us, std::string_view period_us);

// The path of the control group in /proc/self/cgroup: of the unified hierarchy ("0::/path") when
// `controller` is empty, else of the line that names the controller ("4:cpu,cpuacct:/path").
std::optional<std::string> ControlGroupPath(std::string_view proc_self_cgroup,
                                            std::string_view controller);

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_USABLE_CORES_H_
