// Memory that NCCL reaches faster: allocated by it, or registered with a communicator.
#include <utility>

#include "core/cuda/communicator.h"

namespace tutti::cuda {
namespace {

using State = CommunicatorState;

// What register_memory gave: a handle of NCCL's and of which kind.
struct MemoryRegistration {
  void* handle = nullptr;
  nccl::Window window = nullptr;
};

}  // namespace

tutti_status* AllocateRegistered(tutti_plugin* plugin, int32_t device, uint64_t bytes,
                                 void** out) {
  return Guarded(plugin, [&]() -> tutti_status* {
    TUTTI_CUDA_RETURN_IF(StartNccl(plugin));
    const nccl::Library& library = plugin->communicators->library;
    if ((library.capabilities & TUTTI_PLUGIN_CAN_ALLOCATE) == 0) {
      return Lacks(plugin, "ncclMemAlloc", "2.19");
    }
    Current current(plugin, device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    TUTTI_CUDA_RETURN_IF(plugin->host->reserve_memory(plugin->host->context, device, bytes));
    const nccl::Outcome outcome = library.MemAlloc(out, bytes);
    if (outcome != nccl::kSuccess) {
      plugin->host->unreserve_memory(plugin->host->context, device, bytes);
      return FailOfNccl(plugin, device, outcome, nullptr,
                        DeviceName(device) + ": ncclMemAlloc of " + std::to_string(bytes) +
                            " bytes");
    }
    const std::lock_guard lock(plugin->mutex);
    plugin->registered[*out] = bytes;
    return nullptr;
  });
}

tutti_status* ReleaseRegistered(tutti_plugin* plugin, int32_t device, void* memory) {
  return Guarded(plugin, [&]() -> tutti_status* {
    if (memory == nullptr) return nullptr;
    uint64_t bytes = 0;
    {
      const std::lock_guard lock(plugin->mutex);
      const auto found = plugin->registered.find(memory);
      if (found == plugin->registered.end()) {
        return plugin->Fail(TUTTI_INVALID_ARGUMENT,
                            DeviceName(device) + ": this memory was not allocated by NCCL");
      }
      bytes = found->second;
      plugin->registered.erase(found);
    }
    plugin->host->unreserve_memory(plugin->host->context, device, bytes);
    Current current(plugin, device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    const nccl::Outcome outcome = plugin->communicators->library.MemFree(memory);
    return outcome == nccl::kSuccess
               ? nullptr
               : FailOfNccl(plugin, device, outcome, nullptr, DeviceName(device) + ": ncclMemFree");
  });
}

tutti_status* RegisterMemory(tutti_plugin_communicator* communicator, void* memory, uint64_t bytes,
                             int32_t window, const tutti_plugin_wait* wait, void** out) {
  State& state = *communicator->state;
  return Guarded(state.plugin, [&]() -> tutti_status* {
    const nccl::Library& library = state.library();
    const uint32_t needed =
        window != 0 ? TUTTI_PLUGIN_CAN_REGISTER_WINDOW : TUTTI_PLUGIN_CAN_REGISTER;
    if ((library.capabilities & needed) == 0) {
      return window != 0 ? Lacks(state.plugin, "ncclCommWindowRegister", "2.27")
                         : Lacks(state.plugin, "ncclCommRegister", "2.19");
    }
    Current current(state.plugin, state.device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    auto made = std::make_unique<MemoryRegistration>();
    {
      const std::lock_guard lock(state.mutex);
      TUTTI_CUDA_RETURN_IF(CheckUsable(state));
      const nccl::Outcome outcome =
          window != 0 ? library.CommWindowRegister(state.comm, memory, bytes, &made->window,
                                                   nccl::kSymmetricWindow)
                      : library.CommRegister(state.comm, memory, bytes, &made->handle);
      if (WasRefused(outcome)) {
        return FailWith(&state, outcome,
                        window != 0 ? "ncclCommWindowRegister" : "ncclCommRegister");
      }
    }
    tutti_status* const status = AwaitIdle(&state, wait, "registering memory");
    // While it is in progress NCCL may write there.
    if (status != nullptr) {
      (void)made.release();
      return status;
    }
    *out = made.release();
    return nullptr;
  });
}

tutti_status* UnregisterMemory(tutti_plugin_communicator* communicator, void* registration) {
  State& state = *communicator->state;
  const std::unique_ptr<MemoryRegistration> made(static_cast<MemoryRegistration*>(registration));
  return Guarded(state.plugin, [&]() -> tutti_status* {
    const std::lock_guard lock(state.mutex);
    if (made == nullptr || state.comm == nullptr) return nullptr;  // it went with it
    const nccl::Outcome outcome =
        made->window != nullptr ? state.library().CommWindowDeregister(state.comm, made->window)
                                : state.library().CommDeregister(state.comm, made->handle);
    return WasRefused(outcome) ? FailWith(&state, outcome, "giving up registered memory")
                               : nullptr;
  });
}

}  // namespace tutti::cuda
