// Filling and copying elements, strided or not.
#ifndef TUTTI_CORE_TENSOR_COPY_H_
#define TUTTI_CORE_TENSOR_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Writes n copies of the item.
void FillElements(size_t item_size, const void* item, void* destination, int64_t n);

// Copies elements between two strided places; strides count elements. The memories do not overlap.
// For bytes it is the views that are copied.
void CopyStrided(size_t item_size, std::span<const int64_t> dims, const void* source,
                 std::span<const int64_t> source_strides, void* destination,
                 std::span<const int64_t> destination_strides);

// A new tensor of one repeated value, converted from double by the rules of cast.h; not for bytes.
Result<Ref<Tensor>> Full(DType dtype, const Shape& shape, double value,
                         const TensorOptions& options = TensorOptions());

// Copies the elements. INVALID_ARGUMENT unless dtype and shape are equal, and for bytes (whose
// payload the destination would not keep alive); FAILED_PRECONDITION when the destination is
// read-only.
Status CopyInto(const Tensor& source, Tensor* destination);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_COPY_H_
