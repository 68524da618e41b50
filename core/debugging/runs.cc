#include "core/debugging/runs.h"

#include <algorithm>

namespace tutti {

Runs::Runs(const Shape& shape, std::initializer_list<const Tensor*> operands)
    : num_elements_(shape.num_elements()), num_operands_(operands.size()) {
  std::copy(operands.begin(), operands.end(), operands_.begin());
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape.dim(axis) == 1) continue;
    Axis next;
    next.size = shape.dim(axis);
    for (size_t i = 0; i < num_operands_; ++i) {
      const Tensor& tensor = *operands_[i];
      const size_t missing = shape.rank() - tensor.rank();
      if (axis >= missing && tensor.dim(axis - missing) != 1) {
        next.step[i] = tensor.strides()[axis - missing];
      }
    }
    bool joins = !axes_.empty();
    for (size_t i = 0; joins && i < num_operands_; ++i) {
      joins = axes_.back().step[i] == next.step[i] * next.size;
    }
    if (joins) {
      next.size *= axes_.back().size;
      axes_.back() = next;
    } else {
      axes_.push_back(next);
    }
  }
  if (axes_.empty()) axes_.push_back(Axis());
}

std::array<const void*, kMaxRunOperands> Runs::Place(const std::vector<int64_t>& index) const {
  std::array<const void*, kMaxRunOperands> at{};
  for (size_t i = 0; i < num_operands_; ++i) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < axes_.size(); ++axis) offset += index[axis] * axes_[axis].step[i];
    at[i] = static_cast<const char*>(operands_[i]->data()) +
            offset * static_cast<int64_t>(operands_[i]->item_size());
  }
  return at;
}

const void* Runs::ElementAt(size_t i, int64_t position) const {
  std::vector<int64_t> index(axes_.size(), 0);
  for (size_t axis = axes_.size(); axis-- > 0;) {
    index[axis] = position % axes_[axis].size;
    position /= axes_[axis].size;
  }
  return Place(index)[i];
}

}  // namespace tutti
