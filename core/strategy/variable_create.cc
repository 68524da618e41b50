// How variables are made: outside of replicas by one call, inside of them by one call of each,
// which meet as a merge.
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/base/placement_log.h"
#include "core/device/gpu_memory.h"
#include "core/function/context.h"
#include "core/strategy/device_values.h"
#include "core/strategy/lockstep.h"
#include "core/strategy/placements.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/team_channel.h"
#include "core/strategy/team_strings.h"
#include "core/strategy/variable.h"
#include "core/tensor/device_buffer.h"

namespace tutti {

Variable::Variable(Ref<Strategy> strategy, const Tensor& initial, const VariableOptions& options)
    : strategy_(std::move(strategy)),
      dtype_(initial.dtype()),
      shape_(options.shape.value_or(initial.shape())),
      synchronization_(options.synchronization == Synchronization::kAuto ? Synchronization::kOnWrite
                                                                         : options.synchronization),
      aggregation_(options.aggregation),
      trainable_(options.trainable.value_or(synchronization_ != Synchronization::kOnRead)) {}

Variable::~Variable() { strategy_->RemoveVariable(this); }

namespace {

constexpr char kMakingVariable[] = "creating a variable";

Status CheckOptions(const Strategy& strategy, const Tensor& initial,
                    const VariableOptions& options) {
  if (SynchronizationName(options.synchronization) == std::string_view("invalid")) {
    return InvalidArgument(
        "variable '{}': {} is no synchronization; choose AUTO, NONE, ON_WRITE or "
        "ON_READ",
        options.name, static_cast<int32_t>(options.synchronization));
  }
  if (AggregationName(options.aggregation) == std::string_view("invalid")) {
    return InvalidArgument(
        "variable '{}': {} is no aggregation; choose NONE, SUM, MEAN or "
        "ONLY_FIRST_REPLICA",
        options.name, static_cast<int32_t>(options.aggregation));
  }
  if (options.synchronization == Synchronization::kNone && strategy.num_replicas_in_sync() > 1) {
    return InvalidArgument(
        "variable '{}': synchronization NONE means a single copy, and strategy {} has {} replicas; "
        "choose ON_WRITE or ON_READ",
        options.name, strategy.name(), strategy.num_replicas_in_sync());
  }
  if (options.synchronization == Synchronization::kOnRead && options.trainable.value_or(false)) {
    return InvalidArgument(
        "variable '{}': a trainable variable cannot be ON_READ; choose ON_WRITE, or "
        "trainable=false",
        options.name);
  }
  if (options.shape.has_value() && !options.shape->IsMoreGeneralThan(initial.shape())) {
    return InvalidArgument(
        "variable '{}': the initial value has shape {}, which the shape {} that was given does not "
        "fit",
        options.name, initial.shape().ToString(), options.shape->ToString());
  }
  return OkStatus();
}

}  // namespace

std::string Variable::Describe(const Tensor& initial, const VariableOptions& options) {
  const Synchronization synchronization = options.synchronization == Synchronization::kAuto
                                              ? Synchronization::kOnWrite
                                              : options.synchronization;
  const bool trainable = options.trainable.value_or(synchronization != Synchronization::kOnRead);
  const bool is_open = options.shape.has_value() && !options.shape->IsFullyKnown();
  return Format("'{}' {}{}, {}, aggregation {}{}", options.name, initial.SpecString(),
                is_open ? " of shape " + options.shape->ToString() : std::string(),
                SynchronizationName(synchronization), AggregationName(options.aggregation),
                trainable ? ", trainable" : ", not trainable");
}

Ref<Tensor> Variable::ReadOnly(const Ref<Tensor>& storage) {
  return Tensor::View(storage->address(), storage->dtype(), storage->shape(), {},
                      /*read_only=*/true, storage, storage->device());
}

Status Variable::MakeCopies(const Tensor& initial, const VariableOptions& options) {
  const Strategy& owner = *strategy_;
  const bool is_central =
      owner.has_central_storage() && synchronization_ != Synchronization::kOnRead;
  const size_t n = is_central ? 1 : owner.num_local_replicas();
  for (size_t i = 0; i < n; ++i) {
    auto copy = std::make_unique<Copy>();
    copy->name = i == 0 ? options.name : Format("{}/replica_{}", options.name, i);
    const bool placed = options.device && owner.is_default();
    const size_t place = owner.has_central_storage() ? 0 : i;
    const Device& device = placed ? *options.device : owner.parameter_device(place);
    copy->device = placed ? Format("/job:localhost/replica:0/task:0{}", device.name())
                          : *owner.full_parameter_device(place);
    TensorOptions memory;
    memory.zeroed = false;
    memory.allocator = device.allocator();
    memory.device = device.id();
    if (GpuMemoryOf(device) != nullptr && initial.dtype() != DType::kBytes) {
      copy->gpu = Ref<Device>::Retain(const_cast<Device*>(&device));
      TUTTI_ASSIGN_OR_RETURN(copy->storage, NewMemory(*copy, initial));
    } else {
      if (GpuMemoryOf(device) != nullptr) {  // byte strings stay on the host
        memory.allocator = nullptr;
        memory.device = DeviceId();
        copy->device = copy->device.substr(0, copy->device.rfind("GPU:")) + "CPU:0";
      }
      TUTTI_ASSIGN_OR_RETURN(
          copy->storage, IsOnGpu(initial) ? CopyToCpu(initial, memory) : initial.Copy(memory));
    }
    copy->view = ReadOnly(copy->storage);
    copies_.push_back(std::move(copy));
  }
  return OkStatus();
}

Result<Ref<Variable>> Variable::Make(Ref<Strategy> strategy, const Tensor& initial,
                                     const VariableOptions& options, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Variable> variable,
                         MakeAndAgree(std::move(strategy), initial, options, call));
  variable->strategy_->AddVariable(variable.get());
  if (PlacementsAreLogged()) {
    const std::string what = Format("variable '{}' {}", options.name, initial.SpecString());
    LogStrategyPlacement(*variable->strategy_, what, "a copy for each replica");
  }
  return variable;
}

