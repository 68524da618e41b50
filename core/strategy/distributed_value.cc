#include "core/strategy/distributed_value.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

DistributedValue::DistributedValue(std::vector<Ref<Value>> components, int64_t global_rows,
                                   Distribution distribution)
    : components_(std::move(components)), global_rows_(global_rows), distribution_(distribution) {}

DistributedValue::~DistributedValue() = default;

std::vector<Ref<const ElementSpec>> DistributedValue::component_specs() const {
  std::vector<Ref<const ElementSpec>> specs;
  specs.reserve(components_.size());
  for (const Ref<Value>& component : components_) specs.push_back(ElementSpec::OfValue(*component));
  return specs;
}

std::string DistributedValue::ToString() const {
  std::string text = distribution_ == Distribution::kMirrored ? "Mirrored:{" : "PerReplica:{";
  for (size_t i = 0; i < components_.size(); ++i) {
    text += Format("{}{}: {}", i == 0 ? "" : ", ", i, components_[i]->ToString());
  }
  return text + "}";
}

Leaf DistributedLeaf(std::vector<Ref<Value>> components, int64_t global_rows) {
  return Leaf(LeafKind::kDistributed,
              MakeRef<DistributedValue>(std::move(components), global_rows));
}

Leaf MirroredLeaf(std::vector<Ref<Value>> components) {
  return Leaf(LeafKind::kDistributed,
              MakeRef<DistributedValue>(std::move(components), DistributedValue::kNoRows,
                                        Distribution::kMirrored));
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

bool IsOfStep(const Leaf& leaf) {
  return leaf.is_tensor() && leaf.tensor().step_rows() != Tensor::kNoStep;
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

Result<Ref<Value>> Mirror(const Value& value, size_t num_replicas, std::string_view what) {
  return value.MapLeaves([num_replicas, what](const Leaf& leaf) -> Result<Leaf> {
    if (leaf.kind() == LeafKind::kDistributed || leaf.kind() == LeafKind::kVariable) {
      return InvalidArgument(
          "{}: a {} has a component per replica already; pass the value that all replicas are to "
          "have",
          what, LeafKindName(leaf.kind()));
    }
    return MirroredLeaf(std::vector<Ref<Value>>(num_replicas, Value::OfLeaf(leaf)));
  });
}

Result<Ref<Value>> JoinStep(std::span<const Ref<Value>> parts, std::string_view what,
                            int64_t global_rows) {
  if (parts.size() > 1) return Regroup(parts, Wrap::kAlways, what, global_rows);
  return parts[0]->MapLeaves([global_rows](const Leaf& leaf) -> Result<Leaf> {
    return leaf.is_tensor() ? Leaf::OfTensor(leaf.tensor().OfStep(global_rows)) : leaf;
  });
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
  const std::span<const Leaf> all = value.leaves();
  if (std::none_of(all.begin(), all.end(), [](const Leaf& leaf) {
        return leaf.kind() == LeafKind::kDistributed || IsOfStep(leaf);
      })) {
    return Ref<Value>::Retain(const_cast<Value*>(&value));
  }
  TUTTI_RETURN_IF_ERROR(CheckComponents(value, num_replicas, what));
  if (value.is_leaf()) {
    const DistributedValue* distributed = AsDistributed(value.leaf());
    if (distributed != nullptr && !IsOfStep(distributed->component(replica).leaf())) {
      return distributed->components()[replica];
    }
  }
  std::vector<Leaf> leaves;
  leaves.reserve(value.num_leaves());
  for (const Leaf& leaf : all) {
    const DistributedValue* distributed = AsDistributed(leaf);
    const Leaf& own = distributed == nullptr ? leaf : distributed->component(replica).leaf();
    leaves.push_back(IsOfStep(own) ? Leaf::OfTensor(own.tensor().OfNoStep()) : own);
  }
  return value.WithLeaves(std::move(leaves));
}

int64_t GlobalRows(const Value& value, size_t num_replicas) {
  int64_t rows = DistributedValue::kNoRows;
  for (const Leaf& leaf : value.leaves()) {
    int64_t own = DistributedValue::kNoRows;
    if (const DistributedValue* distributed = AsDistributed(leaf)) {
      own = distributed->global_rows();
    } else if (num_replicas == 1 && IsOfStep(leaf)) {
      own = leaf.tensor().step_rows();
    }
    if (own == DistributedValue::kNoRows) continue;
    if (rows != DistributedValue::kNoRows && rows != own) return DistributedValue::kNoRows;
    rows = own;
  }
  return rows;
}

}  // namespace tutti
