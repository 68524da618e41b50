#include "core/dataset/graph/value_proto.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/graph/graph_walk.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

// Deeper structures than this are hostile: the parser of messages has a limit, too.
constexpr int kMaxLevels = 32;

Status MalformedValue(std::string_view what) {
  return InvalidArgument("deserialize: these bytes are no dataset definition ({})", what);
}

Status WriteTensor(const Tensor& original, bool digest, v1::TensorDef* def) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, original.Contiguous());
  def->set_dtype(static_cast<int32_t>(tensor->dtype()));
  for (int64_t dim : tensor->shape().dims()) def->add_dims(dim);
  if (digest) {
    const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                     EVP_MD_CTX_free);
    EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
    if (tensor->dtype() == DType::kBytes) {
      for (const BytesView& view : tensor->span<BytesView>()) {
        EVP_DigestUpdate(context.get(), &view.size, sizeof(view.size));
        EVP_DigestUpdate(context.get(), view.data, view.size);
      }
    } else {
      EVP_DigestUpdate(context.get(), tensor->data(), tensor->byte_size());
    }
    std::string hash(static_cast<size_t>(EVP_MD_size(EVP_sha256())), '\0');
    EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(hash.data()), nullptr);
    def->set_data(std::move(hash));
  } else if (tensor->dtype() == DType::kBytes) {
    for (const BytesView& view : tensor->span<BytesView>()) def->add_texts(view.data, view.size);
  } else {
    def->set_data(tensor->data(), tensor->byte_size());
  }
  return OkStatus();
}

Result<Ref<Tensor>> ReadTensor(const v1::TensorDef& def) {
  const auto dtype = static_cast<DType>(def.dtype());
  if (!IsValid(dtype)) return MalformedValue("a tensor has an unknown dtype");
  TUTTI_ASSIGN_OR_RETURN(const Shape shape,
                         Shape::Create(def.dims().data(), static_cast<size_t>(def.dims_size())));
  if (dtype != DType::kBytes) {
    return Tensor::FromData(dtype, shape, def.data().data(), def.data().size());
  }
  if (shape.num_elements() != def.texts_size()) return MalformedValue("a tensor has another size");
  std::vector<BytesView> views;
  views.reserve(static_cast<size_t>(def.texts_size()));
  for (const std::string& text : def.texts()) views.push_back(BytesView{text.data(), text.size()});
  return Tensor::FromStrings(shape, views);
}

// The levels below the root.
int LevelsOf(const TreeSpec& tree) {
  int levels = 0;
  for (size_t i = 0; i < tree.num_children(); ++i) {
    levels = std::max(levels, 1 + LevelsOf(tree.child(i)));
  }
  return levels;
}

int LevelsOf(const ElementSpec& spec) {
  int levels = LevelsOf(spec.tree());
  for (const LeafSpec& leaf : spec.leaves()) {
    if (leaf.inner) levels = std::max(levels, 1 + LevelsOf(*leaf.inner));
  }
  return levels;
}

using DatasetLevels = std::unordered_map<const Dataset*, int>;
int LevelsOf(const Dataset& dataset, int above, DatasetLevels* known);

// Of datasets in it those in the values of all their operations, no deeper than it takes to say
// that they are too deep. Where that was the case for one, it is for all.
int LevelsOf(const Value& value, int above, DatasetLevels* known) {
  int levels = LevelsOf(value.spec());
  for (const Leaf& leaf : value.leaves()) {
    if (leaf.kind() == LeafKind::kOptional) {
      if (leaf.optional_value() != nullptr) {
        levels = std::max(levels, 1 + LevelsOf(*leaf.optional_value(), above + 1, known));
      } else if (leaf.empty_optional_spec()) {
        levels = std::max(levels, 1 + LevelsOf(*leaf.empty_optional_spec()));
      }
    }
    if (leaf.kind() != LeafKind::kDataset) continue;
    levels = std::max(levels, 1);
    if (above > kMaxLevels) continue;
    levels = std::max(levels, LevelsOf(*leaf.object_as<const Dataset>(), above, known));
  }
  return levels;
}

int LevelsOf(const Dataset& dataset, int above, DatasetLevels* known) {
  const auto found = known->find(&dataset);
  if (found != known->end()) return found->second;
  int levels = 0;
  for (const Node* node : InputsFirst(dataset.node())) {
    for (const auto& [name, attribute] : node->attributes().items()) {
      const auto* const inner = std::get_if<Ref<const Value>>(&attribute);
      if (inner != nullptr) levels = std::max(levels, 1 + LevelsOf(**inner, above + 1, known));
    }
  }
  known->emplace(&dataset, levels);
  return levels;
}

