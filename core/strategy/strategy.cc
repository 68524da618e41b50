#include "core/strategy/strategy.h"

#include <algorithm>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/placement_log.h"
#include "core/function/function.h"
#include "core/strategy/built_in_ops.h"
#include "core/strategy/cross_device_ops.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/device_values.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/placements.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/replica_runner.h"
#include "core/strategy/nccl_folds.h"
#include "core/strategy/slices_reduce.h"
#include "core/strategy/strategy_devices.h"
#include "core/strategy/team_channel.h"
#include "core/strategy/team_reduce.h"
#include "core/strategy/variable.h"

namespace tutti {

// ---- Making. ----

Strategy::Strategy(Ref<Environment> environment, const char* type_name, bool is_mirrored,
                   std::vector<Ref<Device>> devices, const StrategyOptions& options,
                   Ref<WorkerTeam> team, std::unique_ptr<TeamChannel> team_channel,
                   const DeviceSet& device_set, Ref<Device> parameter_device)
    : Closable(std::move(environment),
               options.name.empty() ? std::string(type_name) : options.name),
      type_name_(type_name),
      is_mirrored_(is_mirrored),
      devices_(std::move(devices)),
      has_gpus_(CountGpus(devices_) > 0),
      device_set_(Ref<const DeviceSet>::Retain(&device_set)),
      parameter_device_(std::move(parameter_device)),
      given_ops_(options.cross_device_ops),
      default_ops_(MakeAllReduce()),
      uses_(std::make_unique<CrossDeviceUses>()),
      nccl_folds_(std::make_unique<NcclFolds>(
          this->environment(), options.name.empty() ? std::string(type_name) : options.name,
          options.in_replica_order)),
      team_(std::move(team)),
      worker_(team_ ? team_->worker() : 0),
      num_workers_(team_ ? team_->num_workers() : 1),
      team_channel_(std::move(team_channel)),
      runner_(std::make_unique<ReplicaRunner>(*this, devices_.size(), team_channel_.get())) {
  const std::string where = num_workers_ == 1
                                ? std::string("/job:localhost/replica:0/task:0")
                                : Format("/job:worker/replica:0/task:{}", worker_);
  for (const Ref<Device>& device : devices_) {
    full_worker_devices_.push_back(where + device->name());
  }
  for (size_t i = 0; i < num_parameter_devices(); ++i) {
    full_parameter_devices_.push_back(where + this->parameter_device(i).name());
  }
}

Strategy::~Strategy() = default;

Result<Ref<Strategy>> Strategy::Make(Ref<Environment> environment, const DeviceSet& device_set,
                                     const char* type_name, bool is_mirrored,
                                     std::vector<Ref<Device>> devices,
                                     const StrategyOptions& options, Ref<WorkerTeam> team,
                                     std::unique_ptr<TeamChannel> team_channel,
                                     Ref<Device> parameter_device) {
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable(type_name));
  Ref<Strategy> strategy =
      MakeRef<Strategy>(std::move(environment), type_name, is_mirrored, std::move(devices), options,
                        std::move(team), std::move(team_channel), device_set,
                        std::move(parameter_device));
  TUTTI_RETURN_IF_ERROR(strategy->Register());
  return strategy;
}

namespace {

constexpr const char* kDefaultStrategy = "DefaultStrategy";

}  // namespace

bool Strategy::is_default() const { return type_name_ == kDefaultStrategy; }

Result<Ref<Strategy>> Strategy::CreateDefault(Ref<Environment> environment,
                                              const DeviceSet& devices) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Device> cpu, devices.Find("CPU:0"));
  return Make(std::move(environment), devices, kDefaultStrategy, false, {std::move(cpu)}, {});
}

Result<Ref<Strategy>> Strategy::CreateOneDevice(Ref<Environment> environment,
                                                const DeviceSet& devices, std::string_view device,
                                                const StrategyOptions& options) {
  Result<Ref<Device>> found = devices.Find(device);
  if (!found.ok()) return std::move(found).status().WithPrefix("OneDeviceStrategy");
  return Make(std::move(environment), devices, "OneDeviceStrategy", false,
              {std::move(found).value()}, options);
}

