// Writes of variables of which copies, or what is written, lie on GPUs: prepared for all copies,
// with all the memory that they take, before the first one changes.
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/device/gpu_memory.h"
#include "core/strategy/device_values.h"
#include "core/strategy/variable.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

Status Variable::WriteOnDevices(Write write, std::span<const Ref<Tensor>> tensors, size_t first,
                                size_t last, bool shows_assigns) {
  const InPlace kind = write == Write::kAssign ? InPlace::kAssign
                       : write == Write::kAdd  ? InPlace::kAdd
                                               : InPlace::kSub;
  std::vector<Ref<Tensor>> operands;
  for (const Ref<Tensor>& tensor : tensors) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> operand, Detached(*tensor));
    operands.push_back(std::move(operand));
  }
  std::vector<std::unique_lock<std::mutex>> locks;
  for (size_t i = first; i < last; ++i) locks.emplace_back(copies_[i]->mutex);
  std::vector<PreparedWrite> prepared;
  std::vector<Ref<Tensor>> made;  // where it moves
  for (size_t i = first; i < last; ++i) {
    const Copy& copy = *copies_[i];
    const Tensor& operand = *operands[operands.size() == 1 ? 0 : i - first];
    if (moves()) {
      if (write != Write::kAssign && operand.shape() != copy.storage->shape()) {
        return InvalidArgument("{}: variable '{}' holds a value of shape {}, the tensor has {}; it "
                               "can be assigned another shape, not added one",
                               WriteName(write), name(), copy.storage->shape().ToString(),
                               operand.shape().ToString());
      }
      TUTTI_ASSIGN_OR_RETURN(
          Ref<Tensor> memory,
          NewMemory(copy, write == Write::kAssign ? operand : *copy.storage));
      if (write != Write::kAssign) {
        TUTTI_ASSIGN_OR_RETURN(
            const PreparedWrite change,
            PreparedWrite::Make(kind, *memory, operand, copy.gpu.get()));
        TUTTI_RETURN_IF_ERROR(change.Commit(memory.get()));
      }
      made.push_back(std::move(memory));
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(PreparedWrite change, PreparedWrite::Make(kind, *copy.storage, operand,
                                                                     copy.gpu.get()));
    prepared.push_back(std::move(change));
  }
  for (size_t i = first; i < last; ++i) {
    Copy& copy = *copies_[i];
    if (moves()) {
      copy.view = ReadOnly(made[i - first]);
      copy.storage = std::move(made[i - first]);
    } else {
      TUTTI_RETURN_IF_ERROR(prepared[i - first].Commit(copy.storage.get()));
    }
  }
  const bool observed = TensorsAreObserved() && dtype_ != DType::kBytes;
  const bool shown = shows_assigns || moves() || write != Write::kAssign;
  return observed && shown ? ObserveCopy(write, first) : OkStatus();
}

Status Variable::ScatterOnDevices(ScatterOp op, std::span<const IndexedSlices> slices,
                                  size_t first, size_t last) {
  std::vector<std::unique_lock<std::mutex>> locks;
  for (size_t i = first; i < last; ++i) locks.emplace_back(copies_[i]->mutex);
  const std::string what = Format("{} of variable '{}'", ScatterOpName(op), name());
  std::vector<Ref<Tensor>> made;
  for (size_t i = first; i < last; ++i) {
    const Copy& copy = *copies_[i];
    // Its shape may be another one by now.
    const Shape& shape = copy.storage->shape();
    for (const IndexedSlices& part : slices) {
      TUTTI_RETURN_IF_ERROR(CheckScatter(op, dtype_, shape, part, what));
    }
    // There is no kernel that changes rows: they are changed on the host.
    Ref<Tensor> value;
    if (copy.gpu) {
      TUTTI_ASSIGN_OR_RETURN(value, OnHost(*copy.storage));
    } else {
      TUTTI_ASSIGN_OR_RETURN(value, NewMemory(copy, *copy.storage));
    }
    for (const IndexedSlices& part : slices) ScatterRows(op, part, 0, shape.dim(0), value.get());
    if (copy.gpu) {
      TUTTI_ASSIGN_OR_RETURN(value, NewMemory(copy, *value));
    }
    made.push_back(std::move(value));
  }
  for (size_t i = first; i < last; ++i) {
    Copy& copy = *copies_[i];
    if (moves()) {
      copy.view = ReadOnly(made[i - first]);
      copy.storage = std::move(made[i - first]);
    } else {
      TUTTI_RETURN_IF_ERROR(CopyAnywhere(*made[i - first], copy.storage.get()));
    }
  }
  return OkStatus();
}

}  // namespace tutti
