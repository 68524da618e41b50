// What a write of `tensor` does, by synchronization, place and aggregation (N replicas; "fold" is
// the replicas' tensors summed, averaged, or replica 0's):
//
//              in a replica's function             outside
//   ON_WRITE   NONE: INVALID_ARGUMENT              every copy: copy op tensor
//              else every copy: copy op fold
//   ON_READ    this copy: copy op tensor           SUM: assign writes tensor / N to every copy,
//                                                  assign_add and assign_sub are INVALID_ARGUMENT;
//                                                  else every copy: copy op tensor
//
// Inside an update function: this device's copy op tensor.
//
// The variables of a strategy that is not mirrored are plain: one copy, written as it comes.
// Source of the rules: the reference system's documentation of VariableAggregation and
// VariableSynchronization.

#include "core/strategy/variable.h"

#include <algorithm>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/placement_log.h"
#include "core/device/gpu_memory.h"
#include "core/function/context.h"
#include "core/strategy/cross_device_ops.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/device_values.h"
#include "core/strategy/placements.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/team_channel.h"
#include "core/strategy/team_reduce.h"
#include "core/strategy/team_strings.h"
#include "core/strategy/variable_update.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/copy.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/open_shape_sink.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

const char* SynchronizationName(Synchronization synchronization) {
  switch (synchronization) {
    case Synchronization::kAuto:
      return "AUTO";
    case Synchronization::kNone:
      return "NONE";
    case Synchronization::kOnWrite:
      return "ON_WRITE";
    case Synchronization::kOnRead:
      return "ON_READ";
  }
  return "invalid";
}

const char* AggregationName(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::kNone:
      return "NONE";
    case Aggregation::kSum:
      return "SUM";
    case Aggregation::kMean:
      return "MEAN";
    case Aggregation::kOnlyFirstReplica:
      return "ONLY_FIRST_REPLICA";
  }
  return "invalid";
}

// ---- Where a call comes from. ----

Result<ReplicaContext*> Variable::FindReplica(const Context* context, const char* what) const {
  if (context == nullptr) {
    if (CurrentCallbackClass() == CallbackClass::kReplica) {
      return FailedPrecondition(
          "{} of variable '{}' was called from a replica's function without its context; pass the "
          "context that the function was given",
          what, name());
    }
    TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(what));
    return nullptr;
  }
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed(what));
  const ReplicaContext* replica = AsReplicaContext(context);
  if (replica == nullptr) return nullptr;
  if (replica->strategy() != strategy_.get()) {
    return FailedPrecondition(
        "{}: variable '{}' belongs to strategy {}, and the function is running under strategy {}; "
        "use each variable under its own strategy",
        what, name(), strategy_->name(), replica->strategy()->name());
  }
  return const_cast<ReplicaContext*>(replica);
}

Result<std::optional<size_t>> Variable::FindUpdated(const Context* context,
                                                    const char* what) const {
  const UpdateContext* update = AsUpdateContext(context);
  if (update == nullptr || update->copy() == UpdateContext::kNoCopy) {
    return std::optional<size_t>();
  }
  if (update->strategy() != strategy_.get()) {
    return FailedPrecondition(
        "{}: variable '{}' belongs to strategy {}, and the update is one of strategy {}; update "
        "each variable by its own strategy",
        what, name(), strategy_->name(), update->strategy()->name());
  }
  return std::optional<size_t>(CopyOf(static_cast<size_t>(update->copy())));
}

// ---- Reading. ----

Result<Ref<Tensor>> Variable::ReadCopy(size_t i) const {
  Copy& copy = *copies_[i];
  std::lock_guard<std::mutex> lock(copy.mutex);
  if (dtype_ == DType::kBytes) return copy.view;
  return NewMemory(copy, *copy.storage);
}