namespace {

constexpr const char* kMultiWorker = "MultiWorkerMirroredStrategy";

// Of RING each call says whether it can be.
Status CheckCommunication(const CommunicationOptions& options, const WorkerTeam* team, Log& log) {
  TUTTI_RETURN_IF_ERROR(CheckHints(options, kMultiWorker));
  if (options.implementation == CommunicationImplementation::kNccl) {
    const std::string who =
        team == nullptr ? "the program" : Format("worker {}", team->worker());
    log.Warning(
        OtherwiseThanAsked(Format("{}: {}", kMultiWorker, who), options.implementation, ""));
  }
  return OkStatus();
}

// What the workers tell each other when they make a strategy: the number of replicas, and behind it
// a mark where folds are to be reproducible.
constexpr char kReproducibleMark = 'r';

std::string CountAndWish(size_t num_replicas, bool reproducible) {
  std::string text = std::to_string(num_replicas);
  if (reproducible) text += kReproducibleMark;
  return text;
}

// Takes the marks away; true when there was one.
bool TakeWishes(std::vector<std::string>& told) {
  bool any = false;
  for (std::string& text : told) {
    if (!text.ends_with(kReproducibleMark)) continue;
    text.pop_back();
    any = true;
  }
  return any;
}

}  // namespace

Result<Ref<Strategy>> Strategy::CreateMirrored(Ref<Environment> environment,
                                               const DeviceSet& devices,
                                               std::span<const std::string> names,
                                               const StrategyOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Device>> found,
                         FindDevices(devices, names, "MirroredStrategy"));
  TellOfMixedDevices(environment->log(), found, "MirroredStrategy");
  return Make(std::move(environment), devices, "MirroredStrategy", true, std::move(found), options);
}

Result<Ref<Strategy>> Strategy::CreateCentralStorage(Ref<Environment> environment,
                                                     const DeviceSet& devices,
                                                     std::span<const std::string> compute,
                                                     std::string_view parameter,
                                                     const StrategyOptions& options) {
  constexpr const char* kType = "CentralStorageStrategy";
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Device>> found, FindDevices(devices, compute, kType));
  const bool is_one_gpu = found.size() == 1 && CountGpus(found) == 1;
  const std::string by_default = is_one_gpu ? found[0]->short_name() : "CPU:0";
  Result<Ref<Device>> storage = devices.Find(parameter.empty() ? by_default : parameter);
  if (!storage.ok()) {
    return InvalidArgument("{}: the parameter device {} cannot be used: {}", kType,
                           Quote(parameter), storage.status().message())
        .WithCause(storage.status());
  }
  const bool is_replicated = found.size() > 1;
  return Make(std::move(environment), devices, kType, is_replicated, std::move(found), options,
              nullptr, nullptr, std::move(storage).value());
}

Result<Ref<Strategy>> Strategy::CreateMultiWorkerMirrored(Ref<Environment> environment,
                                                          const DeviceSet& devices,
                                                          const MultiWorkerOptions& options,
                                                          const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(kMultiWorker));
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable(kMultiWorker));
  TUTTI_RETURN_IF_ERROR(
      CheckCommunication(options.communication, options.team.get(), environment->log()));
  Result<std::vector<Ref<Device>>> found = FindDevices(devices, options, kMultiWorker);
  if (found.ok()) TellOfMixedDevices(environment->log(), *found, kMultiWorker);
  if (!options.team || options.team->num_workers() == 1) {
    TUTTI_RETURN_IF_ERROR(found.status());
    TUTTI_ASSIGN_OR_RETURN(Ref<Strategy> alone,
                           Make(std::move(environment), devices, kMultiWorker, true,
                                std::move(found).value(), options.strategy));
    alone->hints_ = options.communication.of_calls();
    alone->resolver_ = options.resolver;
    return alone;
  }
  WorkerTeam& team = *options.team;
  const std::string& given = options.strategy.name;
  std::string name = given.empty() ? kMultiWorker : given;
  if (const int64_t number = team.DrawNumber(); number > 1) name += Format(" #{}", number);
  auto channel = std::make_unique<TeamChannel>(*environment, options.team, name,
                                               options.communication);
  TUTTI_RETURN_IF_ERROR(channel->Renew(call));
  Result<std::vector<std::string>> counts =
      channel->Exchange(TeamLabel{"creating strategy", given}, found.status(),
                        CountAndWish(found.ok() ? found->size() : 0, team.reproducible()), call);
  Status status = counts.status();
  if (status.ok()) channel->set_in_replica_order(TakeWishes(*counts));
  for (size_t w = 1; status.ok() && w < counts->size(); ++w) {
    if ((*counts)[w] == (*counts)[0]) continue;
    status = InvalidArgument(
                 "{}: all workers must have equally many replicas; {} has {}, {} has {}; name as "
                 "many devices on every worker",
                 kMultiWorker, team.Describe(0), (*counts)[0],
                 team.Describe(static_cast<int64_t>(w)), (*counts)[w])
                 .With("worker", w);
  }
  if (!status.ok()) {
    (void)channel->Close(call);
    return status;
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Strategy> strategy,
                         Make(std::move(environment), devices, kMultiWorker, true,
                              std::move(found).value(), options.strategy, options.team,
                              std::move(channel)));
  strategy->resolver_ = options.resolver;
  return strategy;
}

