// Concatenation: each part is a strided copy into its place in the result.
#include "core/tensor/concat.h"

#include "core/base/error.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

Status CheckConcat(std::span<const Tensor* const> tensors, size_t axis) {
  if (tensors.empty()) return InvalidArgument("concat: no tensors are given");
  const Tensor& first = *tensors[0];
  if (axis >= first.rank()) {
    return InvalidArgument("concat: axis {} of {}, which has {} axes", axis, first.SpecString(),
                           first.rank());
  }
  for (size_t i = 1; i < tensors.size(); ++i) {
    const Tensor& tensor = *tensors[i];
    bool fits = tensor.dtype() == first.dtype() && tensor.rank() == first.rank();
    for (size_t other = 0; fits && other < first.rank(); ++other) {
      fits = other == axis || tensor.dim(other) == first.dim(other);
    }
    if (!fits) {
      return InvalidArgument(
                 "concat along axis {}: tensor 0 is {} and tensor {} is {}; dtypes must be equal, "
                 "and all sizes but that of the axis",
                 axis, first.SpecString(), i, tensor.SpecString())
          .With("index", i);
    }
  }
  return OkStatus();
}

}  // namespace

Result<Ref<Tensor>> Concat(std::span<const Tensor* const> tensors, size_t axis,
                           const TensorOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckConcat(tensors, axis));
  const Tensor& first = *tensors[0];
  int64_t size = 0;
  for (const Tensor* tensor : tensors) {
    if (__builtin_add_overflow(size, tensor->dim(axis), &size)) {
      return InvalidArgument("concat: the sizes along axis {} do not add up in 64 bits", axis);
    }
  }
  Dims dims(first.shape().dims().data(), first.rank());
  dims[axis] = size;
  TUTTI_ASSIGN_OR_RETURN(Shape shape, Shape::Create(dims.data(), dims.size()));

  // Of byte strings the views are joined first; FromStrings then gathers their payload.
  const bool is_bytes = first.dtype() == DType::kBytes;
  std::vector<BytesView> views(is_bytes ? static_cast<size_t>(shape.num_elements()) : 0);
  Ref<Tensor> joined;
  void* place = views.data();
  if (!is_bytes) {
    TensorOptions unzeroed = options;
    unzeroed.zeroed = false;
    TUTTI_ASSIGN_OR_RETURN(joined, Tensor::Create(first.dtype(), shape, unzeroed));
    place = joined->mutable_data();
  }
  const Dims strides = shape.RowMajorStrides();
  const size_t step = static_cast<size_t>(strides[axis]) * first.item_size();
  for (const Tensor* tensor : tensors) {
    CopyStrided(first.item_size(), tensor->shape().dims(), tensor->data(), tensor->strides(), place,
                strides.span());
    place = static_cast<char*>(place) + static_cast<size_t>(tensor->dim(axis)) * step;
  }
  if (is_bytes) return Tensor::FromStrings(shape, views, options.account);
  return joined;
}

Result<std::vector<Ref<Tensor>>> Split(const Tensor& tensor, std::span<const int64_t> sizes,
                                       size_t axis) {
  std::vector<Ref<Tensor>> parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> part, tensor.SliceAxis(axis, begin, begin + size));
    parts.push_back(std::move(part));
    begin += size;
  }
  if (axis >= tensor.rank() || begin != tensor.dim(axis)) {
    return InvalidArgument("split: the sizes add up to {} along axis {} of {}", begin, axis,
                           tensor.SpecString());
  }
  return parts;
}

}  // namespace tutti
