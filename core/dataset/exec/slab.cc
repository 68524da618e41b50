#include "core/dataset/exec/slab.h"

#include <cassert>
#include <string_view>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/tensor/gather.h"

namespace tutti {
namespace {

// The detail that marks a status.
constexpr std::string_view kLossDetail = "loss";

}  // namespace

Column Column::Dense(Ref<Tensor> rows) {
  assert(rows->rank() >= 1 && rows->is_contiguous());
  Column column;
  column.dense_ = std::move(rows);
  return column;
}

Column Column::Borrowed(Ref<Tensor> rows) {
  Column column = Dense(std::move(rows));
  column.borrowed_ = true;
  return column;
}

Column Column::Rows(std::vector<Leaf> rows) {
  Column column;
  column.rows_ = std::move(rows);
  // Data is of no step, whatever it was before it was put into a dataset.
  for (Leaf& leaf : column.rows_) {
    if (!leaf.is_tensor() || leaf.tensor().step_rows() == Tensor::kNoStep) continue;
    leaf = Leaf::OfTensor(leaf.tensor().OfNoStep());
  }
  return column;
}

Leaf Column::Row(int64_t i) const {
  if (dense_) return Leaf::OfTensor(dense_->Row(i));
  return rows_[static_cast<size_t>(i)];
}

Column Column::Slice(int64_t begin, int64_t end) const {
  if (begin == 0 && end == rows()) return *this;
  Column column;
  column.borrowed_ = borrowed_;
  if (dense_) {
    column.dense_ = dense_->Slice(begin, end);
  } else {
    column.rows_.assign(rows_.begin() + begin, rows_.begin() + end);
  }
  return column;
}

Result<Ref<Tensor>> Column::ToDense(MemoryAccount* account) const {
  if (dense_) return dense_;
  std::vector<const Tensor*> tensors;
  tensors.reserve(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].is_tensor()) {
      return InvalidArgument("element {} is {}; only tensors can be stacked", i,
                             LeafKindName(rows_[i].kind()));
    }
    const Tensor& tensor = rows_[i].tensor();
    tensors.push_back(&tensor);
    const Tensor& first = *tensors[0];
    if (tensor.dtype() != first.dtype()) {
      return InvalidArgument("element {} is {}, element 0 is {}", i, tensor.SpecString(),
                             first.SpecString());
    }
    if (!(tensor.shape() == first.shape())) {
      return InvalidArgument("element {} has shape {}, element 0 has {}", i,
                             tensor.shape().ToString(), first.shape().ToString());
    }
  }
  if (tensors.empty()) return InvalidArgument("there are no elements to stack");
  TensorOptions options;
  options.zeroed = false;
  options.account = account;
  return Stack(tensors, options);
}

Slab SlabOfValues(std::span<const Ref<Value>> values) {
  Slab slab;
  if (values.empty()) return slab;
  slab.rows = static_cast<int64_t>(values.size());
  slab.tree = values[0]->spec_ref();
  for (size_t i = 0; i < values[0]->num_leaves(); ++i) {
    std::vector<Leaf> leaves;
    for (const Ref<Value>& value : values) leaves.push_back(value->leaf(i));
    slab.columns.push_back(Column::Rows(std::move(leaves)));
  }
  return slab;
}

Status WithLoss(Status status, Loss loss) {
  return std::move(status).With(kLossDetail, static_cast<int64_t>(loss));
}

Loss LossOf(const Status& status) {
  const StatusDetail* detail = status.FindDetail(kLossDetail);
  const int64_t* loss = detail != nullptr ? std::get_if<int64_t>(&detail->value) : nullptr;
  return loss != nullptr && *loss >= 0 && *loss <= static_cast<int64_t>(Loss::kMany)
             ? static_cast<Loss>(*loss)
             : Loss::kElement;
}

int64_t HorizonPlus(int64_t horizon, int64_t rows) {
  int64_t sum = 0;
  if (horizon == kNoHorizon || __builtin_add_overflow(horizon, rows, &sum)) return kNoHorizon;
  return sum;
}

int64_t HorizonTimes(int64_t horizon, int64_t factor) {
  int64_t product = 0;
  if (horizon == kNoHorizon || __builtin_mul_overflow(horizon, factor, &product)) return kNoHorizon;
  return product;
}

void Slab::Clear() {
  rows = 0;
  tree.reset();
  columns.clear();
  origins = Origins();
  status = OkStatus();
  end = false;
}

Result<Ref<Value>> Slab::Row(int64_t i) const {
  std::vector<Leaf> leaves;
  leaves.reserve(columns.size());
  for (const Column& column : columns) {
    if (!column.is_dense()) {
      leaves.push_back(column.Row(i));
      continue;
    }
    Ref<Tensor> row = column.dense()->Row(i);
    // A row out of few cannot pin more than that many times its size.
    if (!column.is_borrowed() && column.rows() > 4) {
      TUTTI_ASSIGN_OR_RETURN(row, row->Unpinned(4));
    }
    leaves.push_back(Leaf::OfTensor(std::move(row)));
  }
  if (tree->is_leaf()) return Value::OfLeaf(std::move(leaves[0]));
  return Value::FromLeaves(tree, std::move(leaves));
}

Slab Slab::Slice(int64_t begin, int64_t end_row) const {
  Slab part;
  part.rows = end_row - begin;
  part.tree = tree;
  part.columns.reserve(columns.size());
  for (const Column& column : columns) part.columns.push_back(column.Slice(begin, end_row));
  part.origins = origins.Slice(begin, end_row);
  return part;
}

}  // namespace tutti
