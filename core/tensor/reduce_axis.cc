// Folding one tensor along an axis: for every index in front of the axis, the slices along it are
// the inputs of ReduceInto.
#include <vector>

#include "core/base/error.h"
#include "core/tensor/copy.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

// The fold of no elements.
Result<Ref<Tensor>> OfNothing(ReduceOp op, DType dtype, const Shape& shape,
                              const TensorOptions& options) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor: return Full(dtype, shape, 0.0, options);
    case ReduceOp::kProd: return Full(dtype, shape, 1.0, options);
    case ReduceOp::kMean:
      if (!IsInteger(dtype)) return Full(dtype, shape, __builtin_nan(""), options);
      break;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
    case ReduceOp::kBitAnd: break;
  }
  return InvalidArgument("reduce: {} of no elements of {} has no value", ReduceOpName(op),
                         DTypeName(dtype));
}

}  // namespace

Result<Ref<Tensor>> ReduceAxis(ReduceOp op, const Tensor& tensor, size_t axis,
                               const TensorOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckReducible(op, tensor.dtype()));
  if (axis >= tensor.rank()) {
    return InvalidArgument("reduce: axis {} of {}, which has {} axes", axis, tensor.SpecString(),
                           tensor.rank())
        .With("axis", axis);
  }
  const Shape shape = tensor.shape().WithoutAxis(axis);
  const int64_t length = tensor.dim(axis);
  if (length == 0) {
    if (shape.num_elements() > 0) return OfNothing(op, tensor.dtype(), shape, options);
    return Tensor::Create(tensor.dtype(), shape, options);
  }
  TensorOptions unzeroed = options;
  unzeroed.zeroed = false;
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense, tensor.Contiguous());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out, Tensor::Create(tensor.dtype(), shape, unzeroed));

  int64_t inner = 1;
  for (size_t i = axis + 1; i < tensor.rank(); ++i) inner *= tensor.dim(i);
  const size_t slice_bytes = static_cast<size_t>(inner) * tensor.item_size();
  const auto* source = static_cast<const char*>(dense->data());
  auto* place = static_cast<char*>(out->mutable_data());
  std::vector<const void*> slices(static_cast<size_t>(length));
  for (int64_t done = 0; done < shape.num_elements(); done += inner) {
    for (const void*& slice : slices) {
      slice = source;
      source += slice_bytes;
    }
    TUTTI_RETURN_IF_ERROR(ReduceInto(op, tensor.dtype(), slices, inner, place));
    place += slice_bytes;
  }
  return out;
}

}  // namespace tutti
