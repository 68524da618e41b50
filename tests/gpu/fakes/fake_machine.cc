#include "tests/gpu/fakes/fake_machine.h"

#include <utility>

namespace tutti::fake {

std::mutex work_mutex;
std::condition_variable work_changed;
std::mutex memory_mutex;
State* state = nullptr;
thread_local std::vector<Context> contexts;
thread_local int32_t kernel_device = -1;
thread_local bool touched_nothing = false;
thread_local bool touched_peer = false;

void Build(const Machine& machine) {
  state = new State;
  state->machine = machine;
  state->not_ready = machine.not_ready;
  for (int32_t i = 0; i < machine.devices; ++i) {
    state->devices.push_back(std::make_unique<DeviceState>(i, machine.memory_bytes));
  }
}

void Demolish() {
  if (state == nullptr) return;
  state->streams.clear();
  for (auto& device : state->devices) device->default_stream.reset();
  for (const auto& [memory, bytes] : state->pinned) std::free(memory);
  delete state;
  state = nullptr;
}

namespace {

struct AtUnload {
  ~AtUnload() { Demolish(); }
} at_unload;

}  // namespace

State& Now() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (state != nullptr) return;
    Machine machine;
    // Of programs that cannot say which machine it is.
    if (const char* const devices = std::getenv("TUTTI_FAKE_GPUS")) {
      machine.devices = std::atoi(devices);
    }
    Build(machine);
  });
  return *state;
}

void WorkStream::Run() {
  std::unique_lock lock(work_mutex);
  for (;;) {
    work_changed.wait(lock, [&] { return !queue_.empty() || ending_; });
    if (queue_.empty()) return;
    std::function<Outcome()> work = std::move(queue_.front());
    queue_.pop_front();
    DeviceState& device = *state->devices[static_cast<size_t>(device_)];
    const bool fails = ++state->work_done == state->machine.fail_work;
    if (fails) device.error = kIllegalAddress;
    lock.unlock();
    // What comes after an error is not done; marks are set all the same.
    const Outcome outcome = work();
    lock.lock();
    if (outcome != 0 && device.error == 0) device.error = outcome;
    --unfinished_;
    work_changed.notify_all();
  }
}

DeviceState* CurrentDevice() {
  if (contexts.empty()) return nullptr;
  return Now().devices[static_cast<size_t>(contexts.back()->device)].get();
}

WorkStream* StreamOf(cuda::Stream handle) {
  if (reinterpret_cast<uint64_t>(handle) > 2) return reinterpret_cast<WorkStream*>(handle);
  DeviceState* const device = CurrentDevice();
  if (device == nullptr) return nullptr;
  const std::lock_guard lock(memory_mutex);
  if (!device->default_stream) {
    device->default_stream = std::make_unique<WorkStream>(device->context.device);
  }
  return device->default_stream.get();
}

Outcome ErrorOf(int32_t device) {
  const std::lock_guard lock(work_mutex);
  return Now().devices[static_cast<size_t>(device)]->error;
}

void* RealAddress(Address address) {
  const std::lock_guard lock(memory_mutex);
  for (const auto& device : state->devices) {
    if (device->arena.Holds(address)) return device->arena.Real(address);
  }
  return reinterpret_cast<void*>(address);
}

int32_t DeviceThatHas(Address address) {
  const std::lock_guard lock(memory_mutex);
  for (const auto& device : state->devices) {
    if (device->arena.Holds(address)) return device->context.device;
  }
  return -1;
}

bool IsDevice(Address address) { return DeviceThatHas(address) >= 0; }

bool IsPinned(const void* memory) {
  const std::lock_guard lock(memory_mutex);
  auto after = state->pinned.upper_bound(const_cast<void*>(memory));
  if (after == state->pinned.begin()) return false;
  --after;
  return static_cast<const char*>(memory) < static_cast<const char*>(after->first) + after->second;
}

Outcome AddWork(cuda::Stream handle, std::function<Outcome()> work) {
  WorkStream* const stream = StreamOf(handle);
  if (stream == nullptr) return kInvalidContext;
  if (const Outcome error = ErrorOf(stream->device())) return error;
  const int32_t device = stream->device();
  stream->Add([work = std::move(work), device]() -> Outcome {
    if (const Outcome error = ErrorOf(device)) return error;
    return work();
  });
  return 0;
}

void WaitUntilIdle(WorkStream* stream) {
  std::unique_lock lock(work_mutex);
  work_changed.wait(lock, [&] { return stream->idle(); });
}

void WaitForDevice(int32_t device) {
  std::vector<WorkStream*> streams;
  {
    const std::lock_guard lock(memory_mutex);
    for (const auto& stream : state->streams) {
      if (stream->device() == device) streams.push_back(stream.get());
    }
    auto& own = state->devices[static_cast<size_t>(device)]->default_stream;
    if (own) streams.push_back(own.get());
  }
  for (WorkStream* stream : streams) WaitUntilIdle(stream);
}

Outcome AllocateFrom(DeviceState* device, Address* memory, size_t bytes, bool of_pool) {
  if (device == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (const Outcome error = ErrorOf(device->context.device)) return error;
  if (++state->allocations_made == state->machine.fail_allocation) return cuda::kOutOfMemory;
  const std::lock_guard lock(memory_mutex);
  *memory = device->arena.Allocate(bytes, of_pool);
  return *memory == 0 ? cuda::kOutOfMemory : 0;
}

Outcome FreeOf(Address memory) {
  const std::lock_guard lock(memory_mutex);
  for (const auto& device : state->devices) {
    if (device->arena.Holds(memory)) return device->arena.Free(memory) ? 0 : kInvalidValue;
  }
  return kInvalidValue;
}

namespace {

// Whether kernels of a device may touch what another one has; with memory_mutex held.
bool MayTouch(int32_t device, const DeviceState& owner, Address address) {
  if (owner.context.device == device) return true;
  if (owner.arena.IsOfPool(address)) return owner.pool_users.count(device) != 0;
  const std::set<int32_t>& peers = state->devices[static_cast<size_t>(device)]->peers;
  return peers.count(owner.context.device) != 0;
}

void* AddressForKernel(Address address) {
  const std::lock_guard lock(memory_mutex);
  for (const auto& device : state->devices) {
    if (!device->arena.Holds(address)) continue;
    touched_peer = touched_peer || device->context.device != kernel_device;
    return MayTouch(kernel_device, *device, address) ? device->arena.Real(address) : nullptr;
  }
  return reinterpret_cast<void*>(address);
}

}  // namespace

void* Translate(const void* address) {
  void* const real = AddressForKernel(reinterpret_cast<Address>(address));
  if (real == nullptr) {
    touched_nothing = true;
    alignas(64) static thread_local char nowhere[4096];
    return nowhere;
  }
  return real;
}

}  // namespace tutti::fake
