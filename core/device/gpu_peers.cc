#include "core/device/gpu_peers.h"

#include <cstddef>

#include "core/device/gpu_memory.h"

namespace tutti {

Result<bool> ReachesPeer(const GpuPlace& device, const GpuPlace& peer) {
  if (device.ordinal == peer.ordinal) return true;
  constexpr size_t kNeeded =
      offsetof(tutti_plugin_api, reach_peer) + sizeof(tutti_plugin_api::reach_peer);
  if (device.api().struct_size < kNeeded) return false;
  int32_t reaches = 0;
  TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(device.api().reach_peer(
      device.plugin->handle(), device.ordinal, peer.ordinal, &reaches)));
  return reaches != 0;
}

Result<bool> ReachesTensor(const GpuPlace& device, const Tensor& tensor) {
  const GpuPlace& place = StreamOf(tensor)->place();
  if (place.ordinal == device.ordinal) return true;
  return IsOfOtherLibrary(tensor) ? Result<bool>(false) : ReachesPeer(device, place);
}

}  // namespace tutti