Status Strategy::CheckOpen(std::string_view what) const {
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  if (!runner_->closing()) return OkStatus();
  return FailedPrecondition("{}: strategy {} has been closed", what, name());
}

Status Strategy::OnClose(const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("close of a strategy"));
  TUTTI_RETURN_IF_ERROR(runner_->Close(options));
  return team_channel_ ? team_channel_->Close(options) : OkStatus();
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

// The value itself: a fold of equal components would be rounded.
bool IsMeanOfMirrored(ReduceOp op, std::optional<int64_t> axis, const Leaf& leaf) {
  return op == ReduceOp::kMean && !axis.has_value() &&
         DistributionOf(leaf) == Distribution::kMirrored;
}

// For the comparison between workers.
std::string StructureOfLocal(const Value& value) {
  return value.is_leaf() ? std::string() : value.spec().ToString();
}

}  // namespace

void Strategy::TellOfImplementation(const CommunicationHints& hints, std::string_view what) {
  if (hints.implementation == CommunicationImplementation::kAuto) return;
  const uint32_t bit = uint32_t{1} << static_cast<uint32_t>(hints.implementation);
  if ((told_of_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  environment().log().Warning(
      OtherwiseThanAsked(Format("strategy {}: {}", name(), what), hints.implementation,
                         "the replicas are all in this process, where nothing is passed on"));
}

Status Strategy::CheckReduction(const Value& value, std::string_view what,
                                const CollectiveOptions& options) const {
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment().clock(), what));
  TUTTI_RETURN_IF_ERROR(CheckHints(options.hints, what));
  return CheckComponents(value, num_local_replicas(), what);
}

Result<Ref<Value>> Strategy::Reduce(ReduceOp op, const Value& given, std::optional<int64_t> axis,
                                    const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("reduce"));
  TUTTI_RETURN_IF_ERROR(CheckOpen("reduce"));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> with_values, WithCentralValues(given));
  const Value& value = *with_values;
  Status asked = CheckReduction(value, "reduce", options);
  if (asked.ok() && op != ReduceOp::kSum && op != ReduceOp::kMean) {
    asked = InvalidArgument("reduce: SUM or MEAN is expected, got {}", ReduceOpName(op));
  }
  if (!value.is_leaf()) {
    const std::vector<size_t> slices = FindIndexedSlices(value.spec());
    if (asked.ok() && !slices.empty() && axis.has_value()) {
      asked = InvalidArgument("reduce: indexed slices are reduced across replicas only, and axis "
                              "{} was asked for; make them dense first",
                              *axis);
    }
    if (asked.ok() && !slices.empty()) return ReduceSlices(op, value, slices, options);
  }
  const bool over_workers = team_channel_ && IsSpreadOverWorkers(value);
  if (!asked.ok()) return over_workers ? team_channel_->Refuse(std::move(asked), options) : asked;
  if (over_workers) {
    TUTTI_RETURN_IF_ERROR(team_channel_->Renew(options));
    Result<Ref<Value>> result = TeamReduceValue(op, value, axis, options);
    // The other workers must not wait for a call that does not come.
    return result.ok() ? std::move(result) : team_channel_->Abort(std::move(result).status());
  }
  TellOfImplementation(options.hints, "reduce");
  if (given_ops_) return ReduceByOps(op, value, axis, options);
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
      TUTTI_RETURN_IF_ERROR(CheckPlainReduce(op, leaf, label));
      tensors.push_back(leaf.tensor_ref());
    }
    if (IsMeanOfMirrored(op, axis, leaf)) tensors.resize(1);
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result,
                           ReduceAcrossReplicas(op, Pointers(tensors), axis, label));
    leaves.push_back(Leaf::OfTensor(std::move(result)));
  }
  return value.WithLeaves(std::move(leaves));
}

