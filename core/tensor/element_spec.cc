#include "core/tensor/element_spec.h"

#include <utility>

#include "core/base/error.h"
#include "core/tensor/composite.h"
#include "core/tensor/convert.h"
#include "core/tensor/value.h"

namespace tutti {
namespace {

void AppendTree(const TreeSpec& tree, std::span<const LeafSpec> leaves, std::string* out) {
  if (tree.is_leaf()) {
    *out += leaves[0].ToString();
    return;
  }
  const NodeKind kind = tree.kind();
  if (CompositeOf(tree) != Composite::kNone && leaves.back().inner && leaves.back().is_tensor()) {
    // All that there is to know of it.
    *out += CompositeOf(tree) == Composite::kSparse ? "sparse(" : "ragged(";
    *out += leaves.back().inner->ToString() + ")";
    return;
  }
  if (kind == NodeKind::kNamedTuple) *out += tree.name();
  *out += kind == NodeKind::kDict ? "{" : kind == NodeKind::kList ? "[" : "(";
  for (size_t i = 0; i < tree.num_children(); ++i) {
    if (i > 0) *out += ", ";
    if (kind == NodeKind::kDict) *out += "'" + tree.key(i) + "': ";
    if (kind == NodeKind::kNamedTuple) *out += tree.key(i) + "=";
    const TreeSpec& child = tree.child(i);
    AppendTree(child, leaves.subspan(tree.first_leaf(i), child.num_leaves()), out);
  }
  if (kind == NodeKind::kTuple && tree.num_children() == 1) *out += ",";
  *out += kind == NodeKind::kDict ? "}" : kind == NodeKind::kList ? "]" : ")";
}

// " at ['a'][0]" for a leaf of a structure, nothing for a single leaf.
std::string PlaceOf(const TreeSpec& tree, size_t leaf) {
  if (tree.is_leaf()) return "";
  return Format(" at {}", PathToString(tree.LeafPath(leaf)));
}

}  // namespace

LeafSpec LeafSpec::Of(const Leaf& leaf) {
  LeafSpec spec;
  spec.kind = leaf.kind();
  switch (leaf.kind()) {
    case LeafKind::kTensor:
      spec.dtype = leaf.tensor().dtype();
      spec.shape = PartialShape(leaf.tensor().shape());
      break;
    case LeafKind::kOptional:
      if (const Value* value = leaf.optional_value()) {
        spec.inner = ElementSpec::OfValue(*value);
      } else {
        spec.inner = leaf.empty_optional_spec();
      }
      break;
    case LeafKind::kDataset:
      spec.shape = PartialShape::Scalar();
      spec.inner = leaf.object_as<DatasetLeaf>()->known_element_spec();
      break;
    case LeafKind::kDistributed:
      if (const auto* components = dynamic_cast<const PerReplicaLeaf*>(leaf.object())) {
        spec.inner = ElementSpec::Tuple(components->component_specs());
      }
      break;
    default:
      break;
  }
  return spec;
}

bool LeafSpec::IsMoreGeneralThan(const LeafSpec& other) const {
  if (kind != other.kind || dtype != other.dtype || !shape.IsMoreGeneralThan(other.shape)) {
    return false;
  }
  // An empty optional fits every optional.
  if (!inner || !other.inner) return !inner || kind == LeafKind::kOptional;
  return inner->IsMoreGeneralThan(*other.inner);
}

bool LeafSpec::IsCompatibleWith(const LeafSpec& other) const {
  if (kind != other.kind || dtype != other.dtype || !shape.IsCompatibleWith(other.shape)) {
    return false;
  }
  return !inner || !other.inner || inner->IsCompatibleWith(*other.inner);
}

std::string LeafSpec::ToString() const {
  if (is_tensor()) return TensorSpec{dtype, shape}.ToString();
  if (kind == LeafKind::kDistributed && inner) return "PerReplica" + inner->ToString();
  std::string text(LeafKindName(kind));
  if (kind == LeafKind::kDataset && !(shape == PartialShape::Scalar())) text += shape.ToString();
  if (inner) text += "(" + inner->ToString() + ")";
  return text;
}

bool operator==(const LeafSpec& a, const LeafSpec& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || !(a.shape == b.shape)) return false;
  if (!a.inner || !b.inner) return !a.inner && !b.inner;
  return *a.inner == *b.inner;
}

