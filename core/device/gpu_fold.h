// Arithmetic on tensors of one GPU, by the kernels of its plugin: folds of several tensors, and
// differences, with the bits that the CPU's have (../tensor/reduce.h, ../tensor/arithmetic.h).
//
//   if (memory.has_kernels()) {
//     TUTTI_RETURN_IF_ERROR(FoldOnGpu(ReduceOp::kSum, inputs, sum.get()));
//   }
//
// The work is done on the stream of the tensor that is written, in the order of the calls; nothing
// here waits for it. Threads: any.
#ifndef TUTTI_CORE_DEVICE_GPU_FOLD_H_
#define TUTTI_CORE_DEVICE_GPU_FOLD_H_

#include <cstddef>
#include <span>

#include "core/base/status.h"
#include "core/device/gpu_memory.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

// The most tensors that one fold takes.
inline constexpr size_t kMostGpuInputs = TUTTI_PLUGIN_MAX_INPUTS;

// out[i] = inputs[0][i] op inputs[1][i] op ..., in that order. All are contiguous, of one dtype,
// for which the op is defined, of as many elements, and on one GPU that has kernels; `out` may be
// one of the inputs. At least one input and at most kMostGpuInputs.
Status FoldOnGpu(ReduceOp op, std::span<const Tensor* const> inputs, Tensor* out);

// a[i] = a[i] - b[i], under the same conditions; FAILED_PRECONDITION or INVALID_ARGUMENT where the
// plugin has no kernel for it, and then `a` is as it was.
Status SubtractOnGpu(Tensor* a, const Tensor& b);

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_FOLD_H_
