// Arithmetic of known and partly known shapes.
#include "core/tensor/shape.h"

#include <algorithm>
#include <cassert>

#include "core/base/error.h"

namespace tutti {

Dims::Dims(const int64_t* values, size_t size) : size_(size) {
  if (size > kInline) heap_ = new int64_t[size];
  std::copy_n(values, size, data());
}

Dims::Dims(size_t size, int64_t value) : size_(size) {
  if (size > kInline) heap_ = new int64_t[size];
  std::fill_n(data(), size, value);
}

Dims& Dims::operator=(const Dims& other) {
  if (this != &other) *this = Dims(other);
  return *this;
}

Dims& Dims::operator=(Dims&& other) noexcept {
  if (this == &other) return *this;
  if (size_ > kInline) delete[] heap_;
  Take(other);
  return *this;
}

void Dims::Take(Dims& other) {
  size_ = other.size_;
  if (size_ > kInline) {
    heap_ = other.heap_;
    other.size_ = 0;
  } else {
    std::copy_n(other.inline_, size_, inline_);
  }
}

bool operator==(const Dims& a, const Dims& b) {
  return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
}

std::string DimsToString(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    text += dims[i] < 0 ? "?" : std::to_string(dims[i]);
  }
  return text + "]";
}

Shape::Shape(const int64_t* dims, size_t rank) : dims_(dims, rank) {
  for (int64_t dim : dims_) {
    assert(dim >= 0);
    num_elements_ *= dim;
  }
}

Result<Shape> Shape::Create(const int64_t* dims, size_t rank) {
  if (rank > kMaxRank) {
    return InvalidArgument("shape: {} dimensions, but at most {} are possible", rank, kMaxRank);
  }
  // Sizes of 0 are left out, so that the strides of an empty shape fit into int64, too.
  int64_t elements = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (dims[axis] < 0) {
      return InvalidArgument("shape: dimension {} is {}; a size is 0 or more", axis, dims[axis])
          .With("axis", axis);
    }
    if (__builtin_mul_overflow(elements, std::max<int64_t>(dims[axis], 1), &elements)) {
      return InvalidArgument("shape: {} has more elements than 64 bits can count",
                             DimsToString({dims, rank}));
    }
  }
  return Shape(dims, rank);
}

Shape Shape::WithDim(size_t axis, int64_t size) const {
  Dims dims = dims_;
  dims[axis] = size;
  return Shape(dims.span());
}

Shape Shape::WithoutAxis(size_t axis) const {
  Dims dims(rank() - 1, 0);
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = dims_[i < axis ? i : i + 1];
  return Shape(dims.span());
}

Shape Shape::Prepend(int64_t size) const {
  Dims dims(rank() + 1, size);
  std::copy(dims_.begin(), dims_.end(), dims.data() + 1);
  return Shape(dims.span());
}

Dims Shape::RowMajorStrides() const {
  Dims strides(rank(), 1);
  for (size_t axis = rank(); axis > 1; --axis) {
    strides[axis - 2] = strides[axis - 1] * std::max<int64_t>(dims_[axis - 1], 1);
  }
  return strides;
}

std::string Shape::ToString() const { return DimsToString(dims()); }

Result<PartialShape> PartialShape::Create(const int64_t* dims, size_t rank) {
  if (rank > Shape::kMaxRank) {
    return InvalidArgument("shape: {} dimensions, but at most {} are possible", rank,
                           Shape::kMaxRank);
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    if (dims[axis] < kUnknownDim) {
      return InvalidArgument("shape: dimension {} is {}; a size is 0 or more, or -1 for unknown",
                             axis, dims[axis])
          .With("axis", axis);
    }
  }
  return PartialShape(std::span<const int64_t>(dims, rank));
}

bool PartialShape::IsFullyKnown() const {
  return has_rank_ && std::all_of(dims_.begin(), dims_.end(), [](int64_t dim) { return dim >= 0; });
}

Result<Shape> PartialShape::ToShape() const {
  if (!IsFullyKnown()) return FailedPrecondition("shape {} is not fully known", ToString());
  return Shape::Create(dims_.data(), dims_.size());
}

bool PartialShape::IsCompatibleWith(const PartialShape& other) const {
  if (!has_rank_ || !other.has_rank_) return true;
  if (rank() != other.rank()) return false;
  for (size_t axis = 0; axis < rank(); ++axis) {
    if (dims_[axis] >= 0 && other.dims_[axis] >= 0 && dims_[axis] != other.dims_[axis]) {
      return false;
    }
  }
  return true;
}

bool PartialShape::IsMoreGeneralThan(const PartialShape& other) const {
  if (!has_rank_) return true;
  if (!other.has_rank_ || rank() != other.rank()) return false;
  for (size_t axis = 0; axis < rank(); ++axis) {
    if (dims_[axis] >= 0 && dims_[axis] != other.dims_[axis]) return false;
  }
  return true;
}

Result<PartialShape> PartialShape::MergeWith(const PartialShape& other) const {
  if (!IsCompatibleWith(other)) {
    return InvalidArgument("shapes {} and {} do not fit together", ToString(), other.ToString());
  }
  if (!has_rank_) return other;
  PartialShape merged = *this;
  if (!other.has_rank_) return merged;
  for (size_t axis = 0; axis < rank(); ++axis) {
    if (merged.dims_[axis] < 0) merged.dims_[axis] = other.dims_[axis];
  }
  return merged;
}

PartialShape PartialShape::Relax(const PartialShape& other) const {
  if (!has_rank_ || !other.has_rank_ || rank() != other.rank()) return PartialShape();
  PartialShape relaxed = *this;
  for (size_t axis = 0; axis < rank(); ++axis) {
    if (dims_[axis] != other.dims_[axis]) relaxed.dims_[axis] = kUnknownDim;
  }
  return relaxed;
}

PartialShape PartialShape::Prepend(int64_t size) const {
  if (!has_rank_) return *this;
  Dims dims(rank() + 1, size);
  std::copy(dims_.begin(), dims_.end(), dims.data() + 1);
  return PartialShape(dims.span());
}

PartialShape PartialShape::RowShape() const {
  if (!has_rank_) return *this;
  return PartialShape(dims().subspan(1));
}

PartialShape PartialShape::WithDim(size_t axis, int64_t size) const {
  PartialShape changed = *this;
  if (has_rank_) changed.dims_[axis] = size;
  return changed;
}

PartialShape PartialShape::Concatenate(const PartialShape& inner) const {
  if (!has_rank_ || !inner.has_rank_) return PartialShape();
  Dims dims(rank() + inner.rank(), 0);
  std::copy(dims_.begin(), dims_.end(), dims.data());
  std::copy(inner.dims_.begin(), inner.dims_.end(), dims.data() + rank());
  return PartialShape(dims.span());
}

std::string PartialShape::ToString() const {
  return has_rank_ ? DimsToString(dims()) : "<unknown>";
}

std::string TensorSpec::ToString() const {
  return std::string(DTypeName(dtype)) + shape.ToString();
}

}  // namespace tutti
