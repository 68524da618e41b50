#include "core/strategy/team_reduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/observed_team.h"
#include "core/strategy/replica_order_fold.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/cast.h"
#include "core/tensor/float_mode.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

bool IsInHalves(ReduceOp op, DType dtype) {
  return op == ReduceOp::kMean && (dtype == DType::kInt64 || dtype == DType::kUint64);
}

DType FormDType(ReduceOp op, DType dtype) {
  if (op == ReduceOp::kMean && IsInteger(dtype)) return DType::kInt64;
  const bool accumulates =
      op == ReduceOp::kSum || op == ReduceOp::kMean || op == ReduceOp::kProd;
  return IsHalf(dtype) && accumulates ? DType::kFloat32 : dtype;
}

ReduceOp FormOp(ReduceOp op) { return op == ReduceOp::kMean ? ReduceOp::kSum : op; }

// The order of the operands shows in the bits.
bool OrderShows(ReduceOp op, DType dtype) {
  return !IsInteger(dtype) && dtype != DType::kBool &&
         (op == ReduceOp::kSum || op == ReduceOp::kMean || op == ReduceOp::kProd);
}

TensorOptions Unzeroed() {
  TensorOptions options;
  options.zeroed = false;
  return options;
}

constexpr int kHalfBits = 32;

// The sums of the upper and the lower halves: value = high * 2^32 + low.
Result<Ref<Tensor>> FoldHalves(std::span<const Ref<Tensor>> tensors) {
  const int64_t n = tensors[0]->num_elements();
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> halves, Tensor::Create(DType::kInt64, Shape({2, n})));
  auto* high = static_cast<int64_t*>(halves->mutable_data());
  int64_t* low = high + n;
  const bool is_signed = tensors[0]->dtype() == DType::kInt64;
  for (const Ref<Tensor>& tensor : tensors) {
    const auto* values = static_cast<const uint64_t*>(tensor->data());
    for (int64_t i = 0; i < n; ++i) {
      high[i] += is_signed ? static_cast<int64_t>(values[i]) >> kHalfBits
                           : static_cast<int64_t>(values[i] >> kHalfBits);
      low[i] += static_cast<int64_t>(values[i] & 0xffffffffu);
    }
  }
  return halves;
}

// This worker's part, in its form: the very tensor where there is nothing to do.
Result<Ref<Tensor>> FoldOwn(ReduceOp op, std::span<const Tensor* const> tensors) {
  const DType dtype = tensors[0]->dtype();
  const DType form = FormDType(op, dtype);
  const bool in_halves = IsInHalves(op, dtype);
  std::vector<Ref<Tensor>> operands;
  std::vector<const void*> inputs;
  for (const Tensor* tensor : tensors) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> operand, form == dtype || in_halves
                                                    ? tensor->Contiguous()
                                                    : Cast(*tensor, form));
    inputs.push_back(operand->data());
    operands.push_back(std::move(operand));
  }
  if (in_halves) return FoldHalves(operands);
  if (operands.size() == 1) return std::move(operands[0]);
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> folded,
                         Tensor::Create(form, tensors[0]->shape(), Unzeroed()));
  TUTTI_RETURN_IF_ERROR(ReduceInto(FormOp(op), form, inputs, folded->num_elements(),
                                   folded->mutable_data()));
  return folded;
}

template <class Float>
void Divide(DType dtype, const void* in, int64_t count, void* out, int64_t n) {
  const auto divisor = static_cast<Float>(count);
  (void)BinaryScalarElements(BinaryOp::kDiv, dtype, in, &divisor, out, n);
}

// A mean's division, of floats; complex numbers are twice as many.
void DivideFloats(DType dtype, const void* in, int64_t count, void* out, int64_t n) {
  const DefaultFloatMode mode;
  switch (dtype) {
    case DType::kFloat32: return Divide<float>(dtype, in, count, out, n);
    case DType::kFloat64: return Divide<double>(dtype, in, count, out, n);
    case DType::kComplex64: return Divide<float>(DType::kFloat32, in, count, out, 2 * n);
    case DType::kComplex128: return Divide<double>(DType::kFloat64, in, count, out, 2 * n);
    default: return;
  }
}

template <class T>
void MeanOfHalves(const int64_t* high, const int64_t* low, int64_t count, void* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const __int128 sum = (static_cast<__int128>(high[i]) << kHalfBits) + low[i];
    static_cast<T*>(out)[i] = static_cast<T>(sum / count);
  }
}

}  // namespace

Status CheckSameTensors(std::span<const Tensor* const> tensors, int64_t first_replica,
                        std::string_view what) {
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i]->dtype() == tensors[0]->dtype() && tensors[i]->shape() == tensors[0]->shape()) {
      continue;
    }
    const int64_t replica = first_replica + static_cast<int64_t>(i);
    return InvalidArgument(
               "{}: replica {} has {}, replica {} has {}; dtype and shape must be the same on all "
               "replicas",
               what, first_replica, tensors[0]->SpecString(), replica, tensors[i]->SpecString())
        .With("replica", replica);
  }
  return OkStatus();
}

