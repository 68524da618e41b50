// The plugin's entry: its table, which devices there are, and how errors of the driver read.
#include "core/cuda/plugin.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cuda/communicator.h"

namespace tutti::cuda {

std::string DeviceName(int32_t device) { return "GPU:" + std::to_string(device); }

Current::Current(tutti_plugin* plugin, int32_t device)
    : host_(plugin->host), driver_(plugin->driver) {
  error_ = plugin->CheckDevice(device);
  if (error_ != nullptr) return;
  Device& used = *plugin->devices[static_cast<size_t>(device)];
  Context context = used.context.load(std::memory_order_acquire);
  if (context == nullptr) {
    const std::lock_guard lock(used.mutex);
    context = used.context.load(std::memory_order_relaxed);
    if (context == nullptr) {
      const Outcome outcome = driver_.DevicePrimaryCtxRetain(&context, used.ordinal);
      if (outcome != kSuccess) {
        error_ = plugin->FailAs(outcome, device, "the device cannot be used");
        return;
      }
      used.context.store(context, std::memory_order_release);
    }
  }
  const Outcome outcome = driver_.CtxPushCurrent(context);
  if (outcome != kSuccess) {
    error_ = plugin->FailAs(outcome, device, "the device cannot be used");
    return;
  }
  pushed_ = true;
}

Current::~Current() {
  if (error_ != nullptr) host_->release_status(host_->context, error_);
  Context context = nullptr;
  if (pushed_) driver_.CtxPopCurrent(&context);
}

namespace {

int32_t Attribute(const Driver& driver, int32_t attribute, DeviceOrdinal device) {
  int32_t value = 0;
  return driver.DeviceGetAttribute(&value, attribute, device) == kSuccess ? value : 0;
}

void FindDevices(tutti_plugin* plugin) {
  const Driver& driver = plugin->driver;
  int32_t count = 0;
  Outcome outcome = driver.DeviceGetCount(&count);
  if (outcome == kSuccess && count == 0) outcome = kNoDevice;
  for (int32_t i = 0; i < count && outcome == kSuccess; ++i) {
    auto device = std::make_unique<Device>();
    outcome = driver.DeviceGet(&device->ordinal, i);
    if (outcome != kSuccess) break;
    device->multiprocessors = Attribute(driver, kMultiprocessorCount, device->ordinal);
    if (device->multiprocessors < 1) device->multiprocessors = 1;
    device->compute_major = Attribute(driver, kComputeMajor, device->ordinal);
    device->compute_minor = Attribute(driver, kComputeMinor, device->ordinal);
    plugin->devices.push_back(std::move(device));
  }
  if (outcome == kSuccess) return;
  plugin->devices.clear();
  plugin->why_no_device =
      outcome == kNoDevice
          ? "the NVIDIA driver sees no device (CUDA_VISIBLE_DEVICES may hide them)"
          : "the NVIDIA driver lists no devices: " + driver.Describe(outcome);
}

int32_t DeviceCount(tutti_plugin* plugin) { return static_cast<int32_t>(plugin->devices.size()); }

const char* WhyNoDevice(tutti_plugin* plugin) { return plugin->why_no_device.c_str(); }

tutti_status* DeviceProperties(tutti_plugin* plugin, int32_t index,
                               tutti_plugin_device_properties* out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(plugin->CheckDevice(index));
    const Driver& driver = plugin->driver;
    const Device& device = *plugin->devices[static_cast<size_t>(index)];
    tutti_plugin_device_properties known = {};
    known.struct_size = out->struct_size;
    TUTTI_CUDA_CALL(plugin, index,
                    driver.DeviceGetName(known.name, sizeof(known.name), device.ordinal),
                    "its name");
    size_t total = 0;
    TUTTI_CUDA_CALL(plugin, index, driver.DeviceTotalMem(&total, device.ordinal), "its memory");
    known.memory_bytes = static_cast<int64_t>(total);
    // Facts for people: a device without them is one all the same.
    if (driver.DeviceGetPCIBusId(known.bus_id, sizeof(known.bus_id), device.ordinal) != kSuccess) {
      known.bus_id[0] = '\0';
    }
    if (driver.DeviceGetUuid(known.uuid, device.ordinal) != kSuccess) {
      std::memset(known.uuid, 0, sizeof(known.uuid));
    }
    known.compute_major = device.compute_major;
    known.compute_minor = device.compute_minor;
    known.multiprocessors = device.multiprocessors;
    known.integrated = Attribute(driver, kIntegrated, device.ordinal);
    known.l2_bytes = Attribute(driver, kL2CacheSize, device.ordinal);
    known.driver_version = driver.version;
    std::string reason;
    known.has_kernels = HasKernels(driver, device, &reason) ? 1 : 0;
    std::memcpy(out, &known, std::min(out->struct_size, sizeof(known)));
    return nullptr;
  });
}

