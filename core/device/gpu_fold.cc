#include "core/device/gpu_fold.h"

#include <vector>

namespace tutti {
namespace {

Status CallReduceKernel(int32_t op, std::span<const Tensor* const> inputs, Tensor* out) {
  if (out->num_elements() == 0) return OkStatus();
  const GpuStream& stream = *StreamOf(*out);
  std::vector<const void*> addresses;
  for (const Tensor* input : inputs) {
    TUTTI_RETURN_IF_ERROR(BeginUse(stream, *input));
    addresses.push_back(input->address());
  }
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(stream.place().api().reduce(
      stream.raw(), op, static_cast<int32_t>(out->dtype()), addresses.data(), addresses.size(),
      static_cast<uint64_t>(out->num_elements()), out->address())));
  for (const Tensor* input : inputs) TUTTI_RETURN_IF_ERROR(EndUse(stream, *input));
  return EndUse(stream, *out);
}

}  // namespace

Status FoldOnGpu(ReduceOp op, std::span<const Tensor* const> inputs, Tensor* out) {
  return CallReduceKernel(static_cast<int32_t>(op), inputs, out);
}

Status SubtractOnGpu(Tensor* a, const Tensor& b) {
  const Tensor* const inputs[] = {a, &b};
  return CallReduceKernel(TUTTI_PLUGIN_DIFFERENCE, inputs, a);
}

}  // namespace tutti
