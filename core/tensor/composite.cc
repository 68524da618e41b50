// What is common to both kinds, and the sparse and the ragged form of each function.
#include "core/tensor/composite.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/concat.h"
#include "core/tensor/copy.h"
#include "core/tensor/gather.h"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 3> kSparseFields = {"indices", "values", "dense_shape"};
constexpr std::array<std::string_view, 2> kRaggedFields = {"values", "row_splits"};

std::vector<std::string> Texts(std::span<const std::string_view> views) {
  return {views.begin(), views.end()};
}

Ref<const TreeSpec> LeafTree() { return Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()); }

bool IsOneOf(const TreeSpec& node, Composite kind) { return CompositeOf(node) == kind; }

// ---- the parts of a value

struct SparseParts {
  Ref<Tensor> indices, values, dense_shape;
  int64_t count() const { return indices->dim(0); }
  size_t rank() const { return static_cast<size_t>(indices->dim(1)); }
};

// One level of a ragged tensor from the outside.
struct RaggedParts {
  std::vector<std::vector<int64_t>> splits;
  Ref<Tensor> flat;
  DType splits_dtype = DType::kInt64;
};

Result<Ref<Tensor>> TensorPart(const Leaf& leaf, std::string_view who, std::string_view part) {
  if (leaf.is_tensor()) return leaf.tensor().Contiguous();
  return InvalidArgument("{}: {} must be a tensor, and is {}", who, part,
                         LeafSpec::Of(leaf).ToString());
}

Status CheckSparseParts(const SparseParts& parts) {
  const Tensor& indices = *parts.indices;
  const Tensor& values = *parts.values;
  const Tensor& dense_shape = *parts.dense_shape;
  if (indices.dtype() != DType::kInt64 || indices.rank() != 2) {
    return InvalidArgument("sparse tensor: indices must be int64 of shape [values, axes], and are "
                           "{}",
                           indices.SpecString());
  }
  if (values.rank() != 1 || values.dim(0) != indices.dim(0)) {
    return InvalidArgument("sparse tensor: values must be a vector of as many as there are "
                           "indices, {}, and are {}",
                           indices.dim(0), values.SpecString());
  }
  if (dense_shape.dtype() != DType::kInt64 || dense_shape.rank() != 1 ||
      dense_shape.dim(0) != indices.dim(1)) {
    return InvalidArgument("sparse tensor: dense_shape must be int64 of shape [{}], a size for "
                           "each axis of the indices, and is {}",
                           indices.dim(1), dense_shape.SpecString());
  }
  const std::span<const int64_t> sizes = dense_shape.span<int64_t>();
  if (sizes.size() > Shape::kMaxRank) {
    return InvalidArgument("sparse tensor: dense_shape has {} axes, and {} is the most",
                           sizes.size(), Shape::kMaxRank);
  }
  for (const int64_t size : sizes) {
    if (size < 0) {
      return InvalidArgument("sparse tensor: dense_shape must be sizes of 0 or more, and is {}",
                             DimsToString(sizes));
    }
  }
  const std::span<const int64_t> places = indices.span<int64_t>();
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t axis = i % sizes.size();
    if (places[i] >= 0 && places[i] < sizes[axis]) continue;
    return InvalidArgument("sparse tensor: index {} is {}, outside dense_shape {}",
                           i / sizes.size(),
                           DimsToString(places.subspan(i - axis, sizes.size())),
                           DimsToString(sizes));
  }
  return OkStatus();
}

Result<SparseParts> ReadSparse(const Value& value) {
  SparseParts parts;
  TUTTI_ASSIGN_OR_RETURN(parts.indices, TensorPart(value.leaf(0), "sparse tensor", "indices"));
  TUTTI_ASSIGN_OR_RETURN(parts.values, TensorPart(value.leaf(1), "sparse tensor", "values"));
  TUTTI_ASSIGN_OR_RETURN(parts.dense_shape,
                         TensorPart(value.leaf(2), "sparse tensor", "dense_shape"));
  TUTTI_RETURN_IF_ERROR(CheckSparseParts(parts));
  return parts;
}

