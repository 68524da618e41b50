// The devices of one environment: its logical CPUs, and the GPUs that the plugin lists.
#include "core/device/device.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/device/device_spec.h"
#include "core/device/gpu_memory.h"
#include "core/device/plugin.h"

namespace tutti {

Device::Device(DeviceId id, Ref<BufferAllocator> allocator)
    : id_(id),
      name_("/device:" + id.ToString()),
      short_name_(id.ToString()),
      allocator_(std::move(allocator)) {}

DeviceSet::DeviceSet(int num_logical_cpus, Ref<BufferAllocator> cpu_allocator,
                     Ref<MemoryAccount> account, const DeviceSetOptions& options)
    : num_logical_cpus_(num_logical_cpus),
      cpu_allocator_(std::move(cpu_allocator)),
      account_(std::move(account)),
      options_(options) {}

DeviceSet::~DeviceSet() = default;

Result<Ref<DeviceSet>> DeviceSet::Create(int num_logical_cpus, MemoryAccount* account,
                                         const DeviceSetOptions& options) {
  if (num_logical_cpus < 1 || num_logical_cpus > kMaxLogicalCpus) {
    return InvalidArgument("devices: {} logical CPUs; from 1 to {} are possible", num_logical_cpus,
                           kMaxLogicalCpus);
  }
  if (options.logical_gpus < 1 || options.logical_gpus > kMaxLogicalCpus) {
    return InvalidArgument("devices: {} logical GPUs of each GPU; from 1 to {} are possible",
                           options.logical_gpus, kMaxLogicalCpus);
  }
  return Ref<DeviceSet>::Adopt(new DeviceSet(num_logical_cpus, MakeRef<CpuAllocator>(account),
                                             Ref<MemoryAccount>::Retain(account), options));
}

std::string DeviceSet::CudaFile() const {
  return options_.cuda_plugin.empty() ? DevicePlugin::DefaultPath() : options_.cuda_plugin;
}

const DevicePlugin* DeviceSet::cuda() const {
  std::call_once(opened_, [this] {
    if (options_.cuda_plugin == "none") {
      why_no_cuda_ = FailedPrecondition("the setting cuda_plugin says that no GPUs are used");
      return;
    }
    DevicePluginOptions options;
    options.log = options_.log;
    options.host_account = account_;
    Result<Ref<DevicePlugin>> opened = DevicePlugin::Open(CudaFile(), options);
    if (!opened.ok()) {
      why_no_cuda_ = opened.status();
      return;
    }
    cuda_ = *std::move(opened);
    if (cuda_->num_devices() == 0) {
      why_no_cuda_ = FailedPrecondition("{}", cuda_->why_no_device());
    }
  });
  return cuda_.get();
}

const Status& DeviceSet::why_no_cuda() const {
  cuda();
  return why_no_cuda_;
}

Status DeviceSet::CheckThere(const DeviceSpec& spec) const {
  const std::string type = spec.device_type.value_or("CPU");
  const int index = spec.device_index.value_or(0);
  const int num_cpus_here = num_cpus();
  if (type == "CPU" && index >= 0 && index < num_cpus_here) return OkStatus();
  std::string gpus;
  if (type == "GPU") {
    const int count = num_gpus();
    if (index >= 0 && index < count) return OkStatus();
    gpus = count == 0 ? Format(" ({})", why_no_cuda_.message())
                      : Format(" and GPU:0 to GPU:{}", count - 1);
  }
  return NotFound("device {}: this machine has no {}:{}; it has CPU:0{}{}", spec.ToString(), type,
                  index, num_cpus_here == 1 ? "" : Format(" to CPU:{}", num_cpus_here - 1), gpus)
      .With("device", spec.ToString());
}

Result<Ref<Device>> DeviceSet::Find(std::string_view name) const {
  TUTTI_ASSIGN_OR_RETURN(const DeviceSpec spec, DeviceSpec::Parse(name));
  return Find(spec);
}

Result<Ref<Device>> DeviceSet::Find(const DeviceSpec& spec) const {
  Start();
  TUTTI_RETURN_IF_ERROR(CheckThere(spec));
  const int index = spec.device_index.value_or(0);
  if (spec.device_type.value_or("CPU") == "GPU") return MakeGpu(index);
  return MakeRef<Device>(DeviceId{DeviceType::kCpu, index}, cpu_allocator_);
}

Ref<Device> DeviceSet::MakeGpu(int index) const {
  const LogicalGpu gpu = LogicalGpus()[static_cast<size_t>(index)];
  const DeviceId id{DeviceType::kGpu, index};
  std::lock_guard<std::mutex> lock(mutex_);
  const auto place = static_cast<size_t>(index);
  if (gpu_memories_.size() <= place) gpu_memories_.resize(place + 1);
  if (!gpu_memories_[place]) {
    gpu_memories_[place] = MakeRef<GpuMemory>(GpuPlace{
        cuda_, gpu.ordinal, id, MakeRef<DeviceUse>(id.ToString(), gpu.limit_bytes)});
  }
  return MakeRef<Device>(id, gpu_memories_[place]);
}

Ref<DeviceUse> DeviceSet::UseOf(int index) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto place = static_cast<size_t>(index);
  if (gpu_memories_.size() <= place || !gpu_memories_[place]) return nullptr;
  return static_cast<const GpuMemory&>(*gpu_memories_[place]).place().use;
}

