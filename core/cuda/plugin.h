// What stands behind the opaque types of tutti/plugin.h, and how a failure becomes a status.
//
// A device is used for the first time when something is allocated or made on it: then its primary
// context, the one that frameworks use as well, is retained. Every call makes it current on the
// calling thread, and puts back what was current before.
#ifndef TUTTI_CORE_CUDA_PLUGIN_H_
#define TUTTI_CORE_CUDA_PLUGIN_H_

#include <tutti/plugin.h>
#include <tutti/status.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/cuda/driver.h"

namespace tutti::cuda {

// Pinned memory with a list of pieces that a kernel reads; free when the event is reached.
struct PieceList {
  void* memory = nullptr;
  Event read = nullptr;
};

// A list that lies on the device, and the pieces that it was made of.
struct KeptList {
  std::vector<tutti_plugin_piece> pieces;
  uint64_t sample = 0;  // of them
  void* memory = nullptr;
  uint64_t entries = 0;
  Event written = nullptr;
  std::atomic<bool> is_there{false};  // it has been written
  uint64_t turn = 0;  // when it was used last; guarded by the device's lists_mutex
};

struct Device {
  DeviceOrdinal ordinal = 0;
  int32_t multiprocessors = 1;
  int32_t compute_major = 0;
  int32_t compute_minor = 0;

  std::atomic<Context> context{nullptr};  // once set it stays
  std::mutex mutex;                       // guards all that follows, and making the context
  std::vector<Module> modules;            // one for each image, when the first kernel is wanted
  std::string no_kernels;                 // why they do not load; then nobody tries again
  std::map<std::string, Function, std::less<>> functions;
  std::map<int32_t, bool> peers;          // whose memory its kernels can work on, where it is known

  std::mutex lists_mutex;  // guards those that follow
  std::vector<PieceList> free_lists;
  int32_t lists = 0;  // that there are
  std::vector<std::shared_ptr<KeptList>> kept;
  std::vector<uint64_t> seen;  // samples of pieces of which there is no kept list
  uint64_t turns = 0;          // calls that have asked for one

  std::atomic<int64_t> used_bytes{0};
  std::atomic<int64_t> peak_bytes{0};
};

struct Communicators;  // communicator.h

struct Allocation {
  int32_t device;
  uint64_t bytes;
  bool on_stream;
};

}  // namespace tutti::cuda

struct tutti_plugin {
  const tutti_plugin_host* host;
  tutti::cuda::Driver driver;
  std::string why_no_device;
  std::vector<std::unique_ptr<tutti::cuda::Device>> devices;

  std::mutex mutex;  // guards what follows
  std::unordered_map<uint64_t, tutti::cuda::Allocation> allocations;  // by address
  std::unordered_map<void*, uint64_t> pinned;
  std::unordered_map<void*, uint64_t> registered;  // by NCCL when it was allocated

  std::unique_ptr<tutti::cuda::Communicators> communicators;

  tutti_plugin();
  ~tutti_plugin();

  // A status; null for TUTTI_OK is never made.
  tutti_status* Fail(int32_t code, const std::string& message) const {
    return host->make_status(host->context, code, message.c_str());
  }
  // What the driver said when `what` was done on a device.
  tutti_status* FailAs(tutti::cuda::Outcome outcome, int32_t device, const std::string& what) const;
  tutti_status* CheckDevice(int32_t device) const;
};

struct tutti_plugin_stream {
  tutti_plugin* plugin;
  int32_t device;
  tutti::cuda::Stream stream;
  bool owned;
};

struct tutti_plugin_event {
  tutti_plugin* plugin;
  int32_t device;
  tutti::cuda::Event event;
  bool timed;
};

