#include "core/strategy/device_all_reduce.h"

#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/strategy/cross_device_ops.h"
#include "core/strategy/device_values.h"
#include "core/strategy/strategy.h"
#include "core/strategy/team_reduce.h"

namespace tutti {

namespace {

// Addresses that stand for the operations: replicas merge when theirs are equal.
constexpr char kDeviceIdentities[static_cast<size_t>(kLastReduceOp) + 1] = {};

}  // namespace

const void* DeviceAllReduce::identity() const {
  return &kDeviceIdentities[static_cast<size_t>(op_)];
}

std::string DeviceAllReduce::Describe() const {
  return Format("all_reduce with {}", ReduceOpName(op_));
}

Status DeviceAllReduce::Execute(std::span<MergePart* const> parts) {
  const size_t count = inputs_.size();
  // Whoever has the least time frees all of them.
  CollectiveOptions options = options_;
  std::vector<std::vector<Ref<Tensor>>> tensors(count);
  for (size_t r = 0; r < parts.size(); ++r) {
    const DeviceAllReduce& part = *static_cast<DeviceAllReduce*>(parts[r]);
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
  const GpuWait wait{&options, &strategy_.environment().clock()};
  std::vector<std::vector<Ref<Tensor>>> results;  // of each tensor, for each replica
  for (size_t i = 0; i < count; ++i) {
    std::vector<const Tensor*> pointers;
    for (const Ref<Tensor>& tensor : tensors[i]) pointers.push_back(tensor.get());
    TUTTI_RETURN_IF_ERROR(CheckSameTensors(pointers, strategy_.first_replica(), "all_reduce"));
    std::vector<const Device*> devices;
    for (size_t r = 0; r < parts.size(); ++r) {
      const Device& own = static_cast<DeviceAllReduce*>(parts[r])->device_;
      devices.push_back(IsOnGpu(*tensors[i][r]) ? &own : nullptr);
    }
    std::vector<Ref<Tensor>> reduced = tensors[i];
    if (CrossDeviceOps* const ops = strategy_.given_ops()) {
      TUTTI_ASSIGN_OR_RETURN(reduced, ops->ReduceTensors({strategy_, options, "all_reduce"}, op_,
                                                         {std::move(reduced)}, nullptr));
      TUTTI_ASSIGN_OR_RETURN(reduced, AllReduceOnDevices(op_, reduced, devices, wait));
    } else {
      TUTTI_ASSIGN_OR_RETURN(reduced, AllReduceOnDevices(op_, tensors[i], devices, wait,
                                                         &strategy_.nccl_folds()));
    }
    // What a replica gets it may write: neither another's nor what went in.
    for (size_t r = 0; r < reduced.size(); ++r) {
      bool shared = false;
      for (const Ref<Tensor>& input : tensors[i]) shared |= input.get() == reduced[r].get();
      for (size_t other = 0; other < r; ++other) shared |= reduced[other].get() == reduced[r].get();
      if (!shared) continue;
      TensorOptions memory;
      memory.device = reduced[r]->device();
      memory.account = &strategy_.environment().memory();
      TUTTI_ASSIGN_OR_RETURN(reduced[r], reduced[r]->Copy(memory));
    }
    results.push_back(std::move(reduced));
  }
  for (size_t r = 0; r < parts.size(); ++r) {
    auto& outputs = static_cast<DeviceAllReduce*>(parts[r])->outputs_;
    for (size_t i = 0; i < count; ++i) outputs.push_back(std::move(results[i][r]));
  }
  return OkStatus();
}

}  // namespace tutti
