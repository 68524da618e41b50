// `tutti doctor`, the machine: cores, memory, shared memory, processes, SIMD, limits.

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "capi/tool/doctor_checks.h"
#include "capi/tool/machine_cores.h"
#include "capi/tool/owned_fd.h"

namespace tutti::tool {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLittleMemory = 512 * kMiB;
constexpr uint64_t kSmallDevShm = 256 * kMiB;
constexpr rlim_t kFewOpenFiles = 1024;

void CheckCores(DoctorReport* report) {
  const MachineCores cores = ReadMachineCores();
  Json facts = {{"usable", cores.usable},
                {"online", cores.online},
                {"affinity", cores.affinity},
                {"control_group_quota", nullptr},
                {"control_group_version", nullptr}};
  std::string quota = "no limit by a control group";
  if (cores.quota) {
    facts["control_group_quota"] = *cores.quota;
    facts["control_group_version"] = cores.quota_version;
    quota = fmt::format("{:.4g} by a control group (version {})", *cores.quota,
                        cores.quota_version);
  }
  report->Add("cores", std::move(facts),
              {fmt::format("{} usable: {} online, {} in the affinity mask, {}", cores.usable,
                           cores.online, cores.affinity, quota)});
  if (cores.quota && *cores.quota < 1) {
    report->AddProblem(
        fmt::format("the control group allows {:.2g} of a core: every exchange between replicas "
                    "waits for the next period", *cores.quota),
        "give the container a core or more (docker run --cpus, resources.limits.cpu)");
  }
}

std::optional<uint64_t> Number(const std::optional<std::string>& text) {
  uint64_t number = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

// "MemTotal:       8123456 kB" in /proc/meminfo.
std::optional<uint64_t> MemoryInfo(const std::string& text, const std::string& key) {
  const size_t at = text.find(key + ":");
  if (at == std::string::npos) return std::nullopt;
  const size_t digits = text.find_first_of("0123456789", at);
  const size_t end = text.find_first_not_of("0123456789", digits);
  if (digits == std::string::npos || end == std::string::npos) return std::nullopt;
  const auto kib = Number(text.substr(digits, end - digits));
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

// The least of the files `name` of a control group and those above it.
std::optional<uint64_t> LeastUpwards(const std::string& root, std::string group,
                                     const char* name) {
  std::optional<uint64_t> least;
  while (true) {
    const auto limit = Number(ReadKernelFile(root + group + "/" + name));
    // Version 1 writes "no limit" as the largest multiple of the page size.
    if (limit && *limit < (uint64_t{1} << 60) && (!least || *limit < *least)) least = limit;
    if (group.empty()) return least;
    const size_t slash = group.find_last_of('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

std::optional<uint64_t> MemoryLimitOfControlGroups() {
  const std::string groups = ReadKernelFile("/proc/self/cgroup").value_or("");
  std::optional<uint64_t> least;
  if (const auto path = ControlGroupPath(groups, "")) {
    least = LeastUpwards("/sys/fs/cgroup", *path, "memory.max");
  }
  if (const auto path = ControlGroupPath(groups, "memory")) {
    const auto limit = LeastUpwards("/sys/fs/cgroup/memory", *path, "memory.limit_in_bytes");
    if (limit && (!least || *limit < *least)) least = limit;
  }
  return least;
}

void CheckMemory(DoctorReport* report) {
  const std::string info = ReadKernelFile("/proc/meminfo").value_or("");
  const auto total = MemoryInfo(info, "MemTotal");
  const auto available = MemoryInfo(info, "MemAvailable");
  const auto limit = MemoryLimitOfControlGroups();
  const auto json = [](std::optional<uint64_t> number) { return number ? Json(*number) : Json(); };
  const auto text = [](std::optional<uint64_t> number) {
    return number ? FormatBytes(*number) : std::string("unknown");
  };
  report->Add("memory",
              {{"total_bytes", json(total)},
               {"available_bytes", json(available)},
               {"control_group_limit_bytes", json(limit)}},
              {fmt::format("{}, {} available, {}", text(total), text(available),
                           limit ? "at most " + FormatBytes(*limit) + " by a control group"
                                 : "no limit by a control group")});
  const uint64_t usable = std::min(available.value_or(UINT64_MAX), limit.value_or(UINT64_MAX));
  if (usable < kLittleMemory) {
    report->AddProblem(fmt::format("only {} of memory can be used", FormatBytes(usable)),
                       "set TUTTI_MEMORY_LIMIT below that, so that Tutti says what does not fit "
                       "before the kernel kills the process");
  }
}

void CheckSharedMemory(DoctorReport* report) {
  const OwnedFd memory(memfd_create("tutti-doctor", MFD_CLOEXEC));
  int memfd_error = memory.valid() ? 0 : errno;
  if (memory.valid()) {
    void* mapped = MAP_FAILED;
    if (ftruncate(memory.get(), 4096) == 0) {
      mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    }
    if (mapped == MAP_FAILED) {
      memfd_error = errno;
    } else {
      munmap(mapped, 4096);
    }
  }
  if (memfd_error != 0) {
    report->AddProblem(fmt::format("shared memory cannot be had: memfd_create: {}",
                                   std::strerror(memfd_error)),
                       "allow memfd_create in the sandbox, or set TUTTI_TRANSPORT=tcp on all "
                       "workers, which is slower within a machine");
  }
  Json facts = {{"memfd_create", memfd_error == 0}, {"dev_shm_bytes", nullptr},
                {"dev_shm_free_bytes", nullptr}};
  std::string dev_shm = "no /dev/shm";
  struct statvfs about = {};
  if (statvfs("/dev/shm", &about) == 0) {
    const uint64_t size = static_cast<uint64_t>(about.f_blocks) * about.f_frsize;
    const uint64_t available = static_cast<uint64_t>(about.f_bavail) * about.f_frsize;
    facts["dev_shm_bytes"] = size;
    facts["dev_shm_free_bytes"] = available;
    dev_shm = fmt::format("/dev/shm has {}, {} free", FormatBytes(size), FormatBytes(available));
    if (available < kSmallDevShm) {
      report->AddProblem(
          fmt::format("only {} free in /dev/shm: it does not limit Tutti, which uses memfd, but "
                      "data loaders and other processes of a training program fill it quickly",
                      FormatBytes(available)),
          "docker run --shm-size=2g, mount -o remount,size=2g /dev/shm, or remove what lies there");
    }
  }
  report->Add("shared_memory", std::move(facts),
              {fmt::format("memfd_create {}; {}", memfd_error == 0 ? "works" : "fails", dev_shm)});
}

void CheckProcesses(DoctorReport* report) {
  const OwnedFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  const int error = errno;
  report->Add("processes", {{"pidfd_open", self.valid()}},
              {self.valid() ? "pidfd_open works: deaths are seen at once" : "pidfd_open fails"});
  if (!self.valid()) {
    report->AddProblem(
        fmt::format("pidfd_open: {}: workers of this machine cannot watch each other, and tutti "
                    "run cannot start any", std::strerror(error)),
        "use Linux 5.3 or later, and allow pidfd_open in the sandbox");
  }
}

void CheckSimd(DoctorReport* report) {
  Json facts = Json::object();
  std::vector<std::string> has;
  const auto add = [&](const char* name, bool supported) {
    facts[name] = supported;
    if (supported) has.push_back(name);
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  add("sse4.2", __builtin_cpu_supports("sse4.2"));
  add("f16c", __builtin_cpu_supports("f16c"));
  add("fma", __builtin_cpu_supports("fma"));
  add("avx2", __builtin_cpu_supports("avx2"));
  add("avx512f", __builtin_cpu_supports("avx512f"));
  add("avx512bw", __builtin_cpu_supports("avx512bw"));
  add("avx512fp16", __builtin_cpu_supports("avx512fp16"));
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  const char* crc = __builtin_cpu_supports("sse4.2") ? "SSE4.2" : "tables";
#else
  const bool avx2 = false;
  const char* crc = "what the compiler has for this processor";
#endif
  facts["reductions_use"] = avx2 ? "avx2" : "baseline";
  facts["crc32c_uses"] = crc;
  report->Add("simd", std::move(facts),
              {has.empty() ? "none known" : fmt::format("{}", fmt::join(has, " ")),
               fmt::format("used: {} for reductions, {} for CRC-32C",
                           avx2 ? "AVX2 and F16C" : "the baseline", crc)});
}

void CheckLimits(DoctorReport* report) {
  rlimit files = {}, locked = {};
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_MEMLOCK, &locked);
  const auto json = [](rlim_t limit) { return limit == RLIM_INFINITY ? Json() : Json(limit); };
  const auto count = [](rlim_t limit) {
    return limit == RLIM_INFINITY ? std::string("no limit") : std::to_string(limit);
  };
  report->Add("limits",
              {{"open_files", json(files.rlim_cur)},
               {"open_files_hard", json(files.rlim_max)},
               {"locked_memory_bytes", json(locked.rlim_cur)}},
              {fmt::format("open files {} (hard {}), locked memory {}", count(files.rlim_cur),
                           count(files.rlim_max),
                           locked.rlim_cur == RLIM_INFINITY ? "no limit"
                                                            : FormatBytes(locked.rlim_cur))});
  if (files.rlim_cur < kFewOpenFiles) {
    report->AddProblem(fmt::format("only {} files may be open at once; each peer and each file of "
                                   "a dataset takes one", files.rlim_cur),
                       "ulimit -n 4096, or LimitNOFILE= of the service");
  }
}

}  // namespace

void CheckMachine(DoctorReport* report) {
  CheckCores(report);
  CheckMemory(report);
  CheckSharedMemory(report);
  CheckProcesses(report);
  CheckSimd(report);
  CheckLimits(report);
}

}  // namespace tutti::tool
