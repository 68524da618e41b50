// Datasets as bytes: Dataset::Serialize, Dataset::Deserialize and GraphFingerprint.
#include <google/protobuf/arena.h>
#include <openssl/sha.h>

#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_function_kind.h"
#include "core/dataset/graph/envelope.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/graph/host_functions.h"
#include "core/dataset/graph/value_proto.h"
#include "core/function/function_registry.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

// 1 has every attribute of every op; since 2 an attribute that is missing has the value of its op's
// traits. A new op or attribute needs no new version: who does not know it says so.
constexpr int32_t kVersion = 2;
constexpr int32_t kOldestVersion = 1;
constexpr std::string_view kMagic = "TUTTI-D1";

// What to do about something that is not known here.
constexpr std::string_view kNewer =
    "a newer release may have written this definition: read it with that one";

Status Malformed(std::string_view what) {
  return InvalidArgument("deserialize: these bytes are no dataset definition ({})", what);
}

enum class Purpose : int32_t {
  kDefinition,          // to be read again
  kFingerprint,         // to tell graphs apart in this process and its iterators' states
  kContentFingerprint,  // to tell them apart for good
};

// How `function` counts where it is told apart for good; null: it cannot be.
std::optional<FunctionDefinition> ContentOf(const Node& node, const Function& function) {
  Result<FunctionDefinition> definition = function.Define();
  if (definition.ok()) return std::move(definition).value();
  if (!function.fingerprint().empty()) {
    return FunctionDefinition{"content", std::string(function.fingerprint())};
  }
  // A generator cannot be registered.
  if (node.op().num_inputs == 0 && !node.name().empty()) {
    return FunctionDefinition{"named", node.name()};
  }
  return std::nullopt;
}

Status NoContent(const Node& of, const Node& node, const Function& function) {
  const std::string which =
      function.name().empty() ? std::string("a function without a name")
                              : Format("the function {}", Quote(function.name()));
  return InvalidArgument(
             "{}: what is kept goes by what the pipeline computes, and of {} in {} nobody can tell "
             "that; {}",
             of.label(), which, node.label(),
             node.op().num_inputs == 0
                 ? "give this dataset a name, and another one when its elements change"
                 : "register it under a name, and use it by that, or let a native function do it")
      .With("node", node.label());
}

class GraphWriter {
 public:
  GraphWriter(Purpose purpose, v1::DatasetDef* def)
      : purpose_(purpose), fingerprint_(purpose != Purpose::kDefinition), def_(def) {}

  // A node that several others use is written once.
  Status Write(const Node& root) {
    for (const Node* node : InputsFirst(root)) TUTTI_RETURN_IF_ERROR(WriteNode(*node));
    return OkStatus();
  }

 private:
  Status WriteNode(const Node& node) {
    v1::NodeDef* node_def = def_->add_nodes();
    written_.emplace(&node, def_->nodes_size() - 1);
    node_def->set_op(std::string(node.op().name));
    if (!fingerprint_) node_def->set_name(node.name());
    for (const Ref<const Node>& input : node.inputs()) {
      node_def->add_inputs(written_.at(input.get()));
    }
    if (!fingerprint_ && node.op().serializability == Serializability::kNever) {
      return FailedPrecondition("serialize: {} lives in this process only", node.label())
          .With("node", node.label());
    }
    const bool seed_is_drawn = !node.attributes().Bool("seed_given", true);
    for (const auto& [name, attribute] : node.attributes().items()) {
      if (fingerprint_ && seed_is_drawn && name == "seed") continue;
      const AttributeTraits& traits = *node.op().FindAttribute(name);
      if (fingerprint_ && traits.role == AttributeRole::kTuning) continue;
      if (traits.IsOtherwise(attribute)) continue;
      v1::AttributeDef* attribute_def = node_def->add_attributes();
      attribute_def->set_name(name);
      TUTTI_RETURN_IF_ERROR(WriteAttribute(node, attribute, attribute_def));
      if (purpose_ == Purpose::kContentFingerprint) {
        TUTTI_RETURN_IF_ERROR(WriteContent(node, attribute, node_def));
      }
    }
    for (const Ref<Function>& function : node.functions()) {
      TUTTI_RETURN_IF_ERROR(WriteFunction(node, *function, node_def->add_functions()));
    }
    return OkStatus();
  }

  // Nobody reads a fingerprint again, so its structures may have any depth.
  Status CheckDepth(const Attribute& attribute) const {
    if (fingerprint_) return OkStatus();
    if (const auto* spec = std::get_if<Ref<const ElementSpec>>(&attribute)) {
      return CheckLevels(**spec);
    }
    if (const auto* tree = std::get_if<Ref<const TreeSpec>>(&attribute)) return CheckLevels(**tree);
    const auto* value = std::get_if<Ref<const Value>>(&attribute);
    return value == nullptr ? OkStatus() : CheckLevels(**value);
  }

