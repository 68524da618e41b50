// Tensors on a GPU: their memory, and copies to, from and between GPUs.
//
// The memory of a tensor belongs to a stream, by default the device's own, on which it was
// allocated and on which it is given back: in the order of the work there, so that what was begun
// may go on when the last reference goes. Work on another stream waits for that stream first, and
// that stream for it. Copies in which the host takes part are done when they return.
//
// Threads: any.
#ifndef TUTTI_CORE_DEVICE_GPU_MEMORY_H_
#define TUTTI_CORE_DEVICE_GPU_MEMORY_H_

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "core/device/gpu_stream.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/tensor.h"

namespace tutti {

// A GPU's memory, from which its tensors are made; and the device's own stream.
class GpuMemory final : public BufferAllocator {
 public:
  explicit GpuMemory(GpuPlace place) : place_(std::move(place)) {}

  const GpuPlace& place() const { return place_; }
  // Made when it is asked for first.
  Result<Ref<GpuStream>> stream();
  // Whether the plugin has machine code for the device (gpu_fold.h).
  bool has_kernels();

  // On the device's stream; RESOURCE_EXHAUSTED names what was asked for and what is free.
  Result<Ref<Buffer>> Allocate(size_t bytes, bool zeroed) override;
  Result<Ref<Buffer>> AllocateOn(const Ref<GpuStream>& stream, size_t bytes, bool zeroed);
  // ... by the work of `by`; the memory is `owner`'s.
  Result<Ref<Buffer>> AllocateBy(const GpuStream& by, const Ref<GpuStream>& owner, size_t bytes,
                                 bool zeroed);

  // A tensor of this device; on the device's stream when `stream` is null. INVALID_ARGUMENT for
  // byte strings, which stay on the host.
  Result<Ref<Tensor>> Create(DType dtype, const Shape& shape, bool zeroed,
                             const Ref<GpuStream>& stream = nullptr);
  // ... of the device's stream, allocated by the work of another one of this device, `by`: whoever
  // asks for it makes the device's stream wait for that work before anybody uses the tensor or
  // gives it up.
  Result<Ref<Tensor>> CreateBy(const Ref<GpuStream>& by, DType dtype, const Shape& shape);
  // A tensor over memory of another library's on this device, which `keeper` keeps alive (may be
  // null). As Tensor::Wrap; work of ours on it is done when it is given up.
  Result<Ref<Tensor>> Wrap(void* data, size_t bytes, DType dtype, const Shape& shape,
                           std::span<const int64_t> strides, bool read_only,
                           Ref<const RefCounted> keeper,
                           size_t offset_bytes = Tensor::kLowestFirst);

 private:
  ~GpuMemory() override = default;
  Result<Ref<Tensor>> CreateBy(const GpuStream& by, const Ref<GpuStream>& owner, DType dtype,
                               const Shape& shape, bool zeroed);

  const GpuPlace place_;
  std::mutex mutex_;  // guards all below
  Ref<GpuStream> stream_;
  std::optional<bool> has_kernels_;
};

// Null for a CPU.
GpuMemory* GpuMemoryOf(const Device& device);

// The stream that the memory of a tensor on a GPU belongs to; null for one on the host.
const GpuStream* StreamOf(const Tensor& tensor);

// True for memory that GpuMemory::Wrap was given.
bool IsOfOtherLibrary(const Tensor& tensor);

// Work of `stream` on the memory of a tensor on a GPU stands between these two: it runs after what
// was begun there before, and what is begun there later runs after it.
Status BeginUse(const GpuStream& stream, const Tensor& tensor);
Status EndUse(const GpuStream& stream, const Tensor& tensor);

// A contiguous copy of a tensor, wherever it lies, on a GPU. `stream` (may be null: the device's
// own) is the one that does it, and that the copy belongs to; INVALID_ARGUMENT for another
// device's.
Result<Ref<Tensor>> CopyToGpu(const Tensor& source, GpuMemory& target,
                              const Ref<GpuStream>& stream = nullptr, const GpuWait& wait = {});
// A contiguous copy of a tensor that lies on a GPU, in host memory as `options` say. `stream` must
// be one of that GPU's.
Result<Ref<Tensor>> CopyToCpu(const Tensor& source, const TensorOptions& options = TensorOptions(),
                              const GpuStream* stream = nullptr, const GpuWait& wait = {});
// As CopyInto of the tensor room, wherever both lie.
Status CopyAnywhere(const Tensor& source, Tensor* destination, const GpuWait& wait = {});

// Host memory that a GPU copies from and to without staging, charged to the host's account.
class PinnedAllocator final : public BufferAllocator {
 public:
  explicit PinnedAllocator(GpuPlace place) : place_(std::move(place)) {}
  Result<Ref<Buffer>> Allocate(size_t bytes, bool zeroed) override;

 private:
  const GpuPlace place_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEVICE_GPU_MEMORY_H_
