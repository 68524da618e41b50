// DeviceAllReduce: one replica's all_reduce under a strategy with GPUs, as a merge. Replica 0's
// thread reduces what the replicas brought, on their devices (device_values.h), or by the
// strategy's cross-device ops where it was given some; each replica gets its results where its
// tensors lay.

#ifndef TUTTI_CORE_STRATEGY_DEVICE_ALL_REDUCE_H_
#define TUTTI_CORE_STRATEGY_DEVICE_ALL_REDUCE_H_

#include <span>
#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communication_options.h"
#include "core/strategy/lockstep.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class Device;
class Strategy;

class DeviceAllReduce final : public MergePart {
 public:
  // `inputs`, of dtypes for which `op` is defined, lie on the host or on `device`, the replica's;
  // all outlive the part.
  DeviceAllReduce(Strategy& strategy, const Device& device, ReduceOp op,
                  std::span<const Tensor* const> inputs, const CollectiveOptions& options)
      : strategy_(strategy), device_(device), op_(op), inputs_(inputs), options_(options) {}

  const void* identity() const override;
  std::string Describe() const override;
  Status Execute(std::span<MergePart* const> parts) override;
  // In memory of their own.
  std::vector<Ref<Tensor>> TakeOutputs() { return std::move(outputs_); }

 private:
  Strategy& strategy_;
  const Device& device_;
  const ReduceOp op_;
  const std::span<const Tensor* const> inputs_;
  const CollectiveOptions options_;
  std::vector<Ref<Tensor>> outputs_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_DEVICE_ALL_REDUCE_H_