// The row_splits as int64, checked but for their end.
Result<std::vector<int64_t>> ReadSplits(const Tensor& splits) {
  const bool fits = (splits.dtype() == DType::kInt64 || splits.dtype() == DType::kInt32) &&
                    splits.rank() == 1 && splits.dim(0) > 0;
  if (!fits) {
    return InvalidArgument("ragged tensor: row_splits must be int64 or int32 of shape [rows + 1], "
                           "and are {}",
                           splits.SpecString());
  }
  std::vector<int64_t> read;
  if (splits.dtype() == DType::kInt64) {
    const std::span<const int64_t> items = splits.span<int64_t>();
    read.assign(items.begin(), items.end());
  } else {
    const std::span<const int32_t> items = splits.span<int32_t>();
    read.assign(items.begin(), items.end());
  }
  if (read.front() != 0) {
    return InvalidArgument("ragged tensor: row_splits must begin with 0, and are {}",
                           splits.ContentsToString());
  }
  const auto falls = std::ranges::is_sorted_until(read);
  if (falls != read.end()) {
    return InvalidArgument("ragged tensor: row_splits must not become smaller, and are {} at {} "
                           "behind {}",
                           *falls, falls - read.begin(), *(falls - 1));
  }
  return read;
}

Result<Ref<Tensor>> SplitsOf(std::span<const int64_t> splits, DType dtype) {
  const Shape shape({static_cast<int64_t>(splits.size())});
  if (dtype == DType::kInt64) return Tensor::FromSpan<int64_t>(shape, splits);
  if (splits.back() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("ragged tensor: {} values are more than row_splits of int32 count; "
                           "make them int64",
                           splits.back());
  }
  const std::vector<int32_t> narrow(splits.begin(), splits.end());
  return Tensor::FromSpan<int32_t>(shape, narrow);
}

Result<RaggedParts> ReadRagged(const Value& value) {
  RaggedParts parts;
  const auto levels = static_cast<size_t>(RaggedRankOf(value.spec()));
  TUTTI_ASSIGN_OR_RETURN(parts.flat, TensorPart(value.leaf(0), "ragged tensor", "values"));
  if (parts.flat->rank() == 0) {
    return InvalidArgument("ragged tensor: values must be of rank 1 or more, and are {}",
                           parts.flat->SpecString());
  }
  for (size_t level = 0; level < levels; ++level) {
    // The outermost come last.
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> splits,
                           TensorPart(value.leaf(levels - level), "ragged tensor", "row_splits"));
    TUTTI_ASSIGN_OR_RETURN(std::vector<int64_t> read, ReadSplits(*splits));
    if (level > 0 && splits->dtype() != parts.splits_dtype) {
      return InvalidArgument("ragged tensor: all row_splits must have one dtype, and are {} and {}",
                             DTypeName(parts.splits_dtype), DTypeName(splits->dtype()));
    }
    parts.splits_dtype = splits->dtype();
    parts.splits.push_back(std::move(read));
  }
  for (size_t level = 0; level < levels; ++level) {
    const int64_t values = level + 1 < levels
                               ? static_cast<int64_t>(parts.splits[level + 1].size()) - 1
                               : parts.flat->dim(0);
    if (parts.splits[level].back() == values) continue;
    return InvalidArgument("ragged tensor: row_splits must end with the number of values, {}, and "
                           "end with {}",
                           values, parts.splits[level].back());
  }
  return parts;
}

Result<Ref<Value>> NamedComposite(Composite kind, std::span<const Ref<Value>> children) {
  if (kind == Composite::kSparse) {
    return Value::NamedTuple(std::string(kSparseTypeName), Texts(kSparseFields), children);
  }
  return Value::NamedTuple(std::string(kRaggedTypeName), Texts(kRaggedFields), children);
}

Result<Ref<Value>> ValueOfParts(SparseParts parts) {
  return NamedComposite(Composite::kSparse,
                        std::vector<Ref<Value>>{Value::OfTensor(std::move(parts.indices)),
                                                Value::OfTensor(std::move(parts.values)),
                                                Value::OfTensor(std::move(parts.dense_shape))});
}

// The flat values alone where nothing is ragged.
Result<Ref<Value>> ValueOfParts(const RaggedParts& parts) {
  Ref<Value> value = Value::OfTensor(parts.flat);
  for (size_t level = parts.splits.size(); level-- > 0;) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> splits, SplitsOf(parts.splits[level], parts.splits_dtype));
    TUTTI_ASSIGN_OR_RETURN(value, NamedComposite(Composite::kRagged,
                                                 std::vector<Ref<Value>>{
                                                     value, Value::OfTensor(std::move(splits))}));
  }
  return value;
}

// Rows [begin, end), and what of the deeper levels is theirs.
RaggedParts SliceOf(const RaggedParts& parts, int64_t begin, int64_t end) {
  RaggedParts slice;
  slice.splits_dtype = parts.splits_dtype;
  for (const std::vector<int64_t>& splits : parts.splits) {
    std::vector<int64_t> own(splits.begin() + begin, splits.begin() + end + 1);
    begin = own.front();
    end = own.back();
    for (int64_t& split : own) split -= begin;
    slice.splits.push_back(std::move(own));
  }
  slice.flat = parts.flat->Slice(begin, end);
  return slice;
}

