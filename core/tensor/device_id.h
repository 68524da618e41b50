// Which device a tensor lies on: a type and an index, "CPU:0". The device room knows more about
// each.
#ifndef TUTTI_CORE_TENSOR_DEVICE_ID_H_
#define TUTTI_CORE_TENSOR_DEVICE_ID_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Numbers are those of DLPack's device types where it has one.
enum class DeviceType : int32_t {
  kCpu = 1,
  kGpu = 2,
  kTpu = 64,
};

// "CPU", "GPU", "TPU"; static.
std::string_view DeviceTypeName(DeviceType type);

struct DeviceId {
  DeviceType type = DeviceType::kCpu;
  int32_t index = 0;

  bool is_cpu() const { return type == DeviceType::kCpu; }
  std::string ToString() const;  // "CPU:0"

  friend bool operator==(const DeviceId& a, const DeviceId& b) = default;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_DEVICE_ID_H_
