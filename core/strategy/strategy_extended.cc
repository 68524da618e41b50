// What a strategy does on devices: values reduced and copied to some, functions called on those
// that a variable lies on. Source: the reference system's StrategyExtended.

#include <algorithm>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/function/function.h"
#include "core/strategy/cross_device_ops.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/strategy.h"
#include "core/strategy/team_channel.h"
#include "core/strategy/variable.h"

namespace tutti {

namespace {

Ref<Value> Same(const Value& value) { return Ref<Value>::Retain(const_cast<Value*>(&value)); }

const std::string* At(const std::vector<std::string>& texts, size_t i) {
  return i < texts.size() ? &texts[i] : nullptr;
}

}  // namespace

// ---- Devices. ----

const std::string* Strategy::full_worker_device(size_t replica) const {
  return At(full_worker_devices_, replica);
}

const std::string* Strategy::full_parameter_device(size_t i) const {
  return At(full_parameter_devices_, i);
}

Status Strategy::CheckOwns(const Variable& variable, std::string_view what) const {
  if (variable.strategy().get() == this) return OkStatus();
  return InvalidArgument(
      "{}: variable '{}' belongs to strategy {}, not to {}; pass a variable that was made in this "
      "strategy's scope",
      what, variable.name(), variable.strategy()->name(), name());
}

// ---- Reductions and copies. ----

Status Strategy::CheckToDevices(std::string_view what, const CollectiveOptions& options) const {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(what));
  TUTTI_RETURN_IF_ERROR(CheckOpen(what));
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment().clock(), what));
  return CheckHints(options.hints, what);
}

Result<Ref<Value>> Strategy::ReduceTo(ReduceOp op, const Value& value, const Value& destinations,
                                      const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckToDevices("reduce_to", options));
  const Value* const values[] = {&value};
  const Value* const where[] = {&destinations};
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Value>> results,
                         ReduceEachTo(op, values, where, "reduce_to", options));
  return std::move(results[0]);
}

Result<Ref<Value>> Strategy::BatchReduceTo(ReduceOp op, const Value& pairs,
                                           const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckToDevices("batch_reduce_to", options));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<ValueAndDestinations> read,
                         PairsOf(pairs, "batch_reduce_to"));
  std::vector<const Value*> values;
  std::vector<const Value*> destinations;
  for (const ValueAndDestinations& pair : read) {
    values.push_back(pair.value.get());
    destinations.push_back(pair.destinations.get());
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Value>> results,
                         ReduceEachTo(op, values, destinations, "batch_reduce_to", options));
  return Value::Tuple(results);
}

Result<std::vector<Ref<Value>>> Strategy::ReduceEachTo(
    ReduceOp op, std::span<const Value* const> values, std::span<const Value* const> destinations,
    std::string_view what, const CollectiveOptions& options) {
  if (!team_channel_) {
    std::vector<ValueAndDestinations> pairs;
    for (size_t i = 0; i < values.size(); ++i) {
      pairs.push_back({Same(*values[i]), Same(*destinations[i])});
    }
    TellOfImplementation(options.hints, what);
    return ops().ReduceEach({*this, options, what}, op, pairs);
  }
  // Over all workers, in one call; what is wrong here the others are told by it.
  Status valid;
  std::vector<std::vector<Ref<Device>>> devices;
  std::vector<Ref<Value>> operands;
  for (size_t i = 0; i < values.size() && valid.ok(); ++i) {
    Result<std::vector<Ref<Tensor>>> own = ReplicasOf(*this, *values[i], what);
    Result<std::vector<Ref<Device>>> where = DevicesOf(*this, *destinations[i], what);
    valid = own.ok() ? where.status() : own.status();
    if (!valid.ok()) break;
    devices.push_back(std::move(where).value());
    operands.push_back(Same(*values[i]));
  }
  if (!valid.ok()) return team_channel_->Refuse(std::move(valid), options);
  if (operands.empty()) return std::vector<Ref<Value>>();
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> reduced,
                         Reduce(op, *Value::Tuple(operands), std::nullopt, options));
  std::vector<Ref<Value>> results;
  for (size_t i = 0; i < operands.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Value> placed, PlacedOnDevices(reduced->Child(i)->leaf().tensor_ref(), devices[i]));
    results.push_back(std::move(placed));
  }
  return results;
}

Result<Ref<Value>> Strategy::BroadcastTo(const Value& value, const Value& destinations,
                                         const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckToDevices("broadcast_to", options));
  return ops().BroadcastOne({*this, options, "broadcast_to"}, value, Same(destinations));
}