ElementSpec::ElementSpec(Ref<const TreeSpec> tree, std::vector<LeafSpec> leaves)
    : tree_(std::move(tree)), leaves_(std::move(leaves)) {}

Ref<const ElementSpec> ElementSpec::OfLeaf(LeafSpec leaf) {
  std::vector<LeafSpec> leaves;
  leaves.push_back(std::move(leaf));
  return MakeRef<ElementSpec>(Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), std::move(leaves));
}

Ref<const ElementSpec> ElementSpec::OfTensor(DType dtype, PartialShape shape) {
  return OfLeaf(LeafSpec::OfTensor(dtype, std::move(shape)));
}

Ref<const ElementSpec> ElementSpec::None() { return OfLeaf(LeafSpec()); }

Ref<const ElementSpec> ElementSpec::Optional(Ref<const ElementSpec> inner) {
  LeafSpec leaf;
  leaf.kind = LeafKind::kOptional;
  leaf.inner = std::move(inner);
  return OfLeaf(std::move(leaf));
}

Ref<const ElementSpec> ElementSpec::Dataset(Ref<const ElementSpec> inner, PartialShape shape) {
  LeafSpec leaf;
  leaf.kind = LeafKind::kDataset;
  leaf.shape = std::move(shape);
  leaf.inner = std::move(inner);
  return OfLeaf(std::move(leaf));
}

Ref<const ElementSpec> ElementSpec::Iterator(Ref<const ElementSpec> inner) {
  LeafSpec leaf;
  leaf.kind = LeafKind::kIterator;
  leaf.inner = std::move(inner);
  return OfLeaf(std::move(leaf));
}

Result<Ref<const ElementSpec>> ElementSpec::PerReplica(
    std::span<const Ref<const ElementSpec>> components) {
  if (components.empty()) {
    return InvalidArgument("spec: a distributed value has a component for each replica, not none");
  }
  for (size_t i = 0; i < components.size(); ++i) {
    const ElementSpec& component = *components[i];
    if (component.tree().is_leaf() && component.leaf(0).kind != LeafKind::kDistributed) continue;
    return InvalidArgument(
        "spec: component {} of a distributed value is {}; each is one leaf that is not distributed "
        "itself: distribute the leaves of a structure one by one",
        i, component.ToString());
  }
  LeafSpec leaf;
  leaf.kind = LeafKind::kDistributed;
  leaf.inner = Tuple(components);
  return OfLeaf(std::move(leaf));
}

Result<Ref<const ElementSpec>> ElementSpec::Create(Ref<const TreeSpec> tree,
                                                   std::vector<LeafSpec> leaves) {
  if (tree->num_leaves() != leaves.size()) {
    return InvalidArgument("spec: the structure {} has {} leaves, but {} leaf specs were given",
                           tree->ToString(), tree->num_leaves(), leaves.size());
  }
  TUTTI_RETURN_IF_ERROR(CompleteComposites(*tree, leaves));
  return Ref<const ElementSpec>(MakeRef<ElementSpec>(std::move(tree), std::move(leaves)));
}

Result<Ref<const ElementSpec>> ElementSpec::Compose(const TreeSpec& tree,
                                                    std::span<const Ref<const ElementSpec>> parts) {
  if (tree.num_leaves() != parts.size()) {
    return InvalidArgument("spec: the structure {} has {} leaves, but {} specs were given",
                           tree.ToString(), tree.num_leaves(), parts.size());
  }
  std::vector<Ref<const TreeSpec>> trees;
  std::vector<LeafSpec> leaves;
  for (const Ref<const ElementSpec>& part : parts) {
    trees.push_back(part->tree_);
    leaves.insert(leaves.end(), part->leaves_.begin(), part->leaves_.end());
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> composed, ComposeTrees(tree, trees));
  return Ref<const ElementSpec>(MakeRef<ElementSpec>(std::move(composed), std::move(leaves)));
}

Ref<const ElementSpec> ElementSpec::Tuple(std::span<const Ref<const ElementSpec>> parts) {
  TreeSpec::Children children;
  std::vector<LeafSpec> leaves;
  for (const Ref<const ElementSpec>& part : parts) {
    children.push_back(part->tree_);
    leaves.insert(leaves.end(), part->leaves_.begin(), part->leaves_.end());
  }
  return MakeRef<ElementSpec>(TreeSpec::Tuple(std::move(children)), std::move(leaves));
}

