#include "core/strategy/variable_scatter.h"

#include <optional>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/function/context.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/slices_reduce.h"
#include "core/strategy/team_channel.h"
#include "core/tensor/concat.h"

namespace tutti {

// ---- From replicas. ----

std::string VariableScatter::Describe() const {
  return Format("{} of variable '{}'", ScatterOpName(op_), variable_.name());
}

Status VariableScatter::JoinOverTeam(TeamChannel& team) {
  std::vector<const Tensor*> values;
  std::vector<const Tensor*> indices;
  for (const IndexedSlices& slices : own_plan_.slices) {
    values.push_back(slices.values.get());
    indices.push_back(slices.indices.get());
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> own_values, Concat(values, 0));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> own_indices, Concat(indices, 0));
  if (variable_.aggregation_ == Aggregation::kOnlyFirstReplica && team.worker() != 0) {
    own_values = own_values->Slice(0, 0);
    own_indices = own_indices->Slice(0, 0);
  }
  const Tensor* const mine[] = {own_values.get(), own_indices.get()};
  const std::string what = Format("{} of variable", ScatterOpName(op_));
  const TeamLabel label{what, variable_.name(), AggregationName(variable_.aggregation_)};
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> all, team.AllGather(label, mine, 0, options_));
  IndexedSlices joined;
  joined.values = std::move(all[0]);
  joined.indices = std::move(all[1]);
  own_plan_.slices.assign(1, std::move(joined));
  return OkStatus();
}

Status VariableScatter::Execute(std::span<MergePart* const> parts) {
  const bool first_only = variable_.aggregation_ == Aggregation::kOnlyFirstReplica;
  size_t bytes = 0;
  for (MergePart* part : parts.first(first_only ? 1 : parts.size())) {
    IndexedSlices slices = static_cast<VariableScatter*>(part)->slices_;
    if (variable_.aggregation_ == Aggregation::kMean) {
      TUTTI_ASSIGN_OR_RETURN(slices.values,
                             ShareOfMean(*slices.values,
                                         variable_.strategy_->num_replicas_in_sync()));
    } else {
      TUTTI_ASSIGN_OR_RETURN(slices.values, variable_.Detached(*slices.values));
    }
    bytes += slices.values->byte_size();
    own_plan_.slices.push_back(std::move(slices));
  }
  if (TeamChannel* team = variable_.strategy_->team_channel()) {
    TUTTI_RETURN_IF_ERROR(JoinOverTeam(*team));
    bytes = own_plan_.slices[0].values->byte_size();
  }
  if (variable_.is_on_gpu()) {
    return variable_.ScatterOnDevices(op_, own_plan_.slices, 0, variable_.num_copies());
  }
  if (variable_.moves()) {
    for (size_t i = 0; i < variable_.num_copies(); ++i) {
      TUTTI_RETURN_IF_ERROR(variable_.ReplaceRows(op_, own_plan_.slices, i));
    }
    return OkStatus();
  }
  for (const auto& copy : variable_.copies_) own_plan_.locks.emplace_back(copy->mutex);
  has_shares_ = parts.size() > 1 && bytes >= kShareBytes;
  if (has_shares_) {
    for (MergePart* part : parts) static_cast<VariableScatter*>(part)->plan_ = &own_plan_;
  } else {
    ScatterRange(own_plan_, 0, variable_.shape_.dim(0));
    own_plan_.locks.clear();
  }
  return OkStatus();
}

void VariableScatter::DoShare(size_t replica, size_t num_replicas) {
  const int64_t rows = variable_.shape_.dim(0);
  const auto n = static_cast<int64_t>(num_replicas);
  const auto i = static_cast<int64_t>(replica);
  ScatterRange(*plan_, rows * i / n, rows * (i + 1) / n);
}

void VariableScatter::ScatterRange(const Plan& plan, int64_t begin, int64_t end) const {
  for (const auto& copy : variable_.copies_) {
    for (const IndexedSlices& slices : plan.slices) {
      ScatterRows(op_, slices, begin, end, copy->storage.get());
    }
  }
}

// ---- From anywhere. ----

