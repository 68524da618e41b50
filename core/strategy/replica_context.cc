#include "core/strategy/replica_context.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/packing.h"
#include "core/function/function.h"
#include "core/strategy/device_all_reduce.h"
#include "core/strategy/device_values.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/lockstep.h"
#include "core/strategy/ops_all_reduce.h"
#include "core/strategy/slices_reduce.h"
#include "core/strategy/strategy.h"
#include "core/strategy/team_channel.h"
#include "core/strategy/team_collectives.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

ContextFields FieldsOf(Strategy& strategy, CallbackClass callback_class,
                       const CallOptions& options) {
  ContextFields fields;
  fields.callback_class = callback_class;
  fields.num_replicas = strategy.num_replicas_in_sync();
  fields.strategy = &strategy;
  fields.options = options;
  return fields;
}

ContextFields FieldsOfReplica(Strategy& strategy, size_t replica, int64_t global_rows,
                              const CallOptions& options) {
  ContextFields fields = FieldsOf(strategy, CallbackClass::kReplica, options);
  fields.replica_id = strategy.first_replica() + static_cast<int64_t>(replica);
  fields.global_rows = global_rows;
  fields.device = &strategy.device(replica);
  return fields;
}

// The numbers of the tensor leaves. None and strings are left alone.
Result<std::vector<size_t>> TensorLeaves(const Value& value, const char* what) {
  std::vector<size_t> numbers;
  numbers.reserve(value.num_leaves());
  for (size_t i = 0; i < value.num_leaves(); ++i) {
    const Leaf& leaf = value.leaf(i);
    if (leaf.is_tensor()) {
      numbers.push_back(i);
    } else if (!leaf.is_none() && leaf.kind() != LeafKind::kString) {
      return InvalidArgument("{}: leaf {} is a {}; tensors are expected", what,
                             PathToString(value.spec().LeafPath(i)), LeafKindName(leaf.kind()));
    }
  }
  return numbers;
}

// For the comparison between workers.
std::string StructureOf(const Value& value) {
  return value.is_leaf() ? std::string() : value.spec().ToString();
}

}  // namespace

ReplicaContext::ReplicaContext(Strategy& strategy, Lockstep& lockstep, size_t replica,
                               int64_t global_rows, const CallOptions& options)
    : Context(strategy.environment(), FieldsOfReplica(strategy, replica, global_rows, options)),
      lockstep_(lockstep),
      replica_(replica) {}

bool ReplicaContext::cancelled() const { return lockstep_.stopped() || Context::cancelled(); }

CallOptions ReplicaContext::Combine(const CallOptions& call) const {
  CallOptions combined = call;
  combined.deadline = Deadline::Earlier(call.deadline, options().deadline);
  if (combined.cancellation == nullptr) combined.cancellation = options().cancellation;
  return combined;
}

CollectiveOptions ReplicaContext::Hinted(const CollectiveOptions& call) const {
  return CollectiveOptions(Combine(call), call.hints.Or(strategy()->hints()));
}

Status ReplicaContext::CheckPlaces(const Value& value, const char* what) const {
  for (const Leaf& leaf : value.leaves()) {
    if (!leaf.is_tensor() || !IsOnGpu(leaf.tensor())) continue;
    TUTTI_RETURN_IF_ERROR(strategy()->has_gpus()
                              ? CheckReplicaPlace(leaf.tensor(), *device(), replica_id(), what)
                              : CheckOnHost(what, leaf.tensor()));
  }
  return OkStatus();
}

