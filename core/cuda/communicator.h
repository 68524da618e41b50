// What stands behind communicators of the plugin's table, and which functions are where.
//
// A communicator's thread may be inside NCCL when another aborts it. So whoever calls NCCL with it
// holds its mutex, and abort takes it out under that mutex before its own thread gives it to NCCL.
// NCCL writes the handle where it was told to when a communicator was begun, perhaps much later:
// what an abort could not end is kept for ever.
#ifndef TUTTI_CORE_CUDA_COMMUNICATOR_H_
#define TUTTI_CORE_CUDA_COMMUNICATOR_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/cuda/nccl.h"
#include "core/cuda/plugin.h"

namespace tutti::cuda {

struct CommunicatorState {
  tutti_plugin* plugin = nullptr;
  int32_t device = 0;
  // NCCL's own numbers once it is ready; before, those that were asked for.
  std::atomic<int32_t> rank{0}, num_ranks{0};
  // Of one that is made from another: what has to be ready first.
  std::weak_ptr<CommunicatorState> parent;
  std::atomic<int32_t> state{TUTTI_PLUGIN_COMMUNICATOR_BEGUN};

  std::mutex mutex;  // guards what follows, and calls of NCCL
  nccl::Comm comm = nullptr;
  bool settled = true;    // false: NCCL may yet write comm
  std::vector<std::shared_ptr<CommunicatorState>> children;  // that are not settled
  bool in_group = false;  // a group that has not ended will use it
  int32_t failed_code = TUTTI_OK;
  std::string failure;  // why it has failed

