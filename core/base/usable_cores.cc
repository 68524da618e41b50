#include "core/base/usable_cores.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/base/text.h"

namespace tutti {
namespace {

// The first few KiB of a file of the kernel's; empty when it cannot be read.
std::string ReadSmallFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text(8192, '\0');
  const ssize_t count = read(fd, text.data(), text.size());
  close(fd);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return text;
}

std::optional<size_t> CoresOf(int64_t quota_us, int64_t period_us) {
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  return static_cast<size_t>((quota_us + period_us - 1) / period_us);
}

size_t AffinityCores() {
  // A mask of fixed size fails with EINVAL on machines with more CPUs than it holds.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 4) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<size_t>(cpus));
    if (mask == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    const bool known = sched_getaffinity(0, bytes, mask) == 0;
    const int count = known ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (count > 0) return static_cast<size_t>(count);
  }
  return 1;
}

// The least of `cores` and what the group at `path` and all groups above it allow.
template <typename Limit>
size_t LimitUpwards(size_t cores, std::string path, Limit limit) {
  while (true) {
    if (const std::optional<size_t> allowed = limit(path)) cores = std::min(cores, *allowed);
    if (path.empty()) return cores;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

}  // namespace

std::optional<size_t> CoresOfCpuMax(std::string_view text) {
  const std::vector<std::string> fields = Split(Trim(text), ' ');
  if (fields.size() != 2) return std::nullopt;
  const std::optional<int64_t> quota = ParseInt64(fields[0]);
  const std::optional<int64_t> period = ParseInt64(fields[1]);
  if (!quota || !period) return std::nullopt;
  return CoresOf(*quota, *period);
}

std::optional<size_t> CoresOfCfsQuota(std::string_view quota_us, std::string_view period_us) {
  const std::optional<int64_t> quota = ParseInt64(Trim(quota_us));
  const std::optional<int64_t> period = ParseInt64(Trim(period_us));
  if (!quota || !period) return std::nullopt;
  return CoresOf(*quota, *period);
}

std::optional<std::string> ControlGroupPath(std::string_view proc_self_cgroup,
                                            std::string_view controller) {
  for (const std::string& line : Split(proc_self_cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::vector<std::string> names = Split(controllers, ',');
    const bool found = controller.empty()
                           ? controllers.empty()
                           : std::find(names.begin(), names.end(), controller) != names.end();
    if (!found) continue;
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    return path;
  }
  return std::nullopt;
}

size_t UsableCores() {
  size_t cores = AffinityCores();
  const std::string groups = ReadSmallFile("/proc/self/cgroup");
  if (const std::optional<std::string> path = ControlGroupPath(groups, "")) {
    cores = LimitUpwards(cores, *path, [](const std::string& group) {
      return CoresOfCpuMax(ReadSmallFile("/sys/fs/cgroup" + group + "/cpu.max"));
    });
  }
  if (const std::optional<std::string> path = ControlGroupPath(groups, "cpu")) {
    cores = LimitUpwards(cores, *path, [](const std::string& group) {
      const std::string folder = "/sys/fs/cgroup/cpu" + group;
      return CoresOfCfsQuota(ReadSmallFile(folder + "/cpu.cfs_quota_us"),
                             ReadSmallFile(folder + "/cpu.cfs_period_us"));
    });
  }
  return std::max<size_t>(cores, 1);
}

}  // namespace tutti