Status Strategy::CheckPlainReduce(ReduceOp op, const Leaf& leaf, std::string_view label) const {
  if (!leaf.is_tensor()) {
    return InvalidArgument("{} is a {}; a tensor is expected", label, LeafKindName(leaf.kind()));
  }
  return CheckPlainReduce(op, leaf.tensor(), label);
}

Status Strategy::CheckPlainReduce(ReduceOp op, const Tensor& tensor,
                                  std::string_view label) const {
  const bool changes_one = op == ReduceOp::kSum || op == ReduceOp::kProd || op == ReduceOp::kBitXor;
  if (!changes_one || num_replicas_in_sync() == 1) return OkStatus();
  return InvalidArgument(
      "{} is one value for all {} replicas, {}: its {} is not defined; reduce what run "
      "returned, or use MEAN",
      label, num_replicas_in_sync(), tensor.SpecString(), ReduceOpName(op));
}

Result<Ref<Value>> Strategy::Gather(const Value& given, int64_t axis,
                                    const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("gather"));
  TUTTI_RETURN_IF_ERROR(CheckOpen("gather"));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> with_values, WithCentralValues(given));
  const Value& value = *with_values;
  Status asked = CheckReduction(value, "gather", options);
  if (asked.ok()) asked = CheckNoSlices(value, "gather");
  const bool over_workers = team_channel_ && IsSpreadOverWorkers(value);
  if (!asked.ok()) return over_workers ? team_channel_->Refuse(std::move(asked), options) : asked;
  if (over_workers) {
    TUTTI_RETURN_IF_ERROR(team_channel_->Renew(options));
  } else {
    TellOfImplementation(options.hints, "gather");
  }
  Result<Ref<Value>> result = GatherLeaves(value, axis, over_workers, options);
  if (over_workers && !result.ok()) return team_channel_->Abort(std::move(result).status());
  return result;
}

Result<Ref<Value>> Strategy::GatherLeaves(const Value& value, int64_t axis, bool over_workers,
                                          const CollectiveOptions& options) {
  std::vector<Leaf> leaves(value.leaves().begin(), value.leaves().end());
  std::vector<size_t> numbers;  // of the leaves that are gathered
  std::vector<Ref<Tensor>> joined;
  for (size_t i = 0; i < value.num_leaves(); ++i) {
    const std::string label = LeafLabel("gather", value, i);
    TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> tensors, TensorsOf(value.leaf(i), label));
    if (tensors.empty() && over_workers && IsComponent(value.leaf(i))) {
      tensors.push_back(value.leaf(i).tensor_ref());
    }
    if (tensors.empty()) {
      if (IsComponent(leaves[i])) leaves[i] = Leaf::OfTensor(leaves[i].tensor().OfNoStep());
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> own, GatherAcrossReplicas(Pointers(tensors), axis, label));
    numbers.push_back(i);
    joined.push_back(std::move(own));
  }
  if (over_workers) {
    const std::string structure = StructureOfLocal(value);
    TUTTI_ASSIGN_OR_RETURN(
        joined, team_channel_->AllGather(TeamLabel{"gather", {}, structure}, Pointers(joined),
                                         static_cast<size_t>(axis), options));
  }
  for (size_t k = 0; k < numbers.size(); ++k) {
    leaves[numbers[k]] = Leaf::OfTensor(std::move(joined[k]));
  }
  return value.WithLeaves(std::move(leaves));
}

// ---- Reductions over several workers. ----

bool Strategy::IsComponent(const Leaf& leaf) const {
  return leaf.is_tensor() && num_local_replicas() == 1;
}

bool Strategy::IsSpreadOverWorkers(const Value& value) const {
  for (const Leaf& leaf : value.leaves()) {
    if (leaf.kind() == LeafKind::kDistributed || leaf.kind() == LeafKind::kVariable ||
        IsComponent(leaf)) {
      return true;
    }
  }
  return false;
}

