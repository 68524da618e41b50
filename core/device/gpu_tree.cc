#include "core/device/gpu_tree.h"

#include <bit>
#include <utility>

#include "core/base/error.h"
#include "core/device/gpu_fold.h"
#include "core/device/gpu_memory.h"
#include "core/device/gpu_pack.h"
#include "core/device/gpu_peers.h"

namespace tutti {
namespace {

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

Status Cast(const GpuStream& stream, const Tensor& from, const Tensor& to) {
  if (from.num_elements() == 0) return OkStatus();
  return DevicePlugin::Taken(stream.place().api().cast(
      stream.raw(), static_cast<int32_t>(from.dtype()), from.address(),
      static_cast<int32_t>(to.dtype()), to.address(),
      static_cast<uint64_t>(from.num_elements())));
}

// One GPU's part of one pack.
class TreeNode {
 public:
  explicit TreeNode(std::vector<Ref<Tensor>> tensors) : pack_(std::move(tensors)) {}

  GpuPack& pack() { return pack_; }

  // `widened`: it folds in float32.
  Status Gather(bool widened) {
    TUTTI_RETURN_IF_ERROR(pack_.Gather());
    now_ = pack_.from();
    sum_ = pack_.to();
    if (!widened) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(
        sum_, pack_.memory().Create(DType::kFloat32,
                                    Shape({static_cast<int64_t>(pack_.elements())}), false,
                                    pack_.stream()));
    now_ = sum_;
    return Cast(*pack_.stream(), *pack_.from(), *sum_);
  }

  Status Fold(ReduceOp op, const TreeNode& other) {
    Ref<Tensor> theirs = other.now_;
    TUTTI_ASSIGN_OR_RETURN(const bool reaches, ReachesTensor(pack_.place(), *theirs));
    if (!reaches) {
      TUTTI_ASSIGN_OR_RETURN(theirs, CopyToGpu(*theirs, pack_.memory(), pack_.stream()));
    }
    const Tensor* const both[] = {now_.get(), theirs.get()};
    TUTTI_RETURN_IF_ERROR(FoldOnGpu(op, both, sum_.get()));
    now_ = sum_;
    return OkStatus();
  }

  // Of the one that has everything: divides by `count` for a mean, and is what goes back.
  Status Finish(ReduceOp op, size_t count) {
    const GpuStream& stream = *pack_.stream();
    if (op == ReduceOp::kMean && now_->num_elements() > 0) {
      TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(stream.place().api().scale(
          stream.raw(), static_cast<int32_t>(now_->dtype()), now_->address(),
          1.0 / static_cast<double>(count), static_cast<uint64_t>(now_->num_elements()),
          sum_->address())));
    }
    return sum_.get() == pack_.to().get() ? OkStatus() : Cast(stream, *now_, *pack_.to());
  }

  Status Take(TreeNode& other) {
    const Tensor& theirs = *other.pack_.to();
    if (theirs.num_elements() == 0) return OkStatus();
    const GpuStream& stream = *pack_.stream();
    TUTTI_RETURN_IF_ERROR(BeginUse(stream, theirs));
    TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
        stream.place().api().copy(stream.raw(), TUTTI_PLUGIN_DEVICE_TO_DEVICE,
                                  pack_.to()->address(), theirs.address(), theirs.byte_size())));
    return EndUse(stream, theirs);
  }

 private:
  GpuPack pack_;
  Ref<Tensor> now_;  // what it has folded so far
  Ref<Tensor> sum_;  // where it folds to
};

