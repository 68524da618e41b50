#include "core/strategy/device_values.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/device/gpu_fold.h"
#include "core/device/gpu_memory.h"
#include "core/strategy/nccl_folds.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/copy.h"
#include "core/tensor/device_buffer.h"

namespace tutti {

bool AnyOnGpu(std::span<const Ref<Tensor>> tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Ref<Tensor>& tensor) { return IsOnGpu(*tensor); });
}

bool AnyOnGpu(const Value& value) {
  const std::span<const Leaf> leaves = value.leaves();
  return std::any_of(leaves.begin(), leaves.end(), [](const Leaf& leaf) {
    return leaf.is_tensor() && IsOnGpu(leaf.tensor());
  });
}

// ---- To where they are wanted. ----

namespace {

GpuMemory* MemoryOf(const Device* device) {
  return device == nullptr ? nullptr : GpuMemoryOf(*device);
}

Ref<Tensor> SameTensor(const Tensor& tensor) {
  return Ref<Tensor>::Retain(const_cast<Tensor*>(&tensor));
}

}  // namespace

Result<Ref<Tensor>> OnDevice(const Tensor& tensor, const Device* device, const GpuWait& wait) {
  GpuMemory* const gpu = MemoryOf(device);
  if (gpu == nullptr) return IsOnGpu(tensor) ? CopyToCpu(tensor, {}, nullptr, wait)
                                             : Result<Ref<Tensor>>(SameTensor(tensor));
  if (tensor.device() == device->id() || tensor.dtype() == DType::kBytes) {
    return SameTensor(tensor);
  }
  return CopyToGpu(tensor, *gpu, nullptr, wait);
}

Result<std::vector<Ref<Tensor>>> AllOnHost(std::span<const Ref<Tensor>> tensors,
                                           const GpuWait& wait) {
  std::vector<Ref<Tensor>> here;
  for (const Ref<Tensor>& tensor : tensors) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy, OnDevice(*tensor, nullptr, wait));
    here.push_back(std::move(copy));
  }
  return here;
}

Result<Ref<Value>> LeavesOnHost(const Value& value, const GpuWait& wait) {
  return value.MapLeaves([&](const Leaf& leaf) -> Result<Leaf> {
    if (!leaf.is_tensor() || !IsOnGpu(leaf.tensor())) return leaf;
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> here, OnDevice(leaf.tensor(), nullptr, wait));
    return Leaf::OfTensor(std::move(here));
  });
}

Result<Ref<Value>> LeavesWhere(const Value& value, const Value& like, const Device& device,
                               const GpuWait& wait) {
  std::vector<Leaf> leaves(value.leaves().begin(), value.leaves().end());
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].is_tensor() || !like.leaf(i).is_tensor() || !IsOnGpu(like.leaf(i).tensor())) {
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> there, OnDevice(leaves[i].tensor(), &device, wait));
    leaves[i] = Leaf::OfTensor(std::move(there));
  }
  return value.WithLeaves(std::move(leaves));
}

Status CheckReplicaPlace(const Tensor& tensor, const Device& device, int64_t replica,
                         std::string_view what) {
  if (!IsOnGpu(tensor) || tensor.device() == device.id()) return OkStatus();
  // Other libraries' tensors lie on the first of the logical devices that share a physical one.
  const GpuStream* const stream = StreamOf(tensor);
  const GpuMemory* const gpu = GpuMemoryOf(device);
  if (stream != nullptr && gpu != nullptr && stream->place().ordinal == gpu->place().ordinal) {
    return OkStatus();
  }
  return InvalidArgument(
             "{}: replica {} is on {}, and its tensor {} lies on {}; copy it to {} first, or to "
             "the host",
             what, replica, device.short_name(), tensor.SpecString(), tensor.device().ToString(),
             device.short_name())
      .With("replica", replica)
      .With("device", tensor.device().ToString());
}

// ---- Folds. ----

namespace {

bool AllOnGpus(std::span<const Ref<Tensor>> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Ref<Tensor>& tensor) { return IsOnGpu(*tensor); });
}

// A place that several devices may share.
struct FoldPlace {
  GpuMemory* gpu = nullptr;  // null: the host
  Ref<GpuStream> stream;     // null: the memory's own
  DeviceId id;
  Ref<Tensor> result;
};

