#include "core/strategy/rebatch.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

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

std::vector<Ref<Value>> CutBatch(const Value& batch, int64_t rows, size_t num_slices) {
  std::vector<Ref<Value>> slices;
  slices.reserve(num_slices);
  for (size_t i = 0; i < num_slices; ++i) {
    const RowRange range = CeilSlice(rows, i, num_slices);
    std::vector<Leaf> leaves;
    leaves.reserve(batch.num_leaves());
    for (const Leaf& leaf : batch.leaves()) {
      leaves.push_back(Leaf::OfTensor(leaf.tensor().Slice(range.begin, range.end)));
    }
    slices.push_back(batch.WithLeaves(std::move(leaves)));
  }
  return slices;
}

Ref<Value> EmptyBatchLike(const Value& batch) {
  std::vector<Leaf> leaves;
  leaves.reserve(batch.num_leaves());
  for (const Leaf& leaf : batch.leaves()) {
    leaves.push_back(Leaf::OfTensor(leaf.tensor().Slice(0, 0)));
  }
  return batch.WithLeaves(std::move(leaves));
}

Status CheckBatchSpec(const ElementSpec& spec, std::string_view what) {
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