Result<Ref<Value>> ReplicaContext::AllReduce(ReduceOp op, const Value& value,
                                             const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckInside(CallbackClass::kReplica, "all_reduce"));
  if (!value.is_leaf()) {
    const std::vector<size_t> slices = FindIndexedSlices(value.spec());
    if (!slices.empty()) return AllReduceSlices(op, value, slices, options);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<size_t> numbers, TensorLeaves(value, "all_reduce"));
  TUTTI_RETURN_IF_ERROR(CheckPlaces(value, "all_reduce"));
  const bool over_workers = strategy()->team_channel() != nullptr;
  if (over_workers && AnyOnGpu(value)) {  // between workers by the host
    const CallOptions call = Combine(options);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> here,
                           LeavesOnHost(value, {&call, &environment().clock()}));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> reduced, AllReduce(op, *here, options));
    return LeavesWhere(*reduced, value, *device());
  }
  std::vector<Leaf> leaves(value.leaves().begin(), value.leaves().end());
  if (strategy()->has_gpus() && !over_workers) {
    std::vector<const Tensor*> inputs;
    for (const size_t i : numbers) {
      TUTTI_RETURN_IF_ERROR(CheckReducible(op, leaves[i].tensor().dtype()));
      inputs.push_back(&value.leaf(i).tensor());
    }
    const bool shown = TensorsAreObserved();
    if (shown) TUTTI_RETURN_IF_ERROR(ObserveLeaves("all_reduce", value));
    DeviceAllReduce part(*strategy(), *device(), op, inputs, Hinted(options));
    TUTTI_RETURN_IF_ERROR(Merge(&part, options));
    std::vector<Ref<Tensor>> outputs = part.TakeOutputs();
    for (size_t k = 0; k < numbers.size(); ++k) {
      leaves[numbers[k]] = Leaf::OfTensor(std::move(outputs[k]));
    }
    return value.WithLeaves(std::move(leaves));
  }
  std::vector<const Tensor*> inputs;
  std::vector<Tensor*> outputs;
  TensorOptions memory;
  memory.zeroed = false;
  memory.account = &environment().memory();
  for (const size_t i : numbers) {
    const Tensor& input = value.leaf(i).tensor();
    TUTTI_RETURN_IF_ERROR(CheckReducible(op, input.dtype()));
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> output,
                           Tensor::Create(input.dtype(), input.shape(), memory));
    inputs.push_back(&input);
    outputs.push_back(output.get());
    leaves[i] = Leaf::OfTensor(std::move(output));
  }
  if (over_workers) {
    TeamAllReduce part(*strategy(), op, StructureOf(value), inputs, outputs,
                       Hinted(options));
    TUTTI_RETURN_IF_ERROR(Merge(&part, options));
    return value.WithLeaves(std::move(leaves));
  }
  if (strategy()->given_ops() != nullptr) {
    if (TensorsAreObserved()) TUTTI_RETURN_IF_ERROR(ObserveLeaves("all_reduce", value));
    OpsAllReduce part(*strategy(), op, inputs, outputs, Hinted(options));
    TUTTI_RETURN_IF_ERROR(Merge(&part, options));
    return value.WithLeaves(std::move(leaves));
  }
  TUTTI_RETURN_IF_ERROR(lockstep_.EnterCollective(replica_, "all_reduce", Combine(options)));
  const bool observed = TensorsAreObserved();
  Status status = observed ? ObserveLeaves("all_reduce", value) : OkStatus();
  if (status.ok()) {
    const ObservedScope once(Observed::kNot);
    status = AllReduceInPacks(lockstep_.communicator(replica_), inputs, op, 0, Hinted(options),
                              outputs);
  }
  for (size_t i = 0; observed && status.ok() && i < numbers.size(); ++i) {
    const std::string name =
        Format("the result{} of finite inputs", PathToString(value.spec().LeafPath(numbers[i])));
    status = ObserveTensor({.op = "all_reduce", .name = name}, *outputs[i]);
  }
  TUTTI_RETURN_IF_ERROR(lockstep_.LeaveCollective(replica_, std::move(status)));
  return value.WithLeaves(std::move(leaves));
}