void TeamFold::WriteTo(void* out) const {
  const DType form = folded->dtype();
  if (is_result) {
    if (out != folded->data()) std::memcpy(out, folded->data(), folded->byte_size());
    return;
  }
  if (IsInHalves(op, dtype)) {
    const int64_t n = folded->dim(1);
    const auto* high = static_cast<const int64_t*>(folded->data());
    if (dtype == DType::kInt64) return MeanOfHalves<int64_t>(high, high + n, num_replicas, out, n);
    return MeanOfHalves<uint64_t>(high, high + n, num_replicas, out, n);
  }
  const DefaultFloatMode mode;
  // Block by block, so that what is not rounded yet stays in the cache.
  constexpr int64_t kBlock = 512;
  alignas(64) char block[kBlock * sizeof(int64_t)];
  const int64_t n = folded->num_elements();
  const size_t wide = ItemSize(form);
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    const void* in = static_cast<const char*>(folded->data()) + static_cast<size_t>(at) * wide;
    if (op == ReduceOp::kMean) {
      if (form == DType::kInt64) {
        (void)BinaryScalarElements(BinaryOp::kDiv, form, in, &num_replicas, block, count);
      } else {
        DivideFloats(form, in, num_replicas, block, count);
      }
      in = block;
    }
    CastElements(form, in, dtype,
                 static_cast<char*>(out) + static_cast<size_t>(at) * ItemSize(dtype), count);
  }
}

Result<Ref<Tensor>> TeamFold::Take(const Shape& shape, const TensorOptions& options) const {
  if (is_result) return folded;
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, Tensor::Create(dtype, shape, options));
  WriteTo(result->mutable_data());
  return result;
}

namespace {

// The fold in the order of all replicas, into `folded`. Its label says what the tensors are, which
// the calls between the workers do not compare.
Status FoldReplicas(TeamChannel& channel, const TeamLabel& label, ReduceOp op,
                    std::span<const std::vector<const Tensor*>* const> tensors,
                    std::span<Tensor* const> folded, const CollectiveOptions& call) {
  std::vector<ReplicaOrderOperand> operands(tensors.size());
  std::string specs(label.structure);
  if (!specs.empty()) specs += " with ";
  for (size_t i = 0; i < tensors.size(); ++i) {
    specs += Format("{}{}", i == 0 ? "" : ", ", (*tensors[i])[0]->SpecString());
    operands[i].folded = folded[i];
    for (const Tensor* tensor : *tensors[i]) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> contiguous, tensor->Contiguous());
      operands[i].replicas.push_back(std::move(contiguous));
    }
  }
  return channel.FoldReplicas(TeamLabel{label.what, label.name, specs}, FormOp(op), operands,
                              call);
}

}  // namespace

Result<std::vector<TeamFold>> ReduceOverTeam(TeamChannel& channel, const TeamLabel& label,
                                             ReduceOp op,
                                             std::span<const std::vector<const Tensor*>> tensors,
                                             std::span<Tensor* const> targets,
                                             const CollectiveOptions& call) {
  std::vector<TeamFold> folds(tensors.size());
  std::vector<Ref<Tensor>> own(tensors.size());
  std::vector<const Tensor*> inputs;
  std::vector<Tensor*> outputs;
  std::vector<const std::vector<const Tensor*>*> ordered;
  std::vector<Tensor*> ordered_outputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& first = *tensors[i][0];
    TeamFold& fold = folds[i];
    fold.op = op;
    fold.dtype = first.dtype();
    fold.num_replicas = static_cast<int64_t>(tensors[i].size()) * channel.num_workers();
    fold.is_result = FormDType(op, fold.dtype) == fold.dtype && !IsInHalves(op, fold.dtype);
    const bool in_target = fold.is_result && !targets.empty() && targets[i] != nullptr;
    if (channel.in_replica_order() && tensors[i].size() > 1 && OrderShows(op, fold.dtype)) {
      if (in_target) {
        fold.folded = Ref<Tensor>::Retain(targets[i]);
      } else {
        TUTTI_ASSIGN_OR_RETURN(fold.folded, Tensor::Create(FormDType(op, fold.dtype),
                                                           first.shape(), Unzeroed()));
      }
      ordered.push_back(&tensors[i]);
      ordered_outputs.push_back(fold.folded.get());
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(own[i], FoldOwn(op, tensors[i]));
    if (in_target) {
      fold.folded = Ref<Tensor>::Retain(targets[i]);
    } else if (fold.is_result && tensors[i].size() == 1) {
      // The fold is the caller's own tensor.
      TUTTI_ASSIGN_OR_RETURN(fold.folded, Tensor::Create(fold.dtype, first.shape(), Unzeroed()));
    } else {
      fold.folded = own[i];
    }
    inputs.push_back(own[i].get());
    outputs.push_back(fold.folded.get());
  }
  if (!ordered.empty()) {
    TUTTI_RETURN_IF_ERROR(FoldReplicas(channel, label, op, ordered, ordered_outputs, call));
  }
  if (!inputs.empty() || ordered.empty()) {
    TUTTI_RETURN_IF_ERROR(channel.AllReduce(label, FormOp(op), inputs, call, outputs));
  }
  if (channel.observed() || TensorsAreObserved()) {
    std::vector<const Tensor*> results;
    for (const TeamFold& fold : folds) results.push_back(fold.folded.get());
    const bool hides = op == ReduceOp::kMin || op == ReduceOp::kMax;
    TUTTI_RETURN_IF_ERROR(ObserveOverTeam(channel, label, tensors, results, hides, call));
  }
  for (TeamFold& fold : folds) {
    if (op != ReduceOp::kMean || !fold.is_result) continue;
    void* data = fold.folded->mutable_data();
    DivideFloats(fold.dtype, data, fold.num_replicas, data, fold.folded->num_elements());
  }
  return folds;
}

