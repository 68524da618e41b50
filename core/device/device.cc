// The devices of one environment: today its logical CPUs.
#include "core/device/device.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/device/device_spec.h"

namespace tutti {

Device::Device(DeviceId id, Ref<BufferAllocator> allocator)
    : id_(id),
      name_("/device:" + id.ToString()),
      short_name_(id.ToString()),
      allocator_(std::move(allocator)) {}

DeviceSet::DeviceSet(int num_logical_cpus, Ref<BufferAllocator> cpu_allocator)
    : num_logical_cpus_(num_logical_cpus), cpu_allocator_(std::move(cpu_allocator)) {}

Result<Ref<DeviceSet>> DeviceSet::Create(int num_logical_cpus, MemoryAccount* account) {
  if (num_logical_cpus < 1 || num_logical_cpus > kMaxLogicalCpus) {
    return InvalidArgument("devices: {} logical CPUs; from 1 to {} are possible", num_logical_cpus,
                           kMaxLogicalCpus);
  }
  return Ref<DeviceSet>::Adopt(
      new DeviceSet(num_logical_cpus, MakeRef<CpuAllocator>(account)));
}

Result<Ref<Device>> DeviceSet::Find(std::string_view name) const {
  TUTTI_ASSIGN_OR_RETURN(const DeviceSpec spec, DeviceSpec::Parse(name));
  return Find(spec);
}

Result<Ref<Device>> DeviceSet::Find(const DeviceSpec& spec) const {
  const std::string type = spec.device_type.value_or("CPU");
  const int index = spec.device_index.value_or(0);
  if (type != "CPU" || index < 0 || index >= kMaxLogicalCpus) {
    return NotFound("device {}: this machine has no {}:{}; it has CPU:0 to CPU:{}",
                    spec.ToString(), type, index, kMaxLogicalCpus - 1)
        .With("device", spec.ToString());
  }
  return MakeRef<Device>(DeviceId{DeviceType::kCpu, index}, cpu_allocator_);
}

std::vector<Ref<Device>> DeviceSet::ListDevices() const { return ListDevices(DeviceType::kCpu); }

std::vector<Ref<Device>> DeviceSet::ListDevices(DeviceType type) const {
  std::vector<Ref<Device>> devices;
  if (type != DeviceType::kCpu) return devices;
  for (int index = 0; index < num_logical_cpus_; ++index) {
    devices.push_back(MakeRef<Device>(DeviceId{type, index}, cpu_allocator_));
  }
  return devices;
}

}  // namespace tutti
