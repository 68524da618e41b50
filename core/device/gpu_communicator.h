// Collective operations between GPUs, by NCCL in the CUDA plugin: one handle for each rank.
//
//   TUTTI_ASSIGN_OR_RETURN(const GpuCommunicatorId id, NewGpuCommunicatorId(*plugin));  // one rank
//   ... the id goes to all ranks ...
//   TUTTI_ASSIGN_OR_RETURN(auto ranks, GpuCommunicator::Begin(place, {id, rank, num_ranks}));
//   TUTTI_RETURN_IF_ERROR(ranks->AwaitReady(wait));
//   TUTTI_RETURN_IF_ERROR(ranks->AllReduce(*stream, ReduceOp::kSum, dtype, in, out, n, wait));
//   TUTTI_RETURN_IF_ERROR(ranks->Finalize(wait));
//
// Operations return when they stand on the stream. What NCCL does not have is UNIMPLEMENTED
// (tutti/plugin.h lists it): whoever wants it composes it of what there is. Nothing waits inside
// NCCL: `wait` ends every wait, after which the communicator can only be aborted.
//
// Threads: one at a time for each communicator; Abort, Poll and Info by any.
#ifndef TUTTI_CORE_DEVICE_GPU_COMMUNICATOR_H_
#define TUTTI_CORE_DEVICE_GPU_COMMUNICATOR_H_

#include <tutti/plugin.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/gpu_stream.h"
#include "core/device/plugin.h"
#include "core/tensor/dtype.h"
#include "core/tensor/reduce.h"

namespace tutti {

using GpuCommunicatorId = std::array<unsigned char, TUTTI_PLUGIN_COMMUNICATOR_ID_BYTES>;

// The NCCL that a plugin has found.
struct GpuCollectives {
  int version = 0;            // 23007 is 2.30.7
  uint32_t capabilities = 0;  // TUTTI_PLUGIN_CAN_*
  std::string file;
  std::string origin;  // "the process", "TUTTI_NCCL_LIBRARY", "the system"

  bool can(uint32_t capability) const { return (capabilities & capability) != 0; }
  std::string version_text() const;  // "2.30.7"
};

// What holds for all communicators of a process.
struct GpuCollectivesSettings {
  std::string network_interface;  // the job's; "": NCCL chooses. A user's NCCL_SOCKET_IFNAME wins
  bool share_devices = false;     // several ranks may be on one device (NCCL 2.30)
  std::string encryption_key;     // 32 characters or more; "": none (NCCL 2.32)
};

// NOT_FOUND says where NCCL was looked for, FAILED_PRECONDITION which is too old; UNIMPLEMENTED is
// a plugin without communicators. Needs no device.
Result<GpuCollectives> FindGpuCollectives(const DevicePlugin& plugin);
// Before the first id and communicator of the process.
Status ConfigureGpuCollectives(const DevicePlugin& plugin, const GpuCollectivesSettings& settings);
// NCCL listens from then on, and believes whoever connects first.
Result<GpuCommunicatorId> NewGpuCommunicatorId(const DevicePlugin& plugin);
// Communicators of this process whose abort has hung.
int NumQuarantinedGpuCommunicators(const DevicePlugin& plugin);

// What each rank knows of itself before a communicator is made, exchanged by whoever makes it.
struct GpuRankFacts {
  std::string host;     // the same for ranks of one machine
  std::string device;   // its UUID, or what else tells the devices of a host apart
  int nccl_version = 0;
  uint32_t capabilities = 0;

  bool operator==(const GpuRankFacts&) const = default;
};
// This process's part of a rank on `place`. Errors as of FindGpuCollectives.
Result<GpuRankFacts> FactsOfGpuRank(const GpuPlace& place, std::string_view host);
// OK when these ranks can be one communicator: FAILED_PRECONDITION, the same on all ranks, naming
// two of them whose NCCLs differ (major and minor), or that are on one device where NCCL cannot do
// that.
Status CheckGpuRanks(std::span<const GpuRankFacts> ranks);

struct GpuCommunicatorConfig {
  GpuCommunicatorId id = {};
  int rank = 0;
  int num_ranks = 1;
  int min_blocks = 0;  // of a kernel of NCCL's; 0: NCCL chooses
  int max_blocks = 0;
};

class GpuCommunicator final : public RefCounted {
 public:
  // INVALID_ARGUMENT for a rank outside 0 .. num_ranks - 1.
  static Result<Ref<GpuCommunicator>> Begin(const GpuPlace& place,
                                            const GpuCommunicatorConfig& config);
  // Of a rank that comes to those that call Grow: `config.rank` is its new one.
  static Result<Ref<GpuCommunicator>> BeginToJoin(const GpuPlace& place,
                                                  const GpuCommunicatorConfig& config);
  Status AwaitReady(const GpuWait& wait = {});

  const GpuPlace& place() const { return place_; }
  // As NCCL says, once it is ready.
  Result<tutti_plugin_communicator_info> Info() const;
  // The asynchronous error; OK also while something is in progress.
  Status Poll() const;

