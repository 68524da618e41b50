#include "core/dataset/exec/stack_rows.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/composite.h"
#include "core/tensor/concat.h"
#include "core/tensor/copy.h"
#include "core/tensor/gather.h"

namespace tutti {
namespace {

// What a row looks like: the dims of a tensor's row, or nothing for a leaf of another kind.
struct RowSpec {
  bool is_tensor = false;
  DType dtype = DType::kInvalid;
  std::span<const int64_t> dims;

  bool operator==(const RowSpec& other) const {
    return is_tensor && other.is_tensor && dtype == other.dtype &&
           std::equal(dims.begin(), dims.end(), other.dims.begin(), other.dims.end());
  }
};

// Calls visit(element, row spec) for the rows of one column until it returns false; a dense part
// counts as one.
template <class Visit>
void VisitRows(std::span<const Slab> parts, size_t column, Visit&& visit) {
  int64_t element = 0;
  for (const Slab& part : parts) {
    const Column& rows = part.columns[column];
    if (rows.is_dense()) {
      const Tensor& tensor = *rows.dense();
      if (!visit(element, RowSpec{true, tensor.dtype(), tensor.shape().dims().subspan(1)})) return;
    } else {
      for (size_t i = 0; i < rows.leaves().size(); ++i) {
        const Leaf& leaf = rows.leaves()[i];
        RowSpec spec;
        if (leaf.is_tensor()) {
          spec = RowSpec{true, leaf.tensor().dtype(), leaf.tensor().shape().dims()};
        }
        if (!visit(element + static_cast<int64_t>(i), spec)) return;
      }
    }
    element += part.rows;
  }
}

Status CheckEqual(std::span<const Slab> parts, size_t column, std::string_view where) {
  Status status;
  RowSpec first;
  VisitRows(parts, column, [&](int64_t element, const RowSpec& row) {
    if (element == 0) first = row;
    if (!row.is_tensor) {
      status = InvalidArgument(
          "element {}{} is no tensor, and only tensors can be stacked; map it "
          "to tensors first",
          element, where);
    } else if (row.dtype != first.dtype) {
      status = InvalidArgument("element {}{} is {}, element 0 is {}; cast them to one dtype first",
                               element, where, DTypeName(row.dtype), DTypeName(first.dtype));
    } else if (!(row == first)) {
      status = InvalidArgument(
          "element {}{} has shape {}, element 0 has {}; give all elements of a batch one shape, or "
          "pad them",
          element, where, DimsToString(row.dims), DimsToString(first.dims));
    }
    return status.ok();
  });
  return status;
}

// The rows of one column in one piece.
Result<Ref<Tensor>> Join(std::span<const Slab> parts, size_t column, MemoryAccount* account) {
  TensorOptions options;
  options.zeroed = false;
  options.account = account;
  std::vector<const Tensor*> rows;
  bool any_dense = false;
  for (const Slab& part : parts) any_dense = any_dense || part.columns[column].is_dense();
  if (!any_dense) {
    for (const Slab& part : parts) {
      for (const Leaf& leaf : part.columns[column].leaves()) rows.push_back(&leaf.tensor());
    }
    return Stack(rows, options);
  }
  std::vector<Ref<Tensor>> owned;
  for (const Slab& part : parts) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> dense, part.columns[column].ToDense(account));
    owned.push_back(std::move(dense));
    rows.push_back(owned.back().get());
  }
  return Concat(rows, 0, options);
}

bool IsUniform(std::span<const Slab> parts, size_t column) {
  RowSpec first;
  bool uniform = true;
  VisitRows(parts, column, [&](int64_t element, const RowSpec& row) {
    if (element == 0) first = row;
    return uniform = row == first;
  });
  return uniform;
}

Status CheckOneStructure(std::span<const Slab> parts) {
  for (const Slab& part : parts) {
    if (!part.tree || part.columns.size() != part.tree->num_leaves()) {
      return Internal("elements of the structure {} have {} columns",
                      part.tree ? part.tree->ToString() : "(unknown)", part.columns.size());
    }
    if (!(*part.tree == *parts[0].tree)) {
      return InvalidArgument("elements have the structures {} and {}", parts[0].tree->ToString(),
                             part.tree->ToString());
    }
  }
  return OkStatus();
}