Result<Ref<Value>> Strategy::TeamReduceValue(ReduceOp op, const Value& value,
                                             std::optional<int64_t> axis,
                                             const CollectiveOptions& options) {
  std::vector<Leaf> leaves(value.leaves().begin(), value.leaves().end());
  std::vector<size_t> numbers;  // of the leaves that are reduced over the workers
  std::vector<std::vector<Ref<Tensor>>> tensors;
  for (size_t i = 0; i < value.num_leaves(); ++i) {
    const Leaf& leaf = value.leaf(i);
    if (leaf.is_none()) continue;
    const std::string label = LeafLabel("reduce", value, i);
    TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> replicas, TensorsOf(leaf, label));
    if (replicas.empty() && IsComponent(leaf)) replicas.push_back(leaf.tensor_ref());
    TUTTI_ASSIGN_OR_RETURN(replicas, AllOnHost(replicas, {&options, &environment().clock()}));
    if (replicas.empty()) {
      TUTTI_RETURN_IF_ERROR(CheckPlainReduce(op, leaf, label));
      const Tensor* plain[] = {&leaf.tensor()};
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> result, ReduceAcrossReplicas(op, plain, axis, label));
      leaves[i] = Leaf::OfTensor(std::move(result));
      continue;
    }
    TUTTI_RETURN_IF_ERROR(CheckReducible(op, replicas[0]->dtype()).WithPrefix(label));
    numbers.push_back(i);
    tensors.push_back(std::move(replicas));
  }
  const std::string structure = StructureOfLocal(value);
  const TeamLabel label{"reduce", ReduceOpName(op), structure};
  TUTTI_ASSIGN_OR_RETURN(
      std::vector<Ref<Tensor>> results,
      axis.has_value()
          ? ReduceAxisOverTeam(*team_channel_, label, op, tensors, *axis, first_replica(), options)
          : ReduceOverTeam(*team_channel_, label, op, tensors, first_replica(), options));
  for (size_t k = 0; k < numbers.size(); ++k) {
    const bool known = IsMeanOfMirrored(op, axis, value.leaf(numbers[k]));
    leaves[numbers[k]] = Leaf::OfTensor(known ? tensors[k][0] : std::move(results[k]));
  }
  return value.WithLeaves(std::move(leaves));
}

Result<Ref<Value>> Strategy::LocalResults(const Value& given) const {
  TUTTI_RETURN_IF_ERROR(CheckBuildingAllowed("local_results"));
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> with_values, WithCentralValues(given));
  const Value& value = *with_values;
  const size_t n = num_local_replicas();
  TUTTI_RETURN_IF_ERROR(CheckComponents(value, n, "local_results"));
  bool distributed = false;
  for (const Leaf& leaf : value.leaves()) {
    if (leaf.kind() == LeafKind::kVariable && leaf.object_as<Variable>()->num_copies() != n) {
      return InvalidArgument(
          "local_results: variable '{}' has {} copies, and the strategy has {} "
          "replicas; ask the variable's own strategy",
          leaf.object_as<Variable>()->name(), leaf.object_as<Variable>()->num_copies(), n);
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
    const int64_t replica = first_replica() + static_cast<int64_t>(i);
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Value> in,
        Value::Dict(
            {{"num_replicas_in_sync",
              Value::OfTensor(Tensor::Scalar<int64_t>(num_replicas_in_sync()))},
             {"replica_id_in_sync_group", Value::OfTensor(Tensor::Scalar<int64_t>(replica))}}));
    CrossReplicaContext context(*this, options);
    CallbackScope scope(CallbackClass::kCrossReplica);
    Status status = fn.Call(context, *in, &values[i]);
    if (!status.ok()) return std::move(status).With("replica", replica);
  }
  if (PlacementsAreLogged()) {
    LogStrategyPlacement(*this, "per-replica value", "a component for each replica");
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
  if (PlacementsAreLogged()) {
    LogStrategyPlacement(*this, "per-replica value", "a component for each replica");
  }
  return Regroup(components, Wrap::kAlways, "create_per_replica");
}

Result<Ref<Value>> Strategy::CreateMirroredValue(const Value& value) const {
  TUTTI_RETURN_IF_ERROR(CheckBuildingAllowed("create_mirrored_value"));
  return Mirror(value, num_local_replicas(), "create_mirrored_value");
}

}  // namespace tutti