Status WriteFingerprint(const Dataset& dataset, WrittenDatasets* written, v1::LeafDef* def) {
  std::string& fingerprint = written->fingerprints[&dataset];
  if (fingerprint.empty()) {
    TUTTI_ASSIGN_OR_RETURN(fingerprint, GraphFingerprint(dataset.node()));
  }
  def->set_text(fingerprint);
  return OkStatus();
}

Status WriteDefinition(const Dataset& dataset, WrittenDatasets* written, v1::LeafDef* def) {
  const auto found = written->numbers.find(&dataset);
  if (found != written->numbers.end()) {
    def->set_same_as(found->second);
    return OkStatus();
  }
  TUTTI_ASSIGN_OR_RETURN(std::string definition, dataset.Serialize());
  def->set_text(std::move(definition));
  written->numbers.emplace(&dataset, static_cast<int32_t>(written->numbers.size()) + 1);
  return OkStatus();
}

Status CheckLevels(int levels) {
  if (levels <= kMaxLevels) return OkStatus();
  return FailedPrecondition(
      "a structure is nested {} levels deep, and a definition holds at most {}; flatten it", levels,
      kMaxLevels);
}

}  // namespace

Status CheckLevels(const TreeSpec& tree) { return CheckLevels(LevelsOf(tree)); }
Status CheckLevels(const ElementSpec& spec) { return CheckLevels(LevelsOf(spec)); }
Status CheckLevels(const Value& value) {
  DatasetLevels known;
  return CheckLevels(LevelsOf(value, 0, &known));
}

void WriteTree(const TreeSpec& tree, v1::TreeDef* def) {
  def->set_kind(static_cast<int32_t>(tree.kind()));
  if (tree.is_leaf()) return;
  def->set_name(tree.name());
  for (const std::string& key : tree.keys()) def->add_keys(key);
  for (size_t i = 0; i < tree.num_children(); ++i) WriteTree(tree.child(i), def->add_children());
}

Result<Ref<const TreeSpec>> ReadTree(const v1::TreeDef& def, int depth) {
  if (depth > kMaxLevels) return MalformedValue("a structure is too deep");
  TreeSpec::Children children;
  for (const v1::TreeDef& child : def.children()) {
    TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> tree, ReadTree(child, depth + 1));
    children.push_back(std::move(tree));
  }
  std::vector<std::string> keys(def.keys().begin(), def.keys().end());
  switch (static_cast<NodeKind>(def.kind())) {
    case NodeKind::kLeaf:
      return Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    case NodeKind::kTuple:
      return TreeSpec::Tuple(std::move(children));
    case NodeKind::kList:
      return TreeSpec::List(std::move(children));
    case NodeKind::kDict:
      return TreeSpec::Dict(std::move(keys), std::move(children));
    case NodeKind::kNamedTuple:
      return TreeSpec::NamedTuple(def.name(), std::move(keys), std::move(children));
  }
  return MalformedValue("a structure has an unknown kind of node");
}

void WriteSpec(const ElementSpec& spec, v1::SpecDef* def) {
  WriteTree(spec.tree(), def->mutable_tree());
  for (const LeafSpec& leaf : spec.leaves()) {
    v1::LeafSpecDef* leaf_def = def->add_leaves();
    leaf_def->set_kind(static_cast<int32_t>(leaf.kind));
    leaf_def->set_dtype(static_cast<int32_t>(leaf.dtype));
    const bool dataset = leaf.kind == LeafKind::kDataset;
    if (!dataset || !(leaf.shape == PartialShape::Scalar())) {
      leaf_def->set_has_rank(leaf.shape.has_rank());
      leaf_def->set_unknown_rank(dataset && !leaf.shape.has_rank());
    }
    for (int64_t dim : leaf.shape.dims()) leaf_def->add_dims(dim);
    if (leaf.inner) WriteSpec(*leaf.inner, leaf_def->mutable_inner());
  }
}

Result<Ref<const ElementSpec>> ReadSpec(const v1::SpecDef& def, int depth) {
  if (depth > kMaxLevels) return MalformedValue("a spec is too deep");
  TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> tree, ReadTree(def.tree(), depth));
  std::vector<LeafSpec> leaves;
  for (const v1::LeafSpecDef& leaf_def : def.leaves()) {
    LeafSpec leaf;
    leaf.kind = static_cast<LeafKind>(leaf_def.kind());
    leaf.dtype = static_cast<DType>(leaf_def.dtype());
    if (leaf.kind < LeafKind::kTensor || leaf.kind > LeafKind::kIterator ||
        (leaf.is_tensor() && !IsValid(leaf.dtype))) {
      return MalformedValue("a leaf has an unknown kind or dtype");
    }
    if (leaf_def.has_rank()) {
      TUTTI_ASSIGN_OR_RETURN(
          leaf.shape,
          PartialShape::Create(leaf_def.dims().data(), static_cast<size_t>(leaf_def.dims_size())));
    } else if (leaf.kind == LeafKind::kDataset && !leaf_def.unknown_rank()) {
      leaf.shape = PartialShape::Scalar();
    }
    if (leaf_def.has_inner()) {
      TUTTI_ASSIGN_OR_RETURN(leaf.inner, ReadSpec(leaf_def.inner(), depth + 1));
    }
    leaves.push_back(std::move(leaf));
  }
  return ElementSpec::Create(std::move(tree), std::move(leaves));
}

