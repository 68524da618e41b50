// VariableUpdate: one replica's part in a write of a mirrored variable.
//
// The replicas' tensors are folded element by element in the order of the replicas, and the fold is
// written to every copy at once, block by block, so that it never leaves the cache. Large variables
// are cut into one range per replica, and every replica does its own: which thread does an element
// decides nothing about its bits.
//
// Under several workers the replicas' tensors are folded over all of them first (team_reduce.h),
// and that one tensor is written as above; ONLY_FIRST_REPLICA is worker 0's replica 0.

#ifndef TUTTI_CORE_STRATEGY_VARIABLE_UPDATE_H_
#define TUTTI_CORE_STRATEGY_VARIABLE_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/gpu_stream.h"
#include "core/strategy/lockstep.h"
#include "core/strategy/variable.h"
#include "core/tensor/tensor.h"

namespace tutti {

class CrossDeviceOps;
class TeamChannel;

class VariableUpdate final : public MergePart {
 public:
  // From this many bytes on the work is shared out: it takes longer than waking a thread.
  static constexpr int64_t kShareBytes = 128 * 1024;

  // `tensor` has the variable's dtype and shape; both outlive the part.
  VariableUpdate(Variable& variable, Variable::Write write, const Tensor& tensor,
                 const CallOptions& options)
      : variable_(variable), write_(write), tensor_(tensor), options_(options) {}

  // Different for each variable and each kind of write.
  const void* identity() const override {
    return reinterpret_cast<const char*>(&variable_) + static_cast<int>(write_);
  }
  std::string Describe() const override;
  Status Execute(std::span<MergePart* const> parts) override;
  bool HasShares() const override { return has_shares_; }
  void DoShare(size_t replica, size_t num_replicas) override;

 private:
  // What all replicas need: made by replica 0's part, read by all.
  struct Plan {
    std::vector<Ref<Tensor>> operands;                // contiguous, in the order of the replicas
    std::vector<std::unique_lock<std::mutex>> locks;  // on the copies
  };

  // Puts the fold over all workers in the place of the operands.
  Status FoldOverTeam(TeamChannel& team);
  // Shows the replicas' tensors to the observer, where there is one worker.
  Status ObserveOperands() const;
  // The same by the strategy's cross-device ops.
  Status FoldByOps(CrossDeviceOps& ops, std::span<MergePart* const> parts);
  // All of Execute, where copies or operands lie on GPUs, once there are operands.
  Status UpdateOnDevices();
  GpuWait Wait() const;
  // Folds and writes elements [begin, end).
  void UpdateRange(const Plan& plan, int64_t begin, int64_t end) const;

  Variable& variable_;
  const Variable::Write write_;
  const Tensor& tensor_;
  const CallOptions options_;
  bool has_shares_ = false;
  Plan own_plan_;               // replica 0's
  const Plan* plan_ = nullptr;  // set in every part before the shares
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_VARIABLE_UPDATE_H_