Result<Ref<Tensor>> FoldOnHost(ReduceOp op, std::span<const Ref<Tensor>> tensors,
                               const GpuWait& wait) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> here, AllOnHost(tensors, wait));
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& tensor : here) pointers.push_back(tensor.get());
  return Reduce(op, pointers);
}

// Elements of all the tensors, as rows.
class DeviceFold {
 public:
  DeviceFold(ReduceOp op, std::span<const Ref<Tensor>> tensors, const GpuWait& wait)
      : op_(op), tensors_(tensors), wait_(wait), n_(tensors[0]->num_elements()) {}

  // Into `places`, all of which are GPUs with kernels.
  Status FoldInto(std::span<FoldPlace* const> places) {
    const int64_t row[] = {n_};
    for (const Ref<Tensor>& tensor : tensors_) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> dense, tensor->Contiguous());
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> flat, dense->Reshape(row));
      flat_.push_back(std::move(flat));
    }
    for (FoldPlace* place : places) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                             place->gpu->Create(tensors_[0]->dtype(), tensors_[0]->shape(), false,
                                                place->stream));
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> flat, result->Reshape(row));
      results_.push_back(std::move(result));
      outs_.push_back(std::move(flat));
    }
    const bool in_parts = places.size() > 1 && tensors_[0]->byte_size() >= kDevicePartBytes;
    const auto count = static_cast<int64_t>(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t begin = in_parts ? PartOf(at, count) : 0;
      const int64_t end = in_parts ? PartOf(at + 1, count) : n_;
      TUTTI_RETURN_IF_ERROR(FoldRange(*places[i], begin, end, outs_[i].get()));
    }
    for (size_t i = 0; in_parts && i < places.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const Ref<Tensor> part = outs_[i]->Slice(PartOf(at, count), PartOf(at + 1, count));
      for (size_t k = 0; k < places.size(); ++k) {
        if (k == i) continue;
        const Ref<Tensor> target = outs_[k]->Slice(PartOf(at, count), PartOf(at + 1, count));
        TUTTI_RETURN_IF_ERROR(CopyAnywhere(*part, target.get(), wait_));
      }
    }
    for (size_t i = 0; i < places.size(); ++i) places[i]->result = std::move(results_[i]);
    return OkStatus();
  }

 private:
  // Parts begin at multiples of 16 elements, so that kernels take them by 16 bytes.
  int64_t PartOf(int64_t i, int64_t count) const {
    return i == count ? n_ : n_ / 16 * i / count * 16;
  }

  Status FoldRange(const FoldPlace& place, int64_t begin, int64_t end, Tensor* out) {
    std::vector<Ref<Tensor>> parts;
    std::vector<const Tensor*> inputs;
    for (const Ref<Tensor>& flat : flat_) {
      Ref<Tensor> part = flat->Slice(begin, end);
      if (part->device() != place.id) {
        TUTTI_ASSIGN_OR_RETURN(part, CopyToGpu(*part, *place.gpu, place.stream, wait_));
      }
      inputs.push_back(part.get());
      parts.push_back(std::move(part));
    }
    const Ref<Tensor> target = out->Slice(begin, end);
    return FoldOnGpu(op_, inputs, target.get());
  }

  const ReduceOp op_;
  const std::span<const Ref<Tensor>> tensors_;
  const GpuWait wait_;
  const int64_t n_;
  std::vector<Ref<Tensor>> flat_;
  std::vector<Ref<Tensor>> results_;
  std::vector<Ref<Tensor>> outs_;
};

