// What observers see of a collective: tensors as they lie in memory when the transport gets them.
//
// A rank that brings what the observer refuses does not take part, which ends the epoch: every rank
// fails with that rank's error. A result is the same on all ranks of a fold, so that all that look
// at it find the same. Where the transport looks into the fold itself (Transport::ChecksFold), that
// takes the place of both.
#include <string>
#include <utility>

#include "core/base/environment.h"
#include "core/base/placement_log.h"
#include "core/base/text.h"
#include "core/collective/call/observed_names.h"
#include "core/collective/communicator/call_scope.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

namespace {

bool IsFold(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}

Ref<Tensor> ViewOf(const TensorSignature& signature, const void* memory) {
  return Tensor::View(const_cast<void*>(memory), signature.dtype,
                      Shape(signature.dims.data(), signature.dims.size()), {}, true, nullptr);
}

// Shows it to the recorder, and to the checker where nobody else looks for it.
Status Show(const CollectiveCall& call, const TensorSighting& sighting, const Tensor& tensor) {
  if (!call.checks_fold) return ObserveTensor(sighting, tensor);
  RecordTensor(sighting, tensor);
  return OkStatus();
}

}  // namespace

void Communicator::CallScope::LogPlacementOf(const CollectiveCall& call) const {
  const std::string what =
      Format("rank {} of {}: {} #{}{}", self_->rank_, self_->group_name_,
             CollectiveOpName(call.header.op), call.sequence,
             call.header.num_tensors == 0
                 ? std::string()
                 : Format(" of {}", call.header.tensor(0).ToString()));
  LogPlacement(self_->environment().log(), what,
               placed_ ? placed_->device().ToString() : std::string("CPU:0"),
               Format("through {}, as its ranks reach each other{}", self_->transport_name(),
                      is_direct()   ? "; from GPU to GPU"
                      : is_on_gpu() ? "; by way of pinned memory of the host"
                                    : ""));
}

Status Communicator::CallScope::ObserveInputs(const CollectiveCall& call) const {
  const CollectiveOp op = call.header.op;
  const char* what = CollectiveOpName(op);
  if (op == CollectiveOp::kReceive) return OkStatus();
  // Only the root brings something.
  if ((op == CollectiveOp::kBroadcast || op == CollectiveOp::kScatter) &&
      call.header.root != self_->rank_) {
    return OkStatus();
  }
  for (size_t i = 0; i < call.on_gpu.size(); ++i) {
    if (call.on_gpu[i].input == nullptr) continue;
    const std::string name = NameObserved("the input", i, call.on_gpu.size());
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> seen, OnHost(*call.on_gpu[i].input));
    TUTTI_RETURN_IF_ERROR(ObserveTensor({.op = what, .name = name}, *seen));
  }
  if (call.gather_input != nullptr) {
    return ObserveTensor({.op = what, .name = "the input"}, *call.gather_input);
  }
  for (size_t i = 0; i < call.memory.size() && i < call.header.num_tensors; ++i) {
    if (call.memory[i].input == nullptr) continue;
    const std::string name = NameObserved("the input", i, call.memory.size());
    TUTTI_RETURN_IF_ERROR(Show(call, {.op = what, .name = name},
                               *ViewOf(call.header.tensor(i), call.memory[i].input)));
  }
  return OkStatus();
}

Status Communicator::CallScope::ObserveResults(const CollectiveCall& call) const {
  if (!IsFold(call.header.op)) return OkStatus();
  const char* what = CollectiveOpName(call.header.op);
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const bool on_gpu = i < call.on_gpu.size() && call.on_gpu[i].output != nullptr;
    Ref<Tensor> seen;
    if (on_gpu) {
      TUTTI_ASSIGN_OR_RETURN(seen, OnHost(*call.on_gpu[i].output));
    } else if (i < call.memory.size() && call.memory[i].output != nullptr) {
      TensorSignature signature = call.header.tensor(i);
      if (call.header.op == CollectiveOp::kReduceScatter) signature.dims[0] /= self_->size_;
      seen = ViewOf(signature, call.memory[i].output);
    } else {
      continue;
    }
    const std::string name = NameObserved("the result", i, call.header.num_tensors);
    const TensorSighting sighting{.op = what, .name = name};
    Status status = on_gpu ? ObserveTensor(sighting, *seen) : Show(call, sighting, *seen);
    if (status.ok()) continue;
    const CallLabel label{sequence_, self_->epoch_, &self_->group_name_};
    status = std::move(status).WithPrefix(
        Format("{} #{} of finite inputs, as far as they were looked at", what, sequence_));
    return self_->transport_->Fail(
        WithCallDetails(std::move(status), self_->rank_, call.header.op, label));
  }
  return OkStatus();
}

}  // namespace tutti
