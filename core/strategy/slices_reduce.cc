#include "core/strategy/slices_reduce.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/strategy.h"
#include "core/strategy/team_channel.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/copy.h"

namespace tutti {

Result<Ref<Tensor>> ShareOfMean(const Tensor& values, int64_t replicas) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> count,
                         Full(values.dtype(), Shape(), static_cast<double>(replicas)));
  return Binary(BinaryOp::kDiv, values, *count);
}

Status CheckSlicesOp(ReduceOp op, std::string_view what) {
  if (op == ReduceOp::kSum || op == ReduceOp::kMean) return OkStatus();
  return InvalidArgument("{}: indexed slices have a SUM and a MEAN, and no {}; make them dense "
                         "first",
                         what, ReduceOpName(op));
}

Status CheckNoSlices(const Value& value, std::string_view what) {
  if (value.is_leaf()) return OkStatus();
  const std::vector<size_t> slices = FindIndexedSlices(value.spec());
  if (slices.empty()) return OkStatus();
  Path path = value.spec().LeafPath(slices[0]);
  path.pop_back();
  return InvalidArgument("{}: indexed slices are not taken, and stand {}; a reduction joins them",
                         what, path.empty() ? "in the place of the value"
                                            : "at " + PathToString(path));
}

Ref<Value> WithoutSlices(const Value& value, std::span<const size_t> slices) {
  std::vector<Ref<Value>> others;
  auto next = slices.begin();
  for (size_t i = 0; i < value.num_leaves();) {
    if (next != slices.end() && i == *next) {
      ++next;
      i += kSlicesLeaves;
      continue;
    }
    others.push_back(Value::OfLeaf(value.leaf(i++)));
  }
  return Value::Tuple(others);
}

Ref<Value> WithSlices(const Value& value, std::span<const size_t> slices, const Value& others,
                      std::span<const Ref<Value>> reduced) {
  std::vector<Leaf> leaves;
  leaves.reserve(value.num_leaves());
  size_t k = 0;
  size_t other = 0;
  while (leaves.size() < value.num_leaves()) {
    if (k < slices.size() && leaves.size() == slices[k]) {
      for (const Leaf& leaf : reduced[k]->leaves()) leaves.push_back(leaf);
      ++k;
    } else {
      leaves.push_back(others.leaf(other++));
    }
  }
  return value.WithLeaves(std::move(leaves));
}

Ref<Value> SlicesAt(const Value& value, size_t first) {
  const TreeSpec* node = &value.spec();
  size_t at = 0;
  while (!IsIndexedSlices(*node)) {
    size_t i = node->num_children() - 1;
    while (at + node->first_leaf(i) > first) --i;
    at += node->first_leaf(i);
    node = &node->child(i);
  }
  return value.Part({node, first});
}

Result<Ref<Value>> Strategy::ReduceSlices(ReduceOp op, const Value& value,
                                          std::span<const size_t> slices,
                                          const CollectiveOptions& options) {
  Ref<Value> others = WithoutSlices(value, slices);
  if (others->num_leaves() > 0) {
    TUTTI_ASSIGN_OR_RETURN(others, Reduce(op, *others, std::nullopt, options));
  }
  std::vector<Ref<Value>> reduced;
  for (const size_t first : slices) {
    const std::string label = Format("reduce: {}", PathToString(value.spec().LeafPath(first)));
    const Ref<Value> own = SlicesAt(value, first);
    const Leaf& sizes = own->leaf(2);
    const DistributedValue* several = AsDistributed(sizes);
    const Leaf& dense_shape = several == nullptr ? sizes : several->component(0).leaf();
    const bool spread = IsSpreadOverWorkers(*own);
    if (!spread) TUTTI_RETURN_IF_ERROR(CheckPlainReduce(op, own->leaf(0), label));
    const bool distributed = AsDistributed(own->leaf(0)) != nullptr;
    if (distributed != (AsDistributed(own->leaf(1)) != nullptr)) {
      Status mixed = InvalidArgument(
          "{}: the values and the indices of indexed slices must both be distributed, or neither",
          label);
      return team_channel_ ? team_channel_->Refuse(std::move(mixed), options) : mixed;
    }
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Value> joined,
        Gather(*Value::Tuple({Value::OfLeaf(own->leaf(0)), Value::OfLeaf(own->leaf(1))}), 0,
               options));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> values, joined->Child(0)->GetTensor(label));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> indices, joined->Child(1)->GetTensor(label));
    Ref<Tensor> whole = values;
    if (op == ReduceOp::kMean && spread) {
      TUTTI_ASSIGN_OR_RETURN(whole, ShareOfMean(*values, num_replicas_in_sync()));
    }
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Value> made,
        MakeIndexedSlices(std::move(whole), indices,
                          dense_shape.is_tensor() ? dense_shape.tensor_ref() : nullptr));
    reduced.push_back(std::move(made));
  }
  return WithSlices(value, slices, *others, reduced);
}

}  // namespace tutti