namespace {

std::vector<const Tensor*> PointersTo(std::span<const Ref<Tensor>> tensors) {
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}

}  // namespace

Result<std::vector<Ref<Tensor>>> ReduceOverTeam(TeamChannel& channel, const TeamLabel& label,
                                                ReduceOp op,
                                                std::span<const std::vector<Ref<Tensor>>> tensors,
                                                int64_t first_replica,
                                                const CollectiveOptions& call) {
  std::vector<std::vector<const Tensor*>> pointers;
  for (const std::vector<Ref<Tensor>>& replicas : tensors) {
    pointers.push_back(PointersTo(replicas));
    TUTTI_RETURN_IF_ERROR(CheckSameTensors(pointers.back(), first_replica, label.what));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<TeamFold> folds,
                         ReduceOverTeam(channel, label, op, pointers, {}, call));
  std::vector<Ref<Tensor>> results;
  for (size_t i = 0; i < folds.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, folds[i].Take(tensors[i][0]->shape(), Unzeroed()));
    results.push_back(std::move(result));
  }
  return results;
}

namespace {

// Each replica is summed along the axis, then the replicas' sums are folded.
Result<std::vector<Ref<Tensor>>> ReduceAxisInReplicaOrder(
    TeamChannel& channel, const TeamLabel& label, ReduceOp op,
    std::span<const std::vector<Ref<Tensor>>> tensors, int64_t axis, int64_t first_replica,
    const CollectiveOptions& call) {
  std::vector<std::vector<Ref<Tensor>>> sums(tensors.size());
  TUTTI_ASSIGN_OR_RETURN(
      const Ref<Tensor> counts,
      Tensor::Create(DType::kInt64, Shape({static_cast<int64_t>(tensors.size())})));
  auto* count = static_cast<int64_t*>(counts->mutable_data());
  for (size_t i = 0; i < tensors.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(AxisSums each,
                           SumEachAlongAxis(PointersTo(tensors[i]), axis, label.what));
    count[i] = each.count;
    sums[i] = std::move(each.sums);
  }
  Tensor* const total = counts.get();
  const Tensor* const own = total;
  TUTTI_RETURN_IF_ERROR(channel.AllReduce(label, ReduceOp::kSum, std::span(&own, 1), call,
                                          std::span(&total, 1)));
  TUTTI_ASSIGN_OR_RETURN(
      std::vector<Ref<Tensor>> results,
      ReduceOverTeam(channel, label, ReduceOp::kSum, sums, first_replica, call));
  for (size_t i = 0; i < results.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(results[i], FinishAxisSum(op, AxisSum{std::move(results[i]), count[i]},
                                                     tensors[i][0]->dtype(), label.what));
  }
  return results;
}

}  // namespace

Result<std::vector<Ref<Tensor>>> ReduceAxisOverTeam(
    TeamChannel& channel, const TeamLabel& label, ReduceOp op,
    std::span<const std::vector<Ref<Tensor>>> tensors, int64_t axis, int64_t first_replica,
    const CollectiveOptions& call) {
  if (channel.in_replica_order()) {
    return ReduceAxisInReplicaOrder(channel, label, op, tensors, axis, first_replica, call);
  }
  std::vector<AxisSum> sums;
  std::vector<Tensor*> parts;
  TUTTI_ASSIGN_OR_RETURN(
      const Ref<Tensor> counts,
      Tensor::Create(DType::kInt64, Shape({static_cast<int64_t>(tensors.size())})));
  auto* count = static_cast<int64_t*>(counts->mutable_data());
  for (size_t i = 0; i < tensors.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(AxisSum sum, SumAlongAxis(PointersTo(tensors[i]), axis, label.what));
    count[i] = sum.count;
    parts.push_back(sum.sum.get());
    sums.push_back(std::move(sum));
  }
  parts.push_back(counts.get());
  const std::vector<const Tensor*> inputs(parts.begin(), parts.end());
  TUTTI_RETURN_IF_ERROR(channel.AllReduce(label, ReduceOp::kSum, inputs, call, parts));
  std::vector<Ref<Tensor>> results;
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i].count = count[i];
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                           FinishAxisSum(op, sums[i], tensors[i][0]->dtype(), label.what));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace tutti
