#include "core/strategy/built_in_ops.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/collective/communicator/nccl_devices.h"
#include "core/device/gpu_memory.h"
#include "core/device/gpu_pack.h"
#include "core/device/gpu_tree.h"
#include "core/strategy/device_values.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/strategy.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/concat.h"
#include "core/tensor/copy.h"
#include "core/tensor/device_buffer.h"

namespace tutti {

namespace {

// By kernels where tensors lie on GPUs: for each device that the reduction goes to.
Result<Ref<Value>> FoldOnDevices(const CrossDeviceCall& call, ReduceOp op,
                                 const Reduction& reduction) {
  std::vector<const Device*> devices;
  for (const Ref<Device>& device : reduction.devices) devices.push_back(device.get());
  const GpuWait wait{&call.options, &call.strategy.environment().clock()};
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> folds,
                         AllReduceOnDevices(op, reduction.tensors, devices, wait,
                                            &call.strategy.nccl_folds()));
  return PlacedOnEach(folds);
}

Result<Ref<Tensor>> FoldInOrder(ReduceOp op, std::span<const Ref<Tensor>> tensors) {
  if (tensors.size() == 1) return tensors[0]->OfNoStep();
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return tutti::Reduce(op, pointers);
}

class AllReduceOps final : public CrossDeviceOps {
 public:
  std::string Describe() const override { return "AllReduce"; }

 protected:
  Result<std::vector<Ref<Value>>> ReduceImplementation(
      const CrossDeviceCall& call, ReduceOp op, bool,
      std::span<const Reduction> reductions) override {
    std::vector<Ref<Value>> results;
    for (const Reduction& reduction : reductions) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Value> folds, FoldOnDevices(call, op, reduction));
      results.push_back(std::move(folds));
    }
    return results;
  }
};

// ---- To one device. ----

class ToOneDevice final : public CrossDeviceOps {
 public:
  ToOneDevice(Ref<Device> device, Ref<Function> accumulation)
      : device_(std::move(device)), accumulation_(std::move(accumulation)) {}

  std::string Describe() const override {
    std::string told = device_ ? "reduce_to_device=" + device_->short_name() : std::string();
    if (accumulation_) told += told.empty() ? "accumulation_fn" : ", accumulation_fn";
    return Format("ReductionToOneDevice({})", told);
  }

 protected:
  bool calls_host() const override { return accumulation_ && accumulation_->calls_host(); }

  Result<std::vector<Ref<Value>>> ReduceImplementation(
      const CrossDeviceCall& call, ReduceOp op, bool,
      std::span<const Reduction> reductions) override {
    std::vector<Ref<Value>> results;
    for (const Reduction& reduction : reductions) {
      const Device& device = device_ ? *device_ : *reduction.devices[0];
      TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> fold,
                             Accumulate(call, op, reduction.tensors, device));
      results.push_back(PlacedOn(fold, reduction.devices.size()));
    }
    return results;
  }

 private:
  Result<Ref<Tensor>> Accumulate(const CrossDeviceCall& call, ReduceOp op,
                                 std::span<const Ref<Tensor>> tensors, const Device& device) {
    if (!accumulation_ || (op != ReduceOp::kSum && op != ReduceOp::kMean)) {
      if (tensors.size() == 1) return tensors[0]->OfNoStep();
      if (AnyOnGpu(tensors) || GpuMemoryOf(device) != nullptr) {
        const Device* const there[] = {&device};
        const GpuWait wait{&call.options, &call.strategy.environment().clock()};
        TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> folds,
                               AllReduceOnDevices(op, tensors, there, wait));
        return std::move(folds[0]);
      }
      std::vector<const Tensor*> pointers;
      for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
      TensorOptions memory;
      memory.zeroed = false;
      memory.allocator = device.allocator();
      return tutti::Reduce(op, pointers, memory);
    }
    std::vector<Ref<Value>> operands;
    for (const Ref<Tensor>& tensor : tensors) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> there, OnDevice(*tensor, &device));
      operands.push_back(Value::OfTensor(std::move(there)));
    }
    UpdateContext context(call.strategy, UpdateContext::kNoCopy, &device, call.options);
    Ref<Value> sum;
    TUTTI_RETURN_IF_ERROR(accumulation_->Call(context, *Value::Tuple(operands), &sum));
    const Tensor& operand = *tensors[0];
    if (!sum->is_leaf() || !sum->leaf().is_tensor() ||
        sum->leaf().tensor().dtype() != operand.dtype() ||
        sum->leaf().tensor().shape() != operand.shape()) {
      return InvalidArgument("{}: the accumulation_fn of {} gave {}; expected {}", call.what,
                             Describe(),
                             sum->is_leaf() && sum->leaf().is_tensor()
                                 ? sum->leaf().tensor().SpecString()
                                 : sum->ToString(),
                             operand.SpecString());
    }
    if (op == ReduceOp::kSum) return sum->leaf().tensor_ref();
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Tensor> count,
        Full(operand.dtype(), Shape(), static_cast<double>(tensors.size())));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> here, OnHost(sum->leaf().tensor()));
    return Binary(BinaryOp::kDiv, *here, *count);
  }

  const Ref<Device> device_;
  const Ref<Function> accumulation_;
};