Result<Ref<Value>> Strategy::WithCentralValues(const Value& value) const {
  if (!has_central_storage()) return Same(value);
  return value.MapLeaves([this](const Leaf& leaf) -> Result<Leaf> {
    if (leaf.kind() != LeafKind::kVariable) return leaf;
    const Variable& variable = *leaf.object_as<Variable>();
    if (variable.num_copies() != 1 || variable.strategy().get() != this) return leaf;
    return Leaf::OfTensor(variable.copy_ref(0));
  });
}

Result<Ref<Value>> Strategy::ReduceByOps(ReduceOp op, const Value& value,
                                         std::optional<int64_t> axis,
                                         const CollectiveOptions& options) {
  const CrossDeviceCall call{*this, options, "reduce"};
  std::vector<Leaf> leaves(value.leaves().begin(), value.leaves().end());
  std::vector<size_t> numbers;  // of the leaves that are reduced
  std::vector<ValueAndDestinations> pairs;
  std::vector<AxisSum> sums;
  const Ref<Value> host = Value::OfString("CPU:0");
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].is_none()) continue;
    Ref<Value> operand = Value::OfLeaf(leaves[i]);
    if (axis.has_value()) {
      TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> tensors,
                             ReplicasOf(*this, *operand, "reduce"));
      std::vector<const Tensor*> pointers;
      for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
      if (pointers.size() == 1) {
        TUTTI_RETURN_IF_ERROR(CheckPlainReduce(op, *pointers[0], "reduce"));
      }
      TUTTI_ASSIGN_OR_RETURN(AxisSums each, SumEachAlongAxis(pointers, *axis, "reduce"));
      std::vector<Ref<Value>> components;
      for (Ref<Tensor>& sum : each.sums) components.push_back(Value::OfTensor(std::move(sum)));
      sums.push_back({nullptr, each.count});
      operand = components.size() == 1 ? components[0]
                                       : Value::OfLeaf(DistributedLeaf(std::move(components)));
      if (pointers.size() == 1 && num_local_replicas() > 1) {
        // One value for all: nothing to reduce over them.
        sums.back().sum = operand->leaf().tensor_ref();
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                               FinishAxisSum(op, sums.back(), pointers[0]->dtype(), "reduce"));
        sums.pop_back();
        leaves[i] = Leaf::OfTensor(std::move(result));
        continue;
      }
    }
    numbers.push_back(i);
    pairs.push_back({std::move(operand), host});
  }
  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<Ref<Value>> reduced,
      given_ops_->ReduceEach(call, axis.has_value() ? ReduceOp::kSum : op, pairs));
  for (size_t k = 0; k < numbers.size(); ++k) {
    Leaf& leaf = leaves[numbers[k]];
    Ref<Tensor> result = reduced[k]->leaf().tensor_ref();
    if (axis.has_value()) {
      TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> tensors,
                             ReplicasOf(*this, *Value::OfLeaf(leaf), "reduce"));
      sums[k].sum = std::move(result);
      TUTTI_ASSIGN_OR_RETURN(result, FinishAxisSum(op, sums[k], tensors[0]->dtype(), "reduce"));
    }
    leaf = Leaf::OfTensor(std::move(result));
  }
  return value.WithLeaves(std::move(leaves));
}

// ---- Updates. ----

Result<Ref<Value>> Strategy::Update(Variable& variable, Function& fn, const Value* args,
                                    bool group, const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("update"));
  TUTTI_RETURN_IF_ERROR(CheckOwns(variable, "update"));
  const Ref<Value> target =
      Value::OfLeaf(Leaf(LeafKind::kVariable, Ref<Variable>::Retain(&variable)));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Device>> devices,
                         DevicesOf(*this, *target, "update"));
  return UpdateOn(devices, target, fn, args, group, "update", options);
}

Result<Ref<Value>> Strategy::UpdateNonSlot(const Value& colocate_with, Function& fn,
                                           const Value* args, bool group,
                                           const CallOptions& options) {
  constexpr const char* kWhat = "update_non_slot";
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(kWhat));
  std::vector<Ref<Device>> devices;
  if (colocate_with.is_leaf()) {
    TUTTI_ASSIGN_OR_RETURN(devices, DevicesOf(*this, colocate_with, kWhat));
  } else {
    for (const Ref<Value>& name : colocate_with.AllChildren()) {
      TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Device>> one, DevicesOf(*this, *name, kWhat));
      devices.insert(devices.end(), one.begin(), one.end());
    }
  }
  if (devices.empty()) {
    return InvalidArgument("{}: colocate_with names no device; pass a value, a variable or names "
                           "of devices",
                           kWhat);
  }
  return UpdateOn(devices, nullptr, fn, args, group, kWhat, options);
}

