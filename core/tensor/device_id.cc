// Names of device types.
#include "core/tensor/device_id.h"

namespace tutti {

std::string_view DeviceTypeName(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu: return "CPU";
    case DeviceType::kGpu: return "GPU";
    case DeviceType::kTpu: return "TPU";
  }
  return "unknown";
}

std::string DeviceId::ToString() const {
  return std::string(DeviceTypeName(type)) + ":" + std::to_string(index);
}

}  // namespace tutti