  Status WriteAttribute(const Node& node, const Attribute& attribute, v1::AttributeDef* def) {
    const Status shallow = CheckDepth(attribute);
    if (!shallow.ok()) {
      return shallow.WithPrefix(Format("serialize: {}", node.label())).With("node", node.label());
    }
    if (const auto* number = std::get_if<int64_t>(&attribute)) {
      def->set_number(*number);
    } else if (const auto* flag = std::get_if<bool>(&attribute)) {
      def->set_flag(*flag);
    } else if (const auto* text = std::get_if<std::string>(&attribute)) {
      def->set_text(*text);
    } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attribute)) {
      def->mutable_numbers()->mutable_numbers()->Add(numbers->begin(), numbers->end());
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) {
      for (const std::string& one : *texts) def->mutable_texts()->add_texts(one);
    } else if (const auto* spec = std::get_if<Ref<const ElementSpec>>(&attribute)) {
      WriteSpec(**spec, def->mutable_spec());
    } else if (const auto* tree = std::get_if<Ref<const TreeSpec>>(&attribute)) {
      WriteTree(**tree, def->mutable_tree());
    } else if (const auto* value = std::get_if<Ref<const Value>>(&attribute)) {
      const Status written = WriteValue(**value, fingerprint_, &datasets_, def->mutable_element());
      if (!written.ok()) {
        return written.WithPrefix(Format("serialize: {}", node.label())).With("node", node.label());
      }
    }
    return OkStatus();
  }

  // Of the datasets in a value, whose functions count as this graph's do.
  Status WriteContent(const Node& node, const Attribute& attribute, v1::NodeDef* def) {
    const auto* value = std::get_if<Ref<const Value>>(&attribute);
    if (value == nullptr) return OkStatus();
    for (const Leaf& leaf : (*value)->leaves()) {
      if (leaf.kind() == LeafKind::kHostObject) {
        return InvalidArgument("{}: what is kept goes by what the pipeline computes, and a value "
                               "holds a host object, of which nobody can tell it",
                               node.label())
            .With("node", node.label());
      }
      if (leaf.kind() != LeafKind::kDataset) continue;
      const auto* const dataset = leaf.object_as<const Dataset>();
      std::string& content = contents_[dataset];
      if (content.empty()) {
        TUTTI_ASSIGN_OR_RETURN(content, ContentFingerprint(dataset->node(), node, {}));
      }
      v1::FunctionDef* inner = def->add_functions();
      inner->set_kind("dataset");
      inner->set_payload(content);
    }
    return OkStatus();
  }

  Status WriteFunction(const Node& node, const Function& function, v1::FunctionDef* def) {
    if (purpose_ == Purpose::kContentFingerprint) {
      const std::optional<FunctionDefinition> content = ContentOf(node, function);
      if (!content) return NoContent(node, node, function);
      def->set_kind(content->kind);
      def->set_payload(content->payload);
      return OkStatus();
    }
    const Result<FunctionDefinition> definition = function.Define();
    if (definition.ok()) {
      def->set_kind(definition->kind);
      def->set_payload(definition->payload);
      return OkStatus();
    }
    if (fingerprint_) {
      def->set_kind("here");
      def->set_payload(function.name());
      return OkStatus();
    }
    return definition.status()
        .WithPrefix(Format("serialize: {}", node.label()))
        .With("node", node.label());
  }

  const Purpose purpose_;
  const bool fingerprint_;
  v1::DatasetDef* const def_;
  std::unordered_map<const Node*, int32_t> written_;
  WrittenDatasets datasets_;  // in values
  std::unordered_map<const Dataset*, std::string> contents_;
};

// For messages.
std::string LabelOf(const v1::NodeDef& def) {
  return def.name().empty() ? Quote(def.op()) : Format("{} {}", Quote(def.op()), Quote(def.name()));
}