// Each row of one column as a leaf that pins nothing but itself.
Result<Column> OwnLeaves(std::span<const Slab> parts, size_t column, MemoryAccount* account) {
  TensorOptions options;
  options.zeroed = false;
  options.account = account;
  std::vector<Leaf> leaves;
  for (const Slab& part : parts) {
    for (int64_t row = 0; row < part.rows; ++row) {
      leaves.push_back(part.columns[column].Row(row));
      if (!leaves.back().is_tensor()) continue;
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> own, leaves.back().tensor().Copy(options));
      leaves.back() = Leaf::OfTensor(std::move(own));
    }
  }
  return Column::Rows(std::move(leaves));
}

std::string PlaceOf(const TreeSpec& tree, size_t leaf) {
  return tree.is_leaf() ? "" : Format(" at {}", PathToString(tree.LeafPath(leaf)));
}

// One piece as it is, or all in one.
Result<Column> JoinColumn(std::span<const Slab> parts, size_t column, MemoryAccount* account) {
  if (parts.size() == 1 && parts[0].columns[column].is_dense()) return parts[0].columns[column];
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> rows, Join(parts, column, account));
  return Column::Dense(std::move(rows));
}

// The dense rows as batches.
Result<Column> Batched(const Column& rows, int64_t batches, int64_t rows_each) {
  std::vector<int64_t> dims = {batches, rows_each};
  const std::span<const int64_t> row_dims = rows.dense()->shape().dims().subspan(1);
  dims.insert(dims.end(), row_dims.begin(), row_dims.end());
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> batched, rows.dense()->Reshape(dims));
  return rows.is_borrowed() ? Column::Borrowed(std::move(batched))
                            : Column::Dense(std::move(batched));
}

// How many batches the parts make, and of what structure.
Result<Slab> NewBatches(std::span<const Slab> parts, int64_t rows_each) {
  TUTTI_RETURN_IF_ERROR(CheckOneStructure(parts));
  Slab out;
  out.tree = parts[0].tree;
  for (const Slab& part : parts) out.rows += part.rows;
  out.rows /= rows_each;
  return out;
}

