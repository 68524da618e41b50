#include "core/strategy/cross_device_ops.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/strategy/bounded_call.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/device_values.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/strategy.h"
#include "core/strategy/variable.h"

namespace tutti {

// ---- Where results go. ----

Ref<Value> PlacedOn(const Ref<Tensor>& tensor, size_t num_devices) {
  if (num_devices == 1) return Value::OfTensor(tensor);
  return Value::OfLeaf(
      MirroredLeaf(std::vector<Ref<Value>>(num_devices, Value::OfTensor(tensor))));
}

Ref<Value> PlacedOnEach(std::span<const Ref<Tensor>> tensors) {
  const bool same = std::all_of(tensors.begin(), tensors.end(), [&](const Ref<Tensor>& tensor) {
    return tensor.get() == tensors[0].get();
  });
  if (same) return PlacedOn(tensors[0], tensors.size());
  std::vector<Ref<Value>> components;
  for (const Ref<Tensor>& tensor : tensors) components.push_back(Value::OfTensor(tensor));
  return Value::OfLeaf(MirroredLeaf(std::move(components)));
}

Result<Ref<Value>> PlacedOnDevices(const Ref<Tensor>& tensor,
                                   std::span<const Ref<Device>> devices) {
  std::vector<Ref<Tensor>> there;
  for (const Ref<Device>& device : devices) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> one, OnDevice(*tensor, device.get()));
    there.push_back(std::move(one));
  }
  return PlacedOnEach(there);
}

namespace {

// A mirrored value, or one tensor, where it should lie.
Result<Ref<Value>> OnItsDevices(Ref<Value> value, std::span<const Ref<Device>> devices) {
  const DistributedValue* const several = AsDistributed(value->leaf());
  std::vector<Ref<Tensor>> there;
  bool moved = false;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Leaf& leaf = several == nullptr ? value->leaf() : several->component(i).leaf();
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> one, OnDevice(leaf.tensor(), devices[i].get()));
    moved |= one.get() != &leaf.tensor();
    there.push_back(std::move(one));
  }
  return moved ? PlacedOnEach(there) : std::move(value);
}

// What an implementation gave and CheckResult has seen, as a mirrored value or one tensor.
Ref<Value> MirroredResult(const Value& result, size_t num_devices) {
  const DistributedValue* several = AsDistributed(result.leaf());
  if (several == nullptr) return PlacedOn(result.leaf().tensor().OfNoStep(), num_devices);
  if (num_devices == 1) return several->components()[0];
  const std::span<const Ref<Value>> components = several->components();
  return Value::OfLeaf(MirroredLeaf({components.begin(), components.end()}));
}

Ref<Device> DeviceRef(const Strategy& strategy, size_t replica) {
  return Ref<Device>::Retain(const_cast<Device*>(&strategy.device(replica)));
}

std::vector<Ref<Device>> AllDevices(const Strategy& strategy) {
  std::vector<Ref<Device>> devices;
  for (size_t i = 0; i < strategy.num_local_replicas(); ++i) {
    devices.push_back(DeviceRef(strategy, i));
  }
  return devices;
}

}  // namespace