Result<Attribute> ReadAttribute(const Ref<DatasetEnvironment>& environment,
                                const v1::NodeDef& node, const v1::AttributeDef& def, int depth,
                                std::vector<Ref<Dataset>>* datasets) {
  switch (def.content_case()) {
    case v1::AttributeDef::kNumber:
      return Attribute(static_cast<int64_t>(def.number()));
    case v1::AttributeDef::kFlag:
      return Attribute(def.flag());
    case v1::AttributeDef::kText:
      return Attribute(def.text());
    case v1::AttributeDef::kNumbers:
      return Attribute(
          std::vector<int64_t>(def.numbers().numbers().begin(), def.numbers().numbers().end()));
    case v1::AttributeDef::kTexts:
      return Attribute(
          std::vector<std::string>(def.texts().texts().begin(), def.texts().texts().end()));
    case v1::AttributeDef::kElement: {
      TUTTI_ASSIGN_OR_RETURN(Ref<const Value> value,
                             ReadValue(def.element(), environment, depth, datasets));
      return Attribute(std::move(value));
    }
    case v1::AttributeDef::kSpec: {
      TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> spec, ReadSpec(def.spec()));
      return Attribute(std::move(spec));
    }
    case v1::AttributeDef::kTree: {
      TUTTI_ASSIGN_OR_RETURN(Ref<const TreeSpec> tree, ReadTree(def.tree()));
      return Attribute(std::move(tree));
    }
    case v1::AttributeDef::CONTENT_NOT_SET:
      break;
  }
  return InvalidArgument(
      "deserialize: the attribute {} of the operation {} has no value of a kind that is known "
      "here; {}",
      Quote(def.name()), LabelOf(node), kNewer);
}

Result<Ref<const Node>> ReadNode(const Ref<DatasetEnvironment>& environment,
                                 const v1::NodeDef& def,
                                 const std::vector<Ref<const Node>>& nodes, int depth,
                                 std::vector<Ref<Dataset>>* datasets) {
  const Result<const OpTraits*> found = environment->ops().Find(def.op());
  if (!found.ok()) {
    return NotFound("deserialize: the operation {} is not known here; {}", LabelOf(def), kNewer)
        .With("op", def.op());
  }
  const OpTraits* op = *found;
  Attributes attributes;
  for (const v1::AttributeDef& attribute_def : def.attributes()) {
    if (attributes.Find(attribute_def.name()) != nullptr) {
      return Malformed("an attribute comes twice");
    }
    if (op->FindAttribute(attribute_def.name()) == nullptr) {
      return InvalidArgument(
                 "deserialize: the operation {} has the attribute {}, which is not known here; {}",
                 LabelOf(def), Quote(attribute_def.name()), kNewer)
          .With("op", def.op())
          .With("attribute", attribute_def.name());
    }
    TUTTI_ASSIGN_OR_RETURN(Attribute attribute,
                           ReadAttribute(environment, def, attribute_def, depth, datasets));
    attributes.Set(attribute_def.name(), std::move(attribute));
  }
  Node::Inputs inputs;
  for (int32_t input : def.inputs()) {
    if (input < 0 || static_cast<size_t>(input) >= nodes.size()) {
      return Malformed("a node has an input that does not come before it");
    }
    inputs.push_back(nodes[static_cast<size_t>(input)]);
  }
  Node::Functions functions;
  for (const v1::FunctionDef& function_def : def.functions()) {
    if (function_def.kind() == kDatasetFunctionKind) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Function> function,
                             ReadDatasetFunction(environment, function_def.payload(), depth));
      functions.push_back(std::move(function));
      continue;
    }
    if (environment->functions() == nullptr) {
      return NotFound("deserialize: {} needs the function '{}', and this environment has none",
                      def.op(), function_def.payload());
    }
    TUTTI_ASSIGN_OR_RETURN(Ref<Function> function,
                           environment->functions()->Make(
                               FunctionDefinition{function_def.kind(), function_def.payload()}));
    functions.push_back(std::move(function));
  }
  return Node::Create(*op, def.name(), std::move(attributes), std::move(inputs),
                      std::move(functions));
}

// A message in an arena leaves nothing behind when memory runs out while it is filled.
using google::protobuf::Arena;
v1::DatasetDef& NewDefinition(Arena* arena) {
  return *Arena::CreateMessage<v1::DatasetDef>(arena);
}

}  // namespace

Result<std::string> Dataset::Serialize() const {
  bool told = false;
  TUTTI_RETURN_IF_ERROR(CheckExternalState(*this, "serialize", &told));
  Arena arena;
  v1::DatasetDef& def = NewDefinition(&arena);
  def.set_version(kVersion);
  TUTTI_RETURN_IF_ERROR(GraphWriter(Purpose::kDefinition, &def).Write(*node_));
  for (int32_t key = 0; key < DatasetOptions::kNumKeys; ++key) {
    const std::optional<int64_t> value = options_.Get(static_cast<DatasetOptions::Key>(key));
    if (!value) continue;
    v1::OptionDef* option = def.add_options();
    option->set_key(std::string(DatasetOptions::KeyName(static_cast<DatasetOptions::Key>(key))));
    option->set_value(*value);
  }
  for (int32_t i = 0; i < DatasetOptions::kNumTexts; ++i) {
    const auto key = static_cast<DatasetOptions::Text>(i);
    const std::optional<std::string>& text = options_.Get(key);
    if (!text) continue;
    v1::OptionDef* option = def.add_options();
    option->set_key(std::string(DatasetOptions::KeyName(key)));
    option->set_text(*text);
  }
  std::string bytes;
  if (!def.SerializeToString(&bytes)) {
    return ResourceExhausted("serialize: the definition is too large for one message (2 GiB)");
  }
  return SealEnvelope(kMagic, bytes);
}