// Adds the columns of one batch of all rows, of the part of their structure at `node`, and gives
// the part's structure in the batch: a ragged tensor gets one more level.
Result<Ref<const TreeSpec>> StackNode(std::span<const Slab> parts, const TreeSpec& node,
                                      size_t first_leaf, MemoryAccount* account,
                                      std::vector<Column>* columns) {
  const TreeSpec& tree = *parts[0].tree;
  if (node.is_leaf()) {
    int64_t rows = 0;
    for (const Slab& part : parts) rows += part.rows;
    TUTTI_RETURN_IF_ERROR(CheckEqual(parts, first_leaf, PlaceOf(tree, first_leaf)));
    TUTTI_ASSIGN_OR_RETURN(const Column joined, JoinColumn(parts, first_leaf, account));
    TUTTI_ASSIGN_OR_RETURN(Column batch, Batched(joined, 1, rows));
    columns->push_back(std::move(batch));
    return Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  }
  if (CompositeOf(node) == Composite::kNone) {
    TreeSpec::Children children;
    for (size_t i = 0; i < node.num_children(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(
          Ref<const TreeSpec> child,
          StackNode(parts, node.child(i), first_leaf + node.first_leaf(i), account, columns));
      children.push_back(std::move(child));
    }
    return WithChildren(node, std::move(children));
  }
  std::vector<Ref<Value>> rows;
  for (const Slab& part : parts) {
    for (int64_t row = 0; row < part.rows; ++row) {
      std::vector<Leaf> leaves;
      for (size_t i = 0; i < node.num_leaves(); ++i) {
        leaves.push_back(part.columns[first_leaf + i].Row(row));
      }
      TUTTI_ASSIGN_OR_RETURN(
          Ref<Value> value,
          Value::FromLeaves(Ref<const TreeSpec>::Retain(&node), std::move(leaves)));
      rows.push_back(std::move(value));
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> stacked, StackComposites(rows));
  for (const Leaf& leaf : stacked->leaves()) columns->push_back(Column::Rows({leaf}));
  return stacked->spec_ref();
}

Status CheckPaddable(const RowSpec& row, const RowSpec& first, int64_t element,
                     std::string_view where, const RowPadding& padding) {
  if (!row.is_tensor) {
    return InvalidArgument(
        "element {}{} is no tensor, and only tensors can be padded; map it to tensors first",
        element, where);
  }
  if (row.dtype != first.dtype) {
    return InvalidArgument("element {}{} is {}, element 0 is {}; cast them to one dtype first",
                           element, where, DTypeName(row.dtype), DTypeName(first.dtype));
  }
  if (padding.dims && padding.dims->size() != row.dims.size()) {
    return InvalidArgument(
        "element {}{} has shape {}, and is padded to {}; padded_shapes needs as many sizes as the "
        "element has axes",
        element, where, DimsToString(row.dims), DimsToString(*padding.dims));
  }
  if (row.dims.size() != first.dims.size()) {
    return InvalidArgument(
        "element {}{} has shape {}, element 0 has {}; only elements with as many axes can be "
        "padded to one shape",
        element, where, DimsToString(row.dims), DimsToString(first.dims));
  }
  for (size_t axis = 0; padding.dims && axis < row.dims.size(); ++axis) {
    const int64_t size = (*padding.dims)[axis];
    if (size < 0 || row.dims[axis] <= size) continue;
    return InvalidArgument(
        "element {}{} has shape {}, and is padded to {}; let padded_shapes hold the largest "
        "element, or be null (-1) for that axis",
        element, where, DimsToString(row.dims), DimsToString(*padding.dims));
  }
  return OkStatus();
}

// What all rows of a column are padded to.
Status FindPaddedDims(std::span<const Slab> parts, size_t column, std::string_view where,
                      const RowPadding& padding, std::vector<int64_t>* dims) {
  Status status;
  RowSpec first;
  VisitRows(parts, column, [&](int64_t element, const RowSpec& row) {
    if (element == 0) {
      first = row;
      dims->assign(row.dims.begin(), row.dims.end());
    }
    status = CheckPaddable(row, first, element, where, padding);
    if (!status.ok()) return false;
    for (size_t axis = 0; axis < dims->size(); ++axis) {
      const int64_t fixed = padding.dims ? (*padding.dims)[axis] : -1;
      (*dims)[axis] = fixed >= 0 ? fixed : std::max((*dims)[axis], row.dims[axis]);
    }
    return true;
  });
  TUTTI_RETURN_IF_ERROR(status);
  if (padding.value && padding.value->dtype() != first.dtype) {
    return InvalidArgument("the elements{} are {}, and the padding value is {}; give it that dtype",
                           where, DTypeName(first.dtype), DTypeName(padding.value->dtype()));
  }
  return OkStatus();
}

bool RowsHave(std::span<const Slab> parts, size_t column, std::span<const int64_t> dims) {
  bool all = true;
  VisitRows(parts, column, [&](int64_t, const RowSpec& row) {
    return all = std::equal(row.dims.begin(), row.dims.end(), dims.begin(), dims.end());
  });
  return all;
}

// The rows of one column, each in the first corner of a row of shape `dims`.
Result<Column> PadColumn(std::span<const Slab> parts, size_t column,
                         const std::vector<int64_t>& dims, int64_t rows,
                         const Ref<const Tensor>& value, MemoryAccount* account) {
  std::vector<int64_t> all = {rows};
  all.insert(all.end(), dims.begin(), dims.end());
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(all.data(), all.size()));
  const Column& some = parts[0].columns[column];
  const DType dtype = some.is_dense() ? some.dense()->dtype() : some.leaves()[0].tensor().dtype();
  const size_t item_size = ItemSize(dtype);
  // Of byte strings the views are put together first; FromStrings then gathers their payload.
  const bool is_bytes = dtype == DType::kBytes;
  std::vector<BytesView> views;
  Ref<Tensor> padded;
  char* place = nullptr;
  if (is_bytes) {
    views.resize(static_cast<size_t>(shape.num_elements()),
                 value ? value->item<BytesView>() : BytesView{});
    place = reinterpret_cast<char*>(views.data());
  } else {
    TensorOptions options;
    options.zeroed = !value;
    options.account = account;
    TUTTI_ASSIGN_OR_RETURN(padded, Tensor::Create(dtype, shape, options));
    place = static_cast<char*>(padded->mutable_data());
    if (value) FillElements(item_size, value->data(), place, shape.num_elements());
  }
  const Dims strides = shape.RowMajorStrides();
  const size_t row_bytes = static_cast<size_t>(strides[0]) * item_size;
  for (const Slab& part : parts) {
    const Column& given = part.columns[column];
    if (given.is_dense()) {
      const Tensor& dense = *given.dense();
      CopyStrided(item_size, dense.shape().dims(), dense.data(), dense.strides(), place,
                  strides.span());
      place += static_cast<size_t>(part.rows) * row_bytes;
      continue;
    }
    for (const Leaf& leaf : given.leaves()) {
      const Tensor& row = leaf.tensor();
      CopyStrided(item_size, row.shape().dims(), row.data(), row.strides(), place,
                  strides.span().subspan(1));
      place += row_bytes;
    }
  }
  if (is_bytes) {
    TUTTI_ASSIGN_OR_RETURN(padded, Tensor::FromStrings(shape, views, account));
  }
  return Column::Dense(std::move(padded));
}

}  // namespace

