// The collectives of a replica function under several workers. They are merges (lockstep.h):
// replica 0's thread folds or joins what the replicas of this worker brought, makes one call to the
// other workers, and leaves each replica its result. Large results are copied by the replicas
// themselves.

#ifndef TUTTI_CORE_STRATEGY_TEAM_COLLECTIVES_H_
#define TUTTI_CORE_STRATEGY_TEAM_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/strategy/lockstep.h"
#include "core/strategy/team_reduce.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Strategy;

// One replica's all_reduce.
class TeamAllReduce final : public MergePart {
 public:
  // From this many bytes on the results are copied by their replicas.
  static constexpr size_t kShareBytes = 128 * 1024;

  // Outputs are this replica's own, of the inputs' dtypes and shapes. All outlive the part.
  TeamAllReduce(const Strategy& strategy, ReduceOp op, std::string structure,
                std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs,
                const CollectiveOptions& options)
      : strategy_(strategy),
        op_(op),
        structure_(std::move(structure)),
        inputs_(inputs),
        outputs_(outputs),
        options_(options) {}

  const void* identity() const override;
  std::string Describe() const override;
  Status Execute(std::span<MergePart* const> parts) override;
  bool HasShares() const override { return has_shares_; }
  void DoShare(size_t replica, size_t num_replicas) override;

 private:
  const Strategy& strategy_;
  const ReduceOp op_;
  const std::string structure_;
  const std::span<const Tensor* const> inputs_;
  const std::span<Tensor* const> outputs_;
  const CollectiveOptions options_;
  bool has_shares_ = false;
  std::vector<TeamFold> own_folds_;               // replica 0's
  const std::vector<TeamFold>* folds_ = nullptr;  // set in every part before the shares
};

// One replica's all_gather.
class TeamAllGather final : public MergePart {
 public:
  TeamAllGather(const Strategy& strategy, size_t axis, std::string structure,
                std::span<const Tensor* const> inputs, const CollectiveOptions& options)
      : strategy_(strategy),
        axis_(axis),
        structure_(std::move(structure)),
        inputs_(inputs),
        options_(options) {}

  const void* identity() const override;
  std::string Describe() const override;
  Status Execute(std::span<MergePart* const> parts) override;

  // After success: tensors of this replica's own, which share their memory with the other
  // replicas'.
  std::vector<Ref<Tensor>> TakeOutputs() { return std::move(outputs_); }

 private:
  const Strategy& strategy_;
  const size_t axis_;
  const std::string structure_;
  const std::span<const Tensor* const> inputs_;
  const CollectiveOptions options_;
  std::vector<Ref<Tensor>> outputs_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_TEAM_COLLECTIVES_H_