namespace tutti::cuda {

// While it lives the device's context is current.
class Current {
 public:
  Current(tutti_plugin* plugin, int32_t device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  // Why it is not current, which is the caller's to return; null when it is.
  tutti_status* TakeError() { return std::exchange(error_, nullptr); }

 private:
  const tutti_plugin_host* const host_;
  const Driver& driver_;
  tutti_status* error_ = nullptr;
  bool pushed_ = false;
};

// Leaves the calling function with a status when the driver refuses.
#define TUTTI_CUDA_CALL(plugin, device, call, what) \
  do { \
    const ::tutti::cuda::Outcome outcome_ = (call); \
    if (outcome_ != ::tutti::cuda::kSuccess) return (plugin)->FailAs(outcome_, device, what); \
  } while (false)

#define TUTTI_CUDA_RETURN_IF(expression) \
  do { \
    if (tutti_status* status_ = (expression)) return status_; \
  } while (false)

inline Address AddressOf(const void* memory) { return reinterpret_cast<Address>(memory); }

// "GPU:0".
std::string DeviceName(int32_t device);

// Runs `body`, which returns a status; what the language throws for lack of memory becomes one.
template <class Body>
tutti_status* Guarded(const tutti_plugin* plugin, Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return plugin->host->make_status(plugin->host->context, TUTTI_RESOURCE_EXHAUSTED,
                                     "the CUDA plugin is out of host memory");
  }
}

// The machine code in this library; none where it was built without a toolkit.
struct KernelImage {
  const void* data;
  size_t size;
};
inline constexpr size_t kReduceImage = 0, kMoveImage = 1, kConvertImage = 2;
std::vector<KernelImage> KernelImages();
// The version of the toolkit that made it, as a driver's: 13000.
int32_t KernelToolkit();

// One kernel in `blocks` blocks, or as many as keep the device busy; its parameters are read before
// this returns.
tutti_status* LaunchBlocks(tutti_plugin_stream* stream, std::string_view name, void* params,
                           uint64_t blocks);
// The list of these pieces on the stream's device, where they have come before; else null. To be
// used by launches of the stream after AwaitKeptList. With the context current, as those that
// follow.
std::shared_ptr<KeptList> FindKeptList(tutti_plugin_stream* stream,
                                       const tutti_plugin_piece* pieces, uint64_t count);
tutti_status* AwaitKeptList(tutti_plugin_stream* stream, KeptList* list);
void DropKeptLists(tutti_plugin* plugin, int32_t device);
// Gives back what pack and unpack have kept for a device, whose context is current; when the plugin
// ends.
void DropLists(tutti_plugin* plugin, int32_t device);

// True when the code in this library runs on the device, under this driver; else why not.
bool HasKernels(const Driver& driver, const Device& device, std::string* reason);

// Of TUTTI_DTYPE_* and TUTTI_REDUCE_*: 0 bytes for what no kernel takes.
uint32_t ItemBytes(int32_t dtype);
std::string DTypeText(int32_t dtype);
const char* ReductionText(int32_t op);

// ---- The functions of the table ----

tutti_status* AllocateMemory(tutti_plugin*, int32_t, uint64_t, void**);
tutti_status* ReleaseMemory(tutti_plugin*, int32_t, void*);
tutti_status* AllocateOnStream(tutti_plugin_stream*, uint64_t, void**);
tutti_status* ReleaseOnStream(tutti_plugin_stream*, void*);
tutti_status* AllocatePinned(tutti_plugin*, int32_t, uint64_t, void**);
tutti_status* ReleasePinned(tutti_plugin*, int32_t, void*);
tutti_status* MemoryInfo(tutti_plugin*, int32_t, tutti_plugin_memory_info*);

tutti_status* CreateStream(tutti_plugin*, int32_t, tutti_plugin_stream**);
tutti_status* WrapStream(tutti_plugin*, int32_t, uint64_t, tutti_plugin_stream**);
uint64_t StreamHandle(tutti_plugin_stream*);
int32_t StreamDevice(tutti_plugin_stream*);
tutti_status* WaitForStream(tutti_plugin_stream*, const tutti_plugin_wait*);
void DestroyStream(tutti_plugin_stream*);

tutti_status* CreateEvent(tutti_plugin*, int32_t, int32_t, tutti_plugin_event**);
tutti_status* RecordEvent(tutti_plugin_event*, tutti_plugin_stream*);
tutti_status* QueryEvent(tutti_plugin_event*, int32_t*);
tutti_status* WaitForEvent(tutti_plugin_event*, const tutti_plugin_wait*);
tutti_status* StreamWaitEvent(tutti_plugin_stream*, tutti_plugin_event*);
tutti_status* EventElapsed(tutti_plugin_event*, tutti_plugin_event*, double*);
void DestroyEvent(tutti_plugin_event*);

tutti_status* Copy(tutti_plugin_stream*, int32_t, void*, const void*, uint64_t);
tutti_status* Fill(tutti_plugin_stream*, void*, unsigned char, uint64_t);

tutti_status* ReachPeer(tutti_plugin*, int32_t, int32_t, int32_t*);

tutti_status* Pack(tutti_plugin_stream*, const tutti_plugin_piece*, uint64_t, void*);
tutti_status* Unpack(tutti_plugin_stream*, const tutti_plugin_piece*, uint64_t, const void*);
tutti_status* Reduce(tutti_plugin_stream*, int32_t, int32_t, const void* const*, uint64_t, uint64_t,
                     void*);
tutti_status* Scale(tutti_plugin_stream*, int32_t, const void*, double, uint64_t, void*);
tutti_status* Cast(tutti_plugin_stream*, int32_t, const void*, int32_t, void*, uint64_t);
tutti_status* CopyStrided(tutti_plugin_stream*, uint64_t, int32_t, const int64_t*, const void*,
                          const int64_t*, void*, const int64_t*);
tutti_status* CheckNumerics(tutti_plugin_stream*, int32_t, const void*, uint64_t, uint64_t*);

}  // namespace tutti::cuda

#endif  // TUTTI_CORE_CUDA_PLUGIN_H_
