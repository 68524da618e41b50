// One replica's all_reduce where the strategy was given cross-device ops: a merge (lockstep.h), in
// which replica 0's thread has them reduce the tensors of all replicas of this process.

#ifndef TUTTI_CORE_STRATEGY_OPS_ALL_REDUCE_H_
#define TUTTI_CORE_STRATEGY_OPS_ALL_REDUCE_H_

#include <span>
#include <string>

#include "core/base/status.h"
#include "core/collective/communicator/communication_options.h"
#include "core/strategy/lockstep.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Strategy;

class OpsAllReduce final : public MergePart {
 public:
  // Outputs are this replica's own, of the inputs' dtypes and shapes. All outlive the part.
  OpsAllReduce(Strategy& strategy, ReduceOp op, std::span<const Tensor* const> inputs,
               std::span<Tensor* const> outputs, const CollectiveOptions& options)
      : strategy_(strategy), op_(op), inputs_(inputs), outputs_(outputs), options_(options) {}

  const void* identity() const override;
  std::string Describe() const override;
  Status Execute(std::span<MergePart* const> parts) override;

 private:
  Strategy& strategy_;
  const ReduceOp op_;
  const std::span<const Tensor* const> inputs_;
  const std::span<Tensor* const> outputs_;
  const CollectiveOptions options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_OPS_ALL_REDUCE_H_
