// A driver without a device, under the same names as libcuda.so.1. Streams are threads. Device
// memory lies at addresses that nobody may touch: the pages there have no rights, and the fake
// works on a second mapping of the same memory. So host code that reads a device tensor dies, as it
// would with a real device; under AddressSanitizer kernels that reach outside an allocation do,
// too. Launches run the kernels of the plugin, compiled as C++, on the stream's thread.
#include "tests/gpu/fakes/fake_driver.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "core/cuda/driver.h"
#include "tests/gpu/fakes/fake_machine.h"

namespace tutti::fake {
namespace {

bool SaysNotReady() {
  return state->not_ready.load() > 0 && state->not_ready.fetch_sub(1) > 0;
}

const KernelEntry*& Kernels() {
  static const KernelEntry* first = nullptr;
  return first;
}

}  // namespace

KernelEntry::KernelEntry(const char* kernel_name, size_t parameter_bytes,
                         void (*function)(const void*))
    : name(kernel_name),
      bytes(parameter_bytes),
      run(function),
      next(std::exchange(Kernels(), this)) {}

}  // namespace tutti::fake

using namespace tutti::fake;  // NOLINT
using tutti::cuda::kNotReady;
using tutti::cuda::kOutOfMemory;
using Address = tutti::cuda::Address;
using Context = tutti::cuda::Context;
using Event = tutti::cuda::Event;
using Function = tutti::cuda::Function;
using Module = tutti::cuda::Module;
using Outcome = tutti::cuda::Outcome;
using Stream = tutti::cuda::Stream;
using Ordinal = tutti::cuda::DeviceOrdinal;

#define TUTTI_FAKE extern "C" __attribute__((visibility("default")))

TUTTI_FAKE void tutti_fake_set_machine(const Machine* machine) {
  Now();
  Demolish();
  Build(*machine);
}

TUTTI_FAKE void tutti_fake_fail_allocation(int32_t which) {
  state->machine.fail_allocation = which == 0 ? 0 : state->allocations_made + which;
}

TUTTI_FAKE void tutti_fake_count_done(Done* done) {
  *done = {state->launches, state->copies_in, state->between, state->peer_reads};
}

TUTTI_FAKE int32_t tutti_fake_count_things() {
  const std::lock_guard lock(memory_mutex);
  int32_t count = state->events + static_cast<int32_t>(state->pinned.size());
  for (const auto& device : state->devices) {
    count += static_cast<int32_t>(device->arena.allocations()) + device->retained;
  }
  for (const auto& stream : state->streams) count += stream->destroyed ? 0 : 1;
  return count;
}

// What the fake NCCL needs; fake_nccl.h has the types.
TUTTI_FAKE int32_t tutti_fake_add_work(void* handle, int32_t (*run)(void*), void* data) {
  WorkStream* const stream = StreamOf(static_cast<Stream>(handle));
  if (stream == nullptr) return kInvalidContext;
  stream->Add([run, data]() -> Outcome { return run(data); });
  return 0;
}

TUTTI_FAKE void* tutti_fake_real_memory(const void* memory) {
  return RealAddress(reinterpret_cast<Address>(memory));
}

TUTTI_FAKE int32_t tutti_fake_current_device() {
  return contexts.empty() ? -1 : contexts.back()->device;
}

TUTTI_FAKE Outcome cuInit(uint32_t) { return Now().machine.init_outcome; }

TUTTI_FAKE Outcome cuDriverGetVersion(int32_t* version) {
  *version = Now().machine.driver_version;
  return 0;
}

TUTTI_FAKE Outcome cuGetErrorName(Outcome outcome, const char** name) {
  *name = outcome == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : outcome == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                           : "CUDA_ERROR_OF_THE_FAKE";
  return 0;
}

TUTTI_FAKE Outcome cuGetErrorString(Outcome outcome, const char** text) {
  *text = outcome == 2     ? "out of memory"
          : outcome == 700 ? "an illegal memory access was encountered"
                           : "of the fake driver";
  return 0;
}

TUTTI_FAKE Outcome cuDeviceGetCount(int32_t* count) {
  *count = static_cast<int32_t>(Now().devices.size());
  return 0;
}

TUTTI_FAKE Outcome cuDeviceGet(Ordinal* device, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= Now().devices.size()) return kInvalidDevice;
  *device = index;
  return 0;
}

TUTTI_FAKE Outcome cuDeviceGetName(char* name, int32_t size, Ordinal device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake device %d", device);
  return 0;
}

TUTTI_FAKE Outcome cuDeviceGetUuid(void* uuid, Ordinal device) {
  std::memset(uuid, device + 1, 16);
  return 0;
}

TUTTI_FAKE Outcome cuDeviceGetPCIBusId(char* id, int32_t size, Ordinal device) {
  std::snprintf(id, static_cast<size_t>(size), "0000:%02x:00.0", device + 1);
  return 0;
}

