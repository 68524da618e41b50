// Device memory and pinned host memory: asked of the account first, then of the driver.
#include <algorithm>
#include <cstring>

#include "core/cuda/plugin.h"

namespace tutti::cuda {
namespace {

// Reserved bytes that go back unless they are kept.
class Reservation {
 public:
  Reservation(tutti_plugin* plugin, int32_t account, uint64_t bytes)
      : plugin_(plugin), account_(account), bytes_(bytes) {
    error_ = plugin->host->reserve_memory(plugin->host->context, account, bytes);
  }
  ~Reservation() {
    if (error_ == nullptr && !kept_) {
      plugin_->host->unreserve_memory(plugin_->host->context, account_, bytes_);
    }
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  // The caller's; to be asked once.
  tutti_status* error() const { return error_; }
  void Keep() { kept_ = true; }

 private:
  tutti_plugin* const plugin_;
  const int32_t account_;
  const uint64_t bytes_;
  tutti_status* error_;
  bool kept_ = false;
};

// What an allocation failed with: how much was asked for, and what there is.
tutti_status* FailToAllocate(tutti_plugin* plugin, int32_t device, Outcome outcome,
                             uint64_t bytes) {
  std::string what = std::to_string(bytes) + " bytes of its memory were asked for";
  size_t free = 0, total = 0;
  if (outcome == kOutOfMemory && plugin->driver.MemGetInfo(&free, &total) == kSuccess) {
    const int64_t used = plugin->devices[static_cast<size_t>(device)]->used_bytes.load();
    what += ", " + std::to_string(free) + " of " + std::to_string(total) +
            " are free, and this process holds " + std::to_string(used) +
            " of them as tensors; use smaller batches or hold fewer tensors";
  }
  return plugin->FailAs(outcome, device, what);
}

void CountUse(Device* device, int64_t bytes) {
  const int64_t used = device->used_bytes.fetch_add(bytes) + bytes;
  int64_t peak = device->peak_bytes.load();
  while (peak < used && !device->peak_bytes.compare_exchange_weak(peak, used)) {
  }
}

// `allocate` asks the driver.
template <class Ask>
tutti_status* Allocate(tutti_plugin* plugin, int32_t device, uint64_t bytes, bool on_stream,
                       void** out, Ask ask) {
  *out = nullptr;
  if (bytes == 0) return plugin->CheckDevice(device);
  Current current(plugin, device);
  TUTTI_CUDA_RETURN_IF(current.TakeError());
  Reservation reservation(plugin, device, bytes);
  TUTTI_CUDA_RETURN_IF(reservation.error());
  {
    // Room first: afterwards nothing may fail.
    const std::lock_guard lock(plugin->mutex);
    plugin->allocations.reserve(plugin->allocations.size() + 1);
  }
  Address address = 0;
  const Outcome outcome = ask(&address);
  if (outcome != kSuccess) return FailToAllocate(plugin, device, outcome, bytes);
  CountUse(plugin->devices[static_cast<size_t>(device)].get(), static_cast<int64_t>(bytes));
  const std::lock_guard lock(plugin->mutex);
  plugin->allocations[address] = {device, bytes, on_stream};
  reservation.Keep();
  *out = reinterpret_cast<void*>(address);
  return nullptr;
}

// Takes an allocation out of the list before the driver may give its address to somebody else.
tutti_status* Forget(tutti_plugin* plugin, int32_t device, const void* memory, bool on_stream,
                     Allocation* out) {
  const std::lock_guard lock(plugin->mutex);
  const auto found = plugin->allocations.find(AddressOf(memory));
  if (found == plugin->allocations.end() || found->second.device != device) {
    return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                        DeviceName(device) + ": the memory that is given back was not allocated on "
                                             "it, or was given back before");
  }
  if (on_stream && !found->second.on_stream) {
    return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                        DeviceName(device) + ": memory that was not allocated on a stream cannot "
                                             "be given back on one");
  }
  *out = found->second;
  plugin->allocations.erase(found);
  return nullptr;
}

void Uncount(tutti_plugin* plugin, const Allocation& gone) {
  plugin->devices[static_cast<size_t>(gone.device)]->used_bytes.fetch_sub(
      static_cast<int64_t>(gone.bytes));
  plugin->host->unreserve_memory(plugin->host->context, gone.device, gone.bytes);
}

}  // namespace

tutti_status* AllocateMemory(tutti_plugin* plugin, int32_t device, uint64_t bytes, void** out) {
  return Guarded(plugin, [&] {
    return Allocate(plugin, device, bytes, false, out,
                    [&](Address* address) { return plugin->driver.MemAlloc(address, bytes); });
  });
}