Result<Ref<Value>> ReplicaContext::AllReduceSlices(ReduceOp op, const Value& value,
                                                   std::span<const size_t> slices,
                                                   const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckSlicesOp(op, "all_reduce"));
  std::vector<IndexedSlices> mine;
  for (const size_t first : slices) {
    TUTTI_ASSIGN_OR_RETURN(IndexedSlices read,
                           ReadIndexedSlices(*SlicesAt(value, first), "all_reduce"));
    TUTTI_RETURN_IF_ERROR(CheckReducible(op, read.values->dtype()).WithPrefix("all_reduce"));
    mine.push_back(std::move(read));
  }
  Ref<Value> others = WithoutSlices(value, slices);
  if (others->num_leaves() > 0) {
    TUTTI_ASSIGN_OR_RETURN(others, AllReduce(op, *others, options));
  }
  std::vector<Ref<Value>> reduced;
  for (IndexedSlices& own : mine) {
    if (op == ReduceOp::kMean) {
      TUTTI_ASSIGN_OR_RETURN(own.values, ShareOfMean(*own.values, num_replicas()));
    }
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Value> joined,
        AllGather(*Value::Tuple({Value::OfTensor(own.values), Value::OfTensor(own.indices)}), 0,
                  options));
    own.values = joined->leaf(0).tensor_ref();
    own.indices = joined->leaf(1).tensor_ref();
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> whole, ValueOfSlices(own));
    reduced.push_back(std::move(whole));
  }
  return WithSlices(value, slices, *others, reduced);
}

Result<Ref<Value>> ReplicaContext::AllGather(const Value& value, int64_t axis,
                                             const CollectiveOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckInside(CallbackClass::kReplica, "all_gather"));
  TUTTI_RETURN_IF_ERROR(CheckNoSlices(value, "all_gather"));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<size_t> numbers, TensorLeaves(value, "all_gather"));
  TUTTI_RETURN_IF_ERROR(CheckPlaces(value, "all_gather"));
  if (AnyOnGpu(value)) {  // joined on the host
    const CallOptions call = Combine(options);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> here,
                           LeavesOnHost(value, {&call, &environment().clock()}));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> joined, AllGather(*here, axis, options));
    return LeavesWhere(*joined, value, *device());
  }
  for (const size_t i : numbers) {
    const Tensor& input = value.leaf(i).tensor();
    if (axis < 0 || axis >= static_cast<int64_t>(input.rank())) {
      return InvalidArgument("all_gather: axis {} is not in [0, {}), the axes of {}", axis,
                             input.rank(), input.SpecString());
    }
  }
  std::vector<Leaf> leaves(value.leaves().begin(), value.leaves().end());
  if (strategy()->team_channel() != nullptr) {
    std::vector<const Tensor*> inputs;
    for (const size_t i : numbers) inputs.push_back(&value.leaf(i).tensor());
    TeamAllGather part(*strategy(), static_cast<size_t>(axis), StructureOf(value), inputs,
                       Hinted(options));
    TUTTI_RETURN_IF_ERROR(Merge(&part, options));
    std::vector<Ref<Tensor>> outputs = part.TakeOutputs();
    for (size_t k = 0; k < numbers.size(); ++k) {
      leaves[numbers[k]] = Leaf::OfTensor(std::move(outputs[k]));
    }
    return value.WithLeaves(std::move(leaves));
  }
  TUTTI_RETURN_IF_ERROR(lockstep_.EnterCollective(replica_, "all_gather", Combine(options)));
  Status status = TensorsAreObserved() ? ObserveLeaves("all_gather", value) : OkStatus();
  const ObservedScope once(Observed::kNot);
  for (const size_t i : numbers) {
    if (!status.ok()) break;
    Ref<Tensor> output;
    status = lockstep_.communicator(replica_).AllGather(
        value.leaf(i).tensor(), static_cast<size_t>(axis), Hinted(options), &output);
    if (!status.ok()) break;
    leaves[i] = Leaf::OfTensor(std::move(output));
  }
  TUTTI_RETURN_IF_ERROR(lockstep_.LeaveCollective(replica_, std::move(status)));
  return value.WithLeaves(std::move(leaves));
}

Status ReplicaContext::ObserveLeaves(const char* op, const Value& value) {
  for (size_t i = 0; i < value.num_leaves(); ++i) {
    if (!value.leaf(i).is_tensor()) continue;
    const std::string name = Format("the input{}", PathToString(value.spec().LeafPath(i)));
    Status status = ObserveTensor({.op = op, .name = name, .replica = replica_id()},
                                  value.leaf(i).tensor());
    if (status.ok()) continue;
    // The other replicas fail with the same.
    lockstep_.communicator(replica_).Abort(status);
    return status;
  }
  return OkStatus();
}

Status ReplicaContext::Merge(MergePart* part, const CallOptions& options) {
  return lockstep_.Merge(replica_, part, Combine(options));
}

