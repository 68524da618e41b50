// Devices: what a replica runs on.
//
// A machine with one CPU presents any number of logical devices CPU:0, CPU:1, ..., so that several
// replicas can be tried anywhere: every CPU:i with i < kMaxLogicalCpus may be used; `ListDevices`
// names as many as the environment was made with. Whoever wants exactly n of them says so with
// SetLogicalDevices, before devices are used: then no others are there.
//
// GPUs are what the CUDA plugin lists (plugin.h). Their tensors lie where the host cannot touch
// them (gpu_memory.h).
#ifndef TUTTI_CORE_DEVICE_DEVICE_H_
#define TUTTI_CORE_DEVICE_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/allocator.h"
#include "core/tensor/device_id.h"

namespace tutti {

class DevicePlugin;
class DeviceUse;
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
  std::string full_name() const { return "/job:localhost/replica:0/task:0" + name_; }
  BufferAllocator* allocator() const { return allocator_.get(); }

 private:
  const DeviceId id_;
  const std::string name_;
  const std::string short_name_;
  const Ref<BufferAllocator> allocator_;
};

// One of the logical devices that a physical one is presented as.
struct LogicalDevice {
  int64_t memory_limit_bytes = 0;  // 0: none
};

// The memory of a logical device, in bytes: what tensors take of it, and the most that they have
// taken since the peak was reset.
struct DeviceMemory {
  int64_t used_bytes = 0;
  int64_t peak_bytes = 0;
};

struct DeviceSetOptions {
  // As how many logical GPUs each GPU is presented where nothing else was set (1 to
  // kMaxLogicalCpus).
  int logical_gpus = 1;

  // The CUDA plugin: a path, "" for the one beside the library, "none" for no GPUs. It is opened
  // when somebody asks for GPUs first.
  std::string cuda_plugin = "none";
  // Lines of plugins; none: nowhere.
  std::function<void(LogLevel, std::string_view)> log;
};

// The devices of one environment.
class DeviceSet final : public RefCounted {
 public:
  // `num_logical_cpus` is what ListDevices names (1 to kMaxLogicalCpus); `account` (may be null) is
  // charged by the CPUs.
  static Result<Ref<DeviceSet>> Create(int num_logical_cpus, MemoryAccount* account,
                                       const DeviceSetOptions& options = {});

  // The device that a name ("CPU:1", "/device:CPU:1", "/job:worker/task:0/device:CPU:1") or a spec
  // means. No type means CPU, no index means 0. INVALID_ARGUMENT for malformed names, NOT_FOUND for
  // a device that this machine does not have, naming those that it has.
  Result<Ref<Device>> Find(std::string_view name) const;
  Result<Ref<Device>> Find(const DeviceSpec& spec) const;
  // The GPU that CUDA gives this number. NOT_FOUND for one that is not there or not visible.
  Result<Ref<Device>> FindGpuByOrdinal(int ordinal) const;
  // Pinned host memory. NOT_FOUND, with the reason, where there is no GPU.
  Result<Ref<BufferAllocator>> Pinned() const;

  // The device on which what is made under the description `spec` of device scopes lies: as Find,
  // and UNIMPLEMENTED for a device of another job or task. With soft placement a device that is not
  // there, or cannot hold tensors, is CPU:0.
  Result<Ref<Device>> Place(const DeviceSpec& spec) const;
  Result<Ref<Device>> Place(std::string_view name) const;
  void set_soft_placement(bool on) { soft_placement_ = on; }
  // Which task of a job this process is ("worker:1"), for `Place`; "localhost:0" before.
  void SetTask(std::string_view task);

  // ---- Configuring: until devices have been found, placed or listed, which is FAILED_PRECONDITION
  // where it changes something ----

  // "/physical_device:CPU:0", ..., "/physical_device:GPU:0", ...: of a type, or all ("").
  std::vector<std::string> ListPhysicalNames(std::string_view type) const;
  // The physical device `name` ("CPU:0", "/physical_device:CPU:0") as exactly these logical ones.
  // NOT_FOUND for one that is not there, INVALID_ARGUMENT for none or too many, and for a memory
  // limit of a CPU, and for limits that are more than the GPU's memory together. The logical GPUs
  // of one GPU share its memory and kernels, each with a stream and a limit of its own.
  Status SetLogicalDevices(std::string_view name, std::span<const LogicalDevice> logical);
  // As they were set; no value where they were not. Errors as above.
  Result<std::optional<size_t>> NumLogicalDevices(std::string_view name) const;
  // The limit of one of them; OUT_OF_RANGE for one that was not set.
  Result<int64_t> LogicalMemoryLimit(std::string_view name, int64_t index) const;
  // Which physical devices of `type` (all: "") are used. NOT_FOUND and INVALID_ARGUMENT for names
  // that are not there or of another type, and for none of the CPUs: the host cannot be hidden.
  Status SetVisible(std::string_view type, std::span<const std::string> names);
  std::vector<std::string> ListVisibleNames(std::string_view type) const;