Result<std::vector<Ref<Device>>> DevicesOf(const Strategy& strategy, const Value& destinations,
                                           std::string_view what) {
  if (!destinations.is_leaf()) {
    return InvalidArgument(
        "{}: destinations are one value, one variable or the name of one device, not {}", what,
        destinations.spec().ToString());
  }
  const Leaf& leaf = destinations.leaf();
  switch (leaf.kind()) {
    case LeafKind::kString: {
      Result<Ref<Device>> found = strategy.device_set().Find(leaf.string());
      if (!found.ok()) {
        return InvalidArgument("{}: the destination {} cannot be used: {}", what,
                               Quote(leaf.string()), found.status().message())
            .WithCause(found.status());
      }
      return std::vector<Ref<Device>>{std::move(found).value()};
    }
    case LeafKind::kDistributed:
      TUTTI_RETURN_IF_ERROR(CheckComponents(destinations, strategy.num_local_replicas(),
                                            Format("{}: destinations", what)));
      return AllDevices(strategy);
    case LeafKind::kVariable: {
      const Variable& variable = *leaf.object_as<Variable>();
      TUTTI_RETURN_IF_ERROR(strategy.CheckOwns(variable, what));
      if (variable.num_copies() > 1) return AllDevices(strategy);
      return std::vector<Ref<Device>>{
          Ref<Device>::Retain(const_cast<Device*>(&strategy.parameter_device(0)))};
    }
    case LeafKind::kTensor: {
      if (strategy.num_local_replicas() == 1) return AllDevices(strategy);
      TUTTI_ASSIGN_OR_RETURN(Ref<Device> host, strategy.device_set().Find("CPU:0"));
      return std::vector<Ref<Device>>{std::move(host)};
    }
    default:
      return InvalidArgument(
          "{}: destinations are a {}; a value, a variable or the name of a device is expected",
          what, LeafKindName(leaf.kind()));
  }
}

// ---- What goes there. ----

Result<std::vector<Ref<Tensor>>> ReplicasOf(const Strategy& strategy, const Value& value,
                                            std::string_view what) {
  if (!value.is_leaf()) {
    return InvalidArgument(
        "{}: one tensor for each replica is expected, not {}; reduce the leaves of a structure one "
        "by one, or as a batch",
        what, value.spec().ToString());
  }
  TUTTI_RETURN_IF_ERROR(CheckComponents(value, strategy.num_local_replicas(), what));
  std::vector<Ref<Tensor>> tensors;
  const Leaf& leaf = value.leaf();
  if (const DistributedValue* distributed = AsDistributed(leaf)) {
    for (size_t i = 0; i < distributed->num_components(); ++i) {
      const Leaf& component = distributed->component(i).leaf();
      if (!component.is_tensor()) {
        return InvalidArgument("{}: replica {} has a {}; a tensor is expected", what, i,
                               LeafKindName(component.kind()))
            .With("replica", i);
      }
      tensors.push_back(component.tensor_ref());
    }
  } else if (leaf.kind() == LeafKind::kVariable) {
    const Variable& variable = *leaf.object_as<Variable>();
    TUTTI_RETURN_IF_ERROR(strategy.CheckOwns(variable, what));
    for (size_t i = 0; i < variable.num_copies(); ++i) tensors.push_back(variable.copy_ref(i));
  } else if (!leaf.is_tensor()) {
    return InvalidArgument("{}: the value is a {}; a tensor is expected", what,
                           LeafKindName(leaf.kind()));
  } else {
    tensors.push_back(leaf.tensor_ref());
  }
  return tensors;
}

Result<std::vector<ValueAndDestinations>> PairsOf(const Value& pairs, std::string_view what) {
  const auto refuse = [&](std::string_view which) {
    return InvalidArgument(
        "{}: a tuple or list of pairs (value, destinations) is expected; {} is none", what, which);
  };
  const auto is_sequence = [](const Value& value) {
    const NodeKind kind = value.spec().kind();
    return kind == NodeKind::kTuple || kind == NodeKind::kList;
  };
  if (!is_sequence(pairs)) return refuse(pairs.spec().ToString());
  std::vector<ValueAndDestinations> read;
  for (const Ref<Value>& pair : pairs.AllChildren()) {
    const std::vector<Ref<Value>> both =
        is_sequence(*pair) ? pair->AllChildren() : std::vector<Ref<Value>>();
    if (both.size() != 2) return refuse(Format("part {}", read.size()));
    read.push_back({both[0], both[1]});
  }
  return read;
}