// ---- In packs. ----

// [first, last) of the reductions that travel as one.
std::vector<std::pair<size_t, size_t>> OpsPacks(std::span<const Reduction> reductions,
                                                int64_t num_packs, int64_t bytes_per_pack) {
  std::vector<GpuPackPart> parts;
  for (const Reduction& reduction : reductions) {
    parts.push_back({reduction.tensors[0]->dtype(), reduction.tensors[0]->byte_size()});
  }
  return CutGpuPacks(parts, num_packs, bytes_per_pack);
}

Result<Ref<Tensor>> Flat(const Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> contiguous, tensor.Contiguous());
  const int64_t dims[] = {tensor.num_elements()};
  return contiguous->Reshape(dims);
}

class PackedAllReduce : public CrossDeviceOps {
 protected:
  explicit PackedAllReduce(int64_t num_packs) : num_packs_(num_packs) {}
  int64_t num_packs() const { return num_packs_; }

  Result<std::vector<Ref<Value>>> ReduceImplementation(
      const CrossDeviceCall& call, ReduceOp op, bool,
      std::span<const Reduction> reductions) override {
    std::vector<Ref<Value>> results(reductions.size());
    const bool on_gpus = std::any_of(reductions.begin(), reductions.end(), OnGpus);
    for (size_t i = 0; on_gpus && i < reductions.size(); ++i) {
      // The kernels take tensors as they are: there is nothing to win by packing them.
      TUTTI_ASSIGN_OR_RETURN(results[i], FoldOnDevices(call, op, reductions[i]));
    }
    if (on_gpus) return results;
    for (const auto& [first, last] :
         OpsPacks(reductions, num_packs_, call.options.hints.bytes_per_pack)) {
      TUTTI_RETURN_IF_ERROR(ReducePack(op, reductions.subspan(first, last - first),
                                       std::span(results).subspan(first, last - first)));
    }
    return results;
  }

  static bool OnGpus(const Reduction& reduction) {
    return AnyOnGpu(reduction.tensors) ||
           std::any_of(reduction.devices.begin(), reduction.devices.end(),
                       [](const Ref<Device>& device) { return !device->id().is_cpu(); });
  }

 private:
  static Status ReducePack(ReduceOp op, std::span<const Reduction> reductions,
                           std::span<Ref<Value>> results) {
    const Reduction& first = reductions[0];
    if (reductions.size() == 1) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> fold, FoldInOrder(op, first.tensors));
      results[0] = PlacedOn(fold, first.devices.size());
      return OkStatus();
    }
    std::vector<Ref<Tensor>> packed;
    for (size_t replica = 0; replica < first.tensors.size(); ++replica) {
      std::vector<Ref<Tensor>> parts;
      std::vector<const Tensor*> pointers;
      for (const Reduction& reduction : reductions) {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> flat, Flat(*reduction.tensors[replica]));
        pointers.push_back(flat.get());
        parts.push_back(std::move(flat));
      }
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> joined, Concat(pointers, 0));
      packed.push_back(std::move(joined));
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> fold, FoldInOrder(op, packed));
    int64_t at = 0;
    for (size_t i = 0; i < reductions.size(); ++i) {
      const Tensor& operand = *reductions[i].tensors[0];
      TUTTI_ASSIGN_OR_RETURN(
          const Ref<Tensor> part,
          fold->Slice(at, at + operand.num_elements())->Reshape(operand.shape().dims()));
      at += operand.num_elements();
      results[i] = PlacedOn(part, reductions[i].devices.size());
    }
    return OkStatus();
  }

  const int64_t num_packs_;
};

// Whether a reduction goes from the devices of its tensors back to them.
bool IsAllReduce(const Reduction& reduction) {
  bool in_place = reduction.tensors.size() == reduction.devices.size();
  for (size_t i = 0; in_place && i < reduction.tensors.size(); ++i) {
    in_place = reduction.tensors[i]->device() == reduction.devices[i]->id();
  }
  return in_place;
}

// Between GPUs along a tree of their links and back, in packs; what is no all_reduce of them, or
// nothing for a tree, goes to one device and from there to where it is wanted.
class HierarchicalCopy final : public PackedAllReduce {
 public:
  explicit HierarchicalCopy(int64_t num_packs) : PackedAllReduce(num_packs) {}
  std::string Describe() const override {
    return Format("HierarchicalCopyAllReduce(num_packs={})", num_packs());
  }