Ref<const ElementSpec> ElementSpec::OfValue(const Value& value) {
  std::vector<LeafSpec> leaves;
  leaves.reserve(value.num_leaves());
  for (const Leaf& leaf : value.leaves()) leaves.push_back(LeafSpec::Of(leaf));
  DescribeComposites(value, leaves);
  return MakeRef<ElementSpec>(value.spec_ref(), std::move(leaves));
}

Ref<const ElementSpec> ElementSpec::WithLeaves(std::vector<LeafSpec> leaves) const {
  assert(leaves.size() == leaves_.size());
  return MakeRef<ElementSpec>(tree_, std::move(leaves));
}

Result<Ref<const ElementSpec>> ElementSpec::Prepend(int64_t size, std::string_view what) const {
  TUTTI_RETURN_IF_ERROR(CheckNoComposites(*tree_, what));
  std::vector<LeafSpec> leaves;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const LeafSpec& leaf = leaves_[i];
    if (!leaf.is_tensor()) {
      return InvalidArgument("{}: only tensors can be stacked, but the element{} is {}", what,
                             PlaceOf(*tree_, i), leaf.ToString());
    }
    leaves.push_back(LeafSpec::OfTensor(leaf.dtype, leaf.shape.Prepend(size)));
  }
  return WithLeaves(std::move(leaves));
}

Result<Ref<const ElementSpec>> ElementSpec::RowSpec(std::string_view what) const {
  TUTTI_RETURN_IF_ERROR(CheckNoComposites(*tree_, what));
  std::vector<LeafSpec> leaves;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const LeafSpec& leaf = leaves_[i];
    if (!leaf.is_tensor() || (leaf.shape.has_rank() && leaf.shape.rank() == 0)) {
      return InvalidArgument("{}: expected tensors of rank 1 or more, but the element{} is {}",
                             what, PlaceOf(*tree_, i), leaf.ToString());
    }
    leaves.push_back(LeafSpec::OfTensor(leaf.dtype, leaf.shape.RowShape()));
  }
  return WithLeaves(std::move(leaves));
}

bool ElementSpec::IsMoreGeneralThan(const ElementSpec& other) const {
  if (!(*tree_ == *other.tree_)) return false;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!leaves_[i].IsMoreGeneralThan(other.leaves_[i])) return false;
  }
  return true;
}

bool ElementSpec::IsCompatibleWith(const ElementSpec& other) const {
  if (!(*tree_ == *other.tree_)) return false;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!leaves_[i].IsCompatibleWith(other.leaves_[i])) return false;
  }
  return true;
}

Result<Ref<const ElementSpec>> ElementSpec::Relax(const ElementSpec& other,
                                                  std::string_view what) const {
  TUTTI_RETURN_IF_ERROR(CheckSameStructure(*tree_, *other.tree_, what));
  std::vector<LeafSpec> leaves;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    LeafSpec leaf = leaves_[i];
    const LeafSpec& found = other.leaves_[i];
    if (leaf.kind != found.kind || leaf.dtype != found.dtype) {
      return InvalidArgument("{}: expected {}{}, found {}", what, leaf.ToString(),
                             PlaceOf(*tree_, i), found.ToString());
    }
    leaf.shape = leaf.shape.Relax(found.shape);
    if (leaf.inner && found.inner) {
      TUTTI_ASSIGN_OR_RETURN(leaf.inner, leaf.inner->Relax(*found.inner, what));
    } else if (!leaf.inner && leaf.kind == LeafKind::kOptional) {
      leaf.inner = found.inner;
    } else if (leaf.kind != LeafKind::kOptional) {
      leaf.inner = nullptr;
    }
    leaves.push_back(std::move(leaf));
  }
  // Of sparse and ragged tensors the leaves are what follows from the whole.
  if (tree_->has_composites()) return Create(tree_, std::move(leaves));
  return WithLeaves(std::move(leaves));
}

// The sizes of a sparse tensor; the rows of a ragged one are those of the leaf's shape.
bool ElementSpec::FitsWhole(size_t i, const Tensor& sizes) const {
  const Path path = tree_->LeafPath(i);
  return path.empty() || path.back().key() != "dense_shape" || FitsDenseShape(leaves_[i], sizes);
}

