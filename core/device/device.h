// Devices: what a replica runs on.
//
// A machine with one CPU presents any number of logical devices CPU:0, CPU:1, ..., so that several
// replicas can be tried anywhere: every CPU:i with i < kMaxLogicalCpus may be used; `ListDevices`
// names as many as are configured.
#ifndef TUTTI_CORE_DEVICE_DEVICE_H_
#define TUTTI_CORE_DEVICE_DEVICE_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/allocator.h"
#include "core/tensor/device_id.h"

namespace tutti {

struct DeviceSpec;

inline constexpr int kMaxLogicalCpus = 1024;

class Device final : public RefCounted {
 public:
  Device(DeviceId id, Ref<BufferAllocator> allocator);

  DeviceType type() const { return id_.type; }
  int index() const { return id_.index; }
  DeviceId id() const { return id_; }
  const std::string& name() const { return name_; }              // "/device:CPU:0"
  const std::string& short_name() const { return short_name_; }  // "CPU:0"
  BufferAllocator* allocator() const { return allocator_.get(); }

 private:
  const DeviceId id_;
  const std::string name_;
  const std::string short_name_;
  const Ref<BufferAllocator> allocator_;
};

// The devices of one environment.
class DeviceSet final : public RefCounted {
 public:
  // `num_logical_cpus` is what ListDevices names (1 to kMaxLogicalCpus); `account` (may be null) is
  // charged by the CPUs.
  static Result<Ref<DeviceSet>> Create(int num_logical_cpus, MemoryAccount* account);

  // The device that a name ("CPU:1", "/device:CPU:1", "/job:worker/task:0/device:CPU:1") or a spec
  // means. No type means CPU, no index means 0. INVALID_ARGUMENT for malformed names, NOT_FOUND for
  // a device that this machine does not have, naming those that it has.
  Result<Ref<Device>> Find(std::string_view name) const;
  Result<Ref<Device>> Find(const DeviceSpec& spec) const;

  // All devices, or those of a type, in the order of their indices.
  std::vector<Ref<Device>> ListDevices() const;
  std::vector<Ref<Device>> ListDevices(DeviceType type) const;

 private:
  DeviceSet(int num_logical_cpus, Ref<BufferAllocator> cpu_allocator);

  const int num_logical_cpus_;
  const Ref<BufferAllocator> cpu_allocator_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_DEVICE_H_
