#include "core/checkpoint/held_tensor.h"

#include <utility>

#include "core/base/error.h"
#include "core/tensor/copy.h"

namespace tutti {

Result<Ref<HeldTensor>> HeldTensor::Create(Ref<Tensor> tensor) {
  if (tensor->read_only() || tensor->dtype() == DType::kBytes) {
    return InvalidArgument(
        "checkpoint: a restore could not write into the tensor {} ({}); take a tensor of numbers "
        "that is not shared",
        tensor->spec().ToString(), tensor->read_only() ? "it is read-only" : "byte strings");
  }
  return MakeRef<HeldTensor>(std::move(tensor));
}

Status HeldTensor::Save(std::string_view prefix, SaveSink* sink) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy, tensor_->Copy());
  return sink->PutTensor(prefix, std::move(copy));
}

Status HeldTensor::Restore(std::string_view prefix, RestoreSource* source) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> value, source->GetTensor(prefix));
  return CopyInto(*value, tensor_.get());
}

}  // namespace tutti