Status ElementSpec::CheckLeaf(size_t i, const Leaf& leaf, std::string_view what) const {
  const LeafSpec& expected = leaves_[i];
  if (expected.is_tensor() && leaf.is_tensor()) {
    const Tensor& tensor = leaf.tensor();
    if (tensor.dtype() == expected.dtype && expected.shape.IsCompatibleWith(tensor.shape()) &&
        (!expected.inner || FitsWhole(i, tensor))) {
      return OkStatus();
    }
  } else if (expected.IsMoreGeneralThan(LeafSpec::Of(leaf))) {
    return OkStatus();
  }
  return InvalidArgument("{}: expected {}{}, found {}", what, expected.ToString(),
                         PlaceOf(*tree_, i), LeafSpec::Of(leaf).ToString());
}

Status ElementSpec::Check(const Value& value, std::string_view what) const {
  TUTTI_RETURN_IF_ERROR(CheckSameStructure(*tree_, value.spec(), what));
  for (size_t i = 0; i < leaves_.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(CheckLeaf(i, value.leaf(i), what));
  }
  return OkStatus();
}

Result<Leaf> ElementSpec::FitLeaf(size_t i, const Leaf& leaf, std::string_view what) const {
  const LeafSpec& expected = leaves_[i];
  const bool other_dtype = expected.is_tensor() && leaf.is_tensor() &&
                           leaf.tensor().dtype() != expected.dtype &&
                           expected.shape.IsCompatibleWith(leaf.tensor().shape());
  if (!other_dtype) {
    TUTTI_RETURN_IF_ERROR(CheckLeaf(i, leaf, what));
    return leaf;
  }
  Result<Ref<Tensor>> converted = Convert(leaf.tensor_ref(), expected.dtype);
  if (converted.ok()) return Leaf::OfTensor(std::move(converted).value());
  if (converted.status().code() != StatusCode::kInvalidArgument) return converted.status();
  return converted.status().WithPrefix(Format("{}: expected {}{}, found {}", what,
                                              expected.ToString(), PlaceOf(*tree_, i),
                                              LeafSpec::Of(leaf).ToString()));
}

Result<Ref<Value>> ElementSpec::Fit(Ref<Value> value, std::string_view what) const {
  TUTTI_RETURN_IF_ERROR(CheckSameStructure(*tree_, value->spec(), what));
  std::vector<Leaf> fitted;  // once one was converted
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& given = value->leaf(i);
    TUTTI_ASSIGN_OR_RETURN(Leaf leaf, FitLeaf(i, given, what));
    if (fitted.empty() && leaf.SameObject(given)) continue;
    if (fitted.empty()) fitted.assign(value->leaves().begin(), value->leaves().end());
    fitted[i] = std::move(leaf);
  }
  return fitted.empty() ? std::move(value) : value->WithLeaves(std::move(fitted));
}

std::string ElementSpec::ToString() const {
  std::string text;
  AppendTree(*tree_, leaves_, &text);
  return text;
}

Result<Ref<const TreeSpec>> ComposeTrees(const TreeSpec& tree,
                                         std::span<const Ref<const TreeSpec>> parts) {
  if (tree.is_leaf()) return parts[0];
  TreeSpec::Children children;
  for (size_t i = 0; i < tree.num_children(); ++i) {
    const TreeSpec& child = tree.child(i);
    TUTTI_ASSIGN_OR_RETURN(
        Ref<const TreeSpec> composed,
        ComposeTrees(child, parts.subspan(tree.first_leaf(i), child.num_leaves())));
    children.push_back(std::move(composed));
  }
  return WithChildren(tree, std::move(children));
}

Result<Ref<const TreeSpec>> WithChildren(const TreeSpec& tree, TreeSpec::Children children) {
  const std::vector<std::string> keys(tree.keys().begin(), tree.keys().end());
  switch (tree.kind()) {
    case NodeKind::kTuple:
      return TreeSpec::Tuple(std::move(children));
    case NodeKind::kList:
      return TreeSpec::List(std::move(children));
    case NodeKind::kDict:
      return TreeSpec::Dict(keys, std::move(children));
    case NodeKind::kNamedTuple:
      return TreeSpec::NamedTuple(tree.name(), keys, std::move(children));
    case NodeKind::kLeaf:
      break;
  }
  return Internal("a structure has a node of unknown kind {}", static_cast<int>(tree.kind()));
}

bool operator==(const ElementSpec& a, const ElementSpec& b) {
  return *a.tree_ == *b.tree_ && a.leaves_ == b.leaves_;
}

}  // namespace tutti
