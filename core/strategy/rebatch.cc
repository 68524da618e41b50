#include "core/strategy/rebatch.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/composite.h"
#include "core/tensor/concat.h"

namespace tutti {

RowRange CeilSlice(int64_t rows, size_t i, size_t num_slices) {
  const auto n = static_cast<int64_t>(num_slices);
  const int64_t size = rows / n + (rows % n != 0 ? 1 : 0);
  const auto begin = std::min(rows, static_cast<int64_t>(i) * size);
  return RowRange{begin, std::min(rows, begin + size)};
}

namespace {

Status NoBatch(std::string_view what, const TreeSpec& tree, size_t leaf, std::string_view found) {
  const std::string path = PathToString(tree.LeafPath(leaf));
  return InvalidArgument(
      "{}: the elements must be batches, tensors with rows along axis 0; leaf {} is {}; call batch "
      "first",
      what, path.empty() ? "(the element itself)" : path, found);
}

}  // namespace

Result<int64_t> BatchRows(const Value& batch, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckNoComposites(batch.spec(), what));
  int64_t rows = -1;
  size_t first = 0;
  for (size_t i = 0; i < batch.num_leaves(); ++i) {
    const Leaf& leaf = batch.leaf(i);
    if (!leaf.is_tensor()) return NoBatch(what, batch.spec(), i, LeafKindName(leaf.kind()));
    const Tensor& tensor = leaf.tensor();
    if (tensor.rank() == 0) return NoBatch(what, batch.spec(), i, tensor.SpecString());
    if (rows == -1) {
      rows = tensor.dim(0);
      first = i;
    } else if (rows != tensor.dim(0)) {
      return InvalidArgument(
          "{}: the tensors of a batch must have equally many rows; leaf {} has {}, leaf {} has {}",
          what, PathToString(batch.spec().LeafPath(first)), rows,
          PathToString(batch.spec().LeafPath(i)), tensor.dim(0));
    }
  }
  if (rows == -1) return InvalidArgument("{}: an element without tensors is no batch", what);
  return rows;
}

Ref<Value> CutRows(const Value& batch, RowRange range) {
  std::vector<Leaf> leaves;
  leaves.reserve(batch.num_leaves());
  for (const Leaf& leaf : batch.leaves()) {
    leaves.push_back(Leaf::OfTensor(leaf.tensor().Slice(range.begin, range.end)));
  }
  return batch.WithLeaves(std::move(leaves));
}

Result<Ref<Value>> JoinRows(std::span<const Ref<Value>> batches, const std::deque<int64_t>& rows,
                            RowRange range) {
  std::vector<Ref<Value>> pieces;
  int64_t begin = 0;  // of batches[i] in the whole
  for (size_t i = 0; i < batches.size(); ++i) {
    const RowRange piece{std::clamp<int64_t>(range.begin - begin, 0, rows[i]),
                         std::clamp<int64_t>(range.end - begin, 0, rows[i])};
    if (piece.begin < piece.end) pieces.push_back(CutRows(*batches[i], piece));
    begin += rows[i];
  }
  if (pieces.empty()) return EmptyBatchLike(*batches[0]);
  if (pieces.size() == 1) return std::move(pieces[0]);
  std::vector<Leaf> leaves;
  for (const Ref<Value>& piece : pieces) {
    TUTTI_RETURN_IF_ERROR(CheckSameStructure(pieces[0]->spec(), piece->spec(), "joining batches"));
  }
  for (size_t k = 0; k < pieces[0]->num_leaves(); ++k) {
    std::vector<const Tensor*> tensors;
    for (const Ref<Value>& piece : pieces) tensors.push_back(&piece->leaf(k).tensor());
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> joined, Concat(tensors, 0));
    leaves.push_back(Leaf::OfTensor(std::move(joined)));
  }
  return pieces[0]->WithLeaves(std::move(leaves));
}

