// Shapes of tensors, known and partly known, and the spec {dtype, shape} of a dataset's component.
//
//   Shape shape({3, 4});                   // float32[3,4]: rank 2, 12 elements
//   PartialShape batch({-1, 4});           // [?,4]: any number of rows
//   batch.IsCompatibleWith(shape)          // true
//   PartialShape()                         // unknown rank, printed as <unknown>
//
// All are values: copy freely. Up to 6 dimensions lie inside the object.
#ifndef TUTTI_CORE_TENSOR_SHAPE_H_
#define TUTTI_CORE_TENSOR_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/base/status.h"
#include "core/tensor/dtype.h"

namespace tutti {

// A short list of int64: the storage of dims and strides.
class Dims {
 public:
  static constexpr size_t kInline = 6;

  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(values.begin(), values.size()) {}
  Dims(const int64_t* values, size_t size);
  Dims(size_t size, int64_t value);
  Dims(const Dims& other) : Dims(other.data(), other.size_) {}
  Dims(Dims&& other) noexcept { Take(other); }
  Dims& operator=(const Dims& other);
  Dims& operator=(Dims&& other) noexcept;
  ~Dims() {
    if (size_ > kInline) delete[] heap_;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* data() const { return size_ > kInline ? heap_ : inline_; }
  int64_t* data() { return size_ > kInline ? heap_ : inline_; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t& operator[](size_t i) { return data()[i]; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  std::span<const int64_t> span() const { return {data(), size_}; }

  friend bool operator==(const Dims& a, const Dims& b);

 private:
  void Take(Dims& other);

  size_t size_ = 0;
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

// A fully known shape: no dim is negative and the number of elements fits into int64. The
// constructors demand that; Create checks it, for sizes that come from outside.
class Shape {
 public:
  static constexpr size_t kMaxRank = 64;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : Shape(dims.begin(), dims.size()) {}
  Shape(const int64_t* dims, size_t rank);
  explicit Shape(std::span<const int64_t> dims) : Shape(dims.data(), dims.size()) {}

  // INVALID_ARGUMENT for a negative dim, more than kMaxRank dims, or more elements than int64
  // counts.
  static Result<Shape> Create(const int64_t* dims, size_t rank);

  size_t rank() const { return dims_.size(); }
  bool is_scalar() const { return dims_.empty(); }
  int64_t dim(size_t axis) const { return dims_[axis]; }
  int64_t operator[](size_t axis) const { return dims_[axis]; }
  std::span<const int64_t> dims() const { return dims_.span(); }
  int64_t num_elements() const { return num_elements_; }

  // The shape with dim `axis` set to `size`, without its first dim (rank >= 1), without `axis`, and
  // with a new first dim.
  Shape WithDim(size_t axis, int64_t size) const;
  Shape RowShape() const { return Shape(dims_.data() + 1, rank() - 1); }
  Shape WithoutAxis(size_t axis) const;
  Shape Prepend(int64_t size) const;

  // Row-major strides, in elements.
  Dims RowMajorStrides() const;

  std::string ToString() const;  // "[3,4]", "[]"

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }

 private:
  Dims dims_;
  int64_t num_elements_ = 1;
};

// A shape of which the rank, or some dims (-1), may be unknown.
class PartialShape {
 public:
  static constexpr int64_t kUnknownDim = -1;

  PartialShape() = default;  // unknown rank
  PartialShape(std::initializer_list<int64_t> dims) : has_rank_(true), dims_(dims) {}
  explicit PartialShape(std::span<const int64_t> dims)
      : has_rank_(true), dims_(dims.data(), dims.size()) {}
  PartialShape(const Shape& shape)  // NOLINT: every shape is a partial shape
      : PartialShape(shape.dims()) {}

  static PartialShape Unknown() { return PartialShape(); }
  static PartialShape Scalar() { return PartialShape(Shape()); }
  // INVALID_ARGUMENT for a dim below -1 or more than Shape::kMaxRank dims.
  static Result<PartialShape> Create(const int64_t* dims, size_t rank);

  bool has_rank() const { return has_rank_; }
  size_t rank() const { return dims_.size(); }  // 0 when the rank is unknown
  int64_t dim(size_t axis) const { return dims_[axis]; }
  std::span<const int64_t> dims() const { return dims_.span(); }
  bool IsFullyKnown() const;
  // The shape, when it is fully known: FAILED_PRECONDITION otherwise.
  Result<Shape> ToShape() const;

  // Whether some shape fits both.
  bool IsCompatibleWith(const PartialShape& other) const;
  // Whether every shape that fits `other` fits this.
  bool IsMoreGeneralThan(const PartialShape& other) const;
  // What is known of a shape that fits both: INVALID_ARGUMENT when none does.
  Result<PartialShape> MergeWith(const PartialShape& other) const;
  // The most specific shape that both fit: dims that differ become unknown.
  PartialShape Relax(const PartialShape& other) const;

  // Of an unknown rank all of these are of unknown rank again.
  PartialShape Prepend(int64_t size) const;
  PartialShape RowShape() const;
  PartialShape WithDim(size_t axis, int64_t size) const;
  PartialShape Concatenate(const PartialShape& inner) const;

  std::string ToString() const;  // "[?,4]", "<unknown>"

  friend bool operator==(const PartialShape& a, const PartialShape& b) {
    return a.has_rank_ == b.has_rank_ && a.dims_ == b.dims_;
  }

 private:
  bool has_rank_ = false;
  Dims dims_;
};

struct TensorSpec {
  DType dtype = DType::kInvalid;
  PartialShape shape;

  bool Matches(DType other_dtype, const Shape& other_shape) const {
    return dtype == other_dtype && shape.IsCompatibleWith(other_shape);
  }
  bool IsCompatibleWith(const TensorSpec& other) const {
    return dtype == other.dtype && shape.IsCompatibleWith(other.shape);
  }
  std::string ToString() const;  // "float32[?,4]"

  friend bool operator==(const TensorSpec& a, const TensorSpec& b) = default;
};

// "[1,-1]" as people write it: "[1,?]".
std::string DimsToString(std::span<const int64_t> dims);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_SHAPE_H_
