// What the fake driver's machine consists of: memory without rights, streams that are threads, and
// what is known of both. fake_driver.cc puts the driver's functions on it.
#ifndef TUTTI_TESTS_GPU_FAKES_FAKE_MACHINE_H_
#define TUTTI_TESTS_GPU_FAKES_FAKE_MACHINE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "core/cuda/driver.h"
#include "tests/gpu/fakes/fake_driver.h"
#include "tests/gpu/fakes/kernels_on_cpu.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define TUTTI_FORBID(memory, bytes) ASAN_POISON_MEMORY_REGION(memory, bytes)
#define TUTTI_ALLOW(memory, bytes) ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#else
#define TUTTI_FORBID(memory, bytes) (void)(memory)
#define TUTTI_ALLOW(memory, bytes) (void)(memory)
#endif

namespace tutti::cuda {
struct ContextOfDriver {
  int32_t device;
};
}  // namespace tutti::cuda

namespace tutti::fake {

using cuda::Address;
using cuda::Context;
using cuda::Outcome;

constexpr Outcome kInvalidValue = 1, kInvalidDevice = 101, kInvalidContext = 201, kNotFound = 500,
                  kIllegalAddress = 700, kNoPeers = 217;
constexpr size_t kAlignment = 256;

// Reached when `done`.
struct Mark {
  bool done = false;  // guarded by the mutex of the machine's work
  std::chrono::steady_clock::time_point time;
};

extern std::mutex work_mutex;  // guards marks, queues and errors of devices
extern std::condition_variable work_changed;

class Arena {
 public:
  explicit Arena(size_t bytes) : bytes_(bytes) {
    const int file = memfd_create("fake-device-memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
    visible_ = static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0));
    real_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    if (visible_ == MAP_FAILED || real_ == MAP_FAILED) std::abort();
    TUTTI_FORBID(real_, bytes_);
  }
  ~Arena() {
    TUTTI_ALLOW(real_, bytes_);
    munmap(visible_, bytes_);
    munmap(real_, bytes_);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // `of_pool`: on a stream.
  Address Allocate(size_t bytes, bool of_pool) {
    size_t at = 0;
    for (const auto& [begin, size] : used_) {
      if (begin - at >= bytes) break;
      at = (begin + size + kAlignment - 1) / kAlignment * kAlignment;
    }
    if (bytes > bytes_ || at > bytes_ - bytes) return 0;
    used_[at] = bytes;
    if (of_pool) of_pool_.insert(at);
    used_bytes_ += bytes;
    TUTTI_ALLOW(real_ + at, bytes);
    std::memset(real_ + at, 0xdb, bytes);  // nobody may rely on zeros
    return reinterpret_cast<Address>(visible_ + at);
  }

  bool Free(Address address) {
    const auto found = used_.find(address - reinterpret_cast<Address>(visible_));
    if (found == used_.end()) return false;
    std::memset(real_ + found->first, 0xdd, found->second);
    TUTTI_FORBID(real_ + found->first, found->second);
    used_bytes_ -= found->second;
    of_pool_.erase(found->first);
    used_.erase(found);
    return true;
  }

  bool Holds(Address address) const {
    const auto begin = reinterpret_cast<Address>(visible_);
    return address >= begin && address < begin + bytes_;
  }
  // Null for memory that nobody has.
  void* Real(Address address) const {
    const size_t at = address - reinterpret_cast<Address>(visible_);
    auto after = used_.upper_bound(at);
    if (after == used_.begin()) return nullptr;
    --after;
    return at < after->first + after->second ? real_ + at : nullptr;
  }
  bool IsOfPool(Address address) const {
    auto after = used_.upper_bound(address - reinterpret_cast<Address>(visible_));
    return after != used_.begin() && of_pool_.count((--after)->first) != 0;
  }
  size_t bytes() const { return bytes_; }
  size_t used_bytes() const { return used_bytes_; }
  size_t allocations() const { return used_.size(); }

 private:
  const size_t bytes_;
  size_t used_bytes_ = 0;
  char* visible_;
  char* real_;
  std::map<size_t, size_t> used_;  // offset -> bytes
  std::set<size_t> of_pool_;       // the offsets of those that were allocated on a stream
};

class WorkStream {
 public:
  explicit WorkStream(int32_t device) : device_(device), thread_([this] { Run(); }) {}
  ~WorkStream() {
    {
      const std::lock_guard lock(work_mutex);
      ending_ = true;
    }
    work_changed.notify_all();
    thread_.join();
  }
  WorkStream(const WorkStream&) = delete;
  WorkStream& operator=(const WorkStream&) = delete;

  int32_t device() const { return device_; }
  void Add(std::function<Outcome()> work) {
    {
      const std::lock_guard lock(work_mutex);
      queue_.push_back(std::move(work));
      ++unfinished_;
    }
    work_changed.notify_all();
  }
  // With the mutex held.
  bool idle() const { return unfinished_ == 0; }

  std::atomic<bool> destroyed{false};

 private:
  void Run();

  const int32_t device_;
  std::deque<std::function<Outcome()>> queue_;
  size_t unfinished_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

struct DeviceState {
  explicit DeviceState(int32_t index, size_t bytes) : arena(bytes), context{index} {}
  Arena arena;  // guarded by memory_mutex
  cuda::ContextOfDriver context;
  int32_t retained = 0;
  // Guarded by memory_mutex: whose memory its kernels may touch, and who may touch its pool.
  std::set<int32_t> peers, pool_users;
  Outcome error = 0;  // guarded by work_mutex
  std::unique_ptr<WorkStream> default_stream;
};

struct State {
  Machine machine;
  std::vector<std::unique_ptr<DeviceState>> devices;
  std::vector<std::unique_ptr<WorkStream>> streams;
  std::map<void*, size_t> pinned;
  std::atomic<int32_t> events{0}, allocations_made{0}, work_done{0}, not_ready{0};
  std::atomic<int64_t> launches{0}, copies_in{0}, between{0}, peer_reads{0};
};
extern std::mutex memory_mutex;  // guards arenas, pinned memory and the list of streams
extern State* state;
extern thread_local std::vector<Context> contexts;
extern thread_local int32_t kernel_device;  // whose kernel the thread runs; -1: none
extern thread_local bool touched_nothing;   // a kernel's address was nobody's, or out of its reach
extern thread_local bool touched_peer;      // ... was another device's

void Build(const Machine& machine);
// Ends what runs and forgets everything.
void Demolish();
State& Now();
// Null where the thread has no context.
DeviceState* CurrentDevice();
WorkStream* StreamOf(cuda::Stream handle);
Outcome ErrorOf(int32_t device);
// A device's bytes, or host memory as it is; null for device memory that nobody has.
void* RealAddress(Address address);
bool IsDevice(Address address);
bool IsPinned(const void* memory);
// Adds work that fails with the device's error where there is one.
Outcome AddWork(cuda::Stream handle, std::function<Outcome()> work);
void WaitUntilIdle(WorkStream* stream);
void WaitForDevice(int32_t device);
// `of_pool`: on a stream.
Outcome AllocateFrom(DeviceState* device, Address* memory, size_t bytes, bool of_pool);
// The device that has it; -1: none.
int32_t DeviceThatHas(Address address);
Outcome FreeOf(Address memory);

struct FakeEvent {
  std::shared_ptr<Mark> mark;  // of the last record
  int32_t device = 0;
  bool timed = false;
};

}  // namespace tutti::fake

#endif  // TUTTI_TESTS_GPU_FAKES_FAKE_MACHINE_H_