bool RowsAreUniform(std::span<const Slab> parts) {
  for (const Slab& part : parts) {
    if (part.columns.size() != parts[0].columns.size() || part.tree->has_composites()) return false;
  }
  for (size_t column = 0; column < parts[0].columns.size(); ++column) {
    if (!IsUniform(parts, column)) return false;
  }
  return true;
}

Result<Slab> StackRows(std::vector<Slab> parts, int64_t rows_each, MemoryAccount* account) {
  TUTTI_ASSIGN_OR_RETURN(Slab out, NewBatches(parts, rows_each));
  if (out.tree->has_composites()) {
    out.columns.clear();
    TUTTI_ASSIGN_OR_RETURN(out.tree, StackNode(parts, *parts[0].tree, 0, account, &out.columns));
    out.rows = 1;
    return out;
  }
  for (size_t i = 0; i < parts[0].columns.size(); ++i) {
    if (parts.size() > 1 || !parts[0].columns[i].is_dense()) {
      TUTTI_RETURN_IF_ERROR(CheckEqual(parts, i, PlaceOf(*out.tree, i)));
    }
    TUTTI_ASSIGN_OR_RETURN(const Column rows, JoinColumn(parts, i, account));
    TUTTI_ASSIGN_OR_RETURN(Column batches, Batched(rows, out.rows, rows_each));
    out.columns.push_back(std::move(batches));
  }
  return out;
}

Result<Slab> PadRows(std::vector<Slab> parts, int64_t rows_each,
                     std::span<const RowPadding> paddings, MemoryAccount* account) {
  TUTTI_ASSIGN_OR_RETURN(Slab out, NewBatches(parts, rows_each));
  TUTTI_RETURN_IF_ERROR(CheckNoComposites(*out.tree, "padding"));
  for (size_t i = 0; i < parts[0].columns.size(); ++i) {
    const std::string where = PlaceOf(*out.tree, i);
    std::vector<int64_t> dims;
    TUTTI_RETURN_IF_ERROR(FindPaddedDims(parts, i, where, paddings[i], &dims));
    Column rows;
    if (RowsHave(parts, i, dims)) {
      TUTTI_ASSIGN_OR_RETURN(rows, JoinColumn(parts, i, account));
    } else {
      TUTTI_ASSIGN_OR_RETURN(
          rows, PadColumn(parts, i, dims, out.rows * rows_each, paddings[i].value, account));
    }
    TUTTI_ASSIGN_OR_RETURN(Column batches, Batched(rows, out.rows, rows_each));
    out.columns.push_back(std::move(batches));
  }
  return out;
}

Result<Slab> JoinRows(std::span<const Slab> parts, MemoryAccount* account) {
  TUTTI_RETURN_IF_ERROR(CheckOneStructure(parts));
  Slab out;
  out.tree = parts[0].tree;
  for (const Slab& part : parts) {
    out.rows += part.rows;
    out.origins.Append(part.origins, part.rows);
  }
  for (size_t i = 0; i < parts[0].columns.size(); ++i) {
    if (!IsUniform(parts, i)) {
      TUTTI_ASSIGN_OR_RETURN(Column column, OwnLeaves(parts, i, account));
      out.columns.push_back(std::move(column));
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> rows, Join(parts, i, account));
    out.columns.push_back(Column::Dense(std::move(rows)));
  }
  return out;
}

}  // namespace tutti