Result<Ref<Tensor>> Variable::ReadAggregated(const CallOptions& options) const {
  if (strategy_->num_replicas_in_sync() == 1) return ReadCopy(0);
  if (aggregation_ == Aggregation::kNone) {
    return InvalidArgument(
        "read: variable '{}' is ON_READ with aggregation NONE, so that its {} copies have no "
        "common "
        "value; read single copies (local results), or choose SUM, MEAN or ONLY_FIRST_REPLICA",
        name(), strategy_->num_replicas_in_sync());
  }
  if (strategy_->team_channel() != nullptr) return ReadOverTeam(options);
  if (aggregation_ == Aggregation::kOnlyFirstReplica) return ReadCopy(0);
  std::vector<Ref<Tensor>> values;
  std::vector<const Tensor*> pointers;
  for (size_t i = 0; i < copies_.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> value, ReadCopy(i));
    pointers.push_back(value.get());
    values.push_back(std::move(value));
  }
  const ReduceOp op = aggregation_ == Aggregation::kSum ? ReduceOp::kSum : ReduceOp::kMean;
  const GpuWait wait{&options, &strategy_->environment().clock()};
  CrossDeviceOps* ops = strategy_->given_ops();
  // Ops that read such a variable themselves would ask themselves.
  if (ops == nullptr || CurrentCallbackClass() == CallbackClass::kUpdate) {
    if (!AnyOnGpu(values)) return Reduce(op, pointers);
    TUTTI_RETURN_IF_ERROR(CheckReducible(op, dtype_).WithPrefix("read"));
    TUTTI_RETURN_IF_ERROR(CheckSameAcrossReplicas(pointers, "read"));
    const Device* const first[] = {copies_[0]->gpu.get()};
    TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> folds,
                           AllReduceOnDevices(op, values, first, wait));
    return std::move(folds[0]);
  }
  const std::string what = Format("read of variable '{}'", name());
  const CollectiveOptions call(options);
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> reduced,
                         ops->ReduceTensors({*strategy_, call, what}, op, {std::move(values)},
                                            Value::OfString("CPU:0")));
  return std::move(reduced[0]);
}

Result<Ref<Tensor>> Variable::ReadOverTeam(const CallOptions& options) const {
  TeamChannel& team = *strategy_->team_channel();
  TUTTI_RETURN_IF_ERROR(team.Renew(options));
  const TeamLabel label{"read of variable", name()};
  std::vector<Ref<Tensor>> values;
  for (size_t i = 0; i < copies_.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> value, ReadCopy(i));
    values.push_back(std::move(value));
  }
  TUTTI_ASSIGN_OR_RETURN(values,
                         AllOnHost(values, {&options, &strategy_->environment().clock()}));
  if (aggregation_ == Aggregation::kOnlyFirstReplica) {
    if (!shape_.IsFullyKnown()) return BroadcastOfWorker0(team, label, options, *values[0]);
    if (dtype_ == DType::kBytes) return BroadcastStrings(team, label, options, *values[0]);
    TUTTI_RETURN_IF_ERROR(team.Broadcast(label, options, values[0].get()));
    return std::move(values[0]);
  }
  const ReduceOp op = aggregation_ == Aggregation::kSum ? ReduceOp::kSum : ReduceOp::kMean;
  Status reducible = CheckReducible(op, dtype_);
  if (!reducible.ok()) return team.Abort(std::move(reducible).WithPrefix(label.ToString()));
  TUTTI_ASSIGN_OR_RETURN(
      std::vector<Ref<Tensor>> result,
      ReduceOverTeam(team, label, op, std::span(&values, 1), strategy_->first_replica(), options));
  return std::move(result[0]);
}

Result<Ref<Tensor>> Variable::Read(const Context* context, const CallOptions& options) const {
  TUTTI_RETURN_IF_ERROR(strategy_->environment().CheckUsable("reading a variable"));
  TUTTI_RETURN_IF_ERROR(
      CheckCallOptions(options, strategy_->environment().clock(), "reading a variable"));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<size_t> updated, FindUpdated(context, "read"));
  if (updated.has_value()) return ReadCopy(*updated);
  TUTTI_ASSIGN_OR_RETURN(const ReplicaContext* replica, FindReplica(context, "read"));
  if (replica != nullptr) return ReadCopy(CopyOf(replica->local_replica()));
  return synchronization_ == Synchronization::kOnRead ? ReadAggregated(options) : ReadCopy(0);
}