TUTTI_FAKE Outcome cuDeviceTotalMem_v2(size_t* bytes, Ordinal device) {
  *bytes = Now().devices[static_cast<size_t>(device)]->arena.bytes();
  return 0;
}

TUTTI_FAKE Outcome cuDeviceGetAttribute(int32_t* value, int32_t attribute, Ordinal) {
  *value = attribute == tutti::cuda::kMultiprocessorCount ? 1
           : attribute == tutti::cuda::kComputeMajor      ? Now().machine.compute_major
                                                          : 0;
  return 0;
}

TUTTI_FAKE Outcome cuDevicePrimaryCtxRetain(Context* context, Ordinal device) {
  const std::lock_guard lock(memory_mutex);
  DeviceState& used = *state->devices[static_cast<size_t>(device)];
  ++used.retained;
  *context = &used.context;
  return 0;
}

TUTTI_FAKE Outcome cuDevicePrimaryCtxRelease_v2(Ordinal device) {
  const std::lock_guard lock(memory_mutex);
  DeviceState& used = *state->devices[static_cast<size_t>(device)];
  // What a context was allowed ends with it.
  if (--used.retained == 0) used.peers.clear();
  return 0;
}

TUTTI_FAKE Outcome cuDeviceCanAccessPeer(int32_t* can, Ordinal device, Ordinal peer) {
  const auto devices = static_cast<Ordinal>(Now().devices.size());
  if (device < 0 || peer < 0 || device >= devices || peer >= devices) return kInvalidDevice;
  *can = device == peer || (state->machine.apart[device] >> peer & 1) != 0 ? 0 : 1;
  return 0;
}

TUTTI_FAKE Outcome cuCtxEnablePeerAccess(Context peer, uint32_t flags) {
  DeviceState* const device = CurrentDevice();
  if (device == nullptr || peer == nullptr) return kInvalidContext;
  int32_t can = 0;
  cuDeviceCanAccessPeer(&can, device->context.device, peer->device);
  if (flags != 0) return kInvalidValue;
  if (can == 0) return kNoPeers;
  const std::lock_guard lock(memory_mutex);
  return device->peers.insert(peer->device).second ? 0 : tutti::cuda::kPeersAlready;
}

TUTTI_FAKE Outcome cuDeviceGetMemPool(tutti::cuda::Pool* pool, Ordinal device) {
  *pool = reinterpret_cast<tutti::cuda::Pool>(Now().devices[static_cast<size_t>(device)].get());
  return 0;
}

TUTTI_FAKE Outcome cuMemPoolSetAccess(tutti::cuda::Pool pool,
                                      const tutti::cuda::PoolAccess* accesses, size_t count) {
  auto* const owner = reinterpret_cast<DeviceState*>(pool);
  const std::lock_guard lock(memory_mutex);
  for (size_t i = 0; i < count; ++i) {
    const tutti::cuda::PoolAccess& access = accesses[i];
    if (access.kind_of_place != 1 || access.rights != 3) return kInvalidValue;
    owner->pool_users.insert(access.device);
  }
  return 0;
}

TUTTI_FAKE Outcome cuCtxPushCurrent_v2(Context context) {
  contexts.push_back(context);
  return 0;
}

TUTTI_FAKE Outcome cuCtxPopCurrent_v2(Context* context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return 0;
}

TUTTI_FAKE Outcome cuMemGetInfo_v2(size_t* free, size_t* total) {
  const DeviceState* const device = CurrentDevice();
  if (device == nullptr) return kInvalidContext;
  const std::lock_guard lock(memory_mutex);
  *total = device->arena.bytes();
  *free = *total - device->arena.used_bytes();
  return 0;
}

TUTTI_FAKE Outcome cuMemAlloc_v2(Address* memory, size_t bytes) {
  return AllocateFrom(CurrentDevice(), memory, bytes, false);
}

TUTTI_FAKE Outcome cuMemAllocAsync(Address* memory, size_t bytes, Stream handle) {
  WorkStream* const stream = StreamOf(handle);
  if (stream == nullptr) return kInvalidContext;
  return AllocateFrom(state->devices[static_cast<size_t>(stream->device())].get(), memory, bytes,
                      true);
}

TUTTI_FAKE Outcome cuMemFree_v2(Address memory) {
  DeviceState* const device = CurrentDevice();
  if (device == nullptr) return kInvalidContext;
  WaitForDevice(device->context.device);
  return FreeOf(memory);
}

TUTTI_FAKE Outcome cuMemFreeAsync(Address memory, Stream handle) {
  WorkStream* const stream = StreamOf(handle);
  if (stream == nullptr) return kInvalidContext;
  // Also after an error, so that nothing is lost.
  stream->Add([memory] { return FreeOf(memory); });
  return 0;
}

