#include "core/strategy/team_collectives.h"

#include <utility>

#include "core/base/error.h"
#include "core/strategy/cross_replica_reduce.h"
#include "core/strategy/observed_team.h"
#include "core/strategy/strategy.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

// Addresses that stand for the operations: replicas merge when theirs are equal.
constexpr char kAllReduceIdentities[8] = {};
constexpr char kAllGatherIdentity = 0;

// tensors[i][replica] of the parts of all replicas.
template <class Part, class InputsOf>
Result<std::vector<std::vector<const Tensor*>>> Transpose(std::span<MergePart* const> parts,
                                                          int64_t first_replica,
                                                          const char* what,
                                                          const InputsOf& inputs_of) {
  const size_t count = inputs_of(static_cast<Part*>(parts[0])).size();
  std::vector<std::vector<const Tensor*>> tensors(count);
  for (size_t r = 0; r < parts.size(); ++r) {
    const std::span<const Tensor* const> inputs = inputs_of(static_cast<Part*>(parts[r]));
    if (inputs.size() != count) {
      const int64_t replica = first_replica + static_cast<int64_t>(r);
      return InvalidArgument(
                 "{}: replica {} passes {} tensors, replica {} passes {}; pass as many on all "
                 "replicas",
                 what, first_replica, count, replica, inputs.size())
          .With("replica", replica);
    }
    for (size_t i = 0; i < count; ++i) tensors[i].push_back(inputs[i]);
  }
  return tensors;
}

// The workers compare what replica 0 of each asks for.
template <class Part, class HintsOf>
Status CheckSameHints(std::span<MergePart* const> parts, int64_t first_replica, const char* what,
                      const HintsOf& hints_of) {
  const CommunicationHints& first = hints_of(static_cast<Part*>(parts[0]));
  for (size_t r = 1; r < parts.size(); ++r) {
    const CommunicationHints& hints = hints_of(static_cast<Part*>(parts[r]));
    if (hints == first) continue;
    const int64_t replica = first_replica + static_cast<int64_t>(r);
    return InvalidArgument(
               "{}: replica {} asks for the communication {} and a bytes_per_pack of {}, replica "
               "{} for {} and {}; pass the same communication options on all replicas",
               what, first_replica, CommunicationImplementationName(first.implementation),
               first.bytes_per_pack, replica,
               CommunicationImplementationName(hints.implementation), hints.bytes_per_pack)
        .With("replica", replica);
  }
  return OkStatus();
}

}  // namespace

// ---- all_reduce. ----

const void* TeamAllReduce::identity() const {
  return &kAllReduceIdentities[static_cast<size_t>(op_) % sizeof(kAllReduceIdentities)];
}

std::string TeamAllReduce::Describe() const {
  return Format("all_reduce with {}", ReduceOpName(op_));
}

Status TeamAllReduce::Execute(std::span<MergePart* const> parts) {
  TUTTI_RETURN_IF_ERROR(CheckSameHints<TeamAllReduce>(
      parts, strategy_.first_replica(), "all_reduce",
      [](TeamAllReduce* part) -> const CommunicationHints& { return part->options_.hints; }));
  const auto inputs_of = [](TeamAllReduce* part) { return part->inputs_; };
  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<std::vector<const Tensor*>> tensors,
      Transpose<TeamAllReduce>(parts, strategy_.first_replica(), "all_reduce", inputs_of));
  size_t bytes = 0;
  for (const std::vector<const Tensor*>& replicas : tensors) {
    TUTTI_RETURN_IF_ERROR(CheckSameTensors(replicas, strategy_.first_replica(), "all_reduce"));
    bytes += replicas[0]->byte_size();
  }
  const TeamLabel label{"all_reduce", ReduceOpName(op_), structure_};
  TUTTI_ASSIGN_OR_RETURN(own_folds_, ReduceOverTeam(*strategy_.team_channel(), label, op_, tensors,
                                                    outputs_, options_));
  for (MergePart* part : parts) static_cast<TeamAllReduce*>(part)->folds_ = &own_folds_;
  has_shares_ = parts.size() > 1 && bytes >= kShareBytes;
  if (has_shares_) return OkStatus();
  for (MergePart* part : parts) static_cast<TeamAllReduce*>(part)->DoShare(0, parts.size());
  return OkStatus();
}

// A result that needs no conversion lies in replica 0's output.
void TeamAllReduce::DoShare(size_t /*replica*/, size_t /*num_replicas*/) {
  for (size_t i = 0; i < outputs_.size(); ++i) (*folds_)[i].WriteTo(outputs_[i]->mutable_data());
}

// ---- all_gather. ----

const void* TeamAllGather::identity() const { return &kAllGatherIdentity; }

std::string TeamAllGather::Describe() const { return Format("all_gather along axis {}", axis_); }

Status TeamAllGather::Execute(std::span<MergePart* const> parts) {
  TUTTI_RETURN_IF_ERROR(CheckSameHints<TeamAllGather>(
      parts, strategy_.first_replica(), "all_gather",
      [](TeamAllGather* part) -> const CommunicationHints& { return part->options_.hints; }));
  const auto inputs_of = [](TeamAllGather* part) { return part->inputs_; };
  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<std::vector<const Tensor*>> tensors,
      Transpose<TeamAllGather>(parts, strategy_.first_replica(), "all_gather", inputs_of));
  std::vector<Ref<Tensor>> own;
  std::vector<const Tensor*> pointers;
  for (const std::vector<const Tensor*>& replicas : tensors) {
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Tensor> joined,
        GatherAcrossReplicas(replicas, static_cast<int64_t>(axis_), "all_gather"));
    pointers.push_back(joined.get());
    own.push_back(std::move(joined));
  }
  const TeamLabel label{"all_gather", {}, structure_};
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Tensor>> gathered,
                         strategy_.team_channel()->AllGather(label, pointers, axis_, options_));
  if (strategy_.team_channel()->observed() || TensorsAreObserved()) {
    std::vector<const Tensor*> results;
    for (const Ref<Tensor>& tensor : gathered) results.push_back(tensor.get());
    TUTTI_RETURN_IF_ERROR(ObserveOverTeam(*strategy_.team_channel(), label, tensors, results,
                                          /*hides=*/false, options_));
  }
  for (size_t r = 1; r < parts.size(); ++r) {
    std::vector<Ref<Tensor>>& outputs = static_cast<TeamAllGather*>(parts[r])->outputs_;
    for (const Ref<Tensor>& tensor : gathered) {
      outputs.push_back(tensor->Slice(0, tensor->dim(0)));
    }
  }
  outputs_ = std::move(gathered);
  return OkStatus();
}

}  // namespace tutti
