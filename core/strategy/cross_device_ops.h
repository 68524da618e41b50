// CrossDeviceOps: how the values of a strategy's replicas become one on some devices (reduce), and
// how one value gets to several (broadcast). A strategy has one (strategy.h); a program may bring
// its own (C's tutti_reducer_functions), which sees the same values.
//
//   reduce(SUM, PerReplica:{0: 1, 1: 2}, "CPU:1")             3, on CPU:1
//   reduce(SUM, PerReplica:{0: 1, 1: 2}, the same value)      Mirrored:{0: 3, 1: 3}
//   broadcast(5, a mirrored variable)                         Mirrored:{0: 5, 1: 5}
//
// Destinations say where: a distributed value and a mirrored variable stand for the replicas'
// devices, another variable for the device it lies on, a tensor for the host, a string for the
// device of that name. They are never written. What is reduced: the components of a distributed
// value or the copies of a variable, of one dtype and shape. Of another tensor MEAN is the tensor,
// and SUM is INVALID_ARGUMENT with several replicas.
//
// Everything is checked around the implementation, so that one brought by a program can do no harm:
// what it gives must have the operands' dtype and shape and a component per destination, and who
// asked is free again at the deadline (bounded_call.h). It runs in the class kUpdate: run and
// collectives are refused there. Threads: any; an implementation may be called by several at once.
//
// Source of the rules: the reference system's documentation of CrossDeviceOps.

#ifndef TUTTI_CORE_STRATEGY_CROSS_DEVICE_OPS_H_
#define TUTTI_CORE_STRATEGY_CROSS_DEVICE_OPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/communicator/communication_options.h"
#include "core/strategy/cross_device_call.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

namespace tutti {

class Strategy;

class CrossDeviceOps : public RefCounted {
 public:
  // ---- For programs. Cross-replica context and updates; FAILED_PRECONDITION elsewhere, and for a
  // strategy of several workers, whose own reduce_to goes over all of them. `op`: any. ----

  Result<Ref<Value>> Reduce(Strategy& strategy, ReduceOp op, const Value& value,
                            const Value& destinations, const CollectiveOptions& options);
  // `pairs` is a tuple or list of pairs (value, destinations); the result a tuple.
  Result<Ref<Value>> BatchReduce(Strategy& strategy, ReduceOp op, const Value& pairs,
                                 const CollectiveOptions& options);
  Result<Ref<Value>> Broadcast(Strategy& strategy, const Value& value, const Value& destinations,
                               const CollectiveOptions& options);

  // ---- For the strategy, inside calls of its own: no look at where the caller stands. ----

  // One result for each of several reductions by SUM or MEAN.
  Result<std::vector<Ref<Value>>> ReduceEach(const CrossDeviceCall& call, ReduceOp op,
                                             std::span<const ValueAndDestinations> pairs);
  // By any op of tensors[i][replica], which all go to `destinations`, null where the value itself
  // lies: component 0 of each result.
  Result<std::vector<Ref<Tensor>>> ReduceTensors(const CrossDeviceCall& call, ReduceOp op,
                                                 std::vector<std::vector<Ref<Tensor>>> tensors,
                                                 const Ref<Value>& destinations);
  Result<Ref<Value>> BroadcastOne(const CrossDeviceCall& call, const Value& value,
                                  const Ref<Value>& destinations);

  // "HierarchicalCopyAllReduce(num_packs=1)": who it is, for messages and explain.
  virtual std::string Describe() const = 0;

 protected:
  // Whether an implementation is a program's own, which may never come back.
  virtual bool calls_host() const { return false; }
  // ---- Implementations. Operands have been checked; results will be. ----

  // `batch` says that the caller asked for several at once, be it one.
  virtual Result<std::vector<Ref<Value>>> ReduceImplementation(
      const CrossDeviceCall& call, ReduceOp op, bool batch,
      std::span<const Reduction> reductions) = 0;
  // By default the tensor itself, for each device.
  virtual Result<Ref<Value>> BroadcastImplementation(const CrossDeviceCall& call,
                                                     const Broadcasting& broadcasting);

 private:
  Result<std::vector<Ref<Value>>> ReduceChecked(const CrossDeviceCall& call, ReduceOp op,
                                                bool batch,
                                                std::span<const ValueAndDestinations> pairs);
  Result<std::vector<Ref<Value>>> CallReduce(const CrossDeviceCall& call, ReduceOp op, bool batch,
                                             const std::vector<Reduction>& reductions);
  Result<Ref<Value>> CallBroadcast(const CrossDeviceCall& call, const Broadcasting& broadcasting);
  template <typename T, typename Body>
  Result<T> Call(const CrossDeviceCall& call, Body body);
  Status CheckResult(const CrossDeviceCall& call, const Value& result, const Tensor& operand,
                     size_t num_devices) const;
};

// What a strategy's cross-device ops were used for: how often for tensors of which dtype and shape.
// Threads: any.
class CrossDeviceUses {
 public:
  void Add(std::string_view what, ReduceOp op, const Tensor& tensor);
  void AddBroadcast(const Tensor& tensor);
  // A line each: "reduce SUM of float32[2]: 3 times".
  std::string ToString() const;

 private:
  static constexpr size_t kMaxKinds = 64;  // others are counted together
  void Count(std::string kind);

  mutable std::mutex mutex_;
  std::map<std::string, int64_t> counts_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_CROSS_DEVICE_OPS_H_
