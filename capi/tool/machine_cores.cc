#include "capi/tool/machine_cores.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "capi/tool/owned_fd.h"

namespace tutti::tool {
namespace {

int AffinityCores() {
  // A mask of fixed size fails with EINVAL on machines with more CPUs than it holds.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 4) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<size_t>(cpus));
    if (mask == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    const int count = sched_getaffinity(0, bytes, mask) == 0 ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (count > 0) return count;
  }
  return 1;
}

std::optional<double> Number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Cores out of the texts of a quota and its period; nothing for "max", -1 and what is not there.
std::optional<double> Cores(std::string_view quota, std::string_view period) {
  const std::optional<double> quota_us = Number(quota), period_us = Number(period);
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return *quota_us / *period_us;
}

std::optional<double> Version2Quota(const std::string& group) {
  const std::optional<std::string> text = ReadKernelFile("/sys/fs/cgroup" + group + "/cpu.max");
  const size_t space = text ? text->find(' ') : std::string::npos;
  if (space == std::string::npos) return std::nullopt;
  return Cores(text->substr(0, space), text->substr(space + 1));
}

std::optional<double> Version1Quota(const std::string& group) {
  const std::string folder = "/sys/fs/cgroup/cpu" + group;
  return Cores(ReadKernelFile(folder + "/cpu.cfs_quota_us").value_or(""),
               ReadKernelFile(folder + "/cpu.cfs_period_us").value_or(""));
}

// Lowers cores->quota to what the group at `path` and those above it allow.
template <typename Quota>
void LimitUpwards(std::string path, int version, Quota quota_of, MachineCores* cores) {
  while (true) {
    const std::optional<double> quota = quota_of(path);
    if (quota && (!cores->quota || *quota < *cores->quota)) {
      cores->quota = quota;
      cores->quota_version = version;
    }
    if (path.empty()) return;
    const size_t slash = path.find_last_of('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

std::optional<std::string> ReadKernelFile(const std::string& path) {
  const OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::string text;
  char piece[8192];
  while (true) {
    const ssize_t count = read(fd.get(), piece, sizeof(piece));
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    text.append(piece, static_cast<size_t>(count));
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<std::string> ControlGroupPath(std::string_view proc_self_cgroup,
                                            std::string_view controller) {
  while (!proc_self_cgroup.empty()) {
    const size_t end = proc_self_cgroup.find('\n');
    const std::string_view line = proc_self_cgroup.substr(0, end);
    proc_self_cgroup.remove_prefix(end == std::string_view::npos ? proc_self_cgroup.size()
                                                                 : end + 1);
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    // ",cpu,cpuacct," holds ",cpu,"; version 2's list is empty.
    const std::string names = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const std::string wanted = "," + std::string(controller) + ",";
    if (controller.empty() ? names != wanted : names.find(wanted) == std::string::npos) continue;
    const std::string_view path = line.substr(second + 1);
    return path == "/" ? std::string() : std::string(path);
  }
  return std::nullopt;
}

MachineCores ReadMachineCores() {
  MachineCores cores;
  cores.online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cores.affinity = AffinityCores();
  const std::string groups = ReadKernelFile("/proc/self/cgroup").value_or("");
  if (const auto path = ControlGroupPath(groups, "")) {
    LimitUpwards(*path, 2, Version2Quota, &cores);
  }
  if (const auto path = ControlGroupPath(groups, "cpu")) {
    LimitUpwards(*path, 1, Version1Quota, &cores);
  }
  const double allowed = cores.quota ? std::ceil(*cores.quota) : cores.affinity;
  cores.usable = std::max(1, static_cast<int>(std::min<double>(cores.affinity, allowed)));
  return cores;
}

}  // namespace tutti::tool
