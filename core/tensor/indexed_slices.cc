#include "core/tensor/indexed_slices.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

constexpr std::array<std::string_view, kSlicesLeaves> kSlicesFields = {"values", "indices",
                                                                       "dense_shape"};

Status CheckParts(const IndexedSlices& slices, std::string_view what) {
  const Tensor& values = *slices.values;
  const Tensor& indices = *slices.indices;
  if (indices.rank() != 1) {
    return InvalidArgument("{}: the indices of indexed slices must be a vector, and are {}", what,
                           indices.SpecString());
  }
  if (values.rank() == 0 || values.dim(0) != indices.dim(0)) {
    return InvalidArgument("{}: indexed slices have {} indices, and their values are {}; give one "
                           "row of values for each index",
                           what, indices.dim(0), values.SpecString());
  }
  if (!slices.dense_shape) return OkStatus();
  const Tensor& dense_shape = *slices.dense_shape;
  if (dense_shape.dtype() != DType::kInt64 || dense_shape.rank() != 1) {
    return InvalidArgument("{}: the dense_shape of indexed slices must be a vector of int64, and "
                           "is {}",
                           what, dense_shape.SpecString());
  }
  const std::span<const int64_t> sizes = dense_shape.span<int64_t>();
  const std::span<const int64_t> rows = values.shape().dims();
  if (sizes.size() != rows.size() ||
      !std::ranges::equal(sizes.subspan(1), rows.subspan(1)) || sizes[0] < 0) {
    return InvalidArgument("{}: the values of indexed slices are {}, which are no rows of a tensor "
                           "of their dense_shape {}",
                           what, values.SpecString(), DimsToString(sizes));
  }
  for (const int64_t index : indices.span<int64_t>()) {
    if (index >= 0 && index < sizes[0]) continue;
    return InvalidArgument("{}: index {} of indexed slices is outside of their dense_shape {}",
                           what, index, DimsToString(sizes));
  }
  return OkStatus();
}

// The indices as int64, whatever integers of the two widths they are.
Result<Ref<Tensor>> WideIndices(const Tensor& indices, std::string_view what) {
  if (indices.dtype() == DType::kInt64) return indices.Contiguous();
  if (indices.dtype() == DType::kInt32) return Cast(indices, DType::kInt64);
  return InvalidArgument("{}: the indices of indexed slices must be int64 or int32, and are {}",
                         what, indices.SpecString());
}

Result<IndexedSlices> CheckedSlices(const Tensor& values, const Tensor& indices,
                                    const Tensor* dense_shape, std::string_view what) {
  IndexedSlices slices;
  TUTTI_ASSIGN_OR_RETURN(slices.values, values.Contiguous());
  TUTTI_ASSIGN_OR_RETURN(slices.indices, WideIndices(indices, what));
  if (dense_shape != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(slices.dense_shape, dense_shape->Contiguous());
  }
  TUTTI_RETURN_IF_ERROR(CheckParts(slices, what));
  return slices;
}

void FindBelow(const TreeSpec& node, size_t first_leaf, std::vector<size_t>* found) {
  if (IsIndexedSlices(node)) {
    found->push_back(first_leaf);
    return;
  }
  for (size_t i = 0; i < node.num_children(); ++i) {
    FindBelow(node.child(i), first_leaf + node.first_leaf(i), found);
  }
}

}  // namespace

bool IsIndexedSlices(const TreeSpec& node) {
  return node.kind() == NodeKind::kNamedTuple && node.name() == kIndexedSlicesTypeName;
}

Status CheckIndexedSlicesName(std::span<const std::string> fields,
                              std::span<const Ref<const TreeSpec>> children) {
  if (std::ranges::equal(fields, kSlicesFields) &&
      std::ranges::all_of(children, [](const auto& child) { return child->is_leaf(); })) {
    return OkStatus();
  }
  return InvalidArgument("named tuple: {} is the name of indexed slices, of the fields values, "
                         "indices, dense_shape; give a type of other fields another name",
                         kIndexedSlicesTypeName);
}

Result<Ref<Value>> ValueOfSlices(const IndexedSlices& slices) {
  const Ref<Value> parts[] = {
      Value::OfTensor(slices.values), Value::OfTensor(slices.indices),
      slices.dense_shape ? Value::OfTensor(slices.dense_shape) : Value::None()};
  return Value::NamedTuple(std::string(kIndexedSlicesTypeName),
                           {kSlicesFields.begin(), kSlicesFields.end()}, parts);
}

Result<Ref<Value>> MakeIndexedSlices(Ref<Tensor> values, Ref<Tensor> indices,
                                     Ref<Tensor> dense_shape) {
  TUTTI_ASSIGN_OR_RETURN(
      const IndexedSlices slices,
      CheckedSlices(*values, *indices, dense_shape.get(), "indexed slices"));
  return ValueOfSlices(slices);
}

Result<IndexedSlices> ReadIndexedSlices(const Value& value, std::string_view what) {
  if (!IsIndexedSlices(value.spec())) {
    return InvalidArgument("{}: indexed slices (values, indices, dense_shape) are needed, and this "
                           "is {}",
                           what, value.ToString());
  }
  for (size_t i = 0; i < kSlicesLeaves; ++i) {
    if (value.leaf(i).is_tensor() || (i == 2 && value.leaf(i).is_none())) continue;
    return InvalidArgument("{}: the {} of indexed slices must be a tensor, and is a {}", what,
                           kSlicesFields[i], LeafKindName(value.leaf(i).kind()));
  }
  const Tensor* dense_shape = value.leaf(2).is_none() ? nullptr : &value.leaf(2).tensor();
  return CheckedSlices(value.leaf(0).tensor(), value.leaf(1).tensor(), dense_shape, what);
}

std::vector<size_t> FindIndexedSlices(const TreeSpec& tree) {
  std::vector<size_t> found;
  FindBelow(tree, 0, &found);
  return found;
}

}  // namespace tutti