// ---- stacking

Result<Ref<Value>> StackSparse(std::span<const Ref<Value>> rows) {
  std::vector<SparseParts> all;
  int64_t count = 0;
  std::vector<int64_t> sizes;
  std::vector<const Tensor*> values;
  for (const Ref<Value>& row : rows) {
    TUTTI_ASSIGN_OR_RETURN(SparseParts parts, ReadSparse(*row));
    all.push_back(std::move(parts));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const std::span<const int64_t> own = all[i].dense_shape->span<int64_t>();
    if (i == 0) sizes.assign(own.begin(), own.end());
    if (own.size() != sizes.size() || all[i].values->dtype() != all[0].values->dtype()) {
      return InvalidArgument(
          "element {} is a sparse tensor of {} with dense_shape {}, element 0 of {} with {}; only "
          "sparse tensors of one dtype and number of axes can be stacked",
          i, DTypeName(all[i].values->dtype()), DimsToString(own),
          DTypeName(all[0].values->dtype()), DimsToString(all[0].dense_shape->span<int64_t>()));
    }
    std::ranges::transform(own, sizes, sizes.begin(),
                           [](int64_t a, int64_t b) { return std::max(a, b); });
    count += all[i].count();
    values.push_back(all[i].values.get());
  }
  sizes.insert(sizes.begin(), static_cast<int64_t>(rows.size()));
  const auto rank = static_cast<int64_t>(sizes.size());
  SparseParts stacked;
  TUTTI_ASSIGN_OR_RETURN(stacked.indices,
                         Tensor::Create(DType::kInt64, Shape({count, rank}), TensorOptions()));
  int64_t* place = static_cast<int64_t*>(stacked.indices->mutable_data());
  for (size_t row = 0; row < all.size(); ++row) {
    const int64_t* own = static_cast<const int64_t*>(all[row].indices->data());
    for (int64_t i = 0; i < all[row].count(); ++i, own += rank - 1) {
      *place++ = static_cast<int64_t>(row);
      place = std::copy(own, own + rank - 1, place);
    }
  }
  TUTTI_ASSIGN_OR_RETURN(stacked.values, Concat(values, 0));
  TUTTI_ASSIGN_OR_RETURN(stacked.dense_shape, Tensor::FromSpan<int64_t>(Shape({rank}), sizes));
  return ValueOfParts(std::move(stacked));
}

Result<Ref<Value>> StackRagged(std::span<const Ref<Value>> rows) {
  RaggedParts stacked;
  std::vector<Ref<Tensor>> flats;
  std::vector<const Tensor*> pointers;
  stacked.splits.push_back({0});
  for (const Ref<Value>& row : rows) {
    TUTTI_ASSIGN_OR_RETURN(const RaggedParts parts, ReadRagged(*row));
    if (flats.empty()) {
      stacked.splits_dtype = parts.splits_dtype;
      stacked.splits.resize(1 + parts.splits.size(), {0});
    }
    const auto own_rows = static_cast<int64_t>(parts.splits[0].size()) - 1;
    stacked.splits[0].push_back(stacked.splits[0].back() + own_rows);
    for (size_t level = 0; level < parts.splits.size(); ++level) {
      std::vector<int64_t>& splits = stacked.splits[level + 1];
      const int64_t before = splits.back();
      for (size_t i = 1; i < parts.splits[level].size(); ++i) {
        splits.push_back(before + parts.splits[level][i]);
      }
    }
    flats.push_back(parts.flat);
    pointers.push_back(flats.back().get());
  }
  TUTTI_ASSIGN_OR_RETURN(stacked.flat, Concat(pointers, 0));
  return ValueOfParts(stacked);
}

// ---- rows

Ref<const TreeSpec> RowTree(const TreeSpec& composite) {
  if (IsOneOf(composite, Composite::kSparse)) return SparseTree();
  return RaggedTree(RaggedRankOf(composite) - 1);
}

