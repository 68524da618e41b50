#include "core/strategy/strategy.h"

#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/function/function.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/replica_runner.h"
#include "core/strategy/variable.h"

namespace tutti {

// ---- Making. ----

Strategy::Strategy(Ref<Environment> environment, const char* type_name, bool is_mirrored,
                   std::vector<Ref<Device>> devices, const StrategyOptions& options)
    : Closable(std::move(environment), options.name.empty() ? std::string(type_name) : options.name),
      type_name_(type_name),
      is_mirrored_(is_mirrored),
      cross_device_ops_(options.cross_device_ops),
      devices_(std::move(devices)),
      runner_(std::make_unique<ReplicaRunner>(*this, devices_.size())) {}

Strategy::~Strategy() = default;

Result<Ref<Strategy>> Strategy::Make(Ref<Environment> environment, const char* type_name,
                                     bool is_mirrored, std::vector<Ref<Device>> devices,
                                     const StrategyOptions& options) {
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable(type_name));
  if (options.cross_device_ops != CrossDeviceOps::kAuto &&
      options.cross_device_ops != CrossDeviceOps::kReductionToOneDevice) {
    return InvalidArgument("{}: {} is no kind of cross-device ops", type_name,
                           static_cast<int32_t>(options.cross_device_ops));
  }
  Ref<Strategy> strategy = MakeRef<Strategy>(std::move(environment), type_name, is_mirrored,
                                             std::move(devices), options);
  TUTTI_RETURN_IF_ERROR(strategy->Register());
  return strategy;
}

Result<Ref<Strategy>> Strategy::CreateDefault(Ref<Environment> environment,
                                              const DeviceSet& devices) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Device> cpu, devices.Find("CPU:0"));
  return Make(std::move(environment), "DefaultStrategy", false, {std::move(cpu)}, {});
}

Result<Ref<Strategy>> Strategy::CreateOneDevice(Ref<Environment> environment,
                                                const DeviceSet& devices, std::string_view device,
                                                const StrategyOptions& options) {
  Result<Ref<Device>> found = devices.Find(device);
  if (!found.ok()) return std::move(found).status().WithPrefix("OneDeviceStrategy");
  return Make(std::move(environment), "OneDeviceStrategy", false, {std::move(found).value()},
              options);
}

Result<Ref<Strategy>> Strategy::CreateMirrored(Ref<Environment> environment,
                                               const DeviceSet& devices,
                                               std::span<const std::string> names,
                                               const StrategyOptions& options) {
  std::vector<Ref<Device>> found;
  if (names.empty()) found = devices.ListDevices(DeviceType::kGpu);
  if (names.empty() && found.empty()) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Device> cpu, devices.Find("CPU:0"));
    found.push_back(std::move(cpu));
  }
  for (const std::string& name : names) {
    Result<Ref<Device>> device = devices.Find(name);
    if (!device.ok()) {
      return InvalidArgument("MirroredStrategy: device {} cannot be used: {}", Quote(name),
                             device.status().message())
          .WithCause(device.status());
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i]->id() != (*device)->id()) continue;
      return InvalidArgument(
          "MirroredStrategy: devices {} ({}) and {} ({}) are the same; name each device once, "
          "logical CPUs are CPU:0, CPU:1, ...",
          i, Quote(names[i]), found.size(), Quote(name));
    }
    found.push_back(std::move(device).value());
  }
  return Make(std::move(environment), "MirroredStrategy", true, std::move(found), options);
}

Status Strategy::CheckOpen(std::string_view what) const {
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  if (!runner_->closing()) return OkStatus();
  return FailedPrecondition("{}: strategy {} has been closed", what, name());
}

Status Strategy::OnClose(const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("close of a strategy"));
  return runner_->Close(options);
}

// ---- Running. ----

Result<Ref<Value>> Strategy::Run(Function& fn, const Value* args, const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("run"));
  TUTTI_RETURN_IF_ERROR(CheckOpen("run"));
  if (args != nullptr) return runner_->Run(fn, *args, options);
  return runner_->Run(fn, *Value::None(), options);
}

// ---- Values. ----

namespace {

// What each replica holds where `leaf` stands: components, or the copies of a variable. Empty for a
// leaf that is not distributed.
Result<std::vector<Ref<Tensor>>> TensorsOf(const Leaf& leaf, std::string_view what) {
  std::vector<Ref<Tensor>> tensors;
  if (leaf.kind() == LeafKind::kVariable) {
    const Variable& variable = *leaf.object_as<Variable>();
    for (size_t i = 0; i < variable.num_copies(); ++i) tensors.push_back(variable.copy_ref(i));
  } else if (const DistributedValue* distributed = AsDistributed(leaf)) {
    for (size_t i = 0; i < distributed->num_components(); ++i) {
      const Leaf& component = distributed->component(i).leaf();
      if (!component.is_tensor()) {
        return InvalidArgument("{}: replica {} has a {}; a tensor is expected", what, i,
                               LeafKindName(component.kind()))
            .With("replica", i);
      }
      tensors.push_back(component.tensor_ref());
    }
  }
  return tensors;
}

std::vector<const Tensor*> Pointers(const std::vector<Ref<Tensor>>& tensors) {
  std::vector<const Tensor*> pointers;
  pointers.reserve(tensors.size());
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}

std::string LeafLabel(const char* what, const Value& value, size_t leaf) {
  return value.is_leaf() ? std::string(what)
                         : Format("{}: leaf {}", what, PathToString(value.spec().LeafPath(leaf)));
}

}  // namespace