  const nccl::Library& library() const;
};

// An abort that has not come back: its communicators and its thread.
struct HangingAbort {
  int32_t unclaimed = 0;  // communicators that their own threads have not let go
  struct Progress {
    std::mutex mutex;  // guards done
    bool done = false;  // then nobody writes outcome any more
    nccl::Outcome outcome = nccl::kSuccess;
  };
  std::shared_ptr<Progress> progress;
  std::vector<std::shared_ptr<CommunicatorState>> communicators;
  std::thread thread;
};

// The plugin's part for communicators, made when the first function of theirs is called.
struct Communicators {
  std::mutex mutex;  // guards what follows
  bool looked = false;
  int32_t why_not_code = TUTTI_OK;
  std::string why_not;
  nccl::Library library;  // fixed once `looked`
  bool used = false;      // an id or a communicator was made
  std::string network_interface, encryption_key;
  bool share_devices = false;
  std::vector<std::weak_ptr<CommunicatorState>> alive;
  std::vector<std::unique_ptr<HangingAbort>> hanging;
};

// Asks until `query` gives true or a status, or `wait` ends it: at first at once, then ever more
// rarely.
template <class Query>
tutti_status* AskUntil(const tutti_plugin_wait* wait, Query query) {
  using std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::microseconds(50);
  constexpr auto kLongestPause = std::chrono::microseconds(500);
  const auto began = steady_clock::now();
  for (;;) {
    tutti_status* status = nullptr;
    if (query(&status)) return status;
    if (wait != nullptr && wait->stop != nullptr) {
      TUTTI_CUDA_RETURN_IF(wait->stop(wait->user_data));
    }
    const auto waited = steady_clock::now() - began;
    if (waited > kSpin) {
      std::this_thread::sleep_for(std::min<steady_clock::duration>(waited / 8, kLongestPause));
    }
  }
}

inline bool WasRefused(nccl::Outcome outcome) {
  return outcome != nccl::kSuccess && outcome != nccl::kInProgress;
}
// UNIMPLEMENTED: this NCCL has no such function.
tutti_status* Lacks(tutti_plugin* plugin, const char* function, const char* since);

// Null when NCCL is there.
tutti_status* FindNccl(tutti_plugin* plugin);
// ... and devices, and the settings are fixed.
tutti_status* StartNccl(tutti_plugin* plugin);

// With the mutex held: null where it can be used, else why not.
tutti_status* CheckUsable(const CommunicatorState& communicator);
// With the mutex held: what NCCL has refused, which fails the communicator.
tutti_status* FailWith(CommunicatorState* communicator, nccl::Outcome outcome,
                       const std::string& what);
// Waits until nothing is in progress.
tutti_status* AwaitIdle(CommunicatorState* communicator, const tutti_plugin_wait* wait,
                        const std::string& what);
// The status of an outcome without a communicator.
tutti_status* FailOfNccl(tutti_plugin* plugin, int32_t device, nccl::Outcome outcome,
                         nccl::Comm comm, const std::string& what, int32_t* out_code = nullptr,
                         std::string* out_message = nullptr);
// "GPU:0, rank 1 of 4".
std::string NameOf(const CommunicatorState& communicator);

// Aborts these in one group; see tutti/plugin.h.
tutti_status* AbortAll(tutti_plugin* plugin,
                       std::vector<std::shared_ptr<CommunicatorState>> communicators,
                       const tutti_plugin_wait* wait);
// The socket that listens for the sake of an id goes to no child process that is started.
void CloseListenerOnExec(const nccl::UniqueId& id);
// Waits a little for aborts that hang, and gives them up.
void CloseCommunicators(tutti_plugin* plugin);

// ---- The functions of the table ----

tutti_status* Configure(tutti_plugin*, const tutti_plugin_communicator_settings*);
tutti_status* DescribeNccl(tutti_plugin*, tutti_plugin_communicator_library*);
tutti_status* Abort(tutti_plugin*, tutti_plugin_communicator* const*, uint64_t,
                    const tutti_plugin_wait*);
int32_t NumQuarantined(tutti_plugin*);

tutti_status* StartGroup(tutti_plugin*);
tutti_status* EndGroup(tutti_plugin*, const tutti_plugin_wait*);
tutti_status* AllReduce(tutti_plugin_communicator*, tutti_plugin_stream*, int32_t, int32_t,
                        const void*, void*, uint64_t, const tutti_plugin_wait*);
tutti_status* ReduceToRoot(tutti_plugin_communicator*, tutti_plugin_stream*, int32_t, int32_t,
                           const void*, void*, uint64_t, int32_t, const tutti_plugin_wait*);
tutti_status* Broadcast(tutti_plugin_communicator*, tutti_plugin_stream*, int32_t, const void*,
                        void*, uint64_t, int32_t, const tutti_plugin_wait*);
tutti_status* AllGather(tutti_plugin_communicator*, tutti_plugin_stream*, int32_t, const void*,
                        void*, uint64_t, const tutti_plugin_wait*);
tutti_status* ReduceScatter(tutti_plugin_communicator*, tutti_plugin_stream*, int32_t, int32_t,
                            const void*, void*, uint64_t, const tutti_plugin_wait*);
tutti_status* Send(tutti_plugin_communicator*, tutti_plugin_stream*, int32_t, const void*,
                   uint64_t, int32_t, const tutti_plugin_wait*);
tutti_status* Receive(tutti_plugin_communicator*, tutti_plugin_stream*, int32_t, void*, uint64_t,
                      int32_t, const tutti_plugin_wait*);

tutti_status* AllocateRegistered(tutti_plugin*, int32_t, uint64_t, void**);
tutti_status* ReleaseRegistered(tutti_plugin*, int32_t, void*);
tutti_status* RegisterMemory(tutti_plugin_communicator*, void*, uint64_t, int32_t,
                             const tutti_plugin_wait*, void**);
tutti_status* UnregisterMemory(tutti_plugin_communicator*, void*);

// The table.
extern const tutti_plugin_communicator_api kCommunicators;

}  // namespace tutti::cuda

struct tutti_plugin_communicator {
  std::shared_ptr<tutti::cuda::CommunicatorState> state;
};

#endif  // TUTTI_CORE_CUDA_COMMUNICATOR_H_