Result<Ref<Dataset>> Dataset::Deserialize(Environments environment, std::string_view bytes) {
  TUTTI_RETURN_IF_ERROR(environment->environment().CheckUsable("deserialize"));
  return ReadDefinition(environment, bytes, 0);
}

Result<Ref<Dataset>> ReadDefinition(const Ref<DatasetEnvironment>& environment,
                                    std::string_view bytes, int depth) {
  std::string_view content;
  if (const std::string_view other = OtherFormat(kMagic, bytes); !other.empty()) {
    return InvalidArgument(
        "deserialize: this definition has the format {}, and {} is known here; read it with the "
        "release that wrote it",
        other, kMagic);
  }
  if (const char* why = OpenEnvelope(kMagic, bytes, &content)) return Malformed(why);
  Arena arena;
  v1::DatasetDef& def = NewDefinition(&arena);
  if (content.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !def.ParseFromArray(content.data(), static_cast<int>(content.size())) ||
      def.nodes().empty()) {
    return Malformed("they do not parse");
  }
  if (def.version() < kOldestVersion || def.version() > kVersion) {
    return InvalidArgument(
               "deserialize: this definition has version {}, and {} to {} are known here; read it "
               "with the release that wrote it",
               def.version(), kOldestVersion, kVersion)
        .With("version", def.version());
  }
  std::vector<Ref<const Node>> nodes;
  std::vector<Ref<Dataset>> datasets;  // in values
  for (const v1::NodeDef& node_def : def.nodes()) {
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node,
                           ReadNode(environment, node_def, nodes, depth, &datasets));
    nodes.push_back(std::move(node));
  }
  DatasetOptions options;
  for (const v1::OptionDef& option : def.options()) {
    if (option.has_text() && options.SetText(option.key(), option.text()).ok()) continue;
    if (!options.Read(option.key()).ok()) {
      return InvalidArgument("deserialize: the option {} is not known here; {}",
                             Quote(option.key()), kNewer)
          .With("key", option.key());
    }
    const Status as_integer = options.SetInt(option.key(), option.value());
    if (!as_integer.ok()) TUTTI_RETURN_IF_ERROR(options.SetBool(option.key(), option.value() != 0));
  }
  return Dataset::OfNode(environment, std::move(nodes.back()), options);
}

namespace {

std::string HashOf(const v1::DatasetDef& def) {
  const std::string bytes = def.SerializeAsString();
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

}  // namespace

Result<std::string> GraphFingerprint(const Node& node) {
  Arena arena;
  v1::DatasetDef& def = NewDefinition(&arena);
  def.set_version(kVersion);
  TUTTI_RETURN_IF_ERROR(GraphWriter(Purpose::kFingerprint, &def).Write(node));
  return HashOf(def);
}

Status CheckContentFingerprint(const Node& node, const Node& of,
                               std::span<const Ref<Function>> more) {
  for (const Node* one : InputsFirst(node)) {
    for (const Ref<Function>& function : one->functions()) {
      if (!ContentOf(*one, *function)) return NoContent(of, *one, *function);
    }
  }
  for (const Ref<Function>& function : more) {
    if (!ContentOf(of, *function)) return NoContent(of, of, *function);
  }
  return OkStatus();
}

Result<std::string> ContentFingerprint(const Node& node, const Node& of,
                                       std::span<const Ref<Function>> more) {
  TUTTI_RETURN_IF_ERROR(CheckContentFingerprint(node, of, more));
  Arena arena;
  v1::DatasetDef& def = NewDefinition(&arena);
  def.set_version(kVersion);
  TUTTI_RETURN_IF_ERROR(GraphWriter(Purpose::kContentFingerprint, &def).Write(node));
  if (!more.empty()) {
    v1::NodeDef* last = def.add_nodes();
    last->set_op(std::string(of.op().name));
    for (const Ref<Function>& function : more) {
      const std::optional<FunctionDefinition> content = ContentOf(of, *function);
      v1::FunctionDef* function_def = last->add_functions();
      function_def->set_kind(content->kind);
      function_def->set_payload(content->payload);
    }
  }
  return HashOf(def);
}

}  // namespace tutti