  // The devices that `Find` gives, all or those of a type, in the order of their indices.
  std::vector<Ref<Device>> ListDevices() const;
  std::vector<Ref<Device>> ListDevices(DeviceType type) const;

  // "CPU:0", ..., "GPU:0", ...: of a type ("CPU", "GPU"), or all ("").
  std::vector<std::string> ListNames(std::string_view type) const;

  // What is known of a device, as a JSON object: name, type and memory (bytes; of a CPU those of
  // the environment's account, limit_bytes null where there is none); of a GPU also device_name,
  // compute_capability [major, minor], multiprocessors, memory_bytes, l2_bytes, bus_id, uuid,
  // integrated, driver_version and kernels (whether the plugin has machine code for it). free_bytes
  // of a GPU that this process has not used is null. Errors as of `Find`.
  Result<std::string> Describe(std::string_view name) const;

  // What the tensors of a device take; of a CPU what the environment's account counts. Errors as of
  // `Find`.
  Result<DeviceMemory> ReadMemory(std::string_view name) const;
  // From now on the peak is what is used now. INVALID_ARGUMENT for a CPU, whose account is the
  // environment's.
  Status ResetPeak(std::string_view name) const;

  // The plugins that this environment would use, as a JSON list of objects: name, file, devices,
  // version (null when it is not opened), reason (why it has no devices; null when it has), nccl
  // (version, file, and origin: who had it; null without one) and nccl_reason (why there is none).
  std::string DescribePlugins() const;

  // Null where no plugin is opened; then `why_no_cuda` says why.
  const DevicePlugin* cuda() const;
  const Status& why_no_cuda() const;

 private:
  DeviceSet(int num_logical_cpus, Ref<BufferAllocator> cpu_allocator, Ref<MemoryAccount> account,
            const DeviceSetOptions& options);
  ~DeviceSet() override;
  // A GPU as programs name it: CUDA's number, and the limit of its memory (0: none).
  struct LogicalGpu {
    int ordinal = 0;
    int64_t limit_bytes = 0;
  };
  // In the order of their indices.
  std::vector<LogicalGpu> LogicalGpus() const;
  std::vector<int> VisibleGpus() const;  // as CUDA numbers them
  int num_gpus() const;                  // that programs can name
  int num_physical_gpus() const;
  // Logical CPUs that are listed, and that are there.
  int num_listed_cpus() const;
  int num_cpus() const;
  // CUDA's number of GPU:index.
  int PhysicalGpu(int index) const;
  // What counts its memory; null before it has been found.
  Ref<DeviceUse> UseOf(int index) const;
  Ref<Device> MakeGpu(int index) const;
  // From now on the configuration is fixed.
  void Start() const;
  Status CheckNotStarted(std::string_view what) const;
  std::string CudaFile() const;
  // NOT_FOUND for what this machine does not have, else OK.
  Status CheckThere(const DeviceSpec& spec) const;

  const int num_logical_cpus_;
  const Ref<BufferAllocator> cpu_allocator_;
  const Ref<MemoryAccount> account_;
  const DeviceSetOptions options_;
  // The plugin is opened once, when it is asked for first.
  mutable std::once_flag opened_;
  mutable Ref<DevicePlugin> cuda_;
  mutable Status why_no_cuda_;
  std::atomic<bool> soft_placement_{false};

  mutable std::mutex mutex_;  // guards all below
  mutable bool started_ = false;
  std::string job_ = "localhost";
  int task_ = 0;
  std::optional<int> logical_cpus_;  // as they were set
  std::optional<std::vector<int>> visible_gpus_;
  std::map<int, std::vector<LogicalDevice>> logical_gpus_;  // as they were set, by CUDA's number
  // Those of the GPUs that have been found, by their numbers here.
  mutable std::vector<Ref<BufferAllocator>> gpu_memories_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_DEVICE_H_
