// GpuAborts: the communicators of GPUs of one process that end together. Aborted one after the
// other, two on one GPU can wait for each other: one's kernel holds what the other's needs to see
// that it is to end. So whoever aborts its own takes with it, in one group, all those whose ranks
// have lost their epoch, too; those whose epoch goes on are left alone.
//
//   const auto has_lost = [&] { return !transport.failure().ok(); };
//   const auto member = plugin.aborts().Join(communicator, has_lost);
//   ...
//   plugin.aborts().Abort(mine, wait);
//
// NCCL's abort runs on a thread of the plugin's own; one that hangs is quarantined and reported
// there (tutti/plugin.h).
//
// Threads: any.
#ifndef TUTTI_CORE_DEVICE_GPU_ABORTS_H_
#define TUTTI_CORE_DEVICE_GPU_ABORTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/gpu_communicator.h"
#include "core/device/gpu_stream.h"

namespace tutti {

class GpuAborts {
 public:
  class Membership {
   public:
    Membership(GpuAborts* aborts, uint64_t number) : aborts_(aborts), number_(number) {}
    ~Membership();
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

   private:
    GpuAborts* const aborts_;
    const uint64_t number_;
  };
  // `has_lost_its_epoch` is asked by any thread while the membership lives, with the members' lock
  // held: it takes no lock under which somebody joins, leaves or aborts.
  std::unique_ptr<Membership> Join(Ref<GpuCommunicator> communicator,
                                   std::function<bool()> has_lost_its_epoch);

  // As GpuCommunicator::Abort, of these and of what ends with them. What another thread has taken
  // with its own meanwhile is left to that one.
  Status Abort(std::span<const Ref<GpuCommunicator>> mine, const GpuWait& wait);

 private:
  struct Member {
    Ref<GpuCommunicator> communicator;
    std::function<bool()> has_lost_its_epoch;
    bool is_taken = false;  // somebody aborts it, or has
  };
  std::mutex mutex_;  // guards all below
  std::map<uint64_t, Member> members_;
  uint64_t next_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_ABORTS_H_