Status WriteValue(const Value& value, bool digest, WrittenDatasets* written, v1::ValueDef* def) {
  WriteTree(value.spec(), def->mutable_tree());
  for (const Leaf& leaf : value.leaves()) {
    v1::LeafDef* leaf_def = def->add_leaves();
    leaf_def->set_kind(static_cast<int32_t>(leaf.kind()));
    if (leaf.is_tensor()) {
      TUTTI_RETURN_IF_ERROR(WriteTensor(leaf.tensor(), digest, leaf_def->mutable_tensor()));
    } else if (leaf.kind() == LeafKind::kString) {
      leaf_def->set_text(leaf.string());
    } else if (leaf.kind() == LeafKind::kOptional) {
      if (const Value* inner = leaf.optional_value()) {
        TUTTI_RETURN_IF_ERROR(WriteValue(*inner, digest, written, leaf_def->mutable_optional()));
      } else if (leaf.empty_optional_spec()) {
        WriteSpec(*leaf.empty_optional_spec(), leaf_def->mutable_optional_spec());
      }
    } else if (leaf.kind() == LeafKind::kDataset) {
      const auto* const dataset = leaf.object_as<const Dataset>();
      TUTTI_RETURN_IF_ERROR(digest ? WriteFingerprint(*dataset, written, leaf_def)
                                   : WriteDefinition(*dataset, written, leaf_def));
    } else if (!leaf.is_none() && !digest) {
      return FailedPrecondition("a value holds {}, which lives in this process only",
                                LeafKindName(leaf.kind()));
    }
  }
  return OkStatus();
}

Result<Ref<const Value>> ReadValue(const v1::ValueDef& def,
                                   const Ref<DatasetEnvironment>& environment, int depth,
                                   std::vector<Ref<Dataset>>* read) {
  if (depth > kMaxLevels) return MalformedValue("a value is too deep");
  TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> tree, ReadTree(def.tree(), depth));
  std::vector<Leaf> leaves;
  for (const v1::LeafDef& leaf_def : def.leaves()) {
    switch (static_cast<LeafKind>(leaf_def.kind())) {
      case LeafKind::kTensor: {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, ReadTensor(leaf_def.tensor()));
        leaves.push_back(Leaf::OfTensor(std::move(tensor)));
        break;
      }
      case LeafKind::kString:
        leaves.push_back(Leaf::OfString(leaf_def.text()));
        break;
      case LeafKind::kNone:
        leaves.push_back(Leaf::None());
        break;
      case LeafKind::kOptional: {
        if (leaf_def.has_optional_spec() && !leaf_def.has_optional()) {
          TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> spec,
                                 ReadSpec(leaf_def.optional_spec(), depth + 1));
          leaves.push_back(Leaf::OfEmptyOptional(std::move(spec)));
          break;
        }
        Ref<const Value> inner;
        if (leaf_def.has_optional()) {
          TUTTI_ASSIGN_OR_RETURN(inner,
                                 ReadValue(leaf_def.optional(), environment, depth + 1, read));
        }
        leaves.push_back(Leaf::OfOptional(Ref<Value>::Retain(const_cast<Value*>(inner.get()))));
        break;
      }
      case LeafKind::kDataset: {
        if (leaf_def.same_as() == 0) {
          TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> dataset,
                                 ReadDefinition(environment, leaf_def.text(), depth + 1));
          read->push_back(std::move(dataset));
        } else if (leaf_def.same_as() < 0 ||
                   static_cast<size_t>(leaf_def.same_as()) > read->size()) {
          return MalformedValue("a dataset is to be one that does not come before it");
        }
        const size_t number = leaf_def.same_as() == 0 ? read->size()
                                                      : static_cast<size_t>(leaf_def.same_as());
        leaves.push_back(Leaf(LeafKind::kDataset, (*read)[number - 1]));
        break;
      }
      default:
        return MalformedValue("a leaf has a kind that is never written");
    }
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> value, Value::FromLeaves(std::move(tree), std::move(leaves)));
  return Ref<const Value>(std::move(value));
}

}  // namespace tutti