Result<Ref<Variable>> Variable::MakeAndAgree(Ref<Strategy> strategy, const Tensor& initial,
                                             const VariableOptions& options,
                                             const CallOptions& call) {
  Status valid = CheckOptions(*strategy, initial, options);
  TeamChannel* team = strategy->team_channel();
  if (team != nullptr) {
    TUTTI_RETURN_IF_ERROR(AgreeOverTeam(*team, initial, options, valid, call));
  }
  TUTTI_RETURN_IF_ERROR(std::move(valid));
  Ref<Variable> variable = MakeRef<Variable>(std::move(strategy), initial, options);
  Status made = variable->MakeCopies(initial, options);
  if (team == nullptr) {
    TUTTI_RETURN_IF_ERROR(std::move(made));
    return variable;
  }
  // The other workers are waiting for the value.
  if (!made.ok()) return team->Abort(std::move(made));
  const TeamLabel label{"initial value of variable", options.name};
  const size_t n = variable->num_copies();
  if (initial.dtype() == DType::kBytes) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> strings,
                           BroadcastStrings(*team, label, call, initial));
    for (size_t i = 0; i < n; ++i) {
      TUTTI_RETURN_IF_ERROR(variable->Replace(Write::kAssign, i, *strings));
    }
    return variable;
  }
  const bool on_gpu = variable->copies_[0]->gpu != nullptr;
  Ref<Tensor> first = variable->copies_[0]->storage;
  if (on_gpu) {
    Result<Ref<Tensor>> here = OnHost(*first);
    if (!here.ok()) return team->Abort(std::move(here).status());
    first = std::move(here).value();
  }
  TUTTI_RETURN_IF_ERROR(team->Broadcast(label, call, first.get()));
  for (size_t i = on_gpu ? 0 : 1; i < n; ++i) {
    TUTTI_RETURN_IF_ERROR(CopyAnywhere(*first, variable->copies_[i]->storage.get()));
  }
  return variable;
}