Result<const Tensor*> Variable::Data(const Context* context) const {
  TUTTI_ASSIGN_OR_RETURN(const std::optional<size_t> updated, FindUpdated(context, "data"));
  if (updated.has_value() && !moves()) return copies_[*updated]->view.get();
  TUTTI_ASSIGN_OR_RETURN(const ReplicaContext* replica, FindReplica(context, "data"));
  if (moves()) {
    return InvalidArgument("data: variable '{}' holds {}, which have no memory that stays; read it",
                           name(),
                           dtype_ == DType::kBytes ? "byte strings" : "values of changing shapes");
  }
  return copies_[replica == nullptr ? 0 : CopyOf(replica->local_replica())]->view.get();
}

Ref<Tensor> Variable::copy_ref(size_t i) const {
  if (!moves()) return copies_[i]->view;
  std::lock_guard<std::mutex> lock(copies_[i]->mutex);
  return copies_[i]->view;
}

bool Variable::HasCopy(const Tensor& component) const {
  if (component.dtype() != dtype_ || component.num_elements() == 0) return false;
  return std::any_of(copies_.begin(), copies_.end(), [&](const std::unique_ptr<Copy>& copy) {
    std::lock_guard<std::mutex> lock(copy->mutex);
    return component.address() == copy->storage->address() &&
           component.shape() == copy->storage->shape();
  });
}

Distribution Variable::distribution() const {
  const bool has_one = strategy_->has_central_storage() && copies_.size() == 1;
  if (!strategy_->is_mirrored() || has_one) return Distribution::kNone;
  return synchronization_ == Synchronization::kOnRead ? Distribution::kSyncOnRead
                                                      : Distribution::kMirrored;
}

// ---- Writing. ----

const char* Variable::WriteName(Write write) {
  switch (write) {
    case Write::kAssign:
      return "assign";
    case Write::kAdd:
      return "assign_add";
    case Write::kSub:
      return "assign_sub";
  }
  return "write";
}

Status Variable::CheckTensor(Write write, const Tensor& tensor) const {
  if (tensor.dtype() != dtype_) {
    return InvalidArgument("{}: variable '{}' has dtype {}, the tensor {}; cast the tensor first",
                           WriteName(write), name(), DTypeName(dtype_), DTypeName(tensor.dtype()))
        .With("dtype", DTypeName(dtype_));
  }
  if (!shape_.IsMoreGeneralThan(tensor.shape())) {
    return InvalidArgument("{}: variable '{}' has shape {}, the tensor {}; a variable keeps the "
                           "shape of its initial value, but for sizes that shape= leaves open",
                           WriteName(write), name(), shape_.ToString(), tensor.shape().ToString());
  }
  if (write != Write::kAssign && !IsNumeric(dtype_)) {
    return InvalidArgument("{}: variable '{}' is {}, which can be assigned only", WriteName(write),
                           name(), DTypeName(dtype_));
  }
  return OkStatus();
}

namespace {

// Whether the elements lie in this copy's memory. (Views do not cross from one block into another,
// so that one element tells.)
bool LiesIn(const Tensor& tensor, const Tensor& storage) {
  const auto* begin = static_cast<const char*>(storage.address());
  const auto* element = static_cast<const char*>(tensor.address());
  return element >= begin && element < begin + storage.byte_size();
}

}  // namespace

Result<Ref<Tensor>> Variable::Detached(const Tensor& tensor) const {
  // Nobody writes into memory that is replaced, and that somebody holds.
  if (moves()) return Ref<Tensor>::Retain(const_cast<Tensor*>(&tensor));
  for (const std::unique_ptr<Copy>& copy : copies_) {
    if (!LiesIn(tensor, *copy->storage)) continue;
    TensorOptions there;
    if (IsOnGpu(tensor)) there.device = tensor.device();
    return tensor.Copy(there);
  }
  return Ref<Tensor>::Retain(const_cast<Tensor*>(&tensor));
}

Shape Variable::ShapeOfCopy(size_t i) const {
  std::lock_guard<std::mutex> lock(copies_[i]->mutex);
  return copies_[i]->storage->shape();
}