TUTTI_FAKE Outcome cuMemHostAlloc(void** memory, size_t bytes, uint32_t) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*memory == nullptr) return kOutOfMemory;
  const std::lock_guard lock(memory_mutex);
  state->pinned[*memory] = bytes;
  return 0;
}

TUTTI_FAKE Outcome cuMemFreeHost(void* memory) {
  if (CurrentDevice() == nullptr) return kInvalidContext;
  for (size_t i = 0; i < state->devices.size(); ++i) WaitForDevice(static_cast<int32_t>(i));
  const std::lock_guard lock(memory_mutex);
  if (state->pinned.erase(memory) == 0) return kInvalidValue;
  std::free(memory);
  return 0;
}

TUTTI_FAKE Outcome cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes,
                                        Stream stream) {
  if (!IsDevice(to)) return kInvalidValue;
  ++state->copies_in;
  // Memory that is not pinned is read before the call returns.
  std::shared_ptr<char[]> staged;
  if (!IsPinned(from)) {
    staged = std::shared_ptr<char[]>(new char[bytes]);
    std::memcpy(staged.get(), from, bytes);
  }
  return AddWork(stream, [=]() -> Outcome {
    void* const real = RealAddress(to);
    if (real == nullptr) return kIllegalAddress;
    std::memcpy(real, staged ? staged.get() : from, bytes);
    return 0;
  });
}

TUTTI_FAKE Outcome cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream handle) {
  if (!IsDevice(from)) return kInvalidValue;
  const Outcome outcome = AddWork(handle, [=]() -> Outcome {
    void* const real = RealAddress(from);
    if (real == nullptr) return kIllegalAddress;
    std::memcpy(to, real, bytes);
    return 0;
  });
  if (outcome != 0 || IsPinned(to)) return outcome;
  WorkStream* const stream = StreamOf(handle);
  WaitUntilIdle(stream);
  return ErrorOf(stream->device());
}

TUTTI_FAKE Outcome cuMemcpyAsync(Address to, Address from, size_t bytes, Stream stream) {
  if (DeviceThatHas(to) != DeviceThatHas(from)) ++state->between;
  return AddWork(stream, [=]() -> Outcome {
    void* const target = RealAddress(to);
    const void* const source = RealAddress(from);
    if (target == nullptr || source == nullptr) return kIllegalAddress;
    std::memmove(target, source, bytes);
    return 0;
  });
}

TUTTI_FAKE Outcome cuMemsetD8Async(Address memory, unsigned char byte, size_t bytes,
                                   Stream stream) {
  return AddWork(stream, [=]() -> Outcome {
    void* const real = RealAddress(memory);
    if (real == nullptr) return kIllegalAddress;
    std::memset(real, byte, bytes);
    return 0;
  });
}

TUTTI_FAKE Outcome cuStreamCreate(Stream* out, uint32_t) {
  const DeviceState* const device = CurrentDevice();
  if (device == nullptr) return kInvalidContext;
  auto stream = std::make_unique<WorkStream>(device->context.device);
  *out = reinterpret_cast<Stream>(stream.get());
  const std::lock_guard lock(memory_mutex);
  state->streams.push_back(std::move(stream));
  return 0;
}

// Its thread goes on with what is to be done, and ends with the machine.
TUTTI_FAKE Outcome cuStreamDestroy_v2(Stream stream) {
  reinterpret_cast<WorkStream*>(stream)->destroyed = true;
  return 0;
}

TUTTI_FAKE Outcome cuStreamQuery(Stream handle) {
  WorkStream* const stream = StreamOf(handle);
  if (stream == nullptr) return kInvalidContext;
  if (SaysNotReady()) return kNotReady;
  const std::lock_guard lock(work_mutex);
  if (const Outcome error = state->devices[static_cast<size_t>(stream->device())]->error) {
    return error;
  }
  return stream->idle() ? 0 : kNotReady;
}

TUTTI_FAKE Outcome cuStreamSynchronize(Stream handle) {
  WorkStream* const stream = StreamOf(handle);
  if (stream == nullptr) return kInvalidContext;
  WaitUntilIdle(stream);
  return ErrorOf(stream->device());
}

TUTTI_FAKE Outcome cuStreamGetCtx(Stream handle, Context* context) {
  WorkStream* const stream = StreamOf(handle);
  if (stream == nullptr) return kInvalidContext;
  *context = &state->devices[static_cast<size_t>(stream->device())]->context;
  return 0;
}

TUTTI_FAKE Outcome cuEventCreate(Event* out, uint32_t flags) {
  const DeviceState* const device = CurrentDevice();
  if (device == nullptr) return kInvalidContext;
  auto* const event = new FakeEvent;
  event->device = device->context.device;
  event->timed = (flags & tutti::cuda::kEventWithoutTime) == 0;
  ++state->events;
  *out = reinterpret_cast<Event>(event);
  return 0;
}