// The rows of each tensor and composite of the structure at a node, one column after the other, and
// the structure of a row.
Result<Ref<const TreeSpec>> AppendRows(const Value& whole, const TreeSpec& node, size_t first_leaf,
                                       std::string_view what,
                                       std::vector<std::vector<Ref<Value>>>* columns) {
  const bool composite = CompositeOf(node) != Composite::kNone;
  if (!node.is_leaf() && !composite) {
    TreeSpec::Children children;
    for (size_t i = 0; i < node.num_children(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(
          Ref<const TreeSpec> child,
          AppendRows(whole, node.child(i), first_leaf + node.first_leaf(i), what, columns));
      children.push_back(std::move(child));
    }
    return WithChildren(node, std::move(children));
  }
  const std::string place = PathToString(whole.spec().LeafPath(first_leaf));
  std::vector<Ref<Value>> rows;
  Ref<const TreeSpec> tree = LeafTree();
  if (composite) {
    Result<std::vector<Ref<Value>>> own = RowsOfComposite(*whole.Part({&node, first_leaf}));
    if (!own.ok()) return own.status().WithPrefix(Format("{}: component{}", what, place));
    rows = std::move(own).value();
    tree = RowTree(node);
  } else {
    const Leaf& leaf = whole.leaf(first_leaf);
    if (!leaf.is_tensor() || leaf.tensor().rank() == 0) {
      return InvalidArgument("{}: expected tensors of rank 1 or more, but component{} is {}", what,
                             place, LeafSpec::Of(leaf).ToString());
    }
    for (int64_t i = 0; i < leaf.tensor().dim(0); ++i) {
      rows.push_back(Value::OfTensor(leaf.tensor().Row(i)));
    }
  }
  if (!columns->empty() && rows.size() != (*columns)[0].size()) {
    return InvalidArgument("{}: all components must have the same size along axis 0, but "
                           "component{} has {} and component 0 has {}",
                           what, place, rows.size(), (*columns)[0].size());
  }
  columns->push_back(std::move(rows));
  return tree;
}

// ---- dense

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
    for (size_t i = 1; i < splits.size(); ++i) longest = std::max(longest, splits[i] - splits[i - 1]);
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

// ---- specs

bool IsTensorOf(const LeafSpec& leaf, DType dtype, size_t rank) {
  return leaf.is_tensor() && leaf.dtype == dtype &&
         (!leaf.shape.has_rank() || leaf.shape.rank() == rank);
}

Status NotOfComposite(const TreeSpec& node, std::span<const LeafSpec> leaves) {
  std::string text;
  for (const LeafSpec& leaf : leaves) text += (text.empty() ? "" : ", ") + leaf.ToString();
  return InvalidArgument("spec: these are not the parts of {}: {}",
                         CompositeName(CompositeOf(node)), text);
}

// A tensor spec, of `dtype` and of the rank of `shape` where both are known.
bool IsShapeSpec(const ElementSpec& inner, DType dtype) {
  return inner.tree().is_leaf() && inner.leaf(0).is_tensor() && inner.leaf(0).dtype == dtype &&
         !inner.leaf(0).inner;
}

PartialShape UnknownDims(int64_t rank) {
  return PartialShape(std::vector<int64_t>(static_cast<size_t>(rank), PartialShape::kUnknownDim));
}

std::vector<LeafSpec> SparseLeaves(DType dtype, const PartialShape& shape) {
  constexpr int64_t kAny = PartialShape::kUnknownDim;
  const int64_t rank = shape.has_rank() ? static_cast<int64_t>(shape.rank()) : kAny;
  std::vector<LeafSpec> leaves = {LeafSpec::OfTensor(DType::kInt64, PartialShape({kAny, rank})),
                                  LeafSpec::OfTensor(dtype, PartialShape({kAny})),
                                  LeafSpec::OfTensor(DType::kInt64, PartialShape({rank}))};
  leaves[2].inner = ElementSpec::OfTensor(dtype, shape);
  return leaves;
}

Result<std::vector<LeafSpec>> RaggedLeaves(DType dtype, const PartialShape& shape,
                                           int64_t ragged_rank, DType splits) {
  if (ragged_rank < 1 || ragged_rank >= static_cast<int64_t>(Shape::kMaxRank) ||
      (shape.has_rank() && ragged_rank >= static_cast<int64_t>(shape.rank()))) {
    return InvalidArgument("ragged tensor: a ragged_rank of {} for the shape {}; expected 1 or "
                           "more, and less than the shape has axes; what is not ragged is a "
                           "tensor",
                           ragged_rank, shape.ToString());
  }
  if (splits != DType::kInt64 && splits != DType::kInt32) {
    return InvalidArgument("ragged tensor: row_splits are int64 or int32, not {}",
                           DTypeName(splits));
  }
  constexpr int64_t kAny = PartialShape::kUnknownDim;
  // From the outside: the shape of each level, the deeper ones of an unknown number of rows.
  std::vector<LeafSpec> leaves;
  PartialShape level = shape;
  for (int64_t i = 0; i < ragged_rank; ++i) {
    const int64_t rows = level.has_rank() && level.dim(0) >= 0 ? level.dim(0) + 1 : kAny;
    LeafSpec own = LeafSpec::OfTensor(splits, PartialShape({rows}));
    own.inner = ElementSpec::OfTensor(dtype, level);
    leaves.push_back(std::move(own));
    if (level.has_rank()) level = level.RowShape().WithDim(0, kAny);
  }
  leaves.push_back(LeafSpec::OfTensor(dtype, std::move(level)));
  std::ranges::reverse(leaves);
  return leaves;
}

Result<std::vector<LeafSpec>> CompleteSparse(const TreeSpec& node,
                                             std::span<const LeafSpec> leaves) {
  if (!IsTensorOf(leaves[0], DType::kInt64, 2) || !leaves[1].is_tensor() ||
      !IsTensorOf(leaves[1], leaves[1].dtype, 1) || !IsTensorOf(leaves[2], DType::kInt64, 1)) {
    return NotOfComposite(node, leaves);
  }
  PartialShape shape;
  if (leaves[2].inner) {
    if (!IsShapeSpec(*leaves[2].inner, leaves[1].dtype)) return NotOfComposite(node, leaves);
    shape = leaves[2].inner->leaf(0).shape;
  } else if (leaves[2].shape.has_rank() && leaves[2].shape.dim(0) >= 0 &&
             leaves[2].shape.dim(0) <= static_cast<int64_t>(Shape::kMaxRank)) {
    shape = UnknownDims(leaves[2].shape.dim(0));
  }
  return SparseLeaves(leaves[1].dtype, shape);
}

Result<std::vector<LeafSpec>> CompleteRagged(const TreeSpec& node,
                                             std::span<const LeafSpec> leaves) {
  const int64_t levels = RaggedRankOf(node);
  const LeafSpec& flat = leaves[0];
  const LeafSpec& outer = leaves.back();
  bool fits = flat.is_tensor() && !(flat.shape.has_rank() && flat.shape.rank() == 0);
  for (const LeafSpec& splits : leaves.subspan(1)) fits = fits && IsTensorOf(splits, outer.dtype, 1);
  if (!fits || (outer.dtype != DType::kInt64 && outer.dtype != DType::kInt32)) {
    return NotOfComposite(node, leaves);
  }
  PartialShape shape;
  if (outer.inner) {
    if (!IsShapeSpec(*outer.inner, flat.dtype)) return NotOfComposite(node, leaves);
    shape = outer.inner->leaf(0).shape;
  } else if (flat.shape.has_rank()) {
    int64_t rows = PartialShape::kUnknownDim;
    if (outer.shape.has_rank() && outer.shape.dim(0) > 0) rows = outer.shape.dim(0) - 1;
    shape = PartialShape({rows})
                .Concatenate(UnknownDims(levels))
                .Concatenate(flat.shape.RowShape());
  }
  return RaggedLeaves(flat.dtype, shape, levels, outer.dtype);
}

// What the composite is as a whole.
Result<LeafSpec> WholeOf(const TreeSpec& node, std::span<const LeafSpec> leaves) {
  if (leaves.back().inner) return leaves.back().inner->leaf(0);
  std::vector<LeafSpec> complete(leaves.begin(), leaves.end());
  TUTTI_RETURN_IF_ERROR(CompleteComposites(node, complete));
  return complete.back().inner->leaf(0);
}

// transform(node, leaves) -> a spec for each composite and each leaf of the structure.
template <class Transform>
Result<Ref<const ElementSpec>> TransformParts(const TreeSpec& node,
                                              std::span<const LeafSpec> leaves,
                                              Transform&& transform) {
  if (node.is_leaf() || CompositeOf(node) != Composite::kNone) return transform(node, leaves);
  TreeSpec::Children children;
  std::vector<LeafSpec> all;
  for (size_t i = 0; i < node.num_children(); ++i) {
    const TreeSpec& child = node.child(i);
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<const ElementSpec> part,
        TransformParts(child, leaves.subspan(node.first_leaf(i), child.num_leaves()), transform));
    children.push_back(part->tree_ref());
    all.insert(all.end(), part->leaves().begin(), part->leaves().end());
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> tree, WithChildren(node, std::move(children)));
  return ElementSpec::Create(std::move(tree), std::move(all));
}

}  // namespace

