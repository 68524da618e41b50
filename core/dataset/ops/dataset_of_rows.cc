#include "core/dataset/ops/dataset_of_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"

namespace tutti {
namespace {

// Sparse and ragged tensors do not lie row by row in the rows of their parts.
bool IsDense(const Slab& rows) {
  return !rows.columns.empty() && !rows.tree->has_composites() &&
         std::ranges::all_of(rows.columns, [](const Column& one) { return one.is_dense(); });
}

// All rows in one slab, which keeps no more alive than it is.
Result<Slab> InOnePiece(std::span<const Slab> parts, MemoryAccount* account) {
  if (parts.size() > 1 || !IsDense(parts[0])) return JoinRows(parts, account);
  Slab rows = parts[0].Slice(0, parts[0].rows);
  for (Column& column : rows.columns) {
    if (column.is_borrowed()) continue;
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> own, column.dense()->Unpinned(4));
    column = Column::Dense(std::move(own));
  }
  return rows;
}

Result<Ref<Value>> Slices(const Slab& rows) {
  std::vector<Leaf> leaves;
  for (const Column& column : rows.columns) leaves.push_back(Leaf::OfTensor(column.dense()));
  return Value::FromLeaves(rows.tree, std::move(leaves));
}

Result<Ref<Value>> ListOfRows(const Slab& rows) {
  std::vector<Ref<Value>> all;
  all.reserve(static_cast<size_t>(rows.rows));
  for (int64_t i = 0; i < rows.rows; ++i) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> row, rows.Row(i));
    all.push_back(std::move(row));
  }
  return Value::List(all);
}

}  // namespace

Result<Ref<Dataset>> DatasetOfRows(const Ref<DatasetEnvironment>& environment,
                                   std::span<const Slab> parts, MemoryAccount* account) {
  TUTTI_ASSIGN_OR_RETURN(const Slab rows, InOnePiece(parts, account));
  const bool dense = IsDense(rows);
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> value, dense ? Slices(rows) : ListOfRows(rows));
  Attributes attributes;
  attributes.Set("value", Ref<const Value>(std::move(value)));
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node,
                         Node::Create(dense ? kFromTensorSlicesOp : kFromElementsOp, "",
                                      std::move(attributes), {}));
  return Dataset::OfNode(environment, std::move(node), {});
}

}  // namespace tutti
