#include "core/strategy/ops_all_reduce.h"

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/strategy/cross_device_ops.h"
#include "core/strategy/strategy.h"
#include "core/strategy/team_reduce.h"
#include "core/tensor/copy.h"

namespace tutti {

namespace {

// Addresses that stand for the operations: replicas merge when theirs are equal.
constexpr char kOpsIdentities[static_cast<size_t>(kLastReduceOp) + 1] = {};

}  // namespace

const void* OpsAllReduce::identity() const {
  return &kOpsIdentities[static_cast<size_t>(op_)];
}

std::string OpsAllReduce::Describe() const {
  return Format("all_reduce with {}", ReduceOpName(op_));
}

Status OpsAllReduce::Execute(std::span<MergePart* const> parts) {
  const size_t count = inputs_.size();
  // Whoever has the least time frees all of them.
  CollectiveOptions options = options_;
  std::vector<std::vector<Ref<Tensor>>> tensors(count);
  for (size_t r = 0; r < parts.size(); ++r) {
    const OpsAllReduce& part = *static_cast<OpsAllReduce*>(parts[r]);
    if (part.inputs_.size() != count) {
      return InvalidArgument(
                 "all_reduce: replica 0 passes {} tensors, replica {} passes {}; pass as many on "
                 "all replicas",
                 count, r, part.inputs_.size())
          .With("replica", r);
    }
    options.deadline = Deadline::Earlier(options.deadline, part.options_.deadline);
    for (size_t i = 0; i < count; ++i) {
      tensors[i].push_back(Ref<Tensor>::Retain(const_cast<Tensor*>(part.inputs_[i])));
    }
  }
  for (const std::vector<Ref<Tensor>>& replicas : tensors) {
    std::vector<const Tensor*> pointers;
    for (const Ref<Tensor>& tensor : replicas) pointers.push_back(tensor.get());
    TUTTI_RETURN_IF_ERROR(CheckSameTensors(pointers, strategy_.first_replica(), "all_reduce"));
  }
  if (count == 0) return OkStatus();
  TUTTI_ASSIGN_OR_RETURN(
      const std::vector<Ref<Tensor>> reduced,
      strategy_.given_ops()->ReduceTensors({strategy_, options, "all_reduce"}, op_,
                                           std::move(tensors), /*destinations=*/nullptr));
  for (MergePart* part : parts) {
    for (size_t i = 0; i < count; ++i) {
      TUTTI_RETURN_IF_ERROR(
          CopyInto(*reduced[i], static_cast<OpsAllReduce*>(part)->outputs_[i]));
    }
  }
  return OkStatus();
}

}  // namespace tutti