Composite CompositeOf(const TreeSpec& node) {
  if (node.kind() != NodeKind::kNamedTuple) return Composite::kNone;
  if (node.name() == kSparseTypeName) return Composite::kSparse;
  return node.name() == kRaggedTypeName ? Composite::kRagged : Composite::kNone;
}

std::string_view CompositeName(Composite kind) {
  switch (kind) {
    case Composite::kSparse: return "sparse tensors";
    case Composite::kRagged: return "ragged tensors";
    case Composite::kNone: break;
  }
  return "tensors";
}

Status CheckReservedName(std::string_view name, std::span<const std::string> fields,
                         std::span<const Ref<const TreeSpec>> children) {
  if (name != kSparseTypeName && name != kRaggedTypeName) return OkStatus();
  const bool sparse = name == kSparseTypeName;
  bool fits = sparse ? std::ranges::equal(fields, kSparseFields)
                     : std::ranges::equal(fields, kRaggedFields);
  for (size_t i = 0; fits && i < children.size(); ++i) {
    fits = children[i]->is_leaf() ||
           (!sparse && i == 0 && IsOneOf(*children[i], Composite::kRagged));
  }
  if (fits) return OkStatus();
  return InvalidArgument("named tuple: {} is the name of {}, of the fields {}; give a type of "
                         "other fields another name",
                         name, CompositeName(sparse ? Composite::kSparse : Composite::kRagged),
                         sparse ? "indices, values, dense_shape" : "values, row_splits");
}

