#include "core/strategy/cross_replica_reduce.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/strategy/device_values.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/cast.h"
#include "core/tensor/concat.h"
#include "core/tensor/copy.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

Status CheckDTypes(std::span<const Tensor* const> tensors, std::string_view what) {
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i]->dtype() == tensors[0]->dtype()) continue;
    return InvalidArgument(
               "{}: replica 0 has {}, replica {} has {}; all replicas must have the same dtype",
               what, tensors[0]->SpecString(), i, tensors[i]->SpecString())
        .With("replica", i);
  }
  return OkStatus();
}

Status CheckShapes(std::span<const Tensor* const> tensors, std::string_view what) {
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i]->shape() == tensors[0]->shape()) continue;
    return InvalidArgument(
               "{}: replica 0 has shape {}, replica {} has {}; without an axis all shapes must be "
               "equal: pass axis=0 to reduce batches of different sizes along their rows, too",
               what, tensors[0]->shape().ToString(), i, tensors[i]->shape().ToString())
        .With("replica", i);
  }
  return OkStatus();
}

// Where sums are kept that later are divided or rounded.
DType WideDType(DType dtype) {
  if (IsSignedInteger(dtype)) return DType::kInt64;
  if (IsUnsignedInteger(dtype)) return DType::kUint64;
  if (dtype == DType::kFloat16 || dtype == DType::kBfloat16) return DType::kFloat32;
  return dtype;
}

// tensor / count: integers truncate towards zero.
Result<Ref<Tensor>> Divide(const Tensor& tensor, int64_t count) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> divisor,
                         Full(tensor.dtype(), Shape(), static_cast<double>(count)));
  return Binary(BinaryOp::kDiv, tensor, *divisor);
}

Result<size_t> NormalAxis(const Tensor& tensor, int64_t axis, size_t replica,
                          std::string_view what) {
  const auto rank = static_cast<int64_t>(tensor.rank());
  const int64_t normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) {
    return InvalidArgument("{}: axis {} is out of range for {} of replica {}, whose rank is {}",
                           what, axis, tensor.SpecString(), replica, rank)
        .With("replica", replica);
  }
  return static_cast<size_t>(normal);
}

bool AreOnHost(std::span<const Tensor* const> tensors) {
  for (const Tensor* tensor : tensors) {
    if (IsOnGpu(*tensor)) return false;
  }
  return true;
}

std::vector<Ref<Tensor>> RefsTo(std::span<const Tensor* const> tensors) {
  std::vector<Ref<Tensor>> refs;
  for (const Tensor* tensor : tensors) {
    refs.push_back(Ref<Tensor>::Retain(const_cast<Tensor*>(tensor)));
  }
  return refs;
}

// Copies of tensors of GPUs among them, and pointers to all.
struct HostTensors {
  std::vector<Ref<Tensor>> tensors;
  std::vector<const Tensor*> pointers;
};
Result<HostTensors> ToHost(std::span<const Tensor* const> tensors) {
  HostTensors here;
  TUTTI_ASSIGN_OR_RETURN(here.tensors, AllOnHost(RefsTo(tensors)));
  for (const Ref<Tensor>& tensor : here.tensors) here.pointers.push_back(tensor.get());
  return here;
}

// What passes through a reduction outside of replicas; `what` names it and the part of the value.
Status ObserveReplicas(std::span<const Tensor* const> tensors, std::string_view what) {
  if (!TensorsAreObserved()) return OkStatus();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = Format("component {} of the input", i);
    TUTTI_RETURN_IF_ERROR(ObserveTensor({.op = what, .name = name}, *tensors[i]));
  }
  return OkStatus();
}

Result<Ref<Tensor>> ObservedResult(Result<Ref<Tensor>> result, std::string_view what) {
  if (result.ok() && TensorsAreObserved()) {
    TUTTI_RETURN_IF_ERROR(
        ObserveTensor({.op = what, .name = "the result of finite inputs"}, **result));
  }
  return result;
}

}  // namespace

Status CheckSameAcrossReplicas(std::span<const Tensor* const> tensors, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckDTypes(tensors, what));
  return CheckShapes(tensors, what);
}

