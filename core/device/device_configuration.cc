// What physical devices are presented as, which of them are used, and where scopes place things.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/device/device.h"
#include "core/device/device_spec.h"
#include "core/device/plugin.h"

namespace tutti {

namespace {

constexpr std::string_view kPhysical = "/physical_device:";
constexpr std::string_view kCpu = "CPU";
constexpr std::string_view kGpu = "GPU";

// Type and number of "/physical_device:GPU:1" or "GPU:1".
struct PhysicalDevice {
  std::string type;
  int index = 0;
};

Result<PhysicalDevice> ReadPhysical(std::string_view name, int num_gpus, std::string_view what) {
  std::string_view text = name;
  if (text.starts_with(kPhysical)) text.remove_prefix(kPhysical.size());
  TUTTI_ASSIGN_OR_RETURN(const DeviceSpec spec, DeviceSpec::Parse(text));
  PhysicalDevice device{spec.device_type.value_or(""), spec.device_index.value_or(0)};
  const int there = device.type == kCpu ? 1 : device.type == kGpu ? num_gpus : 0;
  if (device.index >= 0 && device.index < there) return device;
  return NotFound("{}: there is no physical device {}; this machine has CPU:0{}", what, Quote(name),
                  num_gpus == 0 ? "" : Format(" and GPU:0 to GPU:{}", num_gpus - 1))
      .With("device", name);
}

Status CheckType(std::string_view type, std::string_view what) {
  if (type.empty() || type == kCpu || type == kGpu) return OkStatus();
  return InvalidArgument("{}: {} is no type of device; expected CPU, GPU or nothing for both", what,
                         Quote(type));
}

// Whether the limits of a GPU's logical devices fit into its memory.
Status CheckLimits(const DevicePlugin& plugin, int ordinal, std::span<const LogicalDevice> logical,
                   std::string_view what) {
  TUTTI_ASSIGN_OR_RETURN(const auto properties, plugin.Properties(ordinal));
  uint64_t sum = 0;
  for (const LogicalDevice& part : logical) {
    sum += std::min(static_cast<uint64_t>(part.memory_limit_bytes), uint64_t{1} << 52);
  }
  if (sum <= static_cast<uint64_t>(properties.memory_bytes)) return OkStatus();
  return InvalidArgument(
      "{}: the memory limits of the {} logical devices are {} bytes together, and GPU:{} has {}; "
      "set smaller ones, or none",
      what, logical.size(), sum, ordinal, properties.memory_bytes);
}

std::string PhysicalName(std::string_view type, int index) {
  return Format("{}{}:{}", kPhysical, type, index);
}

}  // namespace

// ---- Placing. ----

Result<Ref<Device>> DeviceSet::Place(std::string_view name) const {
  TUTTI_ASSIGN_OR_RETURN(const DeviceSpec spec, DeviceSpec::Parse(name));
  return Place(spec);
}

Result<Ref<Device>> DeviceSet::Place(const DeviceSpec& spec) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::string job = spec.job.value_or(job_);
    const int task = spec.task.value_or(job == job_ ? task_ : 0);
    const bool is_here = (job == job_ && task == task_) || (job == "localhost" && task == 0);
    if (!is_here || spec.replica.value_or(0) != 0) {
      return Unimplemented(
                 "device {}: it is one of another task, and this process is "
                 "/job:{}/replica:0/task:{}; nothing can be placed on other tasks, leave job, "
                 "replica and task out",
                 spec.ToString(), job_, task_)
          .With("device", spec.ToString());
    }
  }
  Result<Ref<Device>> device = Find(spec);
  if (device.ok() || !soft_placement_) return device;
  return MakeRef<Device>(DeviceId{DeviceType::kCpu, 0}, cpu_allocator_);
}

void DeviceSet::SetTask(std::string_view task) {
  const size_t colon = std::min(task.rfind(':'), task.size());
  const std::string_view number = task.substr(std::min(colon + 1, task.size()));
  std::lock_guard<std::mutex> lock(mutex_);
  job_ = task.substr(0, colon);
  task_ = static_cast<int>(ParseInt64(number).value_or(0));
}