Result<Ref<Tensor>> Variable::NewMemory(const Copy& copy, const Tensor& tensor) const {
  if (copy.gpu) return CopyToGpu(tensor, *GpuMemoryOf(*copy.gpu));
  TensorOptions memory;
  memory.zeroed = false;
  memory.account = &strategy_->environment().memory();
  return IsOnGpu(tensor) ? CopyToCpu(tensor, memory) : tensor.Copy(memory);
}

bool Variable::is_on_gpu() const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [](const std::unique_ptr<Copy>& copy) { return copy->gpu != nullptr; });
}

Status Variable::Replace(Write write, size_t i, const Tensor& tensor) {
  Copy& copy = *copies_[i];
  std::lock_guard<std::mutex> lock(copy.mutex);
  Ref<Tensor> made;
  if (write == Write::kAssign) {
    TUTTI_ASSIGN_OR_RETURN(made, NewMemory(copy, tensor));
  } else {
    if (tensor.shape() != copy.storage->shape()) {
      return InvalidArgument("{}: variable '{}' holds a value of shape {}, the tensor has {}; it "
                             "can be assigned another shape, not added one",
                             WriteName(write), name(), copy.storage->shape().ToString(),
                             tensor.shape().ToString());
    }
    const BinaryOp op = write == Write::kAdd ? BinaryOp::kAdd : BinaryOp::kSub;
    TUTTI_ASSIGN_OR_RETURN(made, NewMemory(copy, *copy.storage));
    TUTTI_RETURN_IF_ERROR(BinaryInPlace(op, made.get(), tensor));
  }
  Ref<Tensor> view = ReadOnly(made);
  copy.storage = std::move(made);
  copy.view = std::move(view);
  return TensorsAreObserved() && dtype_ != DType::kBytes ? ObserveCopy(write, i) : OkStatus();
}

Status Variable::UpdateCopy(Write write, size_t i, const Tensor& tensor) {
  if (is_on_gpu() || IsOnGpu(tensor)) {
    const Ref<Tensor> same[] = {Ref<Tensor>::Retain(const_cast<Tensor*>(&tensor))};
    return WriteOnDevices(write, same, i, i + 1);
  }
  if (moves()) return Replace(write, i, tensor);
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> operand, Detached(tensor));
  Copy& copy = *copies_[i];
  std::lock_guard<std::mutex> lock(copy.mutex);
  Tensor* storage = copy.storage.get();
  switch (write) {
    case Write::kAssign:
      return CopyInto(*operand, storage);
    case Write::kAdd:
      TUTTI_RETURN_IF_ERROR(BinaryInPlace(BinaryOp::kAdd, storage, *operand));
      break;
    case Write::kSub:
      TUTTI_RETURN_IF_ERROR(BinaryInPlace(BinaryOp::kSub, storage, *operand));
      break;
  }
  return TensorsAreObserved() ? ObserveCopy(write, i) : OkStatus();
}

Status Variable::ObserveCopy(Write write, size_t i) const {
  const std::string what = Format("the new value of variable '{}'", copies_[i]->name);
  return ObserveTensor({.op = WriteName(write), .name = what}, *copies_[i]->storage);
}

Status Variable::UpdateAllCopies(Write write, const Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> operand, Detached(tensor));
  if (is_on_gpu() || IsOnGpu(tensor)) {
    return WriteOnDevices(write, {&operand, 1}, 0, copies_.size());
  }
  for (size_t i = 0; i < copies_.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(UpdateCopy(write, i, *operand));
  }
  return OkStatus();
}

