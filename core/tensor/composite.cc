// The names and structures of sparse and ragged tensors, and their parts in and out of values.
#include "core/tensor/composite.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/composite_parts.h"
#include "core/tensor/indexed_slices.h"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 3> kSparseFields = {"indices", "values", "dense_shape"};
constexpr std::array<std::string_view, 2> kRaggedFields = {"values", "row_splits"};

std::vector<std::string> Texts(std::span<const std::string_view> views) {
  return {views.begin(), views.end()};
}

Ref<const TreeSpec> LeafTree() { return Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()); }

bool IsRagged(const TreeSpec& node) { return CompositeOf(node) == Composite::kRagged; }

Result<Ref<Tensor>> TensorPart(const Leaf& leaf, std::string_view who, std::string_view part) {
  if (leaf.is_tensor()) return leaf.tensor().Contiguous();
  return InvalidArgument("{}: {} must be a tensor, and is {}", who, part,
                         LeafSpec::Of(leaf).ToString());
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
  if (name == kIndexedSlicesTypeName) return CheckIndexedSlicesName(fields, children);
  if (name != kSparseTypeName && name != kRaggedTypeName) return OkStatus();
  const bool sparse = name == kSparseTypeName;
  bool fits = sparse ? std::ranges::equal(fields, kSparseFields)
                     : std::ranges::equal(fields, kRaggedFields);
  for (size_t i = 0; fits && i < children.size(); ++i) {
    fits = children[i]->is_leaf() ||
           (!sparse && i == 0 && IsRagged(*children[i]));
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
  for (const TreeSpec* level = &node; IsRagged(*level);
       level = &level->child(0)) {
    ++levels;
  }
  return levels;
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

}  // namespace tutti