// ---- Configuring. ----

void DeviceSet::Start() const {
  std::lock_guard<std::mutex> lock(mutex_);
  started_ = true;
}

Status DeviceSet::CheckNotStarted(std::string_view what) const {
  if (!started_) return OkStatus();
  return FailedPrecondition(
      "{}: devices are in use already, and cannot change any more; configure them before the first "
      "strategy, variable or list of devices, or in a new runtime",
      what);
}

int DeviceSet::num_physical_gpus() const {
  const DevicePlugin* const plugin = cuda();
  return plugin == nullptr ? 0 : plugin->num_devices();
}

std::vector<int> DeviceSet::VisibleGpus() const {
  const int count = num_physical_gpus();
  std::lock_guard<std::mutex> lock(mutex_);
  if (visible_gpus_) return *visible_gpus_;
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<DeviceSet::LogicalGpu> DeviceSet::LogicalGpus() const {
  std::vector<LogicalGpu> gpus;
  const std::vector<int> visible = VisibleGpus();
  std::lock_guard<std::mutex> lock(mutex_);
  for (const int ordinal : visible) {
    const auto set = logical_gpus_.find(ordinal);
    if (set == logical_gpus_.end()) {
      gpus.insert(gpus.end(), static_cast<size_t>(options_.logical_gpus), LogicalGpu{ordinal, 0});
      continue;
    }
    for (const LogicalDevice& part : set->second) {
      gpus.push_back(LogicalGpu{ordinal, part.memory_limit_bytes});
    }
  }
  return gpus;
}

int DeviceSet::num_gpus() const { return static_cast<int>(LogicalGpus().size()); }

int DeviceSet::PhysicalGpu(int index) const {
  return LogicalGpus()[static_cast<size_t>(index)].ordinal;
}

int DeviceSet::num_listed_cpus() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return logical_cpus_.value_or(num_logical_cpus_);
}

int DeviceSet::num_cpus() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return logical_cpus_.value_or(kMaxLogicalCpus);
}

std::vector<std::string> DeviceSet::ListPhysicalNames(std::string_view type) const {
  std::vector<std::string> names;
  if (type.empty() || type == kCpu) names.push_back(PhysicalName(kCpu, 0));
  if (type.empty() || type == kGpu) {
    for (int i = 0; i < num_physical_gpus(); ++i) names.push_back(PhysicalName(kGpu, i));
  }
  return names;
}