TUTTI_FAKE Outcome cuEventDestroy_v2(Event event) {
  delete reinterpret_cast<FakeEvent*>(event);
  --state->events;
  return 0;
}

TUTTI_FAKE Outcome cuEventRecord(Event handle, Stream stream_handle) {
  auto* const event = reinterpret_cast<FakeEvent*>(handle);
  WorkStream* const stream = StreamOf(stream_handle);
  if (stream == nullptr) return kInvalidContext;
  if (stream->device() != event->device) return kInvalidValue;
  if (const Outcome error = ErrorOf(stream->device())) return error;
  auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(work_mutex);
    event->mark = mark;
  }
  stream->Add([mark]() -> Outcome {
    const std::lock_guard lock(work_mutex);
    mark->done = true;
    mark->time = std::chrono::steady_clock::now();
    return 0;
  });
  return 0;
}

TUTTI_FAKE Outcome cuStreamWaitEvent(Stream stream, Event handle, uint32_t) {
  std::shared_ptr<Mark> mark;
  {
    const std::lock_guard lock(work_mutex);
    mark = reinterpret_cast<FakeEvent*>(handle)->mark;
  }
  if (!mark) return 0;
  WorkStream* const waiting = StreamOf(stream);
  if (waiting == nullptr) return kInvalidContext;
  waiting->Add([mark]() -> Outcome {
    std::unique_lock lock(work_mutex);
    work_changed.wait(lock, [&] { return mark->done; });
    return 0;
  });
  return 0;
}

TUTTI_FAKE Outcome cuEventQuery(Event handle) {
  const auto* const event = reinterpret_cast<FakeEvent*>(handle);
  if (SaysNotReady()) return kNotReady;
  const std::lock_guard lock(work_mutex);
  if (const Outcome error = state->devices[static_cast<size_t>(event->device)]->error) {
    return error;
  }
  return !event->mark || event->mark->done ? 0 : kNotReady;
}

TUTTI_FAKE Outcome cuEventSynchronize(Event handle) {
  const auto* const event = reinterpret_cast<FakeEvent*>(handle);
  std::unique_lock lock(work_mutex);
  work_changed.wait(lock, [&] { return !event->mark || event->mark->done; });
  return state->devices[static_cast<size_t>(event->device)]->error;
}

TUTTI_FAKE Outcome cuEventElapsedTime(float* ms, Event begin, Event end) {
  const std::lock_guard lock(work_mutex);
  const auto& first = reinterpret_cast<FakeEvent*>(begin)->mark;
  const auto& second = reinterpret_cast<FakeEvent*>(end)->mark;
  if (!first || !second) return kInvalidValue;
  if (!first->done || !second->done) return kNotReady;
  *ms = std::chrono::duration<float, std::milli>(second->time - first->time).count();
  return 0;
}

// Every image is a module with all kernels.
TUTTI_FAKE Outcome cuModuleLoadData(Module* module, const void*) {
  if (CurrentDevice() == nullptr) return kInvalidContext;
  *module = reinterpret_cast<Module>(&Kernels());
  return 0;
}

TUTTI_FAKE Outcome cuModuleUnload(Module) { return 0; }

TUTTI_FAKE Outcome cuModuleGetFunction(Function* function, Module, const char* name) {
  for (const KernelEntry* kernel = Kernels(); kernel != nullptr; kernel = kernel->next) {
    if (std::strcmp(kernel->name, name) != 0) continue;
    *function = reinterpret_cast<Function>(const_cast<KernelEntry*>(kernel));
    return 0;
  }
  return kNotFound;
}

TUTTI_FAKE Outcome cuLaunchKernel(Function function, uint32_t blocks, uint32_t grid_y,
                                  uint32_t grid_z, uint32_t threads, uint32_t block_y,
                                  uint32_t block_z, uint32_t, Stream stream, void** parameters,
                                  void**) {
  if (blocks == 0 || threads == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1) {
    return kInvalidValue;
  }
  const auto* const kernel = reinterpret_cast<const KernelEntry*>(function);
  // As max_align_t, because the parameters are read where they lie.
  auto copy = std::shared_ptr<std::max_align_t[]>(
      new std::max_align_t[kernel->bytes / sizeof(std::max_align_t) + 1]);
  std::memcpy(copy.get(), parameters[0], kernel->bytes);
  const WorkStream* const of = StreamOf(stream);
  if (of == nullptr) return kInvalidContext;
  const int32_t device = of->device();
  ++state->launches;
  return AddWork(stream, [=]() -> Outcome {
    touched_nothing = touched_peer = false;
    kernel_device = device;
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel->run(copy.get());
    }
    kernel_device = -1;
    if (touched_peer) ++state->peer_reads;
    return touched_nothing ? kIllegalAddress : 0;
  });
}
