// What cross-device ops are handed: the call, the values that become one, and where they go.

#ifndef TUTTI_CORE_STRATEGY_CROSS_DEVICE_CALL_H_
#define TUTTI_CORE_STRATEGY_CROSS_DEVICE_CALL_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communication_options.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {

class Strategy;

struct CrossDeviceCall {
  Strategy& strategy;
  const CollectiveOptions& options;
  std::string_view what;  // who asks, for messages: "reduce_to", "assign_add of variable 'v'"
};

struct ValueAndDestinations {
  Ref<Value> value;
  Ref<Value> destinations;
};

// The tensors of the replicas of this process, in order, of one dtype and shape; as one value; and
// the devices that `destinations` stands for, at least one.
struct Reduction {
  std::vector<Ref<Tensor>> tensors;
  Ref<Value> value;
  Ref<Value> destinations;
  std::vector<Ref<Device>> devices;
};

struct Broadcasting {
  Ref<Tensor> tensor;
  Ref<Value> destinations;
  std::vector<Ref<Device>> devices;
};

// What lies on several devices: a mirrored value of the tensor for each; on one the tensor itself.
Ref<Value> PlacedOn(const Ref<Tensor>& tensor, size_t num_devices);

// The same of tensors that may have to be copied there; and a tensor for each device.
Result<Ref<Value>> PlacedOnDevices(const Ref<Tensor>& tensor,
                                   std::span<const Ref<Device>> devices);
Ref<Value> PlacedOnEach(std::span<const Ref<Tensor>> tensors);

// What `value`, a distributed value of tensors or a variable, has for each replica of this process;
// one tensor where it is one. INVALID_ARGUMENT naming `what` for other values, another number of
// components and a variable of another strategy.
Result<std::vector<Ref<Tensor>>> ReplicasOf(const Strategy& strategy, const Value& value,
                                            std::string_view what);

// The pairs of a tuple or list of tuples or lists of two; else INVALID_ARGUMENT naming `what`.
Result<std::vector<ValueAndDestinations>> PairsOf(const Value& pairs, std::string_view what);

// The devices that one value, `destinations`, stands for. INVALID_ARGUMENT naming `what` for other
// leaves, a value of another number of components and a variable of another strategy; as
// DeviceSet::Find for names.
Result<std::vector<Ref<Device>>> DevicesOf(const Strategy& strategy, const Value& destinations,
                                           std::string_view what);

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_CROSS_DEVICE_CALL_H_
