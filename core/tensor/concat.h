// Joining tensors along an axis, and cutting them again.
#ifndef TUTTI_CORE_TENSOR_CONCAT_H_
#define TUTTI_CORE_TENSOR_CONCAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// One tensor of all, in order along `axis`. All have one dtype, one rank >= 1 and equal sizes on
// all other axes, and axis lies in [0, rank): INVALID_ARGUMENT naming the tensors otherwise, and
// without tensors.
Result<Ref<Tensor>> Concat(std::span<const Tensor* const> tensors, size_t axis,
                           const TensorOptions& options = TensorOptions());

// Views of the parts of `sizes` along `axis`, which must add up to its size.
Result<std::vector<Ref<Tensor>>> Split(const Tensor& tensor, std::span<const int64_t> sizes,
                                       size_t axis);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_CONCAT_H_