Result<Ref<Value>> Strategy::Reduce(ReduceOp op, const Value& value, std::optional<int64_t> axis,
                                    const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("reduce"));
  TUTTI_RETURN_IF_ERROR(CheckOpen("reduce"));
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment().clock(), "reduce"));
  if (op != ReduceOp::kSum && op != ReduceOp::kMean) {
    return InvalidArgument("reduce: SUM or MEAN is expected, got {}", ReduceOpName(op));
  }
  TUTTI_RETURN_IF_ERROR(CheckComponents(value, num_local_replicas(), "reduce"));
  std::vector<Leaf> leaves;
  leaves.reserve(value.num_leaves());
  for (size_t i = 0; i < value.num_leaves(); ++i) {
    const Leaf& leaf = value.leaf(i);
    if (leaf.is_none()) {
      leaves.push_back(leaf);
      continue;
    }
    const std::string label = LeafLabel("reduce", value, i);
    TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> tensors, TensorsOf(leaf, label));
    if (tensors.empty()) {
      if (!leaf.is_tensor()) {
        return InvalidArgument("{} is a {}; a tensor is expected", label,
                               LeafKindName(leaf.kind()));
      }
      if (op == ReduceOp::kSum && num_replicas_in_sync() > 1) {
        return InvalidArgument(
            "{} is one value for all {} replicas, {}: its SUM is not defined; reduce what run "
            "returned, or use MEAN",
            label, num_replicas_in_sync(), leaf.tensor().SpecString());
      }
      tensors.push_back(leaf.tensor_ref());
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                           ReduceAcrossReplicas(op, Pointers(tensors), axis, label));
    leaves.push_back(Leaf::OfTensor(std::move(result)));
  }
  return value.WithLeaves(std::move(leaves));
}

Result<Ref<Value>> Strategy::Gather(const Value& value, int64_t axis, const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("gather"));
  TUTTI_RETURN_IF_ERROR(CheckOpen("gather"));
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment().clock(), "gather"));
  TUTTI_RETURN_IF_ERROR(CheckComponents(value, num_local_replicas(), "gather"));
  std::vector<Leaf> leaves;
  leaves.reserve(value.num_leaves());
  for (size_t i = 0; i < value.num_leaves(); ++i) {
    const std::string label = LeafLabel("gather", value, i);
    TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> tensors, TensorsOf(value.leaf(i), label));
    if (tensors.empty()) {
      leaves.push_back(value.leaf(i));
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                           GatherAcrossReplicas(Pointers(tensors), axis, label));
    leaves.push_back(Leaf::OfTensor(std::move(result)));
  }
  return value.WithLeaves(std::move(leaves));
}

Result<Ref<Value>> Strategy::LocalResults(const Value& value) const {
  TUTTI_RETURN_IF_ERROR(CheckBuildingAllowed("local_results"));
  const size_t n = num_local_replicas();
  TUTTI_RETURN_IF_ERROR(CheckComponents(value, n, "local_results"));
  bool distributed = false;
  for (const Leaf& leaf : value.leaves()) {
    if (leaf.kind() == LeafKind::kVariable &&
        leaf.object_as<Variable>()->num_copies() != n) {
      return InvalidArgument("local_results: variable '{}' has {} copies, and the strategy has {} "
                             "replicas; ask the variable's own strategy",
                             leaf.object_as<Variable>()->name(),
                             leaf.object_as<Variable>()->num_copies(), n);
    }
    distributed |= leaf.kind() == LeafKind::kDistributed || leaf.kind() == LeafKind::kVariable;
  }
  if (!distributed) return Value::Tuple({Ref<Value>::Retain(const_cast<Value*>(&value))});
  std::vector<Ref<Value>> results;
  for (size_t i = 0; i < n; ++i) {
    std::vector<Leaf> leaves;
    leaves.reserve(value.num_leaves());
    for (const Leaf& leaf : value.leaves()) {
      if (const DistributedValue* several = AsDistributed(leaf)) {
        leaves.push_back(several->component(i).leaf());
      } else if (leaf.kind() == LeafKind::kVariable) {
        leaves.push_back(Leaf::OfTensor(leaf.object_as<Variable>()->copy_ref(i)));
      } else {
        leaves.push_back(leaf);
      }
    }
    results.push_back(value.WithLeaves(std::move(leaves)));
  }
  return Value::Tuple(results);
}

Result<Ref<Value>> Strategy::CreateValues(Function& fn, const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("create_values"));
  TUTTI_RETURN_IF_ERROR(CheckOpen("create_values"));
  std::vector<Ref<Value>> values(num_local_replicas());
  for (size_t i = 0; i < values.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment().clock(), "create_values"));
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Value> in,
        Value::Dict({{"num_replicas_in_sync",
                      Value::OfTensor(Tensor::Scalar<int64_t>(num_replicas_in_sync()))},
                     {"replica_id_in_sync_group",
                      Value::OfTensor(Tensor::Scalar<int64_t>(static_cast<int64_t>(i)))}}));
    CrossReplicaContext context(*this, options);
    CallbackScope scope(CallbackClass::kCrossReplica);
    Status status = fn.Call(context, *in, &values[i]);
    if (!status.ok()) return std::move(status).With("replica", i);
  }
  return Regroup(values, Wrap::kAlways, "create_values");
}

Result<Ref<Value>> Strategy::CreatePerReplica(std::span<const Ref<Value>> components) const {
  TUTTI_RETURN_IF_ERROR(CheckBuildingAllowed("create_per_replica"));
  if (components.size() != num_local_replicas()) {
    return InvalidArgument(
        "create_per_replica: got {} values for the {} replicas of this process; give one for each",
        components.size(), num_local_replicas());
  }
  return Regroup(components, Wrap::kAlways, "create_per_replica");
}

}  // namespace tutti
