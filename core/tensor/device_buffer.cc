#include "core/tensor/device_buffer.h"

#include "core/base/error.h"

namespace tutti {

const DeviceBuffer* DeviceBufferOf(const Tensor& tensor) {
  if (tensor.device().is_cpu()) return nullptr;
  // A view may keep the tensor that it was made of.
  const RefCounted* owner = tensor.owner();
  while (const auto* const viewed = dynamic_cast<const Tensor*>(owner)) owner = viewed->owner();
  return dynamic_cast<const DeviceBuffer*>(owner);
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