// The tensors [first, last) of all GPUs.
Status ReducePack(ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors,
                  std::span<const GpuTreeStep> steps,
                  std::span<std::vector<Ref<Tensor>>> results) {
  const size_t count = tensors[0].size();
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kMean || op == ReduceOp::kProd;
  const bool widened = adds && IsHalf(tensors[0][0]->dtype());
  std::vector<TreeNode> nodes;
  nodes.reserve(count);
  for (size_t d = 0; d < count; ++d) {
    std::vector<Ref<Tensor>> own;
    for (const std::vector<Ref<Tensor>>& each : tensors) own.push_back(each[d]);
    nodes.emplace_back(std::move(own));
    TUTTI_RETURN_IF_ERROR(nodes[d].Gather(widened));
  }
  const ReduceOp pairs = op == ReduceOp::kMean ? ReduceOp::kSum : op;
  for (const GpuTreeStep& step : steps) {
    TUTTI_RETURN_IF_ERROR(nodes[step.to].Fold(pairs, nodes[step.from]));
  }
  TUTTI_RETURN_IF_ERROR(nodes[0].Finish(op, count));
  for (size_t i = steps.size(); i-- > 0;) {
    TUTTI_RETURN_IF_ERROR(nodes[steps[i].from].Take(nodes[steps[i].to]));
  }
  for (TreeNode& node : nodes) {
    TUTTI_RETURN_IF_ERROR(node.pack().Scatter());
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(node.pack().results()[i]);
  }
  return OkStatus();
}

}  // namespace

std::vector<GpuTreeStep> PlanGpuTree(size_t count,
                                     const std::function<bool(size_t, size_t)>& are_linked) {
  std::vector<GpuTreeStep> steps;
  std::vector<size_t> left(count);
  for (size_t i = 0; i < count; ++i) left[i] = i;
  while (left.size() > 1) {
    std::vector<bool> taken(left.size());
    const size_t before = steps.size();
    const auto pair = [&](size_t i, size_t k) {
      taken[i] = taken[k] = true;
      steps.push_back({left[i], left[k]});
    };
    for (size_t i = 0; i < left.size(); ++i) {
      for (size_t k = i + 1; !taken[i] && k < left.size(); ++k) {
        if (!taken[k] && are_linked(left[i], left[k])) pair(i, k);
      }
    }
    if (steps.size() == before) {
      for (size_t i = 0; i + 1 < left.size(); i += 2) pair(i, i + 1);
    }
    for (size_t s = before; s < steps.size(); ++s) std::erase(left, steps[s].from);
  }
  return steps;
}

Status CheckGpuTree(ReduceOp op, std::span<const Ref<Tensor>> tensors) {
  const DType dtype = tensors[0]->dtype();
  const bool divides = op == ReduceOp::kMean;
  if (divides && (IsInteger(dtype) || !std::has_single_bit(tensors.size()))) {
    return Unimplemented("the mean of {} tensors of {} is no sum that a tree divides",
                         tensors.size(), DTypeName(dtype));
  }
  for (const Ref<Tensor>& tensor : tensors) {
    const GpuStream* const stream = StreamOf(*tensor);
    if (stream == nullptr) {
      return FailedPrecondition("{} lies on {}, and the tree is one of GPUs",
                                tensor->SpecString(), tensor->device().ToString());
    }
    if (!MakeRef<GpuMemory>(stream->place())->has_kernels()) {
      return FailedPrecondition("{} has no kernels", tensor->device().ToString());
    }
  }
  return OkStatus();
}

Result<std::vector<std::vector<Ref<Tensor>>>> GpuTreeAllReduce(
    ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors, int64_t num_packs,
    int64_t bytes_per_pack) {
  std::vector<std::vector<Ref<Tensor>>> results(tensors.size());
  if (tensors.empty()) return results;
  const auto place_of = [&](size_t d) -> const GpuPlace& {
    return StreamOf(*tensors[0][d])->place();
  };
  Status asked;
  const std::vector<GpuTreeStep> steps =
      PlanGpuTree(tensors[0].size(), [&](size_t to, size_t from) {
        const Result<bool> reaches = ReachesPeer(place_of(to), place_of(from));
        if (asked.ok() && !reaches.ok()) asked = reaches.status();
        return reaches.ok() && *reaches;
      });
  TUTTI_RETURN_IF_ERROR(asked);
  std::vector<GpuPackPart> parts;
  for (const std::vector<Ref<Tensor>>& each : tensors) {
    parts.push_back({each[0]->dtype(), each[0]->byte_size()});
  }
  for (const auto& [first, last] : CutGpuPacks(parts, num_packs, bytes_per_pack)) {
    TUTTI_RETURN_IF_ERROR(ReducePack(op, tensors.subspan(first, last - first), steps,
                                     std::span(results).subspan(first, last - first)));
  }
  return results;
}

}  // namespace tutti
