#include "core/checkpoint/memory_tensors.h"

#include <utility>

#include "core/base/error.h"

namespace tutti {

Status MemoryTensors::PutTensor(std::string_view name, Ref<Tensor> tensor) {
  Held held;
  held.spec = tensor->spec();
  held.whole = std::move(tensor);
  if (held_.emplace(std::string(name), std::move(held)).second) return OkStatus();
  return AlreadyExists("saving: there are two tensors of the name {}; name objects differently",
                       Quote(name))
      .With("name", name);
}

Status MemoryTensors::PutSlice(std::string_view name, Ref<Tensor> part, const TensorSlice& slice) {
  Held& held = held_[std::string(name)];
  const TensorSpec spec{part->dtype(), slice.full_shape};
  if (held.whole != nullptr || (!held.parts.empty() && !(held.spec == spec))) {
    return InvalidArgument("saving: a part {} of {} does not fit the other parts, of {}",
                           part->spec().ToString(), Quote(name), held.spec.ToString())
        .With("name", name);
  }
  held.spec = spec;
  held.parts.emplace_back(slice.begin, std::move(part));
  return OkStatus();
}

Result<const MemoryTensors::Held*> MemoryTensors::Find(std::string_view name) const {
  const auto found = held_.find(name);
  if (found != held_.end()) return &found->second;
  return NotFound("restoring: there is no tensor {}", Quote(name)).With("name", name);
}

Result<TensorSpec> MemoryTensors::GetSpec(std::string_view name) {
  TUTTI_ASSIGN_OR_RETURN(const Held* held, Find(name));
  return held->spec;
}

Result<Ref<Tensor>> MemoryTensors::GetTensor(std::string_view name) {
  TUTTI_ASSIGN_OR_RETURN(const Held* held, Find(name));
  if (held->whole != nullptr) return held->whole;
  return FailedPrecondition("restoring: of the tensor {} there are parts only", Quote(name))
      .With("name", name);
}

Result<Ref<Tensor>> MemoryTensors::GetSlice(std::string_view name, const TensorSlice& slice,
                                            const Shape& size) {
  TUTTI_ASSIGN_OR_RETURN(const Held* held, Find(name));
  if (held->whole != nullptr) {
    return held->whole->SliceGeneral(slice.begin.span(), size.dims());
  }
  for (const auto& [begin, part] : held->parts) {
    if (begin == slice.begin && part->shape() == size) return part;
  }
  return NotFound("restoring: there is no such part of the tensor {}", Quote(name))
      .With("name", name);
}

void MemoryTensors::PutOpenShape(std::string_view name, const PartialShape& shape) {
  const auto found = held_.find(name);
  if (found != held_.end()) found->second.open_shape = shape;
}

std::vector<std::pair<std::string, TensorSpec>> MemoryTensors::specs() const {
  std::vector<std::pair<std::string, TensorSpec>> specs;
  for (const auto& [name, held] : held_) {
    TensorSpec spec = held.spec;
    if (held.open_shape.has_value()) spec.shape = *held.open_shape;
    specs.emplace_back(name, std::move(spec));
  }
  return specs;
}

}  // namespace tutti