Result<DeviceMemory> DeviceSet::ReadMemory(std::string_view name) const {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Device> device, Find(name));
  if (const GpuMemory* const gpu = GpuMemoryOf(*device)) {
    const DeviceUse& use = *gpu->place().use;
    return DeviceMemory{use.used_bytes(), use.peak_bytes()};
  }
  if (!account_) return DeviceMemory{};
  return DeviceMemory{static_cast<int64_t>(account_->used_bytes()),
                      static_cast<int64_t>(account_->peak_bytes())};
}

Status DeviceSet::ResetPeak(std::string_view name) const {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Device> device, Find(name));
  if (const GpuMemory* const gpu = GpuMemoryOf(*device)) {
    gpu->place().use->ResetPeak();
    return OkStatus();
  }
  return InvalidArgument(
             "device {}: the peak of the host's memory is that of the whole runtime and is not "
             "reset; name a GPU",
             device->short_name())
      .With("device", device->short_name());
}

Result<Ref<Device>> DeviceSet::FindGpuByOrdinal(int ordinal) const {
  Start();
  const int count = num_gpus();
  for (int i = 0; i < count; ++i) {
    if (PhysicalGpu(i) == ordinal) return MakeGpu(i);
  }
  return NotFound("device: CUDA's device {} is none of this environment; it has {}", ordinal,
                  count == 0 ? Format("no GPUs ({})", why_no_cuda().message())
                             : Format("GPU:0 to GPU:{}", count - 1));
}

Result<Ref<BufferAllocator>> DeviceSet::Pinned() const {
  Start();
  if (num_gpus() == 0) {
    return NotFound("pinned memory: there is no GPU for which it would be pinned ({})",
                    why_no_cuda().message());
  }
  return Ref<BufferAllocator>(MakeRef<PinnedAllocator>(
      GpuPlace{cuda_, PhysicalGpu(0), DeviceId{DeviceType::kGpu, 0}, nullptr}));
}

std::vector<Ref<Device>> DeviceSet::ListDevices() const {
  std::vector<Ref<Device>> devices = ListDevices(DeviceType::kCpu);
  for (Ref<Device>& gpu : ListDevices(DeviceType::kGpu)) devices.push_back(std::move(gpu));
  return devices;
}

std::vector<Ref<Device>> DeviceSet::ListDevices(DeviceType type) const {
  std::vector<Ref<Device>> devices;
  Start();
  if (type == DeviceType::kGpu) {
    const int count = num_gpus();
    for (int index = 0; index < count; ++index) devices.push_back(MakeGpu(index));
  }
  if (type != DeviceType::kCpu) return devices;
  for (int index = 0; index < num_listed_cpus(); ++index) {
    devices.push_back(MakeRef<Device>(DeviceId{type, index}, cpu_allocator_));
  }
  return devices;
}

std::vector<std::string> DeviceSet::ListNames(std::string_view type) const {
  Start();
  std::vector<std::string> names;
  if (type.empty() || type == "CPU") {
    for (int i = 0; i < num_listed_cpus(); ++i) names.push_back(Format("CPU:{}", i));
  }
  if (type.empty() || type == "GPU") {
    for (int i = 0; i < num_gpus(); ++i) names.push_back(Format("GPU:{}", i));
  }
  return names;
}

}  // namespace tutti