namespace {

Status CheckForPrograms(const Strategy& strategy, std::string_view what,
                        const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCallbackClass(
      {CallbackClass::kNone, CallbackClass::kCrossReplica, CallbackClass::kUpdate}, what));
  TUTTI_RETURN_IF_ERROR(strategy.CheckOpen(what));
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, strategy.environment().clock(), what));
  TUTTI_RETURN_IF_ERROR(CheckHints(options.hints, what));
  if (strategy.team_channel() == nullptr) return OkStatus();
  return FailedPrecondition(
      "{}: cross-device ops reduce over the replicas of one process, and strategy {} spans {} "
      "workers; use the strategy's own reduce_to",
      what, strategy.name(), strategy.num_workers());
}

Status CheckReduceOp(ReduceOp op, std::string_view what) {
  if (op == ReduceOp::kSum || op == ReduceOp::kMean) return OkStatus();
  return InvalidArgument("{}: SUM or MEAN is expected, got {}", what, ReduceOpName(op));
}

}  // namespace

// ---- For programs. ----

Result<Ref<Value>> CrossDeviceOps::Reduce(Strategy& strategy, ReduceOp op, const Value& value,
                                          const Value& destinations,
                                          const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckForPrograms(strategy, "reduce", options));
  const ValueAndDestinations pair{Ref<Value>::Retain(const_cast<Value*>(&value)),
                                  Ref<Value>::Retain(const_cast<Value*>(&destinations))};
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Value>> results,
                         ReduceChecked({strategy, options, "reduce"}, op, false, {&pair, 1}));
  return std::move(results[0]);
}

Result<Ref<Value>> CrossDeviceOps::BatchReduce(Strategy& strategy, ReduceOp op, const Value& pairs,
                                               const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckForPrograms(strategy, "batch_reduce", options));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<ValueAndDestinations> read,
                         PairsOf(pairs, "batch_reduce"));
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Value>> results,
                         ReduceChecked({strategy, options, "batch_reduce"}, op, true, read));
  return Value::Tuple(results);
}

Result<Ref<Value>> CrossDeviceOps::Broadcast(Strategy& strategy, const Value& value,
                                             const Value& destinations,
                                             const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckForPrograms(strategy, "broadcast", options));
  return BroadcastOne({strategy, options, "broadcast"}, value,
                      Ref<Value>::Retain(const_cast<Value*>(&destinations)));
}

// ---- For the strategy. ----

Result<std::vector<Ref<Value>>> CrossDeviceOps::ReduceEach(
    const CrossDeviceCall& call, ReduceOp op, std::span<const ValueAndDestinations> pairs) {
  TUTTI_RETURN_IF_ERROR(CheckReduceOp(op, call.what));
  return ReduceChecked(call, op, pairs.size() != 1, pairs);
}

Result<std::vector<Ref<Value>>> CrossDeviceOps::ReduceChecked(
    const CrossDeviceCall& call, ReduceOp op, bool batch,
    std::span<const ValueAndDestinations> pairs) {
  std::vector<Ref<Value>> results(pairs.size());
  std::vector<Reduction> reductions;
  std::vector<size_t> numbers;  // of the reductions among the pairs
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::string label =
        batch ? Format("{}: pair {}", call.what, i) : std::string(call.what);
    Reduction reduction{{}, pairs[i].value, pairs[i].destinations, {}};
    TUTTI_ASSIGN_OR_RETURN(reduction.tensors,
                           ReplicasOf(call.strategy, *pairs[i].value, label));
    TUTTI_ASSIGN_OR_RETURN(reduction.devices,
                           DevicesOf(call.strategy, *pairs[i].destinations, label));
    if (reduction.tensors.size() == 1 && call.strategy.num_local_replicas() > 1) {
      // One value for all replicas.
      TUTTI_RETURN_IF_ERROR(call.strategy.CheckPlainReduce(op, *reduction.tensors[0], label));
      TUTTI_ASSIGN_OR_RETURN(
          results[i], PlacedOnDevices(reduction.tensors[0]->OfNoStep(), reduction.devices));
      continue;
    }
    std::vector<const Tensor*> pointers;
    for (const Ref<Tensor>& tensor : reduction.tensors) pointers.push_back(tensor.get());
    TUTTI_RETURN_IF_ERROR(CheckSameAcrossReplicas(pointers, label));
    TUTTI_RETURN_IF_ERROR(CheckReducible(op, pointers[0]->dtype()).WithPrefix(label));
    numbers.push_back(i);
    reductions.push_back(std::move(reduction));
  }
  if (reductions.empty()) return results;
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Value>> reduced,
                         CallReduce(call, op, batch, reductions));
  if (reduced.size() != reductions.size()) {
    return InvalidArgument("{}: {} gave {} results for {} values; one for each is expected",
                           call.what, Describe(), reduced.size(), reductions.size());
  }
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(
      call.options, call.strategy.environment().clock(),
      Format("{}: {}", call.what, Describe())));
  for (size_t k = 0; k < reductions.size(); ++k) {
    const Reduction& reduction = reductions[k];
    const size_t num_devices = reduction.devices.size();
    TUTTI_RETURN_IF_ERROR(
        CheckResult(call, *reduced[k], *reduction.tensors[0], num_devices));
    TUTTI_ASSIGN_OR_RETURN(
        results[numbers[k]],
        OnItsDevices(MirroredResult(*reduced[k], num_devices), reduction.devices));
    call.strategy.NoteUse(call.what, op, *reduction.tensors[0]);
  }
  return results;
}