Status Variable::Update(Write write, Context* context, const Tensor& tensor,
                        const CallOptions& options) {
  const char* what = WriteName(write);
  TUTTI_RETURN_IF_ERROR(strategy_->environment().CheckUsable(what));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<size_t> updated, FindUpdated(context, what));
  if (updated.has_value()) {
    TUTTI_RETURN_IF_ERROR(CheckTensor(write, tensor));
    return UpdateCopy(write, *updated, tensor);
  }
  TUTTI_ASSIGN_OR_RETURN(ReplicaContext * replica, FindReplica(context, what));
  TUTTI_RETURN_IF_ERROR(CheckTensor(write, tensor));
  const bool on_read = synchronization_ == Synchronization::kOnRead;
  // What goes into a merge is looked at there, for all replicas.
  if (TensorsAreObserved() && (replica == nullptr || on_read || !strategy_->is_mirrored())) {
    const std::string what_is = Format("the value for variable '{}'", name());
    TUTTI_RETURN_IF_ERROR(ObserveTensor(
        {.op = what, .name = what_is, .replica = replica == nullptr ? -1 : replica->replica_id()},
        tensor));
  }
  if (replica != nullptr) {
    // A merge function that used a replica's context would wait for itself.
    TUTTI_RETURN_IF_ERROR(CheckInside(CallbackClass::kReplica, what));
    if (on_read) return UpdateCopy(write, replica->local_replica(), tensor);
    if (!strategy_->is_mirrored()) return UpdateAllCopies(write, tensor);
    if (aggregation_ == Aggregation::kNone) {
      return InvalidArgument(
          "{}: variable '{}' was made with aggregation NONE, so that what the replicas write "
          "cannot "
          "become one value; create it with SUM, MEAN or ONLY_FIRST_REPLICA",
          what, name());
    }
    VariableUpdate update(*this, write, tensor, replica->Combine(options));
    return replica->Merge(&update, options);
  }
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, strategy_->environment().clock(), what));
  const int64_t num_replicas = strategy_->num_replicas_in_sync();
  if (on_read && aggregation_ == Aggregation::kSum && num_replicas > 1) {
    if (dtype_ == DType::kBytes) {
      return InvalidArgument(
          "{}: variable '{}' is ON_READ with aggregation SUM, and byte strings are no sum of "
          "parts; choose ONLY_FIRST_REPLICA",
          what, name());
    }
    if (write != Write::kAssign) {
      return InvalidArgument(
          "{}: variable '{}' is ON_READ with aggregation SUM; outside of replicas it can be "
          "assigned "
          "only, or written by the replicas themselves",
          what, name());
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> count,
                           Full(dtype_, Shape(), static_cast<double>(num_replicas)));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> here, OnHost(tensor));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> part, Binary(BinaryOp::kDiv, *here, *count));
    return UpdateAllCopies(write, *part);
  }
  return UpdateAllCopies(write, tensor);
}

Status Variable::Assign(Context* context, const Tensor& tensor, const CallOptions& options) {
  return Update(Write::kAssign, context, tensor, options);
}

Status Variable::AssignAdd(Context* context, const Tensor& tensor, const CallOptions& options) {
  return Update(Write::kAdd, context, tensor, options);
}

Status Variable::AssignSub(Context* context, const Tensor& tensor, const CallOptions& options) {
  return Update(Write::kSub, context, tensor, options);
}

// ---- Printing, saving. ----

std::string Variable::ToString() const {
  std::vector<std::string> copies;
  for (const std::unique_ptr<Copy>& copy : copies_) {
    std::lock_guard<std::mutex> lock(copy->mutex);
    copies.push_back(Format("<Variable '{}' {}>", copy->name, copy->storage->ToString()));
  }
  if (!strategy_->is_mirrored() || (strategy_->has_central_storage() && copies.size() == 1)) {
    return copies[0];
  }
  std::string text =
      synchronization_ == Synchronization::kOnRead ? "SyncOnReadVariable:{" : "MirroredVariable:{";
  for (size_t i = 0; i < copies.size(); ++i) {
    text += Format("{}{}: {}", i == 0 ? "" : ", ", i, copies[i]);
  }
  return text + "}";
}

Status Variable::Save(std::string_view prefix, SaveSink* sink) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> value, Read(nullptr, sink->call_options()));
  const CallOptions& call = sink->call_options();
  TUTTI_ASSIGN_OR_RETURN(
      value, OnDevice(*value, nullptr, {&call, &strategy_->environment().clock()}));
  TUTTI_RETURN_IF_ERROR(sink->PutTensor(prefix, std::move(value)));
  auto* const open = dynamic_cast<OpenShapeSink*>(sink);
  if (open != nullptr && !shape_.IsFullyKnown()) open->PutOpenShape(prefix, shape_);
  return OkStatus();
}

Status Variable::Restore(std::string_view prefix, RestoreSource* source) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> value, source->GetTensor(prefix));
  return Assign(nullptr, *value, source->call_options());
}

}  // namespace tutti