Status Variable::ScatterCopies(ScatterOp op, const IndexedSlices& slices, size_t first,
                               size_t last) {
  IndexedSlices own = slices;
  TUTTI_ASSIGN_OR_RETURN(own.values, Detached(*slices.values));
  if (is_on_gpu()) return ScatterOnDevices(op, {&own, 1}, first, last);
  for (size_t i = first; i < last; ++i) {
    if (moves()) {
      TUTTI_RETURN_IF_ERROR(ReplaceRows(op, {&own, 1}, i));
      continue;
    }
    std::lock_guard<std::mutex> lock(copies_[i]->mutex);
    ScatterRows(op, own, 0, shape_.dim(0), copies_[i]->storage.get());
  }
  return OkStatus();
}

Status Variable::ReplaceRows(ScatterOp op, std::span<const IndexedSlices> slices, size_t i) {
  Copy& copy = *copies_[i];
  std::lock_guard<std::mutex> lock(copy.mutex);
  // Its shape may be another one by now.
  const Shape& shape = copy.storage->shape();
  const std::string what = Format("{} of variable '{}'", ScatterOpName(op), name());
  for (const IndexedSlices& part : slices) {
    TUTTI_RETURN_IF_ERROR(CheckScatter(op, dtype_, shape, part, what));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> made, NewMemory(copy, *copy.storage));
  for (const IndexedSlices& part : slices) ScatterRows(op, part, 0, shape.dim(0), made.get());
  copy.view = ReadOnly(made);
  copy.storage = std::move(made);
  return OkStatus();
}

Status Variable::Scatter(ScatterOp op, Context* context, const IndexedSlices& slices,
                         const CallOptions& options) {
  const char* what = ScatterOpName(op);
  TUTTI_RETURN_IF_ERROR(strategy_->environment().CheckUsable(what));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<size_t> updated, FindUpdated(context, what));
  if (updated.has_value()) {
    TUTTI_RETURN_IF_ERROR(
        CheckScatter(op, dtype_, ShapeOfCopy(*updated), slices,
                     Format("{} of variable '{}'", what, name())));
    return ScatterCopies(op, slices, *updated, *updated + 1);
  }
  TUTTI_ASSIGN_OR_RETURN(ReplicaContext * replica, FindReplica(context, what));
  const size_t own = replica == nullptr ? 0 : CopyOf(replica->local_replica());
  TUTTI_RETURN_IF_ERROR(CheckScatter(op, dtype_, ShapeOfCopy(own), slices,
                                     Format("{} of variable '{}'", what, name())));
  const bool on_read = synchronization_ == Synchronization::kOnRead;
  if (replica != nullptr) {
    // A merge function that used a replica's context would wait for itself.
    TUTTI_RETURN_IF_ERROR(CheckInside(CallbackClass::kReplica, what));
    if (on_read) {
      return ScatterCopies(op, slices, replica->local_replica(), replica->local_replica() + 1);
    }
    if (!strategy_->is_mirrored()) return ScatterCopies(op, slices, 0, copies_.size());
    if (aggregation_ == Aggregation::kNone) {
      return InvalidArgument(
          "{}: variable '{}' was made with aggregation NONE, so that what the replicas write "
          "cannot become one value; create it with SUM, MEAN or ONLY_FIRST_REPLICA",
          what, name());
    }
    if (aggregation_ != Aggregation::kOnlyFirstReplica && op != ScatterOp::kAdd &&
        op != ScatterOp::kSub) {
      return Unimplemented(
          "{}: variable '{}' was made with aggregation {}, which is defined for scatter_add and "
          "scatter_sub alone where the slices of several replicas meet; create it with "
          "ONLY_FIRST_REPLICA, or update it outside of replicas",
          what, name(), AggregationName(aggregation_));
    }
    VariableScatter update(*this, op, slices, replica->Combine(options));
    return replica->Merge(&update, options);
  }
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, strategy_->environment().clock(), what));
  if (on_read && aggregation_ == Aggregation::kSum && strategy_->num_replicas_in_sync() > 1) {
    return InvalidArgument(
        "{}: variable '{}' is ON_READ with aggregation SUM; outside of replicas it can be assigned "
        "only, or written by the replicas themselves",
        what, name());
  }
  return ScatterCopies(op, slices, 0, copies_.size());
}

}  // namespace tutti