Result<std::vector<Ref<Tensor>>> CrossDeviceOps::ReduceTensors(
    const CrossDeviceCall& call, ReduceOp op, std::vector<std::vector<Ref<Tensor>>> tensors,
    const Ref<Value>& destinations) {
  std::vector<ValueAndDestinations> pairs;
  for (std::vector<Ref<Tensor>>& replicas : tensors) {
    std::vector<Ref<Value>> components;
    for (Ref<Tensor>& tensor : replicas) components.push_back(Value::OfTensor(std::move(tensor)));
    Ref<Value> value = components.size() == 1
                           ? components[0]
                           : Value::OfLeaf(DistributedLeaf(std::move(components)));
    pairs.push_back({value, destinations ? destinations : value});
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Value>> results,
                         ReduceChecked(call, op, pairs.size() != 1, pairs));
  std::vector<Ref<Tensor>> reduced;
  for (const Ref<Value>& result : results) {
    const DistributedValue* several = AsDistributed(result->leaf());
    const Leaf& leaf = several == nullptr ? result->leaf() : several->component(0).leaf();
    reduced.push_back(leaf.tensor_ref());
  }
  return reduced;
}

Result<Ref<Value>> CrossDeviceOps::BroadcastOne(const CrossDeviceCall& call, const Value& value,
                                                const Ref<Value>& destinations) {
  if (!value.is_leaf() || !value.leaf().is_tensor()) {
    return InvalidArgument("{}: one tensor is expected, not {}", call.what, value.ToString());
  }
  Broadcasting broadcasting{value.leaf().tensor().OfNoStep(), destinations, {}};
  TUTTI_ASSIGN_OR_RETURN(broadcasting.devices,
                         DevicesOf(call.strategy, *destinations, call.what));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> result, CallBroadcast(call, broadcasting));
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(
      call.options, call.strategy.environment().clock(),
      Format("{}: {}", call.what, Describe())));
  const size_t num_devices = broadcasting.devices.size();
  TUTTI_RETURN_IF_ERROR(CheckResult(call, *result, *broadcasting.tensor, num_devices));
  call.strategy.NoteUse(*broadcasting.tensor);
  return OnItsDevices(MirroredResult(*result, num_devices), broadcasting.devices);
}

// ---- The implementation, by the deadline. ----

