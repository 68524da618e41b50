#include "core/strategy/variable_update.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/strategy/cross_device_ops.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/device_values.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/observed_team.h"
#include "core/strategy/team_channel.h"
#include "core/strategy/team_reduce.h"
#include "core/strategy/team_strings.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

constexpr size_t kBlockBytes = 8 * 1024;
constexpr int64_t kElementsPerLine = 64;  // ranges of replicas meet at the ends of cache lines

}  // namespace

std::string VariableUpdate::Describe() const {
  return Format("{} of variable '{}'", Variable::WriteName(write_), variable_.name());
}

Status VariableUpdate::FoldOverTeam(TeamChannel& team) {
  const std::string what = Format("{} of variable", Variable::WriteName(write_));
  const TeamLabel label{what, variable_.name(), AggregationName(variable_.aggregation_)};
  if (variable_.aggregation_ == Aggregation::kOnlyFirstReplica) {
    // Only worker 0's counts; the others receive it in memory of their own.
    if (!variable_.shape_.IsFullyKnown()) {
      TUTTI_ASSIGN_OR_RETURN(own_plan_.operands[0],
                             BroadcastOfWorker0(team, label, options_, *own_plan_.operands[0]));
      return variable_.dtype_ == DType::kBytes
                 ? OkStatus()
                 : ObserveOfWorker0(team, label, *own_plan_.operands[0]);
    }
    if (variable_.dtype_ == DType::kBytes) {
      TUTTI_ASSIGN_OR_RETURN(own_plan_.operands[0],
                             BroadcastStrings(team, label, options_, *own_plan_.operands[0]));
      return OkStatus();
    }
    if (team.worker() != 0) {
      TUTTI_ASSIGN_OR_RETURN(const Shape shape, variable_.shape_.ToShape());
      TUTTI_ASSIGN_OR_RETURN(own_plan_.operands[0], Tensor::Create(variable_.dtype_, shape));
    }
    TUTTI_RETURN_IF_ERROR(team.Broadcast(label, options_, own_plan_.operands[0].get()));
    return ObserveOfWorker0(team, label, *own_plan_.operands[0]);
  }
  const ReduceOp op =
      variable_.aggregation_ == Aggregation::kMean ? ReduceOp::kMean : ReduceOp::kSum;
  TUTTI_ASSIGN_OR_RETURN(own_plan_.operands,
                         ReduceOverTeam(team, label, op, std::span(&own_plan_.operands, 1),
                                        variable_.strategy_->first_replica(), options_));
  return OkStatus();
}

Status VariableUpdate::FoldByOps(CrossDeviceOps& ops, std::span<MergePart* const> parts) {
  const std::string what = Describe();
  CollectiveOptions options(options_);
  for (MergePart* part : parts) {
    options.deadline = Deadline::Earlier(options.deadline,
                                         static_cast<VariableUpdate*>(part)->options_.deadline);
  }
  const CrossDeviceCall call{*variable_.strategy_, options, what};
  const Ref<Value> destinations =
      Value::OfLeaf(Leaf(LeafKind::kVariable, Ref<Variable>::Retain(&variable_)));
  Ref<Tensor> fold;
  if (variable_.aggregation_ == Aggregation::kOnlyFirstReplica) {
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Value> copies,
        ops.BroadcastOne(call, *Value::OfTensor(own_plan_.operands[0]), destinations));
    const DistributedValue* several = AsDistributed(copies->leaf());
    fold = (several == nullptr ? copies->leaf() : several->component(0).leaf()).tensor_ref();
  } else {
    const ReduceOp op =
        variable_.aggregation_ == Aggregation::kMean ? ReduceOp::kMean : ReduceOp::kSum;
    TUTTI_ASSIGN_OR_RETURN(
        const std::vector<Ref<Tensor>> folds,
        ops.ReduceTensors(call, op, {std::move(own_plan_.operands)}, destinations));
    fold = folds[0];
  }
  TUTTI_ASSIGN_OR_RETURN(fold, fold->Contiguous());
  own_plan_.operands = {std::move(fold)};
  return OkStatus();
}

