#include "core/dataset/ops/woven_rows.h"

#include <utility>

#include "core/tensor/gather.h"

namespace tutti {
namespace {

// Larger rows are not copied here: who puts them into batches does.
constexpr size_t kLargeRowBytes = 512;

}  // namespace

bool WovenRows::IsGathered(size_t column) const {
  const Column& first = sources_.front()->columns[column];
  if (!first.is_dense() || first.dense()->dtype() == DType::kBytes) return false;
  const Shape row_shape = first.dense()->shape().RowShape();
  if (static_cast<size_t>(row_shape.num_elements()) * first.dense()->item_size() > kLargeRowBytes) {
    return false;
  }
  for (const Slab* source : sources_) {
    const Column& other = source->columns[column];
    if (!other.is_dense() || other.dense()->dtype() != first.dense()->dtype() ||
        !(other.dense()->shape().RowShape() == row_shape)) {
      return false;
    }
  }
  return true;
}

Status WovenRows::Make(MemoryAccount* account, Slab* slab) const {
  TensorOptions options;
  options.zeroed = false;
  options.account = account;
  slab->tree = sources_.front()->tree;
  for (size_t i = 0; i < sources_.front()->columns.size(); ++i) {
    if (IsGathered(i)) {
      std::vector<const Tensor*> tensors;
      for (const Slab* source : sources_) tensors.push_back(source->columns[i].dense().get());
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> rows, GatherRows(tensors, picks_, options));
      slab->columns.push_back(Column::Dense(std::move(rows)));
      continue;
    }
    std::vector<Leaf> leaves;
    leaves.reserve(picks_.size());
    for (const RowRef& pick : picks_) {
      leaves.push_back(sources_[pick.source]->columns[i].Row(pick.row));
    }
    slab->columns.push_back(Column::Rows(std::move(leaves)));
  }
  bool knows_origins = false;
  for (const Slab* source : sources_) knows_origins = knows_origins || !source->origins.empty();
  for (size_t k = 0; knows_origins && k < picks_.size(); ++k) {
    slab->origins.Add(sources_[picks_[k].source]->origins.Of(picks_[k].row), 1);
  }
  slab->rows = rows();
  return OkStatus();
}

}  // namespace tutti
