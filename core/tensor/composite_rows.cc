// Stacking sparse and ragged tensors along a new axis 0, and taking their rows apart.
#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/composite_parts.h"
#include "core/tensor/concat.h"
#include "core/tensor/gather.h"

namespace tutti {
namespace {

// A dense_shape says how many rows there are, however few of them have values.
constexpr int64_t kMostSparseRows = int64_t{1} << 24;

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

Ref<const TreeSpec> RowTree(const TreeSpec& composite) {
  if (CompositeOf(composite) == Composite::kSparse) return SparseTree();
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
  Ref<const TreeSpec> tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
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

}  // namespace

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
  if (count > kMostSparseRows) {
    return ResourceExhausted("the {} rows of a sparse tensor are made at once, and {} are the "
                             "most; cut it, or make it dense",
                             count, kMostSparseRows);
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

}  // namespace tutti
