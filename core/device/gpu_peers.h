// Which GPUs reach which others' memory: where the machine has a link between two, kernels of one
// work on the other's memory where it lies. Copies go between all, over the host where they must.
#ifndef TUTTI_CORE_DEVICE_GPU_PEERS_H_
#define TUTTI_CORE_DEVICE_GPU_PEERS_H_

#include "core/base/status.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/tensor.h"

namespace tutti {

// True when kernels of `device` may work on memory of `peer`, which they may from then on. The same
// device reaches itself, whatever logical ones it is presented as. An older plugin knows of no
// links: false.
Result<bool> ReachesPeer(const GpuPlace& device, const GpuPlace& peer);

// ... on this tensor's. Memory of another library may come from where those rights do not hold.
Result<bool> ReachesTensor(const GpuPlace& device, const Tensor& tensor);

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_PEERS_H_