namespace {

// One replica's merge_call.
class MergeCallPart final : public MergePart {
 public:
  MergeCallPart(Strategy& strategy, Lockstep& lockstep, Function& fn, const void* identity,
                Ref<Value> args, const CallOptions& options)
      : strategy_(strategy),
        lockstep_(lockstep),
        fn_(fn),
        identity_(identity),
        args_(std::move(args)),
        options_(options) {}

  const void* identity() const override { return identity_; }
  std::string Describe() const override {
    if (!fn_.name().empty()) return Format("merge_call of function '{}'", fn_.name());
    return Format("merge_call of the function at {}", identity_);
  }
  Status Execute(std::span<MergePart* const> parts) override;

  Ref<Value> TakeResult() { return std::move(result_); }

 private:
  Strategy& strategy_;
  Lockstep& lockstep_;
  Function& fn_;
  const void* const identity_;
  const Ref<Value> args_;
  const CallOptions options_;
  Ref<Value> result_;
};

Status MergeCallPart::Execute(std::span<MergePart* const> parts) {
  if (TeamChannel* team = strategy_.team_channel()) {
    TUTTI_RETURN_IF_ERROR(team->Agree(TeamLabel{"merge_call", fn_.name()}, options_));
  }
  std::vector<Ref<Value>> args;
  args.reserve(parts.size());
  for (MergePart* part : parts) args.push_back(static_cast<MergeCallPart*>(part)->args_);
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> in,
                         Regroup(args, Wrap::kWhereDifferent, "merge_call's arguments"));
  MergeContext context(strategy_, lockstep_, options_);
  Ref<Value> out;
  {
    CallbackScope scope(CallbackClass::kCrossReplica);
    TUTTI_RETURN_IF_ERROR(fn_.Call(context, *in, &out));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(static_cast<MergeCallPart*>(parts[i])->result_,
                           Select(*out, i, parts.size(), "merge_call's result"));
  }
  return OkStatus();
}

}  // namespace

Result<Ref<Value>> ReplicaContext::MergeCall(Function& fn, const void* identity, const Value* args,
                                             const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckInside(CallbackClass::kReplica, "merge_call"));
  Ref<Value> mine =
      args == nullptr ? Value::None() : Ref<Value>::Retain(const_cast<Value*>(args));
  MergeCallPart part(*strategy(), lockstep_, fn, identity, std::move(mine), Combine(options));
  TUTTI_RETURN_IF_ERROR(Merge(&part, options));
  return part.TakeResult();
}

MergeContext::MergeContext(Strategy& strategy, const Lockstep& lockstep,
                           const CallOptions& options)
    : Context(strategy.environment(), FieldsOf(strategy, CallbackClass::kCrossReplica, options)),
      lockstep_(lockstep) {}

bool MergeContext::cancelled() const { return lockstep_.stopped() || Context::cancelled(); }

CrossReplicaContext::CrossReplicaContext(Strategy& strategy, const CallOptions& options)
    : Context(strategy.environment(), FieldsOf(strategy, CallbackClass::kCrossReplica, options)) {}

namespace {

ContextFields FieldsOfUpdate(Strategy& strategy, const Device* device,
                             const CallOptions& options) {
  ContextFields fields = FieldsOf(strategy, CallbackClass::kUpdate, options);
  fields.device = device;
  return fields;
}

}  // namespace

UpdateContext::UpdateContext(Strategy& strategy, int64_t copy, const Device* device,
                             const CallOptions& options)
    : Context(strategy.environment(), FieldsOfUpdate(strategy, device, options)), copy_(copy) {}

const UpdateContext* AsUpdateContext(const Context* context) {
  return context != nullptr && context->callback_class() == CallbackClass::kUpdate
             ? static_cast<const UpdateContext*>(context)
             : nullptr;
}

ReplicaContext* AsReplicaContext(Context* context) {
  return context != nullptr && context->callback_class() == CallbackClass::kReplica
             ? static_cast<ReplicaContext*>(context)
             : nullptr;
}

const ReplicaContext* AsReplicaContext(const Context* context) {
  return AsReplicaContext(const_cast<Context*>(context));
}

}  // namespace tutti
