// Which devices' kernels can work on which other devices' memory, over the links between them. The
// driver is asked once for each pair, and then told: for what is allocated at once by a right of
// the context, for what is allocated on streams by one of the device's pool.
#include "core/cuda/plugin.h"

namespace tutti::cuda {
namespace {

// True when the driver has let them; false is no error, whatever its reason.
bool Connect(const Driver& driver, const Device& device, const Device& peer) {
  int32_t can = 0;
  if (driver.DeviceCanAccessPeer(&can, device.ordinal, peer.ordinal) != kSuccess || can == 0) {
    return false;
  }
  const Outcome enabled = driver.CtxEnablePeerAccess(peer.context.load(), 0);
  // Another library may have been here before.
  if (enabled != kSuccess && enabled != kPeersAlready) return false;
  Pool pool = nullptr;
  PoolAccess access;
  access.device = device.ordinal;
  return driver.DeviceGetMemPool(&pool, peer.ordinal) == kSuccess &&
         driver.MemPoolSetAccess(pool, &access, 1) == kSuccess;
}

}  // namespace

tutti_status* ReachPeer(tutti_plugin* plugin, int32_t index, int32_t peer_index,
                        int32_t* out_reaches) {
  return Guarded(plugin, [&]() -> tutti_status* {
    *out_reaches = 0;
    TUTTI_CUDA_RETURN_IF(plugin->CheckDevice(index));
    TUTTI_CUDA_RETURN_IF(plugin->CheckDevice(peer_index));
    if (index == peer_index) {
      *out_reaches = 1;
      return nullptr;
    }
    // Its context has to be there before anybody can reach into it.
    {
      Current other(plugin, peer_index);
      TUTTI_CUDA_RETURN_IF(other.TakeError());
    }
    Current current(plugin, index);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    Device& device = *plugin->devices[static_cast<size_t>(index)];
    const std::lock_guard lock(device.mutex);
    const auto known = device.peers.find(peer_index);
    if (known != device.peers.end()) {
      *out_reaches = known->second ? 1 : 0;
      return nullptr;
    }
    const bool reaches =
        Connect(plugin->driver, device, *plugin->devices[static_cast<size_t>(peer_index)]);
    device.peers[peer_index] = reaches;
    *out_reaches = reaches ? 1 : 0;
    return nullptr;
  });
}

}  // namespace tutti::cuda
