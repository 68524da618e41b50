// What is known of devices and plugins, as JSON for programs and people.
#include <string>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/device/device.h"
#include "core/device/device_spec.h"
#include "core/device/gpu_communicator.h"
#include "core/device/gpu_stream.h"
#include "core/device/plugin.h"

namespace tutti {
namespace {

std::string Hex(const unsigned char* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += Format("{:02x}", bytes[i]);
  return text;
}

// `use` may be null: nothing has been made there.
std::string DescribeGpu(const std::string& name, const tutti_plugin_device_properties& gpu,
                        const tutti_plugin_memory_info& memory, int ordinal,
                        const DeviceUse* use, int64_t limit_bytes) {
  return Format(
      "{{\"name\": {}, \"type\": \"GPU\", \"physical_device\": \"/physical_device:GPU:{}\", "
      "\"device_name\": {}, \"compute_capability\": [{}, {}], "
      "\"multiprocessors\": {}, \"memory_bytes\": {}, \"l2_bytes\": {}, \"bus_id\": {}, "
      "\"uuid\": {}, \"integrated\": {}, \"driver_version\": \"{}.{}\", \"kernels\": {}, "
      "\"memory\": {{\"total_bytes\": {}, \"free_bytes\": {}, \"used_bytes\": {}, "
      "\"peak_bytes\": {}, \"limit_bytes\": {}}}}}",
      JsonQuote(name), ordinal, JsonQuote(gpu.name), gpu.compute_major, gpu.compute_minor,
      gpu.multiprocessors, gpu.memory_bytes, gpu.l2_bytes, JsonQuote(gpu.bus_id),
      JsonQuote(Hex(gpu.uuid, sizeof(gpu.uuid))), gpu.integrated != 0 ? "true" : "false",
      gpu.driver_version / 1000, gpu.driver_version % 1000 / 10,
      gpu.has_kernels != 0 ? "true" : "false", memory.total_bytes,
      memory.free_bytes < 0 ? "null" : std::to_string(memory.free_bytes),
      use == nullptr ? 0 : use->used_bytes(), use == nullptr ? 0 : use->peak_bytes(),
      limit_bytes == 0 ? "null" : std::to_string(limit_bytes));
}

}  // namespace

Result<std::string> DeviceSet::Describe(std::string_view name) const {
  TUTTI_ASSIGN_OR_RETURN(const DeviceSpec spec, DeviceSpec::Parse(name));
  TUTTI_RETURN_IF_ERROR(CheckThere(spec));
  const int index = spec.device_index.value_or(0);
  if (spec.device_type.value_or("CPU") == "GPU") {
    const LogicalGpu gpu = LogicalGpus()[static_cast<size_t>(index)];
    TUTTI_ASSIGN_OR_RETURN(const auto properties, cuda()->Properties(gpu.ordinal));
    TUTTI_ASSIGN_OR_RETURN(const auto memory, cuda()->Memory(gpu.ordinal));
    return DescribeGpu(Format("GPU:{}", index), properties, memory, gpu.ordinal,
                       UseOf(index).get(), gpu.limit_bytes);
  }
  const uint64_t limit = account_ ? account_->limit_bytes() : 0;
  return Format(
      "{{\"name\": \"CPU:{}\", \"type\": \"CPU\", \"memory\": {{\"used_bytes\": {}, "
      "\"peak_bytes\": {}, \"limit_bytes\": {}}}}}",
      index, account_ ? account_->used_bytes() : 0, account_ ? account_->peak_bytes() : 0,
      limit == 0 ? "null" : std::to_string(limit));
}

std::string DeviceSet::DescribePlugins() const {
  const DevicePlugin* const plugin = cuda();
  const Result<GpuCollectives> nccl =
      plugin == nullptr ? Result<GpuCollectives>(why_no_cuda()) : FindGpuCollectives(*plugin);
  return Format(
      "[{{\"name\": \"cuda\", \"file\": {}, \"devices\": {}, \"version\": {}, \"reason\": {}, "
      "\"nccl\": {}, \"nccl_reason\": {}}}]",
      JsonQuote(CudaFile()), VisibleGpus().size(),
      plugin == nullptr ? "null" : JsonQuote(plugin->api().version),
      why_no_cuda().ok() ? "null" : JsonQuote(why_no_cuda().message()),
      nccl.ok() ? Format("{{\"version\": {}, \"file\": {}, \"origin\": {}}}",
                         JsonQuote(nccl.value().version_text()), JsonQuote(nccl.value().file),
                         JsonQuote(nccl.value().origin))
                : "null",
      nccl.ok() ? "null" : JsonQuote(nccl.status().message()));
}

}  // namespace tutti
