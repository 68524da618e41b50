// DLPack, the exchange format of array libraries: tensors in and out without a copy.
//
// Only the CPU's memory, one lane, and the types bool, int, uint, float, bfloat and complex;
// everything else is refused with INVALID_ARGUMENT or UNIMPLEMENTED naming what was found.
#ifndef TUTTI_CORE_TENSOR_DLPACK_H_
#define TUTTI_CORE_TENSOR_DLPACK_H_

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
Result<Ref<Tensor>> TensorFromDlpack(DLManagedTensorVersioned* managed, CallbackExecutor* executor);
Result<Ref<Tensor>> TensorFromDlpack(DLManagedTensor* managed, CallbackExecutor* executor);

// Exports a tensor; the receiver calls the deleter, from any thread. With `copy` a fresh,
// contiguous, writable copy is exported and flagged as one. The unversioned form cannot say
// read-only: FAILED_PRECONDITION for such a tensor, unless copied. A tensor that is exported counts
// as shared until the deleter is called. The caller owns the result.
Result<DLManagedTensorVersioned*> TensorToDlpack(const Tensor& tensor, bool copy);
Result<DLManagedTensor*> TensorToDlpackUnversioned(const Tensor& tensor, bool copy);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_DLPACK_H_
