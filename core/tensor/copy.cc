// Strided copies: neighbouring axes that lie without gaps in both places are merged first, so that
// the innermost loop is as long as it can be; it is a memcpy when both sides are dense.
#include "core/tensor/copy.h"

#include <cstring>

#include "core/base/error.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

struct Axis {
  int64_t size;
  int64_t source_stride;  // in bytes, as below
  int64_t destination_stride;
};

template <size_t kItemSize>
void CopyLoop(const Axis& axis, const char* source, char* destination) {
  for (int64_t i = 0; i < axis.size; ++i) {
    std::memcpy(destination + i * axis.destination_stride, source + i * axis.source_stride,
                kItemSize);
  }
}

void CopyInnermost(size_t item_size, const Axis& axis, const char* source, char* destination) {
  const auto item = static_cast<int64_t>(item_size);
  if (axis.source_stride == item && axis.destination_stride == item) {
    std::memcpy(destination, source, item_size * static_cast<size_t>(axis.size));
    return;
  }
  switch (item_size) {
    case 1: return CopyLoop<1>(axis, source, destination);
    case 2: return CopyLoop<2>(axis, source, destination);
    case 4: return CopyLoop<4>(axis, source, destination);
    case 8: return CopyLoop<8>(axis, source, destination);
    case 16: return CopyLoop<16>(axis, source, destination);
    default: break;
  }
  for (int64_t i = 0; i < axis.size; ++i) {
    std::memcpy(destination + i * axis.destination_stride, source + i * axis.source_stride,
                item_size);
  }
}

void CopyAxes(size_t item_size, std::span<const Axis> axes, const char* source, char* destination) {
  if (axes.size() == 1) return CopyInnermost(item_size, axes[0], source, destination);
  for (int64_t i = 0; i < axes[0].size; ++i) {
    CopyAxes(item_size, axes.subspan(1), source + i * axes[0].source_stride,
             destination + i * axes[0].destination_stride);
  }
}

template <class T>
void FillLoop(const void* item, void* destination, int64_t n) {
  T value;
  std::memcpy(&value, item, sizeof(T));
  auto* out = static_cast<T*>(destination);
  for (int64_t i = 0; i < n; ++i) std::memcpy(out + i, &value, sizeof(T));
}

}  // namespace

void FillElements(size_t item_size, const void* item, void* destination, int64_t n) {
  switch (item_size) {
    case 1: return FillLoop<uint8_t>(item, destination, n);
    case 2: return FillLoop<uint16_t>(item, destination, n);
    case 4: return FillLoop<uint32_t>(item, destination, n);
    case 8: return FillLoop<uint64_t>(item, destination, n);
    default: break;
  }
  auto* out = static_cast<char*>(destination);
  for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * item_size, item, item_size);
}

void CopyStrided(size_t item_size, std::span<const int64_t> dims, const void* source,
                 std::span<const int64_t> source_strides, void* destination,
                 std::span<const int64_t> destination_strides) {
  const auto item = static_cast<int64_t>(item_size);
  Axis axes[Shape::kMaxRank];
  size_t count = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return;
    if (dims[i] == 1) continue;
    const Axis axis{dims[i], source_strides[i] * item, destination_strides[i] * item};
    if (count > 0 && axes[count - 1].source_stride == axis.source_stride * axis.size &&
        axes[count - 1].destination_stride == axis.destination_stride * axis.size) {
      axes[count - 1] = {axes[count - 1].size * axis.size, axis.source_stride,
                         axis.destination_stride};
    } else {
      axes[count++] = axis;
    }
  }
  if (count == 0) axes[count++] = {1, item, item};
  CopyAxes(item_size, {axes, count}, static_cast<const char*>(source),
           static_cast<char*>(destination));
}

Result<Ref<Tensor>> Full(DType dtype, const Shape& shape, double value,
                         const TensorOptions& options) {
  if (dtype == DType::kBytes) return InvalidArgument("full: byte strings are not filled by number");
  TensorOptions unzeroed = options;
  unzeroed.zeroed = false;
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, Tensor::Create(dtype, shape, unzeroed));
  alignas(16) char item[16];
  CastElements(DType::kFloat64, &value, dtype, item, 1);
  FillElements(ItemSize(dtype), item, tensor->mutable_data(), tensor->num_elements());
  return tensor;
}

Status CopyInto(const Tensor& source, Tensor* destination) {
  if (source.dtype() != destination->dtype() || !(source.shape() == destination->shape())) {
    return InvalidArgument("copy: the source is {} and the destination {}; they must be equal",
                           source.SpecString(), destination->SpecString());
  }
  if (source.dtype() == DType::kBytes) {
    return InvalidArgument(
        "copy: byte strings cannot be copied into a tensor that does not own them; take a copy");
  }
  if (destination->read_only()) {
    return FailedPrecondition("copy: the destination {} is read-only", destination->SpecString());
  }
  CopyStrided(source.item_size(), source.shape().dims(), source.data(), source.strides(),
              destination->mutable_data(), destination->strides());
  return OkStatus();
}

}  // namespace tutti
