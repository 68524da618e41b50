#include "core/dataset/exec/stack_rows.h"

#include "core/base/error.h"
#include "core/tensor/concat.h"
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

}  // namespace

bool RowsAreUniform(std::span<const Slab> parts) {
  for (const Slab& part : parts) {
    if (part.columns.size() != parts[0].columns.size()) return false;
  }
  for (size_t column = 0; column < parts[0].columns.size(); ++column) {
    if (!IsUniform(parts, column)) return false;
  }
  return true;
}

Result<Slab> StackRows(std::vector<Slab> parts, int64_t rows_each, MemoryAccount* account) {
  Slab out;
  out.tree = parts[0].tree;
  TUTTI_RETURN_IF_ERROR(CheckOneStructure(parts));
  for (const Slab& part : parts) out.rows += part.rows;
  out.rows /= rows_each;
  for (size_t i = 0; i < parts[0].columns.size(); ++i) {
    Ref<Tensor> rows;
    bool borrowed = false;
    if (parts.size() == 1 && parts[0].columns[i].is_dense()) {
      rows = parts[0].columns[i].dense();
      borrowed = parts[0].columns[i].is_borrowed();
    } else {
      const std::string where =
          out.tree->is_leaf() ? "" : Format(" at {}", PathToString(out.tree->LeafPath(i)));
      TUTTI_RETURN_IF_ERROR(CheckEqual(parts, i, where));
      TUTTI_ASSIGN_OR_RETURN(rows, Join(parts, i, account));
    }
    std::vector<int64_t> dims = {out.rows, rows_each};
    const std::span<const int64_t> row_dims = rows->shape().dims().subspan(1);
    dims.insert(dims.end(), row_dims.begin(), row_dims.end());
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> stacked, rows->Reshape(dims));
    out.columns.push_back(borrowed ? Column::Borrowed(std::move(stacked))
                                   : Column::Dense(std::move(stacked)));
  }
  return out;
}

Result<Slab> JoinRows(std::span<const Slab> parts, MemoryAccount* account) {
  TUTTI_RETURN_IF_ERROR(CheckOneStructure(parts));
  Slab out;
  out.tree = parts[0].tree;
  for (const Slab& part : parts) out.rows += part.rows;
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
