// NcclFolds: a strategy's folds of tensors on GPUs, by NCCL where that is an all_reduce that it can
// do and nobody sees a difference: one tensor on each of several GPUs, the results wanted there,
// with the kernels' bits, unless the strategy may fold in another order (StrategyOptions).
//
// Nobody has asked for NCCL: when it fails, one warning says why, and from then on all goes by
// copies and kernels, as without it.
//
// Threads: any.
#ifndef TUTTI_CORE_STRATEGY_NCCL_FOLDS_H_
#define TUTTI_CORE_STRATEGY_NCCL_FOLDS_H_

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/nccl_devices.h"
#include "core/device/device.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

class NcclFolds {
 public:
  NcclFolds(const Environment& environment, std::string who, bool in_replica_order)
      : environment_(environment), who_(std::move(who)), in_replica_order_(in_replica_order) {}

  // The fold for each of `devices`, or nothing where it does not go by NCCL. An error is one of
  // `wait`.
  Result<std::optional<std::vector<Ref<Tensor>>>> Fold(ReduceOp op,
                                                       std::span<const Ref<Tensor>> tensors,
                                                       std::span<const Device* const> devices,
                                                       const GpuWait& wait);

 private:
  const Environment& environment_;
  const std::string who_;
  const bool in_replica_order_;
  std::atomic<bool> gone_{false};
  NcclDevices nccl_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_NCCL_FOLDS_H_
