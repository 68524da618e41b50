#include "core/dataset/exec/pick_rows.h"

#include <utility>
#include <vector>

#include "core/tensor/gather.h"

namespace tutti {

Result<Slab> PickRows(const Slab& in, std::span<const int64_t> rows, MemoryAccount* account) {
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t first = rows.front();
  if (rows.back() - first + 1 == count) return in.Slice(first, first + count);
  TensorOptions tensor_options;
  tensor_options.zeroed = false;
  tensor_options.account = account;
  Slab picked;
  picked.rows = count;
  picked.tree = in.tree;
  if (!in.origins.empty()) {
    for (const int64_t row : rows) picked.origins.Add(in.origins.Of(row), 1);
  }
  for (const Column& column : in.columns) {
    if (column.is_dense()) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor,
                             GatherRows(*column.dense(), rows, tensor_options));
      picked.columns.push_back(Column::Dense(std::move(tensor)));
      continue;
    }
    std::vector<Leaf> leaves;
    leaves.reserve(rows.size());
    for (int64_t row : rows) leaves.push_back(column.Row(row));
    picked.columns.push_back(Column::Rows(std::move(leaves)));
  }
  return picked;
}

}  // namespace tutti
