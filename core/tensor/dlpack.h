// DLPack, the exchange format of array libraries: tensors in and out without a copy.
//
// Memory of the CPU and, by whoever knows them, of GPUs; one lane, and the types bool, int, uint,
// float, bfloat and complex; everything else is refused with INVALID_ARGUMENT or UNIMPLEMENTED
// naming what was found.
#ifndef TUTTI_CORE_TENSOR_DLPACK_H_
#define TUTTI_CORE_TENSOR_DLPACK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace tutti {

class CallbackExecutor;

// A tensor over the producer's memory. On success the producer's deleter is called once, when the
// last view is gone: on the callback executor, or on the releasing thread when `executor` is null
// or has shut down. On failure the caller keeps `managed`. Memory that is not aligned for its type
// is INVALID_ARGUMENT. Tensors of the unversioned form are taken as writable.
//
// `on_gpu` makes the tensor of memory on CUDA's device `ordinal`, from [data, data + bytes) on, as
// Tensor::Wrap does; without it such memory is UNIMPLEMENTED.
using GpuImport = std::function<Result<Ref<Tensor>>(
    int ordinal, void* data, size_t bytes, DType dtype, const Shape& shape,
    std::span<const int64_t> strides, bool read_only, Ref<const RefCounted> keeper)>;
Result<Ref<Tensor>> TensorFromDlpack(DLManagedTensorVersioned* managed, CallbackExecutor* executor,
                                     const GpuImport& on_gpu = {});
Result<Ref<Tensor>> TensorFromDlpack(DLManagedTensor* managed, CallbackExecutor* executor,
                                     const GpuImport& on_gpu = {});

// Exports a tensor; the receiver calls the deleter, from any thread. With `copy` a fresh,
// contiguous, writable copy is exported and flagged as one. The unversioned form cannot say
// read-only: FAILED_PRECONDITION for such a tensor, unless copied. A tensor that is exported counts
// as shared until the deleter is called. The caller owns the result.
//
// Of a tensor on a GPU `stream` waits for the work on it: the receiver's, 1 the default stream, 2
// that of the calling thread, else a handle; kNoStream: none does; 0 is INVALID_ARGUMENT.
inline constexpr int64_t kNoStream = -1;
inline constexpr int64_t kDefaultStream = 1;
Result<DLManagedTensorVersioned*> TensorToDlpack(const Tensor& tensor, bool copy,
                                                 int64_t stream = kDefaultStream);
Result<DLManagedTensor*> TensorToDlpackUnversioned(const Tensor& tensor, bool copy,
                                                   int64_t stream = kDefaultStream);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_DLPACK_H_