namespace {

// Whether results may differ between devices because arguments do.
bool DiffersBetweenDevices(const Value& args) {
  const std::span<const Leaf> leaves = args.leaves();
  return std::any_of(leaves.begin(), leaves.end(), [](const Leaf& leaf) {
    const DistributedValue* distributed = AsDistributed(leaf);
    if (distributed != nullptr) return distributed->distribution() != Distribution::kMirrored;
    return leaf.kind() == LeafKind::kVariable &&
           leaf.object_as<Variable>()->synchronization() == Synchronization::kOnRead;
  });
}

// Components that are equal by construction.
Result<Ref<Value>> AsMirrored(const Value& value) {
  return value.MapLeaves([](const Leaf& leaf) -> Result<Leaf> {
    const DistributedValue* distributed = AsDistributed(leaf);
    if (distributed == nullptr) return leaf;
    const std::span<const Ref<Value>> components = distributed->components();
    return MirroredLeaf({components.begin(), components.end()});
  });
}

// (variable, args...) as one value.
Ref<Value> Joined(const Ref<Value>& variable, const Ref<Value>& args) {
  if (!variable) return args;
  std::vector<Ref<Value>> all = {variable};
  if (!args->is_leaf() && args->spec().kind() == NodeKind::kTuple) {
    for (Ref<Value>& part : args->AllChildren()) all.push_back(std::move(part));
  } else if (!args->is_leaf() || !args->leaf().is_none()) {
    all.push_back(args);
  }
  return Value::Tuple(all);
}

}  // namespace

Result<Ref<Value>> Strategy::UpdateOn(std::span<const Ref<Device>> devices,
                                      const Ref<Value>& variable, Function& fn, const Value* args,
                                      bool group, std::string_view what,
                                      const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckOpen(what));
  const size_t n = num_local_replicas();
  const Ref<Value> given = args == nullptr ? Value::None() : Same(*args);
  TUTTI_RETURN_IF_ERROR(CheckComponents(*given, n, what));
  if (n > 1 && devices.size() == 1 && HasDistributedLeaf(*given) &&
      DiffersBetweenDevices(*given)) {
    return InvalidArgument(
        "{}: an argument has a component for each of {} replicas, and there is one device, {}; "
        "reduce it to that device first",
        what, n, devices[0]->short_name());
  }
  std::vector<Ref<Value>> results;
  for (size_t i = 0; i < devices.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment().clock(), what));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> own,
                           Select(*given, std::min(i, n - 1), n, what));
    UpdateContext context(*this, static_cast<int64_t>(i), devices[i].get(), options);
    const CallbackScope scope(CallbackClass::kUpdate);
    Ref<Value> result;
    Status status = fn.Call(context, *Joined(variable, own), &result);
    if (!status.ok()) return std::move(status).With("device", devices[i]->short_name());
    results.push_back(std::move(result));
  }
  if (!group) return Value::Tuple(results);
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> joined,
                         Regroup(results, Wrap::kWhereDifferent, what));
  if (DiffersBetweenDevices(*given)) return joined;
  return AsMirrored(*joined);
}

// ---- Variables by their copies. ----

void Strategy::AddVariable(Variable* variable) {
  const std::lock_guard<std::mutex> lock(variables_mutex_);
  variables_.insert(variable);
}

void Strategy::RemoveVariable(Variable* variable) noexcept {
  const std::lock_guard<std::mutex> lock(variables_mutex_);
  variables_.erase(variable);
}

Result<Ref<Variable>> Strategy::FindVariable(const Tensor& component) const {
  const std::lock_guard<std::mutex> lock(variables_mutex_);
  for (Variable* variable : variables_) {
    // One that is ending waits for this lock.
    if (variable->HasCopy(component) && variable->TryRetain()) {
      return Ref<Variable>::Adopt(variable);
    }
  }
  return NotFound("{} is no copy of a variable of strategy {}", component.SpecString(), name());
}

// ---- What cross-device ops are used for. ----

void Strategy::NoteUse(std::string_view what, ReduceOp op, const Tensor& tensor) {
  if (given_ops_) uses_->Add(what, op, tensor);
}

void Strategy::NoteUse(const Tensor& broadcast) {
  if (given_ops_) uses_->AddBroadcast(broadcast);
}

std::string Strategy::Explain() const {
  const auto list = [](const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
    return all;
  };
  std::string text = Format("{}: {} replicas\n", type_name_, num_replicas_in_sync());
  text += Format("replicas on: {}\n", list(full_worker_devices_));
  text += Format("variables on: {}\n", list(full_parameter_devices_));
  if (team_channel_) {
    return text + Format("reductions: all-reduce over {} workers, for all tensors\n",
                         num_workers_);
  }
  if (!given_ops_) return text + "reductions: AllReduce, for all tensors\n";
  text += Format("reductions: {}, as given", given_ops_->Describe());
  const std::string uses = uses_->ToString();
  text += uses.empty() ? "; for no tensor so far\n" : "; so far for\n" + uses;
  return text + "gathers, of indexed slices and texts too: by the library\n";
}

}  // namespace tutti