tutti_status* AllocateOnStream(tutti_plugin_stream* stream, uint64_t bytes, void** out) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&] {
    return Allocate(plugin, stream->device, bytes, true, out, [&](Address* address) {
      return plugin->driver.MemAllocAsync(address, bytes, stream->stream);
    });
  });
}

tutti_status* ReleaseMemory(tutti_plugin* plugin, int32_t device, void* memory) {
  return Guarded(plugin, [&]() -> tutti_status* {
    if (memory == nullptr) return nullptr;
    Current current(plugin, device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    Allocation gone;
    TUTTI_CUDA_RETURN_IF(Forget(plugin, device, memory, false, &gone));
    Uncount(plugin, gone);
    TUTTI_CUDA_CALL(plugin, device, plugin->driver.MemFree(AddressOf(memory)),
                    "memory cannot be given back");
    return nullptr;
  });
}

tutti_status* ReleaseOnStream(tutti_plugin_stream* stream, void* memory) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    if (memory == nullptr) return nullptr;
    Current current(plugin, stream->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    Allocation gone;
    TUTTI_CUDA_RETURN_IF(Forget(plugin, stream->device, memory, true, &gone));
    Uncount(plugin, gone);
    TUTTI_CUDA_CALL(plugin, stream->device,
                    plugin->driver.MemFreeAsync(AddressOf(memory), stream->stream),
                    "memory cannot be given back");
    return nullptr;
  });
}

tutti_status* AllocatePinned(tutti_plugin* plugin, int32_t device, uint64_t bytes, void** out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    *out = nullptr;
    if (bytes == 0) return plugin->CheckDevice(device);
    Current current(plugin, device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    Reservation reservation(plugin, TUTTI_PLUGIN_HOST_MEMORY, bytes);
    TUTTI_CUDA_RETURN_IF(reservation.error());
    {
      const std::lock_guard lock(plugin->mutex);
      plugin->pinned.reserve(plugin->pinned.size() + 1);
    }
    void* memory = nullptr;
    TUTTI_CUDA_CALL(plugin, device, plugin->driver.MemHostAlloc(&memory, bytes, kHostPortable),
                    std::to_string(bytes) + " bytes of pinned host memory were asked for");
    const std::lock_guard lock(plugin->mutex);
    plugin->pinned[memory] = bytes;
    reservation.Keep();
    *out = memory;
    return nullptr;
  });
}

tutti_status* ReleasePinned(tutti_plugin* plugin, int32_t device, void* memory) {
  return Guarded(plugin, [&]() -> tutti_status* {
    if (memory == nullptr) return nullptr;
    Current current(plugin, device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    uint64_t bytes = 0;
    {
      const std::lock_guard lock(plugin->mutex);
      const auto found = plugin->pinned.find(memory);
      if (found == plugin->pinned.end()) {
        return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                            DeviceName(device) + ": the memory that is given back is no pinned "
                                                 "memory, or was given back before");
      }
      bytes = found->second;
      plugin->pinned.erase(found);
    }
    plugin->host->unreserve_memory(plugin->host->context, TUTTI_PLUGIN_HOST_MEMORY, bytes);
    TUTTI_CUDA_CALL(plugin, device, plugin->driver.MemFreeHost(memory),
                    "pinned memory cannot be given back");
    return nullptr;
  });
}

tutti_status* MemoryInfo(tutti_plugin* plugin, int32_t index, tutti_plugin_memory_info* out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(plugin->CheckDevice(index));
    const Device& device = *plugin->devices[static_cast<size_t>(index)];
    tutti_plugin_memory_info known = {};
    known.struct_size = out->struct_size;
    size_t free = 0, total = 0;
    TUTTI_CUDA_CALL(plugin, index, plugin->driver.DeviceTotalMem(&total, device.ordinal),
                    "its memory");
    known.free_bytes = -1;
    if (device.context.load(std::memory_order_acquire) != nullptr) {
      Current current(plugin, index);
      TUTTI_CUDA_RETURN_IF(current.TakeError());
      TUTTI_CUDA_CALL(plugin, index, plugin->driver.MemGetInfo(&free, &total), "its memory");
      known.free_bytes = static_cast<int64_t>(free);
    }
    known.total_bytes = static_cast<int64_t>(total);
    known.used_bytes = device.used_bytes.load();
    known.peak_bytes = device.peak_bytes.load();
    std::memcpy(out, &known, std::min(out->struct_size, sizeof(known)));
    return nullptr;
  });
}

}  // namespace tutti::cuda
