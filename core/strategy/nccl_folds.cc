#include "core/strategy/nccl_folds.h"

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/device/gpu_communicator.h"
#include "core/device/gpu_memory.h"

namespace tutti {
namespace {

// Whether NCCL gives the bits that the kernels give. Of two the order is none, and a mean of
// two is exact but for its sum; NCCL's extremes of floats take no notice of NaN.
bool HasTheKernelsBits(ReduceOp op, DType dtype, size_t count) {
  if (IsInteger(dtype) || dtype == DType::kBool) return true;
  return count == 2 && (op == ReduceOp::kSum || op == ReduceOp::kMean);
}

// Each on a GPU of its own, not only a logical one, where its result is wanted, too.
bool AreInPlace(std::span<const Ref<Tensor>> tensors, std::span<const Device* const> devices) {
  if (tensors.size() < 2 || tensors.size() != devices.size()) return false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (devices[i] == nullptr || tensors[i]->device() != devices[i]->id()) return false;
    const GpuStream* const stream = StreamOf(*tensors[i]);
    if (stream == nullptr) return false;
    for (size_t k = 0; k < i; ++k) {
      if (StreamOf(*tensors[k])->place().ordinal == stream->place().ordinal) return false;
    }
  }
  return true;
}

}  // namespace

Result<std::optional<std::vector<Ref<Tensor>>>> NcclFolds::Fold(
    ReduceOp op, std::span<const Ref<Tensor>> tensors, std::span<const Device* const> devices,
    const GpuWait& wait) {
  constexpr std::nullopt_t kOtherwise = std::nullopt;
  using Folds = std::optional<std::vector<Ref<Tensor>>>;
  if (gone_.load(std::memory_order_relaxed) || !AreInPlace(tensors, devices)) {
    return Folds(kOtherwise);
  }
  const bool extreme = op == ReduceOp::kMin || op == ReduceOp::kMax;
  const bool same_bits = HasTheKernelsBits(op, tensors[0]->dtype(), tensors.size());
  if (!same_bits && (in_replica_order_ || extreme)) return Folds(kOtherwise);
  if (!FindGpuCollectives(*StreamOf(*tensors[0])->place().plugin).ok()) {
    gone_.store(true, std::memory_order_relaxed);  // it never was there
    return Folds(kOtherwise);
  }
  if (!NcclDevices::CheckCan(op, tensors).ok()) return Folds(kOtherwise);
  const std::vector<Ref<Tensor>> one[] = {{tensors.begin(), tensors.end()}};
  auto folded = nccl_.AllReduce(op, one, 1, /*bytes_per_pack=*/0, wait);
  if (folded.ok()) return Folds(std::move((*folded)[0]));
  const StatusCode code = folded.status().code();
  if (code == StatusCode::kDeadlineExceeded || code == StatusCode::kCancelled) {
    return std::move(folded).status();
  }
  if (!gone_.exchange(true)) {
    environment_.log().Warning(
        Format("{}: folds between GPUs go by copies and kernels from now on, to the same results, "
               "for NCCL has failed: {}",
               who_, folded.status().message()));
  }
  return Folds(kOtherwise);
}

}  // namespace tutti
