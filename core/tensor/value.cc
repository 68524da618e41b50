// Values: a spec and, behind the object, its leaves.
#include "core/tensor/value.h"

#include <algorithm>
#include <memory>
#include <new>

#include "core/base/error.h"

namespace tutti {
namespace {

TreeSpec::Children SpecsOf(std::span<const Ref<Value>> children) {
  TreeSpec::Children specs;
  specs.reserve(children.size());
  for (const Ref<Value>& child : children) specs.push_back(child->spec_ref());
  return specs;
}

}  // namespace

static_assert(sizeof(Value) % alignof(Leaf) == 0);

Value::~Value() { std::destroy_n(leaf_array(), num_leaves_); }

Ref<Value> Value::CopyOfLeaves(Ref<const TreeSpec> spec, std::span<const Leaf> leaves) {
  auto* value = new (LeafCount{leaves.size()}) Value(std::move(spec), leaves.size());
  std::uninitialized_copy(leaves.begin(), leaves.end(), value->leaf_array());
  return Ref<Value>::Adopt(value);
}

Ref<Value> Value::OfLeaf(Leaf leaf) {
  auto* value = new (LeafCount{1}) Value(nullptr, 1);
  ::new (static_cast<void*>(value->leaf_array())) Leaf(std::move(leaf));
  return Ref<Value>::Adopt(value);
}

Ref<Value> Value::OfChildren(Ref<const TreeSpec> spec, std::span<const Ref<Value>> children) {
  const size_t num_leaves = spec->num_leaves();
  auto* value = new (LeafCount{num_leaves}) Value(std::move(spec), num_leaves);
  Leaf* place = value->leaf_array();
  for (const Ref<Value>& child : children) {
    place = std::uninitialized_copy(child->leaves().begin(), child->leaves().end(), place);
  }
  return Ref<Value>::Adopt(value);
}

Ref<Value> Value::Tuple(std::span<const Ref<Value>> children) {
  return OfChildren(TreeSpec::Tuple(SpecsOf(children)), children);
}

Ref<Value> Value::List(std::span<const Ref<Value>> children) {
  return OfChildren(TreeSpec::List(SpecsOf(children)), children);
}

Result<Ref<Value>> Value::Dict(std::vector<std::pair<std::string, Ref<Value>>> items) {
  std::stable_sort(items.begin(), items.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> keys;
  Children children;
  for (auto& [key, child] : items) {
    keys.push_back(std::move(key));
    children.push_back(std::move(child));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> spec,
                         TreeSpec::Dict(std::move(keys), SpecsOf(children)));
  return OfChildren(std::move(spec), children);
}

Result<Ref<Value>> Value::NamedTuple(std::string name, std::vector<std::string> fields,
                                     std::span<const Ref<Value>> children) {
  TUTTI_ASSIGN_OR_RETURN(
      Ref<const TreeSpec> spec,
      TreeSpec::NamedTuple(std::move(name), std::move(fields), SpecsOf(children)));
  return OfChildren(std::move(spec), children);
}

Result<Ref<Value>> Value::FromLeaves(Ref<const TreeSpec> spec, std::vector<Leaf> leaves) {
  if (leaves.size() != spec->num_leaves()) {
    return InvalidArgument("value: the structure {} has {} leaves, but {} are given",
                           spec->ToString(), spec->num_leaves(), leaves.size());
  }
  return CopyOfLeaves(std::move(spec), leaves);
}

Ref<Value> Value::WithLeaves(std::vector<Leaf> leaves) const {
  assert(leaves.size() == num_leaves_);
  return CopyOfLeaves(spec_, leaves);
}

const Leaf& Value::leaf() const {
  assert(is_leaf());
  return *leaf_array();
}

const Tensor* Value::AsTensor() const {
  return is_leaf() && leaf().is_tensor() ? &leaf().tensor() : nullptr;
}

Result<Ref<Tensor>> Value::GetTensor(std::string_view what) const {
  if (AsTensor() != nullptr) return leaf().tensor_ref();
  if (is_leaf()) {
    return InvalidArgument("{}: expected a tensor, found a leaf of kind {}", what,
                           LeafKindName(leaf().kind()));
  }
  return InvalidArgument("{}: expected a tensor, found the structure {}", what, spec().ToString());
}

Ref<Value> Value::Part(const TreeSpec::Location& location) const {
  return CopyOfLeaves(
      location.node->is_leaf() ? nullptr : Ref<const TreeSpec>::Retain(location.node),
      leaves().subspan(location.first_leaf, location.node->num_leaves()));
}

Ref<Value> Value::Child(size_t i) const {
  return Part({&spec().child(i), spec().first_leaf(i)});
}

Result<Ref<Value>> Value::At(int64_t i) const {
  if (i < 0 || i >= static_cast<int64_t>(num_children())) {
    return OutOfRange("value: there is no child {} in {}, which has {}", i, spec().ToString(),
                      num_children())
        .With("index", i);
  }
  return Child(static_cast<size_t>(i));
}

Result<Ref<Value>> Value::Find(std::string_view key) const {
  return Get({PathStep(std::string(key))});
}

Result<Ref<Value>> Value::Get(std::span<const PathStep> path) const {
  TUTTI_ASSIGN_OR_RETURN(TreeSpec::Location location, spec().Locate(path));
  return Part(location);
}

Result<Ref<Value>> Value::GetByText(std::string_view path) const {
  TUTTI_ASSIGN_OR_RETURN(TreeSpec::Location location, spec().Locate(path));
  return Part(location);
}

std::vector<Ref<Value>> Value::AllChildren() const {
  std::vector<Ref<Value>> children;
  children.reserve(num_children());
  for (size_t i = 0; i < num_children(); ++i) children.push_back(Child(i));
  return children;
}

namespace {

// Appends the leaves of `prefix`, from number *leaf on, each as often as `full` has leaves in its
// place.
void RepeatLeaves(const TreeSpec& prefix, const TreeSpec& full, const Value& value, size_t* leaf,
                  std::vector<Leaf>* out) {
  if (prefix.is_leaf()) {
    out->insert(out->end(), full.num_leaves(), value.leaf(*leaf));
    ++*leaf;
    return;
  }
  for (size_t i = 0; i < prefix.num_children(); ++i) {
    RepeatLeaves(prefix.child(i), full.child(i), value, leaf, out);
  }
}

void AppendText(const TreeSpec& spec, std::span<const Leaf> leaves, std::string* out) {
  if (spec.is_leaf()) {
    *out += leaves[0].ToString();
    return;
  }
  const NodeKind kind = spec.kind();
  if (kind == NodeKind::kNamedTuple) *out += spec.name();
  *out += kind == NodeKind::kList ? '[' : kind == NodeKind::kDict ? '{' : '(';
  for (size_t i = 0; i < spec.num_children(); ++i) {
    if (i > 0) *out += ", ";
    if (kind == NodeKind::kDict) *out += "'" + spec.key(i) + "': ";
    if (kind == NodeKind::kNamedTuple) *out += spec.key(i) + "=";
    AppendText(spec.child(i), leaves.subspan(spec.first_leaf(i)), out);
  }
  if (kind == NodeKind::kTuple && spec.num_children() == 1) *out += ',';
  *out += kind == NodeKind::kList ? ']' : kind == NodeKind::kDict ? '}' : ')';
}

}  // namespace

Result<Ref<Value>> Value::BroadcastTo(const Ref<const TreeSpec>& full,
                                      std::string_view what) const {
  TUTTI_RETURN_IF_ERROR(CheckPrefix(spec(), *full, what));
  std::vector<Leaf> repeated;
  repeated.reserve(full->num_leaves());
  size_t leaf = 0;
  RepeatLeaves(spec(), *full, *this, &leaf, &repeated);
  return CopyOfLeaves(full, repeated);
}

bool Value::ContentsEqual(const Value& other) const {
  return spec() == other.spec() &&
         std::equal(leaves().begin(), leaves().end(), other.leaves().begin(),
                    [](const Leaf& a, const Leaf& b) { return a.ContentsEqual(b); });
}

std::string Value::ToString() const {
  std::string text;
  AppendText(spec(), leaves(), &text);
  return text;
}

}  // namespace tutti