// `body` gets the call, which on another thread than the caller's is one that lives as long.
template <typename T, typename Body>
Result<T> CrossDeviceOps::Call(const CrossDeviceCall& call, Body body) {
  if (!calls_host() || call.options.deadline.is_infinite()) {
    const CallbackScope scope(CallbackClass::kUpdate);
    return body(call);
  }
  struct Kept {
    Ref<CrossDeviceOps> ops;
    Ref<Strategy> strategy;
    std::string what;
    CollectiveOptions options;
    std::optional<Result<T>> result;
  };
  const auto kept = std::make_shared<Kept>(
      Kept{Ref<CrossDeviceOps>::Retain(this), Ref<Strategy>::Retain(&call.strategy),
           std::string(call.what), call.options, std::nullopt});
  TUTTI_RETURN_IF_ERROR(CallWithin(
      Ref<Environment>::Retain(&call.strategy.environment()), call.options,
      Format("{}: {}", call.what, Describe()),
      [kept, body = std::move(body)](Cancellation& stop) {
        kept->options.cancellation = &stop;
        const CallbackScope scope(CallbackClass::kUpdate);
        kept->result = body(CrossDeviceCall{*kept->strategy, kept->options, kept->what});
      }));
  return std::move(*kept->result);
}

Result<std::vector<Ref<Value>>> CrossDeviceOps::CallReduce(
    const CrossDeviceCall& call, ReduceOp op, bool batch,
    const std::vector<Reduction>& reductions) {
  return Call<std::vector<Ref<Value>>>(
      call, [this, op, batch, reductions](const CrossDeviceCall& own) {
        return ReduceImplementation(own, op, batch, reductions);
      });
}

Result<Ref<Value>> CrossDeviceOps::CallBroadcast(const CrossDeviceCall& call,
                                                 const Broadcasting& broadcasting) {
  return Call<Ref<Value>>(call, [this, broadcasting](const CrossDeviceCall& own) {
    return BroadcastImplementation(own, broadcasting);
  });
}

Result<Ref<Value>> CrossDeviceOps::BroadcastImplementation(const CrossDeviceCall&,
                                                           const Broadcasting& broadcasting) {
  return PlacedOn(broadcasting.tensor, broadcasting.devices.size());
}

Status CrossDeviceOps::CheckResult(const CrossDeviceCall& call, const Value& result,
                                   const Tensor& operand, size_t num_devices) const {
  const auto expected = [&] {
    return num_devices == 1 ? operand.SpecString()
                            : Format("{} for each of {} devices", operand.SpecString(),
                                     num_devices);
  };
  const auto refuse = [&](std::string_view found) {
    return InvalidArgument("{}: {} gave {}; expected {}", call.what, Describe(), found,
                           expected());
  };
  if (!result.is_leaf()) return refuse(result.spec().ToString());
  std::vector<const Leaf*> leaves;
  const DistributedValue* several = AsDistributed(result.leaf());
  if (several == nullptr) {
    leaves.push_back(&result.leaf());
  } else {
    if (several->num_components() != num_devices) {
      return refuse(Format("a value of {} components", several->num_components()));
    }
    for (const Ref<Value>& component : several->components()) leaves.push_back(&component->leaf());
  }
  for (const Leaf* leaf : leaves) {
    if (!leaf->is_tensor()) return refuse(Format("a {}", LeafKindName(leaf->kind())));
    const Tensor& tensor = leaf->tensor();
    if (tensor.dtype() != operand.dtype() || tensor.shape() != operand.shape()) {
      return refuse(tensor.SpecString());
    }
  }
  return OkStatus();
}

// ---- What it was used for. ----

void CrossDeviceUses::Add(std::string_view what, ReduceOp op, const Tensor& tensor) {
  Count(Format("{} {} of {}", what, ReduceOpName(op), tensor.SpecString()));
}

void CrossDeviceUses::AddBroadcast(const Tensor& tensor) {
  Count(Format("broadcast of {}", tensor.SpecString()));
}

void CrossDeviceUses::Count(std::string kind) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (counts_.size() >= kMaxKinds && counts_.find(kind) == counts_.end()) kind = "others";
  ++counts_[std::move(kind)];
}

std::string CrossDeviceUses::ToString() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  for (const auto& [kind, count] : counts_) {
    text += Format("  {}: {} {}\n", kind, count, count == 1 ? "time" : "times");
  }
  return text;
}

}  // namespace tutti
