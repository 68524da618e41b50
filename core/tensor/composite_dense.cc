// The dense tensor that a sparse or ragged one stands for: filled first, then each value, or each
// row of values, is put in its place.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/composite_parts.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

// Memory for the elements of a dense tensor, of byte strings for their views, with the filler in
// it.
class DenseElements {
 public:
  Status Make(DType dtype, const Shape& shape, const Tensor* filler, const TensorOptions& options) {
    shape_ = shape;
    account_ = options.account;
    item_size_ = ItemSize(dtype);
    if (dtype == DType::kBytes) {
      views_.resize(static_cast<size_t>(shape.num_elements()),
                    filler ? filler->item<BytesView>() : BytesView{});
      place_ = reinterpret_cast<char*>(views_.data());
      return OkStatus();
    }
    TensorOptions zeroed = options;
    zeroed.zeroed = filler == nullptr;
    TUTTI_ASSIGN_OR_RETURN(tensor_, Tensor::Create(dtype, shape, zeroed));
    place_ = static_cast<char*>(tensor_->mutable_data());
    if (filler) FillElements(item_size_, filler->data(), place_, shape.num_elements());
    return OkStatus();
  }
  // Element `from` and `count` behind it of a contiguous tensor, from element `to` on.
  void Put(const Tensor& source, int64_t from, int64_t to, int64_t count) {
    if (count == 0) return;
    std::memcpy(place_ + static_cast<size_t>(to) * item_size_,
                static_cast<const char*>(source.data()) + static_cast<size_t>(from) * item_size_,
                static_cast<size_t>(count) * item_size_);
  }
  Result<Ref<Tensor>> Take() {
    if (!tensor_) return Tensor::FromStrings(shape_, views_, account_);
    return std::move(tensor_);
  }

 private:
  Shape shape_;
  size_t item_size_ = 1;
  MemoryAccount* account_ = nullptr;
  std::vector<BytesView> views_;
  Ref<Tensor> tensor_;
  char* place_ = nullptr;
};

Status CheckFiller(const Tensor* filler, DType dtype) {
  if (filler == nullptr || (filler->rank() == 0 && filler->dtype() == dtype)) return OkStatus();
  return InvalidArgument("to dense: the default value is {}, and must be a scalar of the values' "
                         "dtype, {}",
                         filler->SpecString(), DTypeName(dtype));
}

Result<Ref<Tensor>> SparseToDense(const Value& value, const Tensor* filler,
                                  const TensorOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const SparseParts parts, ReadSparse(value));
  TUTTI_RETURN_IF_ERROR(CheckFiller(filler, parts.values->dtype()));
  const std::span<const int64_t> sizes = parts.dense_shape->span<int64_t>();
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(sizes.data(), sizes.size()));
  DenseElements dense;
  TUTTI_RETURN_IF_ERROR(dense.Make(parts.values->dtype(), shape, filler, options));
  const Dims strides = shape.RowMajorStrides();
  const std::span<const int64_t> indices = parts.indices->span<int64_t>();
  std::vector<int64_t> taken;
  for (int64_t i = 0; i < parts.count(); ++i) {
    const auto index = indices.subspan(static_cast<size_t>(i) * parts.rank(), parts.rank());
    const int64_t place =
        std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
    dense.Put(*parts.values, i, place, 1);
    taken.push_back(place);
  }
  std::ranges::sort(taken);
  const auto twice = std::ranges::adjacent_find(taken);
  if (twice != taken.end()) {
    std::vector<int64_t> index;
    int64_t rest = *twice;
    for (const int64_t stride : strides.span()) {
      index.push_back(stride == 0 ? 0 : rest / stride);
      rest = stride == 0 ? rest : rest % stride;
    }
    return InvalidArgument("sparse tensor: the index {} comes twice", DimsToString(index));
  }
  return dense.Take();
}

// Places the rows of one level and of those below it.
class RaggedPlacer {
 public:
  RaggedPlacer(const RaggedParts& parts, const Shape& shape, DenseElements* dense)
      : parts_(parts), strides_(shape.RowMajorStrides()), dense_(dense) {}

  // Rows [begin, end) of `level`, the first at element `place`.
  void Place(size_t level, int64_t begin, int64_t end, int64_t place) {
    if (level == parts_.splits.size()) {
      const int64_t each = strides_[level];
      dense_->Put(*parts_.flat, begin * each, place, (end - begin) * each);
      return;
    }
    const std::vector<int64_t>& splits = parts_.splits[level];
    for (int64_t row = begin; row < end; ++row, place += strides_[level]) {
      Place(level + 1, splits[static_cast<size_t>(row)], splits[static_cast<size_t>(row) + 1],
            place);
    }
  }

 private:
  const RaggedParts& parts_;
  const Dims strides_;
  DenseElements* const dense_;
};

Result<Ref<Tensor>> RaggedToDense(const Value& value, const Tensor* filler,
                                  const TensorOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const RaggedParts parts, ReadRagged(value));
  TUTTI_RETURN_IF_ERROR(CheckFiller(filler, parts.flat->dtype()));
  std::vector<int64_t> dims = {static_cast<int64_t>(parts.splits[0].size()) - 1};
  for (const std::vector<int64_t>& splits : parts.splits) {
    int64_t longest = 0;
    for (size_t i = 1; i < splits.size(); ++i) {
      longest = std::max(longest, splits[i] - splits[i - 1]);
    }
    dims.push_back(longest);
  }
  const std::span<const int64_t> own = parts.flat->shape().dims().subspan(1);
  dims.insert(dims.end(), own.begin(), own.end());
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  DenseElements dense;
  TUTTI_RETURN_IF_ERROR(dense.Make(parts.flat->dtype(), shape, filler, options));
  RaggedPlacer(parts, shape, &dense).Place(0, 0, dims[0], 0);
  return dense.Take();
}

}  // namespace

Result<Ref<Tensor>> CompositeToDense(const Value& value, const Tensor* filler,
                                     const TensorOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckComposite(value));
  return CompositeOf(value.spec()) == Composite::kSparse ? SparseToDense(value, filler, options)
                                                         : RaggedToDense(value, filler, options);
}

}  // namespace tutti