Result<AxisSums> SumEachAlongAxis(std::span<const Tensor* const> tensors, int64_t axis,
                                  std::string_view what) {
  if (!AreOnHost(tensors)) {
    TUTTI_ASSIGN_OR_RETURN(const HostTensors here, ToHost(tensors));
    return SumEachAlongAxis(here.pointers, axis, what);
  }
  TUTTI_RETURN_IF_ERROR(CheckDTypes(tensors, what));
  const DType dtype = tensors[0]->dtype();
  const DType wide = WideDType(dtype);
  std::vector<const Tensor*> pointers;
  AxisSums result;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(const size_t normal, NormalAxis(*tensors[i], axis, i, what));
    result.count += tensors[i]->dim(normal);
    Ref<Tensor> operand = Ref<Tensor>::Retain(const_cast<Tensor*>(tensors[i]));
    if (wide != dtype) {
      TUTTI_ASSIGN_OR_RETURN(operand, Cast(*operand, wide));
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> sum, ReduceAxis(ReduceOp::kSum, *operand, normal));
    pointers.push_back(sum.get());
    result.sums.push_back(std::move(sum));
  }
  TUTTI_RETURN_IF_ERROR(CheckShapes(pointers, what));
  return result;
}

Result<AxisSum> SumAlongAxis(std::span<const Tensor* const> tensors, int64_t axis,
                             std::string_view what) {
  TUTTI_ASSIGN_OR_RETURN(const AxisSums each, SumEachAlongAxis(tensors, axis, what));
  std::vector<const Tensor*> pointers;
  for (const Ref<Tensor>& sum : each.sums) pointers.push_back(sum.get());
  AxisSum result;
  result.count = each.count;
  TUTTI_ASSIGN_OR_RETURN(result.sum, Reduce(ReduceOp::kSum, pointers));
  return result;
}

Result<Ref<Tensor>> FinishAxisSum(ReduceOp op, const AxisSum& sum, DType dtype,
                                  std::string_view what) {
  Ref<Tensor> result = sum.sum;
  if (op == ReduceOp::kMean) {
    if (sum.count == 0 && IsInteger(dtype)) {
      return InvalidArgument("{}: the mean of no elements of {} does not exist", what,
                             DTypeName(dtype));
    }
    TUTTI_ASSIGN_OR_RETURN(result, Divide(*result, sum.count));
  }
  return result->dtype() == dtype ? Result<Ref<Tensor>>(std::move(result)) : Cast(*result, dtype);
}

Result<Ref<Tensor>> ReduceAcrossReplicas(ReduceOp op, std::span<const Tensor* const> tensors,
                                         std::optional<int64_t> axis, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckDTypes(tensors, what));
  TUTTI_RETURN_IF_ERROR(ObserveReplicas(tensors, what));
  Status reducible = CheckReducible(op, tensors[0]->dtype());
  if (!reducible.ok()) return std::move(reducible).WithPrefix(what);
  if (axis.has_value()) {
    TUTTI_ASSIGN_OR_RETURN(const AxisSum sum, SumAlongAxis(tensors, *axis, what));
    return ObservedResult(FinishAxisSum(op, sum, tensors[0]->dtype(), what), what);
  }
  TUTTI_RETURN_IF_ERROR(CheckShapes(tensors, what));
  if (!AreOnHost(tensors)) {
    const Device* const host[] = {nullptr};
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> folds,
                           AllReduceOnDevices(op, RefsTo(tensors), host));
    return tensors.size() == 1 ? folds[0] : ObservedResult(folds[0], what);
  }
  if (tensors.size() == 1) return tensors[0]->OfNoStep();
  return ObservedResult(Reduce(op, tensors), what);
}

Result<Ref<Tensor>> GatherAcrossReplicas(std::span<const Tensor* const> tensors, int64_t axis,
                                         std::string_view what) {
  if (!AreOnHost(tensors)) {
    TUTTI_ASSIGN_OR_RETURN(const HostTensors here, ToHost(tensors));
    return GatherAcrossReplicas(here.pointers, axis, what);
  }
  TUTTI_RETURN_IF_ERROR(CheckDTypes(tensors, what));
  TUTTI_RETURN_IF_ERROR(ObserveReplicas(tensors, what));
  const Tensor& first = *tensors[0];
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = *tensors[i];
    if (tensor.rank() == 0) {
      return InvalidArgument(
                 "{}: replica {} has a scalar, {}, which has no axis to join along; give it a "
                 "dimension first",
                 what, i, tensor.SpecString())
          .With("replica", i);
    }
    if (axis < 0 || axis >= static_cast<int64_t>(tensor.rank())) {
      return InvalidArgument("{}: axis {} is not in [0, {}), the axes of {} of replica {}", what,
                             axis, tensor.rank(), tensor.SpecString(), i)
          .With("replica", i);
    }
    const auto along = static_cast<size_t>(axis);
    if (tensor.rank() != first.rank() ||
        tensor.shape().WithDim(along, 0) != first.shape().WithDim(along, 0)) {
      return InvalidArgument(
                 "{}: replica 0 has shape {}, replica {} has {}; sizes may differ along axis {} "
                 "only",
                 what, first.shape().ToString(), i, tensor.shape().ToString(), axis)
          .With("replica", i);
    }
  }
  return Concat(tensors, static_cast<size_t>(axis));
}

}  // namespace tutti