 protected:
  Result<std::vector<Ref<Value>>> ReduceImplementation(
      const CrossDeviceCall& call, ReduceOp op, bool batch,
      std::span<const Reduction> reductions) override {
    if (std::none_of(reductions.begin(), reductions.end(), OnGpus)) {
      return PackedAllReduce::ReduceImplementation(call, op, batch, reductions);
    }
    std::vector<Ref<Value>> results(reductions.size());
    std::vector<std::vector<Ref<Tensor>>> tensors;
    std::vector<size_t> numbers;  // of the reductions that they are of
    for (size_t i = 0; i < reductions.size(); ++i) {
      const Reduction& reduction = reductions[i];
      if (IsAllReduce(reduction) && reduction.tensors.size() > 1 &&
          CheckGpuTree(op, reduction.tensors).ok()) {
        tensors.push_back(reduction.tensors);
        numbers.push_back(i);
        continue;
      }
      const Device* const one[] = {reduction.devices[0].get()};
      const GpuWait wait{&call.options, &call.strategy.environment().clock()};
      TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> folds,
                             AllReduceOnDevices(op, reduction.tensors, one, wait));
      results[i] = PlacedOn(folds[0], reduction.devices.size());
    }
    TUTTI_ASSIGN_OR_RETURN(const auto folds,
                           GpuTreeAllReduce(op, tensors, num_packs(),
                                            call.options.hints.bytes_per_pack));
    for (size_t k = 0; k < numbers.size(); ++k) results[numbers[k]] = PlacedOnEach(folds[k]);
    return results;
  }
};

// By NCCL where every reduction goes from one GPU for each replica to the same GPUs; else as
// without cross-device ops, of which the first one says why.
class NcclAllReduceOps final : public PackedAllReduce {
 public:
  explicit NcclAllReduceOps(int64_t num_packs) : PackedAllReduce(num_packs) {}
  std::string Describe() const override {
    return Format("NcclAllReduce(num_packs={})", num_packs());
  }

 protected:
  Result<std::vector<Ref<Value>>> ReduceImplementation(
      const CrossDeviceCall& call, ReduceOp op, bool batch,
      std::span<const Reduction> reductions) override {
    std::vector<std::vector<Ref<Tensor>>> tensors;
    Status can;
    for (const Reduction& reduction : reductions) {
      if (can.ok()) can = CheckCan(op, reduction);
      tensors.push_back(reduction.tensors);
    }
    if (can.ok()) {
      const GpuWait wait{&call.options, &call.strategy.environment().clock()};
      TUTTI_ASSIGN_OR_RETURN(const auto folds,
                             nccl_.AllReduce(op, tensors, num_packs(),
                                             call.options.hints.bytes_per_pack, wait));
      std::vector<Ref<Value>> results;
      for (const std::vector<Ref<Tensor>>& each : folds) results.push_back(PlacedOnEach(each));
      return results;
    }
    if (!told_.exchange(true)) {
      call.strategy.environment().log().Warning(
          Format("NcclAllReduce: {} of strategy {} goes through {}, to the same results, and so "
                 "does what NCCL cannot do later: {}",
                 call.what, call.strategy.name(),
                 call.strategy.has_gpus() ? "copies between devices and kernels of the CUDA plugin"
                                          : "the CPU all-reduce",
                 can.message()));
    }
    return PackedAllReduce::ReduceImplementation(call, op, batch, reductions);
  }

 private:
  static Status CheckCan(ReduceOp op, const Reduction& reduction) {
    TUTTI_RETURN_IF_ERROR(NcclDevices::CheckCan(op, reduction.tensors));
    if (IsAllReduce(reduction)) return OkStatus();
    return FailedPrecondition("it is no all_reduce: its results go to other devices");
  }

  NcclDevices nccl_;
  std::atomic<bool> told_{false};
};

Status CheckPacks(int64_t num_packs, const char* who) {
  if (num_packs >= 0) return OkStatus();
  return InvalidArgument("{}: num_packs is {}; expected 0 (no packing) or more", who, num_packs);
}

}  // namespace

Ref<CrossDeviceOps> MakeAllReduce() { return MakeRef<AllReduceOps>(); }

Result<Ref<CrossDeviceOps>> MakeReductionToOneDevice(const DeviceSet& devices,
                                                     std::string_view device_name,
                                                     Ref<Function> accumulation) {
  Ref<Device> device;
  if (!device_name.empty()) {
    Result<Ref<Device>> found = devices.Find(device_name);
    if (!found.ok()) return std::move(found).status().WithPrefix("ReductionToOneDevice");
    device = std::move(found).value();
  }
  return Ref<CrossDeviceOps>(MakeRef<ToOneDevice>(std::move(device), std::move(accumulation)));
}

Result<Ref<CrossDeviceOps>> MakeHierarchicalCopyAllReduce(int64_t num_packs) {
  TUTTI_RETURN_IF_ERROR(CheckPacks(num_packs, "HierarchicalCopyAllReduce"));
  return Ref<CrossDeviceOps>(MakeRef<HierarchicalCopy>(num_packs));
}

Result<Ref<CrossDeviceOps>> MakeNcclAllReduce(int64_t num_packs) {
  TUTTI_RETURN_IF_ERROR(CheckPacks(num_packs, "NcclAllReduce"));
  return Ref<CrossDeviceOps>(MakeRef<NcclAllReduceOps>(num_packs));
}

}  // namespace tutti