// The GPUs among the places fold; the rest, if any, get copies. Without one among them the GPU of
// the first tensor does, where all tensors lie on GPUs with kernels.
Status FoldAt(ReduceOp op, std::span<const Ref<Tensor>> tensors, std::vector<FoldPlace>& places,
              const GpuWait& wait) {
  const auto has_kernels = [](GpuMemory* gpu) { return gpu != nullptr && gpu->has_kernels(); };
  FoldPlace of_first;
  std::vector<FoldPlace*> folding;
  if (AllOnGpus(tensors) && tensors.size() <= kMostGpuInputs) {
    for (FoldPlace& place : places) {
      if (has_kernels(place.gpu)) folding.push_back(&place);
    }
  }
  Ref<GpuMemory> memory;
  if (folding.empty() && AllOnGpus(tensors) && tensors.size() <= kMostGpuInputs) {
    const GpuStream& stream = *StreamOf(*tensors[0]);
    memory = MakeRef<GpuMemory>(stream.place());
    of_first.gpu = memory.get();
    of_first.stream = Ref<GpuStream>::Retain(const_cast<GpuStream*>(&stream));
    of_first.id = tensors[0]->device();
    if (has_kernels(memory.get())) folding.push_back(&of_first);
  }
  Ref<Tensor> fold;
  if (!folding.empty()) {
    TUTTI_RETURN_IF_ERROR(DeviceFold(op, tensors, wait).FoldInto(folding));
    fold = folding[0]->result;
  } else {
    TUTTI_ASSIGN_OR_RETURN(fold, FoldOnHost(op, tensors, wait));
  }
  for (FoldPlace& place : places) {
    if (place.result) continue;
    if (place.gpu == nullptr) {
      TUTTI_ASSIGN_OR_RETURN(place.result, OnDevice(*fold, nullptr, wait));
    } else {
      TUTTI_ASSIGN_OR_RETURN(place.result, CopyToGpu(*fold, *place.gpu, nullptr, wait));
    }
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<Ref<Tensor>>> AllReduceOnDevices(ReduceOp op,
                                                    std::span<const Ref<Tensor>> tensors,
                                                    std::span<const Device* const> devices,
                                                    const GpuWait& wait, NcclFolds* nccl) {
  if (nccl != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(auto folds, nccl->Fold(op, tensors, devices, wait));
    if (folds.has_value()) return *std::move(folds);
  }
  std::vector<FoldPlace> places;
  std::vector<size_t> place_of;
  for (const Device* device : devices) {
    GpuMemory* const gpu = MemoryOf(device);
    const DeviceId id = gpu == nullptr ? DeviceId() : device->id();
    size_t i = 0;
    while (i < places.size() && places[i].id != id) ++i;
    if (i == places.size()) places.push_back({gpu, nullptr, id, nullptr});
    place_of.push_back(i);
  }
  if (tensors.size() == 1) {
    std::vector<Ref<Tensor>> results;
    for (const Device* device : devices) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> there, OnDevice(*tensors[0]->OfNoStep(), device, wait));
      results.push_back(std::move(there));
    }
    return results;
  }
  TUTTI_RETURN_IF_ERROR(FoldAt(op, tensors, places, wait));
  std::vector<Ref<Tensor>> results;
  for (const size_t i : place_of) results.push_back(places[i].result);
  return results;
}

// ---- Writes. ----

Result<PreparedWrite> PreparedWrite::Make(InPlace write, const Tensor& storage,
                                          const Tensor& operand, const Device* device,
                                          const GpuWait& wait) {
  PreparedWrite made;
  made.write_ = write;
  GpuMemory* const gpu = IsOnGpu(storage) ? MemoryOf(device) : nullptr;
  if (gpu == nullptr || write == InPlace::kAssign || gpu->has_kernels()) {
    TUTTI_ASSIGN_OR_RETURN(made.operand_, OnDevice(operand, gpu == nullptr ? nullptr : device,
                                                   wait));
    TUTTI_ASSIGN_OR_RETURN(made.operand_, made.operand_->Contiguous());
    return made;
  }
  // Without kernels: on the host.
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> value, CopyToCpu(storage, {}, nullptr, wait));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> here, OnDevice(operand, nullptr, wait));
  TUTTI_RETURN_IF_ERROR(BinaryInPlace(
      write == InPlace::kAdd ? BinaryOp::kAdd : BinaryOp::kSub, value.get(), *here));
  made.write_ = InPlace::kAssign;
  TUTTI_ASSIGN_OR_RETURN(made.operand_, CopyToGpu(*value, *gpu, nullptr, wait));
  return made;
}

Status PreparedWrite::Commit(Tensor* storage) const {
  if (write_ == InPlace::kAssign) return CopyAnywhere(*operand_, storage);
  if (!IsOnGpu(*storage)) {
    return BinaryInPlace(write_ == InPlace::kAdd ? BinaryOp::kAdd : BinaryOp::kSub, storage,
                         *operand_);
  }
  if (write_ == InPlace::kSub) return SubtractOnGpu(storage, *operand_);
  const Tensor* const inputs[] = {storage, operand_.get()};
  return FoldOnGpu(ReduceOp::kSum, inputs, storage);
}

}  // namespace tutti
