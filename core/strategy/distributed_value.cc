#include "core/strategy/distributed_value.h"

#include <utility>

#include "core/base/error.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

DistributedValue::DistributedValue(std::vector<Ref<Value>> components, int64_t global_rows)
    : components_(std::move(components)), global_rows_(global_rows) {}

DistributedValue::~DistributedValue() = default;

std::string DistributedValue::ToString() const {
  std::string text = "PerReplica:{";
  for (size_t i = 0; i < components_.size(); ++i) {
    text += Format("{}{}: {}", i == 0 ? "" : ", ", i, components_[i]->ToString());
  }
  return text + "}";
}

Leaf DistributedLeaf(std::vector<Ref<Value>> components, int64_t global_rows) {
  return Leaf(LeafKind::kDistributed,
              MakeRef<DistributedValue>(std::move(components), global_rows));
}

bool HasDistributedLeaf(const Value& value) {
  for (const Leaf& leaf : value.leaves()) {
    if (leaf.kind() == LeafKind::kDistributed) return true;
  }
  return false;
}

namespace {

// The structures are equal; only the message is worth the walk.
Status StructuresDiffer(const Value& first, const Value& other, size_t replica,
                        std::string_view what) {
  Status status = CheckSameStructure(first.spec(), other.spec(), what);
  if (status.ok()) return status;
  return InvalidArgument(
             "{}: replicas 0 and {} have different structures: replica 0 {}, replica {} {}; every "
             "replica has to give the same structure ({})",
             what, replica, first.spec().ToString(), replica, other.spec().ToString(),
             status.message())
      .With("replica", replica);
}

// A binding wraps an object anew each time that it hands it over.
bool IsSameHostObject(const Leaf& a, const Leaf& b) {
  return a.kind() == LeafKind::kHostObject && b.kind() == LeafKind::kHostObject &&
         a.host_object().tag() == b.host_object().tag() &&
         a.host_object().data() == b.host_object().data();
}

bool StaysOne(std::span<const Ref<Value>> values, size_t leaf_number) {
  const Leaf& first = values[0]->leaf(leaf_number);
  for (const Ref<Value>& value : values.subspan(1)) {
    const Leaf& leaf = value->leaf(leaf_number);
    if (leaf.SameObject(first)) continue;
    if (leaf.kind() == LeafKind::kString && first.kind() == LeafKind::kString &&
        leaf.string() == first.string()) {
      continue;
    }
    if (IsSameHostObject(leaf, first)) continue;
    return false;
  }
  return true;
}

}  // namespace

Result<Ref<Value>> Regroup(std::span<const Ref<Value>> values, Wrap wrap, std::string_view what,
                           int64_t global_rows) {
  const Value& first = *values[0];
  if (values.size() == 1 && wrap == Wrap::kWhereDifferent) return values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(StructuresDiffer(first, *values[i], i, what));
  }
  std::vector<Leaf> leaves;
  leaves.reserve(first.num_leaves());
  for (size_t k = 0; k < first.num_leaves(); ++k) {
    if (wrap == Wrap::kWhereDifferent && StaysOne(values, k)) {
      leaves.push_back(first.leaf(k));
      continue;
    }
    std::vector<Ref<Value>> components;
    components.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const Leaf& leaf = values[i]->leaf(k);
      if (leaf.kind() == LeafKind::kDistributed) {
        return InvalidArgument(
                   "{}: leaf {} of replica {} is a distributed value already; the component of one "
                   "replica cannot be distributed itself",
                   what, PathToString(first.spec().LeafPath(k)), i)
            .With("replica", i);
      }
      components.push_back(values[i]->is_leaf() ? values[i] : Value::OfLeaf(leaf));
    }
    leaves.push_back(DistributedLeaf(std::move(components), global_rows));
  }
  return first.WithLeaves(std::move(leaves));
}

Status CheckComponents(const Value& value, size_t num_replicas, std::string_view what) {
  for (const Leaf& leaf : value.leaves()) {
    const DistributedValue* distributed = AsDistributed(leaf);
    if (distributed == nullptr || distributed->num_components() == num_replicas) continue;
    return InvalidArgument(
        "{}: a distributed value has {} components, and the strategy has {} replicas; pass values "
        "that were made by the same strategy",
        what, distributed->num_components(), num_replicas);
  }
  return OkStatus();
}

Result<Ref<Value>> Select(const Value& value, size_t replica, size_t num_replicas,
                          std::string_view what) {
  if (!HasDistributedLeaf(value)) return Ref<Value>::Retain(const_cast<Value*>(&value));
  TUTTI_RETURN_IF_ERROR(CheckComponents(value, num_replicas, what));
  if (value.is_leaf()) return AsDistributed(value.leaf())->components()[replica];
  std::vector<Leaf> leaves;
  leaves.reserve(value.num_leaves());
  for (const Leaf& leaf : value.leaves()) {
    const DistributedValue* distributed = AsDistributed(leaf);
    leaves.push_back(distributed == nullptr ? leaf : distributed->component(replica).leaf());
  }
  return value.WithLeaves(std::move(leaves));
}

int64_t GlobalRows(const Value& value) {
  int64_t rows = DistributedValue::kNoRows;
  for (const Leaf& leaf : value.leaves()) {
    const DistributedValue* distributed = AsDistributed(leaf);
    if (distributed == nullptr || distributed->global_rows() == DistributedValue::kNoRows) continue;
    if (rows != DistributedValue::kNoRows && rows != distributed->global_rows()) {
      return DistributedValue::kNoRows;
    }
    rows = distributed->global_rows();
  }
  return rows;
}

}  // namespace tutti