  // Counts are of elements: of each rank's input for AllGather, of each rank's output for
  // ReduceScatter. INVALID_ARGUMENT for a stream of another device.
  Status AllReduce(const GpuStream& stream, ReduceOp op, DType dtype, const void* in, void* out,
                   uint64_t elements, const GpuWait& wait = {});
  Status Reduce(const GpuStream& stream, ReduceOp op, DType dtype, const void* in, void* out,
                uint64_t elements, int root, const GpuWait& wait = {});
  Status Broadcast(const GpuStream& stream, DType dtype, const void* in, void* out,
                   uint64_t elements, int root, const GpuWait& wait = {});
  Status AllGather(const GpuStream& stream, DType dtype, const void* in, void* out,
                   uint64_t elements, const GpuWait& wait = {});
  Status ReduceScatter(const GpuStream& stream, ReduceOp op, DType dtype, const void* in,
                       void* out, uint64_t elements, const GpuWait& wait = {});
  Status Send(const GpuStream& stream, DType dtype, const void* in, uint64_t elements, int peer,
              const GpuWait& wait = {});
  Status Receive(const GpuStream& stream, DType dtype, void* out, uint64_t elements, int peer,
                 const GpuWait& wait = {});

  // All ranks (Shrink: those that stay) call these; then AwaitReady of what comes out. Split gives
  // null for TUTTI_PLUGIN_NO_COLOR. Grow: the rank that called GrowId passes its id, others null.
  Result<Ref<GpuCommunicator>> Split(int color, int key);
  Result<Ref<GpuCommunicator>> Shrink(std::span<const int32_t> left_out, bool aborting);
  Result<GpuCommunicatorId> GrowId();
  Result<Ref<GpuCommunicator>> Grow(int num_ranks, const GpuCommunicatorId* id);

  Status Revoke(const GpuWait& wait = {});
  Status Finalize(const GpuWait& wait = {});
  // Ends what these do, in one group. DEADLINE_EXCEEDED or CANCELLED: it hangs, and they are
  // quarantined. All of one plugin.
  static Status Abort(std::span<const Ref<GpuCommunicator>> communicators,
                      const GpuWait& wait = {});

  // Registers memory of the device for as long as the result lives, which holds the communicator;
  // `window`: on all ranks together.
  class Registration;
  Result<Ref<Registration>> Register(void* memory, uint64_t bytes, bool window,
                                     const GpuWait& wait = {});

  tutti_plugin_communicator* raw() const { return communicator_; }

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  GpuCommunicator(const GpuPlace& place, tutti_plugin_communicator* communicator)
      : place_(place), communicator_(communicator) {}
  // Aborts what was neither finalized nor aborted.
  ~GpuCommunicator() override;

  const tutti_plugin_communicator_api& api() const { return *place_.api().communicators; }

  const GpuPlace place_;
  tutti_plugin_communicator* const communicator_;
};

class GpuCommunicator::Registration final : public RefCounted {
 private:
  friend class GpuCommunicator;
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  Registration(Ref<GpuCommunicator> communicator, void* handle)
      : communicator_(std::move(communicator)), handle_(handle) {}
  ~Registration() override;

  const Ref<GpuCommunicator> communicator_;
  void* const handle_;
};

// Memory that NCCL has allocated, registered with one communicator. Whoever gives it up has waited
// for the work on it.
class GpuRegisteredMemory final : public RefCounted {
 public:
  // UNIMPLEMENTED where NCCL has no such functions.
  static Result<Ref<GpuRegisteredMemory>> Create(GpuCommunicator& communicator, uint64_t bytes,
                                                 const GpuWait& wait = {});
  void* data() const { return memory_; }
  uint64_t bytes() const { return bytes_; }

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  GpuRegisteredMemory(const GpuPlace& place, void* memory, uint64_t bytes)
      : place_(place), memory_(memory), bytes_(bytes) {}
  ~GpuRegisteredMemory() override;

  const GpuPlace place_;
  void* const memory_;
  const uint64_t bytes_;
  Ref<GpuCommunicator::Registration> registration_;
};

// Operations of this thread that NCCL takes as one, whatever communicators they are of.
class GpuGroup {
 public:
  // UNIMPLEMENTED for a plugin without communicators.
  static Result<GpuGroup> Start(Ref<DevicePlugin> plugin);
  GpuGroup(GpuGroup&& other) noexcept = default;
  GpuGroup& operator=(GpuGroup&&) = delete;
  // Ends it when End has not been called; what comes of it is lost.
  ~GpuGroup();

  // Returns when all stand on their streams.
  Status End(const GpuWait& wait = {});

 private:
  explicit GpuGroup(Ref<DevicePlugin> plugin) : plugin_(std::move(plugin)) {}
  Ref<DevicePlugin> plugin_;  // null when it has ended
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_COMMUNICATOR_H_