Status DeviceSet::SetLogicalDevices(std::string_view name,
                                    std::span<const LogicalDevice> logical) {
  constexpr const char* kWhat = "set_logical_device_configuration";
  TUTTI_ASSIGN_OR_RETURN(const PhysicalDevice device,
                         ReadPhysical(name, num_physical_gpus(), kWhat));
  if (logical.empty() || logical.size() > static_cast<size_t>(kMaxLogicalCpus)) {
    return InvalidArgument("{}: {} logical devices of {}; from 1 to {} are possible", kWhat,
                           logical.size(), Quote(name), kMaxLogicalCpus);
  }
  for (const LogicalDevice& part : logical) {
    if (part.memory_limit_bytes < 0) {
      return InvalidArgument("{}: a memory limit of {} bytes; expected one above 0, or none", kWhat,
                             part.memory_limit_bytes);
    }
    if (part.memory_limit_bytes > 0 && device.type == kCpu) {
      return InvalidArgument(
          "{}: the logical devices of a CPU share its memory and have no limits of their own; "
          "leave memory_limit out, and limit all of them with the setting memory_limit",
          kWhat);
    }
  }
  if (device.type == kGpu) {
    TUTTI_RETURN_IF_ERROR(CheckLimits(*cuda(), device.index, logical, kWhat));
    std::lock_guard<std::mutex> lock(mutex_);
    const auto set = logical_gpus_.find(device.index);
    const auto is_same = [](const LogicalDevice& one, const LogicalDevice& other) {
      return one.memory_limit_bytes == other.memory_limit_bytes;
    };
    if (set != logical_gpus_.end() && std::equal(set->second.begin(), set->second.end(),
                                                 logical.begin(), logical.end(), is_same)) {
      return OkStatus();
    }
    TUTTI_RETURN_IF_ERROR(CheckNotStarted(kWhat));
    logical_gpus_[device.index].assign(logical.begin(), logical.end());
    return OkStatus();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const auto count = static_cast<int>(logical.size());
  if (logical_cpus_ == count) return OkStatus();
  TUTTI_RETURN_IF_ERROR(CheckNotStarted(kWhat));
  logical_cpus_ = count;
  return OkStatus();
}

Result<std::optional<size_t>> DeviceSet::NumLogicalDevices(std::string_view name) const {
  TUTTI_ASSIGN_OR_RETURN(
      const PhysicalDevice device,
      ReadPhysical(name, num_physical_gpus(), "get_logical_device_configuration"));
  std::lock_guard<std::mutex> lock(mutex_);
  if (device.type == kGpu) {
    const auto set = logical_gpus_.find(device.index);
    return set == logical_gpus_.end() ? std::optional<size_t>()
                                      : std::optional<size_t>(set->second.size());
  }
  if (!logical_cpus_) return std::optional<size_t>();
  return std::optional<size_t>(static_cast<size_t>(*logical_cpus_));
}

Result<int64_t> DeviceSet::LogicalMemoryLimit(std::string_view name, int64_t index) const {
  constexpr const char* kWhat = "get_logical_device_configuration";
  TUTTI_ASSIGN_OR_RETURN(const PhysicalDevice device,
                         ReadPhysical(name, num_physical_gpus(), kWhat));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<size_t> count, NumLogicalDevices(name));
  if (index < 0 || index >= static_cast<int64_t>(count.value_or(0))) {
    return OutOfRange("{}: logical device {} of {}, which was set to be {}", kWhat, index,
                      Quote(name), count ? std::to_string(*count) : "none");
  }
  if (device.type == kCpu) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  return logical_gpus_.at(device.index)[static_cast<size_t>(index)].memory_limit_bytes;
}

Status DeviceSet::SetVisible(std::string_view type, std::span<const std::string> names) {
  constexpr const char* kWhat = "set_visible_devices";
  TUTTI_RETURN_IF_ERROR(CheckType(type, kWhat));
  const int num_gpus_here = num_physical_gpus();
  bool has_cpu = false;
  std::vector<int> gpus;
  for (const std::string& name : names) {
    TUTTI_ASSIGN_OR_RETURN(const PhysicalDevice device, ReadPhysical(name, num_gpus_here, kWhat));
    if (!type.empty() && device.type != type) {
      return InvalidArgument("{}: {} is no {}; give the devices of that type only, or no type",
                             kWhat, Quote(name), type);
    }
    const bool twice = device.type == kCpu
                           ? std::exchange(has_cpu, true)
                           : std::find(gpus.begin(), gpus.end(), device.index) != gpus.end();
    if (twice) return InvalidArgument("{}: {} is named twice", kWhat, Quote(name));
    if (device.type == kGpu) gpus.push_back(device.index);
  }
  if (type != kGpu && !has_cpu) {
    return InvalidArgument(
        "{}: CPU:0 is the host of all tensors and cannot be hidden; name it, too, or give the type "
        "GPU",
        kWhat);
  }
  if (type == kCpu) return OkStatus();
  std::sort(gpus.begin(), gpus.end());
  std::lock_guard<std::mutex> lock(mutex_);
  if (gpus == visible_gpus_ ||
      (!visible_gpus_ && gpus.size() == static_cast<size_t>(num_gpus_here))) {
    return OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(CheckNotStarted(kWhat));
  visible_gpus_ = std::move(gpus);
  return OkStatus();
}

std::vector<std::string> DeviceSet::ListVisibleNames(std::string_view type) const {
  std::vector<std::string> names;
  if (type.empty() || type == kCpu) names.push_back(PhysicalName(kCpu, 0));
  if (type.empty() || type == kGpu) {
    for (const int ordinal : VisibleGpus()) names.push_back(PhysicalName(kGpu, ordinal));
  }
  return names;
}

}  // namespace tutti