Status CheckNoComposites(const TreeSpec& tree, std::string_view what) {
  if (!tree.has_composites()) return OkStatus();
  const TreeSpec* node = &tree;
  size_t leaf = 0;
  while (CompositeOf(*node) == Composite::kNone) {
    size_t i = 0;
    while (!node->child(i).has_composites()) ++i;
    leaf += node->first_leaf(i);
    node = &node->child(i);
  }
  Path path = tree.LeafPath(leaf);
  for (const TreeSpec* below = node; !below->is_leaf(); below = &below->child(0)) path.pop_back();
  return InvalidArgument("{}: {} are not taken, and stand{}{}; make them dense first", what,
                         CompositeName(CompositeOf(*node)),
                         path.empty() ? " in the place of the element" : " at ",
                         PathToString(path));
}

Ref<const TreeSpec> SparseTree() {
  return TreeSpec::NamedTuple(std::string(kSparseTypeName), Texts(kSparseFields),
                              {LeafTree(), LeafTree(), LeafTree()})
      .value();
}

Ref<const TreeSpec> RaggedTree(int64_t ragged_rank) {
  Ref<const TreeSpec> tree = LeafTree();
  for (int64_t i = 0; i < ragged_rank; ++i) {
    tree = TreeSpec::NamedTuple(std::string(kRaggedTypeName), Texts(kRaggedFields),
                                {tree, LeafTree()})
               .value();
  }
  return tree;
}

int64_t RaggedRankOf(const TreeSpec& node) {
  int64_t levels = 0;
  for (const TreeSpec* level = &node; IsOneOf(*level, Composite::kRagged);
       level = &level->child(0)) {
    ++levels;
  }
  return levels;
}

Result<Ref<Value>> MakeSparse(Ref<Tensor> indices, Ref<Tensor> values, Ref<Tensor> dense_shape) {
  SparseParts parts;
  TUTTI_ASSIGN_OR_RETURN(parts.indices, indices->Contiguous());
  TUTTI_ASSIGN_OR_RETURN(parts.values, values->Contiguous());
  TUTTI_ASSIGN_OR_RETURN(parts.dense_shape, dense_shape->Contiguous());
  TUTTI_RETURN_IF_ERROR(CheckSparseParts(parts));
  return ValueOfParts(std::move(parts));
}

Result<Ref<Value>> MakeRagged(const Ref<Value>& values, Ref<Tensor> row_splits) {
  if (!values->is_leaf() && CompositeOf(values->spec()) != Composite::kRagged) {
    return InvalidArgument("ragged tensor: values must be a tensor or ragged, and are {}",
                           values->spec().ToString());
  }
  if (RaggedRankOf(values->spec()) >= static_cast<int64_t>(Shape::kMaxRank) - 1) {
    return InvalidArgument("ragged tensor: more than {} ragged axes", Shape::kMaxRank - 1);
  }
  TUTTI_ASSIGN_OR_RETURN(row_splits, row_splits->Contiguous());
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Value> value,
      NamedComposite(Composite::kRagged,
                     std::vector<Ref<Value>>{values, Value::OfTensor(std::move(row_splits))}));
  TUTTI_RETURN_IF_ERROR(ReadRagged(*value).status());
  return value;
}

Status CheckComposite(const Value& value) {
  switch (CompositeOf(value.spec())) {
    case Composite::kSparse: return ReadSparse(value).status();
    case Composite::kRagged: return ReadRagged(value).status();
    case Composite::kNone: break;
  }
  return InvalidArgument("a sparse or a ragged tensor is needed, and this is {}",
                         value.spec().ToString());
}

