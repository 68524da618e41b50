#include "core/tensor/device_buffer.h"

#include "core/base/error.h"

namespace tutti {

const DeviceBuffer* DeviceBufferOf(const Tensor& tensor) {
  return tensor.device().is_cpu() ? nullptr : dynamic_cast<const DeviceBuffer*>(tensor.owner());
}

Status CheckOnHost(std::string_view what, const Tensor& tensor) {
  if (tensor.device().is_cpu()) return OkStatus();
  return FailedPrecondition(
             "{}: {} lies on {}, and this needs elements in the host's memory; copy it to the host "
             "first (copy_to \"CPU:0\")",
             what, tensor.SpecString(), tensor.device().ToString())
      .With("device", tensor.device().ToString());
}

Result<Ref<Tensor>> OnHost(const Tensor& tensor) {
  if (tensor.device().is_cpu()) return Ref<Tensor>::Retain(const_cast<Tensor*>(&tensor));
  const DeviceBuffer* const buffer = DeviceBufferOf(tensor);
  if (buffer == nullptr) return CheckOnHost("a copy", tensor);
  return buffer->CopyToHost(tensor);
}

}  // namespace tutti
