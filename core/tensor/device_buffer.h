// Memory of a device that the host cannot touch, as the tensors that lie in it see it; and the
// question that all host code asks before it reads a user's tensor.
//
//   TUTTI_RETURN_IF_ERROR(CheckOnHost("cast", *tensor));      // a sentence where it is on a GPU
#ifndef TUTTI_CORE_TENSOR_DEVICE_BUFFER_H_
#define TUTTI_CORE_TENSOR_DEVICE_BUFFER_H_

#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/buffer.h"
#include "core/tensor/tensor.h"

namespace tutti {

// The device room has the implementation.
class DeviceBuffer : public Buffer {
 public:
  // A contiguous copy of `tensor`, which lies in this buffer, on its device; and one on the host.
  virtual Result<Ref<Tensor>> CopyOnDevice(const Tensor& tensor) const = 0;
  virtual Result<Ref<Tensor>> CopyToHost(const Tensor& tensor) const = 0;
  // What CUDA calls the device.
  virtual int ordinal() const = 0;
  // A stream of the caller's (DLPack's numbers: 1 the default stream, 2 that of the thread, else a
  // handle; 0 is INVALID_ARGUMENT) waits for all work on this memory so far.
  virtual Status OrderFor(int64_t stream) const = 0;

 protected:
  using Buffer::Buffer;
};

// Null for a tensor on a CPU.
const DeviceBuffer* DeviceBufferOf(const Tensor& tensor);

// FAILED_PRECONDITION naming `what`, the tensor and its device, unless it lies on a CPU.
Status CheckOnHost(std::string_view what, const Tensor& tensor);

// The tensor itself when it lies on a CPU, else a copy there.
Result<Ref<Tensor>> OnHost(const Tensor& tensor);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_DEVICE_BUFFER_H_
