// Specs of sparse and ragged tensors: of the whole, and leaf by leaf.
#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/composite_parts.h"

namespace tutti {
namespace {

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
  for (const LeafSpec& splits : leaves.subspan(1)) {
    fits = fits && IsTensorOf(splits, outer.dtype, 1);
  }
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
         std::ranges::equal(
             shape.dims(), (*sizes)->span<int64_t>(),
             [](int64_t known, int64_t own) { return known < 0 || known == own; });
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