void Close(tutti_plugin* plugin) {
  CloseCommunicators(plugin);
  for (const auto& device : plugin->devices) {
    if (device->context.load() == nullptr) continue;
    if (plugin->driver.CtxPushCurrent(device->context.load()) == kSuccess) {
      DropLists(plugin, static_cast<int32_t>(&device - plugin->devices.data()));
      for (const Module module : device->modules) plugin->driver.ModuleUnload(module);
      Context context = nullptr;
      plugin->driver.CtxPopCurrent(&context);
    }
    plugin->driver.DevicePrimaryCtxRelease(device->ordinal);
  }
  delete plugin;
}

constexpr tutti_plugin_api kApi = {
    sizeof(tutti_plugin_api),
    TUTTI_PLUGIN_ABI_VERSION,
    "cuda",
    "0.1.0",
    DeviceCount,
    WhyNoDevice,
    DeviceProperties,
    MemoryInfo,
    AllocateMemory,
    ReleaseMemory,
    AllocateOnStream,
    ReleaseOnStream,
    AllocatePinned,
    ReleasePinned,
    CreateStream,
    WrapStream,
    StreamHandle,
    StreamDevice,
    WaitForStream,
    DestroyStream,
    CreateEvent,
    RecordEvent,
    QueryEvent,
    WaitForEvent,
    StreamWaitEvent,
    EventElapsed,
    DestroyEvent,
    Copy,
    Fill,
    Pack,
    Unpack,
    Reduce,
    Scale,
    Cast,
    CopyStrided,
    CheckNumerics,
    Close,
    &kCommunicators,
    ReachPeer,
};

}  // namespace
}  // namespace tutti::cuda

tutti_plugin::tutti_plugin() : communicators(std::make_unique<tutti::cuda::Communicators>()) {}
tutti_plugin::~tutti_plugin() = default;

tutti_status* tutti_plugin::FailAs(tutti::cuda::Outcome outcome, int32_t device,
                                   const std::string& what) const {
  using namespace tutti::cuda;
  std::string message = DeviceName(device) + ": " + what + ": " + driver.Describe(outcome);
  int32_t code = TUTTI_INTERNAL;
  if (outcome == kOutOfMemory) {
    code = TUTTI_RESOURCE_EXHAUSTED;
  } else if (outcome >= kFirstPoison && outcome <= kLastPoison) {
    code = TUTTI_DATA_LOSS;
    message += "; work that was begun earlier on this device has failed, and what it was to write "
               "is lost: this process cannot use the device any more, start it again "
               "(compute-sanitizer tells which kernel it was)";
  } else if (outcome == kEccUncorrectable) {
    code = TUTTI_DATA_LOSS;
    message += "; the device's memory is damaged: take it out of use";
  }
  return Fail(code, message);
}

tutti_status* tutti_plugin::CheckDevice(int32_t device) const {
  if (device >= 0 && static_cast<size_t>(device) < devices.size()) return nullptr;
  const std::string none = "there is no " + tutti::cuda::DeviceName(device);
  return Fail(TUTTI_NOT_FOUND,
              devices.empty() ? none + ": " + why_no_device
                              : none + "; this machine has GPU:0 to GPU:" +
                                    std::to_string(devices.size() - 1));
}

extern "C" {

__attribute__((visibility("default"))) uint32_t tutti_plugin_abi_version(void) {
  return TUTTI_PLUGIN_ABI_VERSION;
}

__attribute__((visibility("default"))) tutti_status* tutti_plugin_open(
    const tutti_plugin_host* host, const tutti_plugin_api** out_api, tutti_plugin** out_plugin) {
  try {
    auto plugin = std::make_unique<tutti_plugin>();
    plugin->host = host;
    if (plugin->driver.Load(&plugin->why_no_device)) tutti::cuda::FindDevices(plugin.get());
    *out_api = &tutti::cuda::kApi;
    *out_plugin = plugin.release();
    return nullptr;
  } catch (...) {
    return host->make_status(host->context, TUTTI_RESOURCE_EXHAUSTED,
                             "the CUDA plugin is out of host memory");
  }
}

}  // extern "C"
