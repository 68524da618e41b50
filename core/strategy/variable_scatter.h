// VariableScatter: one replica's part in a sparse update of a mirrored variable.
//
// The replicas' slices are applied one replica after the other, so that the bits depend on nothing
// else. Where there is much of it, every replica does a range of the rows, in all copies.
//
// Under several workers the slices of all of them are joined first, in the order of the replicas;
// ONLY_FIRST_REPLICA is worker 0's replica 0.

#ifndef TUTTI_CORE_STRATEGY_VARIABLE_SCATTER_H_
#define TUTTI_CORE_STRATEGY_VARIABLE_SCATTER_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/strategy/lockstep.h"
#include "core/strategy/variable.h"
#include "core/tensor/indexed_slices.h"
#include "core/tensor/scatter.h"

namespace tutti {

class TeamChannel;

class VariableScatter final : public MergePart {
 public:
  // From this many bytes of values on the rows are shared out.
  static constexpr size_t kShareBytes = 128 * 1024;

  // Slices that CheckScatter has passed; all outlive the part.
  VariableScatter(Variable& variable, ScatterOp op, const IndexedSlices& slices,
                  const CallOptions& options)
      : variable_(variable), op_(op), slices_(slices), options_(options) {}

  // Different for each variable and each operation, and from those of VariableUpdate.
  const void* identity() const override {
    constexpr int kBehindWrites = 4;
    return reinterpret_cast<const char*>(&variable_) + kBehindWrites + static_cast<int>(op_);
  }
  std::string Describe() const override;
  Status Execute(std::span<MergePart* const> parts) override;
  bool HasShares() const override { return has_shares_; }
  void DoShare(size_t replica, size_t num_replicas) override;

 private:
  // What all replicas need: made by replica 0's part, read by all.
  struct Plan {
    std::vector<IndexedSlices> slices;                // in the order of the replicas
    std::vector<std::unique_lock<std::mutex>> locks;  // on the copies
  };

  // Puts those of all workers in the place of this worker's.
  Status JoinOverTeam(TeamChannel& team);
  void ScatterRange(const Plan& plan, int64_t begin, int64_t end) const;

  Variable& variable_;
  const ScatterOp op_;
  const IndexedSlices& slices_;
  const CallOptions options_;
  bool has_shares_ = false;
  Plan own_plan_;               // replica 0's
  const Plan* plan_ = nullptr;  // set in every part before the shares
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_VARIABLE_SCATTER_H_