Ref<Value> EmptyBatchLike(const Value& batch) {
  std::vector<Leaf> leaves;
  leaves.reserve(batch.num_leaves());
  for (const Leaf& leaf : batch.leaves()) {
    leaves.push_back(Leaf::OfTensor(leaf.tensor().Slice(0, 0)));
  }
  return batch.WithLeaves(std::move(leaves));
}

namespace {

// Of 0 rows; unknown dims are 0, too.
Result<Ref<Value>> WithoutRows(const ElementSpec& spec, std::string_view what) {
  std::vector<Leaf> leaves;
  for (size_t i = 0; i < spec.num_leaves(); ++i) {
    const LeafSpec& leaf = spec.leaf(i);
    if (!leaf.shape.has_rank()) {
      return InvalidArgument(
          "{}: a batch without rows cannot be made of leaf {}, {}, whose rank is unknown; give the "
          "functions that make it output specs",
          what, PathToString(spec.tree().LeafPath(i)), leaf.ToString());
    }
    std::vector<int64_t> dims(leaf.shape.dims().begin(), leaf.shape.dims().end());
    if (!dims.empty()) dims[0] = 0;
    for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 0);
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, Tensor::Create(leaf.dtype, Shape(dims)));
    leaves.push_back(Leaf::OfTensor(std::move(tensor)));
  }
  return Value::FromLeaves(spec.tree_ref(), std::move(leaves));
}

}  // namespace

Result<Ref<Value>> EmptyBatchOf(const ElementSpec& spec, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckBatchSpec(spec, what));
  return WithoutRows(spec, what);
}

Result<Ref<Value>> NoElementOf(const ElementSpec& spec, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckNoComposites(spec.tree(), what));
  for (size_t i = 0; i < spec.num_leaves(); ++i) {
    if (!spec.leaf(i).is_tensor()) {
      return NoBatch(what, spec.tree(), i, spec.leaf(i).ToString());
    }
  }
  return WithoutRows(spec, what);
}

Result<Ref<Value>> NoElementLike(const Value& element, std::string_view what) {
  return NoElementOf(*ElementSpec::OfValue(element), what);
}

Status CheckBatchSpec(const ElementSpec& spec, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckNoComposites(spec.tree(), what));
  for (size_t i = 0; i < spec.num_leaves(); ++i) {
    const LeafSpec& leaf = spec.leaf(i);
    if (!leaf.is_tensor() || (leaf.shape.has_rank() && leaf.shape.rank() == 0)) {
      return NoBatch(what, spec.tree(), i, leaf.ToString());
    }
  }
  return OkStatus();
}

namespace {

Ref<const ElementSpec> WithRows(const ElementSpec& spec, int64_t rows) {
  std::vector<LeafSpec> leaves(spec.leaves().begin(), spec.leaves().end());
  for (LeafSpec& leaf : leaves) {
    if (leaf.is_tensor() && leaf.shape.has_rank() && leaf.shape.rank() > 0) {
      leaf.shape = leaf.shape.WithDim(0, rows);
    }
  }
  return spec.WithLeaves(std::move(leaves));
}

}  // namespace

Ref<const ElementSpec> AnyRowsSpec(const ElementSpec& spec) {
  return WithRows(spec, PartialShape::kUnknownDim);
}

Ref<const ElementSpec> SliceSpec(const ElementSpec& spec, size_t num_slices) {
  int64_t rows = PartialShape::kUnknownDim;
  for (const LeafSpec& leaf : spec.leaves()) {
    if (leaf.shape.has_rank() && leaf.shape.rank() > 0) rows = std::max(rows, leaf.shape.dim(0));
  }
  const auto n = static_cast<int64_t>(num_slices);
  const bool even = rows != PartialShape::kUnknownDim && rows % n == 0;
  return WithRows(spec, even ? rows / n : PartialShape::kUnknownDim);
}

}  // namespace tutti
