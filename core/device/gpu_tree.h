// GpuTree: all_reduces between GPUs of this process along a tree of the links between them.
//
// Two GPUs that reach each other's memory (gpu_peers.h) make a pair, the first with the next one it
// reaches; one folds the other's part into its own where that lies. Those that are left do it
// again, until one has everything, which goes the same way back:
//
//   four GPUs, 0 - 1 and 2 - 3 linked    up: 1 -> 0, 3 -> 2, 2 -> 0    back: 0 -> 2, 0 -> 1, 2 -> 3
//
// Where no two are linked pairs are neighbours, and the part is copied first. So each GPU sends and
// takes about log2(n) times what it has at most, and all levels of the tree work at once.
//
// The bits are those of the tree: for float sums and products (a0 + a1) + (a2 + a3), the same on
// all GPUs and on every machine with the same links, but not those of a fold in order where there
// are more than two; one or two GPUs, integers and extremes have the same as everywhere. Float16
// and bfloat16 are added in float32 on the way.
//
// Threads: any, at once.
#ifndef TUTTI_CORE_DEVICE_GPU_TREE_H_
#define TUTTI_CORE_DEVICE_GPU_TREE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {

// One pair: `to` folds what `from` has.
struct GpuTreeStep {
  size_t to;
  size_t from;

  bool operator==(const GpuTreeStep&) const = default;
};

// For `count` GPUs, in the order of the folds; GPU 0 has everything at the end.
std::vector<GpuTreeStep> PlanGpuTree(size_t count,
                                     const std::function<bool(size_t, size_t)>& are_linked);

// Whether the tree can do it, for the tensors of one reduction: each is on a GPU with kernels, and
// a mean, which is a sum divided, is one of floats of 2, 4, 8 ... tensors (else the division is not
// exact); why not, if not.
Status CheckGpuTree(ReduceOp op, std::span<const Ref<Tensor>> tensors);

// tensors[i][d] is the i-th of GPU d, all d-th ones on the same; of a tensor all have one dtype and
// shape, for which CheckGpuTree is OK. They go in packs (gpu_pack.h). New tensors of the same kind;
// returns when the work stands on the streams of the tensors.
Result<std::vector<std::vector<Ref<Tensor>>>> GpuTreeAllReduce(
    ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors, int64_t num_packs,
    int64_t bytes_per_pack);

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_TREE_H_