Result<Ref<Variable>> Variable::Create(Ref<Strategy> strategy, const Tensor& initial,
                                       const VariableOptions& options, const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(kMakingVariable));
  TUTTI_RETURN_IF_ERROR(strategy->CheckOpen(kMakingVariable));
  return Make(std::move(strategy), initial, options, call);
}

// ---- In replicas. ----

// One replica's part in the making of a variable.
class VariableCreation final : public MergePart {
 public:
  VariableCreation(Strategy& strategy, const Tensor& initial, const VariableOptions& options,
                   const CallOptions& call)
      : strategy_(strategy), initial_(initial), options_(options), call_(call) {}

  // What differs between the replicas' variables is told by Execute.
  const void* identity() const override { return kMakingVariable; }
  std::string Describe() const override {
    return Format("the creation of variable '{}'", options_.name);
  }
  Status Execute(std::span<MergePart* const> parts) override;

  Ref<Variable> TakeVariable() { return std::move(variable_); }

 private:
  Strategy& strategy_;
  const Tensor& initial_;
  const VariableOptions& options_;
  const CallOptions call_;
  Ref<Variable> variable_;
};

Status VariableCreation::Execute(std::span<MergePart* const> parts) {
  const std::string mine = Variable::Describe(initial_, options_);
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto& other = *static_cast<VariableCreation*>(parts[i]);
    const std::string theirs = Variable::Describe(other.initial_, other.options_);
    if (theirs == mine) continue;
    const int64_t replica = strategy_.first_replica() + static_cast<int64_t>(i);
    return InvalidArgument(
               "{}: replica {} makes {}, replica {} makes {}; all replicas must make the same "
               "variables in the same order",
               kMakingVariable, strategy_.first_replica(), mine, replica, theirs)
        .With("replica", replica);
  }
  TUTTI_ASSIGN_OR_RETURN(variable_, Variable::Make(Ref<Strategy>::Retain(&strategy_), initial_,
                                                   options_, call_));
  for (MergePart* part : parts.subspan(1)) {
    static_cast<VariableCreation*>(part)->variable_ = variable_;
  }
  return OkStatus();
}

Result<Ref<Variable>> Variable::CreateIn(Context& context, const Tensor& initial,
                                         const VariableOptions& options, const CallOptions& call) {
  if (context.strategy() == nullptr) {
    return FailedPrecondition(
        "{} needs the context of a replica's or of a cross-replica function: this callback belongs "
        "to no strategy",
        kMakingVariable);
  }
  ReplicaContext* replica = AsReplicaContext(&context);
  if (replica == nullptr) {
    return Create(Ref<Strategy>::Retain(context.strategy()), initial, options, call);
  }
  TUTTI_RETURN_IF_ERROR(CheckInside(CallbackClass::kReplica, kMakingVariable));
  TUTTI_RETURN_IF_ERROR(CheckOptions(*replica->strategy(), initial, options));
  VariableCreation part(*replica->strategy(), initial, options, replica->Combine(call));
  TUTTI_RETURN_IF_ERROR(replica->Merge(&part, call));
  return part.TakeVariable();
}

Status Variable::AgreeOverTeam(TeamChannel& team, const Tensor& initial,
                               const VariableOptions& options, const Status& status,
                               const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(team.Renew(call));
  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      team.Exchange(TeamLabel{kMakingVariable}, status, Describe(initial, options), call));
  for (size_t w = 1; w < all.size(); ++w) {
    if (all[w] == all[0]) continue;
    return InvalidArgument(
               "creating a variable: worker 0 makes {}, worker {} makes {}; all workers must make "
               "the same variables in the same order",
               all[0], w, all[w])
        .With("worker", w);
  }
  return OkStatus();
}

}  // namespace tutti