PartialShape CompositeShape(const Value& value) {
  if (CompositeOf(value.spec()) == Composite::kSparse) {
    const Result<SparseParts> parts = ReadSparse(value);
    if (!parts.ok()) return PartialShape();
    return PartialShape(parts->dense_shape->span<int64_t>());
  }
  const Result<RaggedParts> parts = ReadRagged(value);
  if (!parts.ok()) return PartialShape();
  return PartialShape({static_cast<int64_t>(parts->splits[0].size()) - 1})
      .Concatenate(UnknownDims(static_cast<int64_t>(parts->splits.size())))
      .Concatenate(PartialShape(parts->flat->shape()).RowShape());
}

Result<Ref<Tensor>> CompositeToDense(const Value& value, const Tensor* filler,
                                     const TensorOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckComposite(value));
  return CompositeOf(value.spec()) == Composite::kSparse ? SparseToDense(value, filler, options)
                                                         : RaggedToDense(value, filler, options);
}

Result<Ref<Value>> StackComposites(std::span<const Ref<Value>> rows) {
  return CompositeOf(rows[0]->spec()) == Composite::kSparse ? StackSparse(rows)
                                                            : StackRagged(rows);
}

Result<int64_t> NumRowsOfComposite(const Value& value) {
  TUTTI_RETURN_IF_ERROR(CheckComposite(value));
  const PartialShape shape = CompositeShape(value);
  if (shape.rank() > 0) return shape.dim(0);
  return InvalidArgument("a sparse tensor of rank 0 has no rows");
}

Result<std::vector<Ref<Value>>> RowsOfComposite(const Value& value) {
  TUTTI_ASSIGN_OR_RETURN(const int64_t count, NumRowsOfComposite(value));
  std::vector<Ref<Value>> rows;
  if (CompositeOf(value.spec()) == Composite::kRagged) {
    TUTTI_ASSIGN_OR_RETURN(const RaggedParts parts, ReadRagged(value));
    for (int64_t i = 0; i < count; ++i) {
      RaggedParts row = SliceOf(parts, i, i + 1);
      row.splits.erase(row.splits.begin());
      TUTTI_ASSIGN_OR_RETURN(Ref<Value> made, ValueOfParts(row));
      rows.push_back(std::move(made));
    }
    return rows;
  }
  TUTTI_ASSIGN_OR_RETURN(const SparseParts parts, ReadSparse(value));
  std::vector<std::vector<int64_t>> own(static_cast<size_t>(count));
  const std::span<const int64_t> indices = parts.indices->span<int64_t>();
  for (int64_t i = 0; i < parts.count(); ++i) {
    own[static_cast<size_t>(indices[static_cast<size_t>(i) * parts.rank()])].push_back(i);
  }
  const auto axes = static_cast<int64_t>(parts.rank());
  const Ref<Tensor> dense_shape = parts.dense_shape->Slice(1, axes);
  for (const std::vector<int64_t>& places : own) {
    SparseParts row;
    TUTTI_ASSIGN_OR_RETURN(row.indices, GatherRows(*parts.indices, places));
    TUTTI_ASSIGN_OR_RETURN(row.indices, row.indices->SliceAxis(1, 1, axes));
    TUTTI_ASSIGN_OR_RETURN(row.indices, row.indices->Copy());
    TUTTI_ASSIGN_OR_RETURN(row.values, GatherRows(*parts.values, places));
    row.dense_shape = dense_shape;
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> made, ValueOfParts(std::move(row)));
    rows.push_back(std::move(made));
  }
  return rows;
}

Result<std::vector<Ref<Value>>> RowsOfStructure(const Value& value, std::string_view what) {
  std::vector<std::vector<Ref<Value>>> columns;
  TUTTI_ASSIGN_OR_RETURN(const Ref<const TreeSpec> tree,
                         AppendRows(value, value.spec(), 0, what, &columns));
  std::vector<Ref<Value>> rows;
  for (size_t row = 0; row < columns[0].size(); ++row) {
    std::vector<Leaf> leaves;
    for (const std::vector<Ref<Value>>& column : columns) {
      leaves.insert(leaves.end(), column[row]->leaves().begin(), column[row]->leaves().end());
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> made, Value::FromLeaves(tree, std::move(leaves)));
    rows.push_back(std::move(made));
  }
  return rows;
}

Ref<const ElementSpec> SparseSpec(DType dtype, const PartialShape& shape) {
  return ElementSpec::Create(SparseTree(), SparseLeaves(dtype, shape)).value();
}

Result<Ref<const ElementSpec>> RaggedSpec(DType dtype, const PartialShape& shape,
                                          int64_t ragged_rank, DType splits) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<LeafSpec> leaves,
                         RaggedLeaves(dtype, shape, ragged_rank, splits));
  return ElementSpec::Create(RaggedTree(ragged_rank), std::move(leaves));
}