Status VariableUpdate::Execute(std::span<MergePart* const> parts) {
  const bool first_only = variable_.aggregation_ == Aggregation::kOnlyFirstReplica;
  const bool sum = variable_.aggregation_ == Aggregation::kSum;
  if (!first_only) {
    TUTTI_RETURN_IF_ERROR(CheckReducible(sum ? ReduceOp::kSum : ReduceOp::kMean, variable_.dtype_)
                              .WithPrefix(Describe()));
  }
  for (MergePart* part : parts.first(first_only ? 1 : parts.size())) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> operand,
                           variable_.Detached(static_cast<VariableUpdate*>(part)->tensor_));
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> contiguous, operand->Contiguous());
    own_plan_.operands.push_back(std::move(contiguous));
  }
  TeamChannel* const team = variable_.strategy_->team_channel();
  if (team != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(own_plan_.operands, AllOnHost(own_plan_.operands, Wait()));
    TUTTI_RETURN_IF_ERROR(FoldOverTeam(*team));
  } else if (variable_.dtype_ != DType::kBytes) {
    if (TensorsAreObserved()) TUTTI_RETURN_IF_ERROR(ObserveOperands());
    if (CrossDeviceOps* ops = variable_.strategy_->given_ops()) {
      TUTTI_RETURN_IF_ERROR(FoldByOps(*ops, parts));
    }
  }
  if (variable_.is_on_gpu() || AnyOnGpu(own_plan_.operands)) return UpdateOnDevices();
  if (variable_.moves()) {
    if (own_plan_.operands.size() > 1) {
      std::vector<const Tensor*> pointers;
      for (const Ref<Tensor>& operand : own_plan_.operands) pointers.push_back(operand.get());
      TUTTI_RETURN_IF_ERROR(CheckSameAcrossReplicas(pointers, Describe()));
      TUTTI_ASSIGN_OR_RETURN(own_plan_.operands[0],
                             Reduce(sum ? ReduceOp::kSum : ReduceOp::kMean, pointers));
    }
    // Byte strings: nothing but to be assigned one replica's.
    return variable_.UpdateAllCopies(write_, *own_plan_.operands[0]);
  }
  const bool observed = TensorsAreObserved() || (team != nullptr && team->observed());
  for (const auto& copy : variable_.copies_) own_plan_.locks.emplace_back(copy->mutex);
  has_shares_ = parts.size() > 1 && !observed &&
                tensor_.byte_size() >= static_cast<size_t>(kShareBytes);
  if (has_shares_) {
    for (MergePart* part : parts) static_cast<VariableUpdate*>(part)->plan_ = &own_plan_;
  } else {
    UpdateRange(own_plan_, 0, tensor_.num_elements());
    if (observed) {
      const ObservedScope all(team != nullptr && team->observed() ? Observed::kChecked
                                                                  : Observed::kAsBefore);
      TUTTI_RETURN_IF_ERROR(variable_.ObserveCopy(write_, 0));
    }
    own_plan_.locks.clear();
  }
  return OkStatus();
}

Status VariableUpdate::UpdateOnDevices() {
  TeamChannel* const team = variable_.strategy_->team_channel();
  const size_t n = variable_.num_copies();
  if (own_plan_.operands.size() > 1) {
    std::vector<const Tensor*> pointers;
    for (const Ref<Tensor>& operand : own_plan_.operands) pointers.push_back(operand.get());
    TUTTI_RETURN_IF_ERROR(CheckSameAcrossReplicas(pointers, Describe()));
    std::vector<const Device*> devices;
    for (const auto& copy : variable_.copies_) devices.push_back(copy->gpu.get());
    const bool mean = variable_.aggregation_ == Aggregation::kMean;
    TUTTI_ASSIGN_OR_RETURN(own_plan_.operands,
                           AllReduceOnDevices(mean ? ReduceOp::kMean : ReduceOp::kSum,
                                              own_plan_.operands, devices, Wait(),
                                              &variable_.strategy_->nccl_folds()));
  }
  const ObservedScope all(team != nullptr && team->observed() ? Observed::kChecked
                                                              : Observed::kAsBefore);
  return variable_.WriteOnDevices(write_, own_plan_.operands, 0, n, /*shows_assigns=*/true);
}

GpuWait VariableUpdate::Wait() const {
  return {&options_, &variable_.strategy_->environment().clock()};
}

Status VariableUpdate::ObserveOperands() const {
  const std::string what = Format("the value for variable '{}'", variable_.name());
  for (size_t i = 0; i < own_plan_.operands.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(ObserveTensor(
        {.op = Variable::WriteName(write_), .name = what, .replica = static_cast<int64_t>(i)},
        *own_plan_.operands[i]));
  }
  return OkStatus();
}

void VariableUpdate::DoShare(size_t replica, size_t num_replicas) {
  const int64_t lines = (tensor_.num_elements() + kElementsPerLine - 1) / kElementsPerLine;
  const auto n = static_cast<int64_t>(num_replicas);
  const auto i = static_cast<int64_t>(replica);
  const auto element = [&](int64_t share) {
    return std::min(tensor_.num_elements(), lines * share / n * kElementsPerLine);
  };
  UpdateRange(*plan_, element(i), element(i + 1));
}

// The operations are defined for the dtype (Execute and CheckTensor have asked), so that they
// cannot fail.
void VariableUpdate::UpdateRange(const Plan& plan, int64_t begin, int64_t end) const {
  const DType dtype = variable_.dtype_;
  const size_t item = ItemSize(dtype);
  const ReduceOp fold =
      variable_.aggregation_ == Aggregation::kMean ? ReduceOp::kMean : ReduceOp::kSum;
  alignas(64) char scratch[kBlockBytes];
  const auto block = static_cast<int64_t>(kBlockBytes / item);
  std::vector<const void*> inputs(plan.operands.size());
  for (int64_t at = begin; at < end; at += block) {
    const int64_t n = std::min(block, end - at);
    const size_t offset = static_cast<size_t>(at) * item;
    const size_t bytes = static_cast<size_t>(n) * item;
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<const char*>(plan.operands[i]->data()) + offset;
    }
    const void* delta = inputs[0];
    if (inputs.size() > 1) {
      (void)ReduceInto(fold, dtype, inputs, n, scratch);
      delta = scratch;
    }
    for (const auto& copy : variable_.copies_) {
      char* target = static_cast<char*>(copy->storage->mutable_data()) + offset;
      switch (write_) {
        case Variable::Write::kAssign:
          std::memcpy(target, delta, bytes);
          break;
        case Variable::Write::kAdd:
          (void)BinaryElements(BinaryOp::kAdd, dtype, target, delta, target, n);
          break;
        case Variable::Write::kSub:
          (void)BinaryElements(BinaryOp::kSub, dtype, target, delta, target, n);
          break;
      }
    }
  }
}

}  // namespace tutti