Status CompleteComposites(const TreeSpec& tree, std::span<LeafSpec> leaves) {
  if (!tree.has_composites()) return OkStatus();
  if (CompositeOf(tree) == Composite::kNone) {
    for (size_t i = 0; i < tree.num_children(); ++i) {
      const TreeSpec& child = tree.child(i);
      TUTTI_RETURN_IF_ERROR(CompleteComposites(
          child, leaves.subspan(tree.first_leaf(i), child.num_leaves())));
    }
    return OkStatus();
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<LeafSpec> complete,
                         CompositeOf(tree) == Composite::kSparse ? CompleteSparse(tree, leaves)
                                                                 : CompleteRagged(tree, leaves));
  std::ranges::copy(complete, leaves.begin());
  return OkStatus();
}

void DescribeComposites(const Value& value, std::span<LeafSpec> leaves) {
  const TreeSpec& tree = value.spec();
  if (!tree.has_composites()) return;
  if (CompositeOf(tree) == Composite::kNone) {
    for (size_t i = 0; i < tree.num_children(); ++i) {
      DescribeComposites(*value.Child(i),
                         leaves.subspan(tree.first_leaf(i), tree.child(i).num_leaves()));
    }
    return;
  }
  // What does not fit together is described part by part.
  if (!CheckComposite(value).ok()) return;
  const DType dtype = value.leaf(CompositeOf(tree) == Composite::kSparse ? 1 : 0).tensor().dtype();
  const PartialShape shape = CompositeShape(value);
  Ref<const ElementSpec> spec;
  if (CompositeOf(tree) == Composite::kSparse) {
    spec = SparseSpec(dtype, shape);
  } else {
    const DType splits = value.leaf(ShapeLeafOf(tree)).tensor().dtype();
    spec = RaggedSpec(dtype, shape, RaggedRankOf(tree), splits).value();
  }
  std::ranges::copy(spec->leaves(), leaves.begin());
}

bool FitsDenseShape(const LeafSpec& spec, const Tensor& dense_shape) {
  const PartialShape& shape = spec.inner->leaf(0).shape;
  if (!shape.has_rank()) return true;
  const Result<Ref<Tensor>> sizes = dense_shape.Contiguous();
  return sizes.ok() && (*sizes)->dtype() == DType::kInt64 && (*sizes)->rank() == 1 &&
         std::ranges::equal(shape.dims(), (*sizes)->span<int64_t>(), [](int64_t known, int64_t own) {
           return known < 0 || known == own;
         });
}

Result<Ref<const ElementSpec>> StackedSpec(const ElementSpec& element, int64_t size,
                                           std::string_view what) {
  if (!element.tree().has_composites()) return element.Prepend(size, what);
  return TransformParts(
      element.tree(), element.leaves(),
      [&](const TreeSpec& node,
          std::span<const LeafSpec> leaves) -> Result<Ref<const ElementSpec>> {
        if (CompositeOf(node) == Composite::kNone) {
          return ElementSpec::OfLeaf(leaves[0])->Prepend(size, what);
        }
        TUTTI_ASSIGN_OR_RETURN(const LeafSpec whole, WholeOf(node, leaves));
        const PartialShape shape = whole.shape.Prepend(size);
        if (CompositeOf(node) == Composite::kSparse) return SparseSpec(whole.dtype, shape);
        return RaggedSpec(whole.dtype, shape, RaggedRankOf(node) + 1, leaves.back().dtype);
      });
}

Result<Ref<const ElementSpec>> RowSpecOf(const ElementSpec& element, std::string_view what) {
  if (!element.tree().has_composites()) return element.RowSpec(what);
  return TransformParts(
      element.tree(), element.leaves(),
      [&](const TreeSpec& node,
          std::span<const LeafSpec> leaves) -> Result<Ref<const ElementSpec>> {
        if (CompositeOf(node) == Composite::kNone) {
          return ElementSpec::OfLeaf(leaves[0])->RowSpec(what);
        }
        TUTTI_ASSIGN_OR_RETURN(const LeafSpec whole, WholeOf(node, leaves));
        if (whole.shape.has_rank() && whole.shape.rank() == 0) {
          return InvalidArgument("{}: a sparse tensor of rank 0 has no rows", what);
        }
        const PartialShape shape = whole.shape.RowShape();
        if (CompositeOf(node) == Composite::kSparse) return SparseSpec(whole.dtype, shape);
        const int64_t levels = RaggedRankOf(node) - 1;
        if (levels == 0) return ElementSpec::OfTensor(whole.dtype, shape);
        return RaggedSpec(whole.dtype, shape, levels, leaves.back().dtype);
      });
}

}  // namespace tutti
