#include "core/dataset/expression/dataset_function.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/graph/dataset_function_kind.h"
#include "core/dataset/graph/graph_rewrite.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/graph/value_proto.h"
#include "core/tensor/cast.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

constexpr int64_t kDatasetFunctionVersion = 1;
// Of elements in which datasets stand.
constexpr int64_t kElementDatasetsVersion = 2;
constexpr std::string_view kElementMaker = "element";
constexpr int kMostInsideOfOneAnother = 64;  // in a definition
constexpr std::array<std::string_view, 4> kSourceMakers = {"range", "from_tensors",
                                                           "from_tensor_slices", kElementMaker};
constexpr std::array<std::string_view, 3> kCountMakers = {"repeat", "take", "skip"};

template <class Makers>
bool IsOneOf(const Makers& makers, std::string_view name) {
  return std::find(makers.begin(), makers.end(), name) != makers.end();
}

Status NoMaker(std::string_view maker) {
  return NotFound("expression: there is no maker '{}' of datasets of nodes; there are range, "
                  "from_tensors, from_tensor_slices, element, repeat, take, skip",
                  maker);
}

bool IsTraced(const Node& node) {
  return &node.op() == &kTracedSourceOp || &node.op() == &kTracedCountOp;
}

std::string MakerOf(const Node& node) { return *node.attributes().Get<std::string>("maker"); }

// ---- The ops that stand for what is not there yet.

Status CheckText(const Node& node, std::string_view name, bool is_maker) {
  const auto* text = node.attributes().Get<std::string>(name);
  if (text != nullptr && is_maker) return OkStatus();
  return text == nullptr ? InvalidArgument("{}: '{}' is missing", node.label(), name)
                         : NoMaker(*text);
}

Status CheckPlaces(const Node& node) {
  const auto* places = node.attributes().Get<std::vector<int64_t>>("places");
  if (places == nullptr || places->empty()) {
    return InvalidArgument("{}: 'places' is missing", node.label());
  }
  for (const int64_t place : *places) {
    if (place < 0) return InvalidArgument("{}: a place is negative", node.label());
  }
  return OkStatus();
}

Status CheckTracedSource(const Node& node) {
  const auto* maker = node.attributes().Get<std::string>("maker");
  TUTTI_RETURN_IF_ERROR(
      CheckText(node, "maker", maker != nullptr && IsOneOf(kSourceMakers, *maker)));
  TUTTI_RETURN_IF_ERROR(CheckPlaces(node));
  const auto* places = node.attributes().Get<std::vector<int64_t>>("places");
  const auto* tree = node.attributes().Get<Ref<const TreeSpec>>("tree");
  if (tree == nullptr || (*tree)->num_leaves() != places->size() ||
      (*maker == "range" && places->size() != 3) ||
      (*maker == kElementMaker && !(*tree)->is_leaf())) {
    return InvalidArgument("{}: the structure does not fit the places", node.label());
  }
  if (node.attributes().Get<Ref<const ElementSpec>>("spec") == nullptr) {
    return InvalidArgument("{}: 'spec' is missing", node.label());
  }
  return OkStatus();
}

Status CheckTracedCount(const Node& node) {
  const auto* maker = node.attributes().Get<std::string>("maker");
  TUTTI_RETURN_IF_ERROR(
      CheckText(node, "maker", maker != nullptr && IsOneOf(kCountMakers, *maker)));
  return CheckPlaces(node);
}

int64_t UnknownCount(const Node&) { return kUnknownCardinality; }

Result<Ref<const ElementSpec>> SpecOfTracedSource(const Node& node) {
  return *node.attributes().Get<Ref<const ElementSpec>>("spec");
}

Result<Ref<const ElementSpec>> SpecOfTracedCount(const Node& node) {
  return node.input().element_spec();
}

Result<std::unique_ptr<Stage>> NoStage(const Node& node, const ExecContext&,
                                       std::vector<std::unique_ptr<Stage>>) {
  return FailedPrecondition(
      "{}: this dataset is made of placeholders of a function that was traced, and has elements "
      "only in the datasets that the function gives",
      node.label());
}

// ---- What is done with them.

// The graph with what one element has put in its places.
class Filling final : public GraphRewrite {
 public:
  Filling(OpRegistry* ops, std::span<const Ref<Tensor>> values, const Value& element)
      : ops_(ops), values_(values), element_(element) {}

 protected:
  Result<Ref<const Node>> Replace(const Node& node) override {
    if (&node.op() == &kTracedSourceOp) return Source(node);
    if (&node.op() == &kTracedCountOp) return Count(node);
    Node::Functions functions;
    bool binds = false;
    for (const Ref<Function>& function : node.functions()) {
      const CapturingFunction* const capturing = AsCapturing(*function);
      functions.push_back(function);
      if (capturing == nullptr) continue;
      TUTTI_ASSIGN_OR_RETURN(functions.back(), capturing->Bind(values_));
      binds = true;
    }
    if (!binds) return Ref<const Node>();
    Node::Inputs inputs;
    for (const Ref<const Node>& input : node.inputs()) {
      TUTTI_ASSIGN_OR_RETURN(Ref<const Node> made, Rewrite(*input));
      inputs.push_back(std::move(made));
    }
    return Node::Create(node.op(), node.name(), node.attributes(), std::move(inputs),
                        std::move(functions));
  }

 private:
  Result<Ref<Tensor>> ValueAt(const Node& node, int64_t place) const {
    if (static_cast<size_t>(place) >= values_.size()) {
      return InvalidArgument("{}: there is no value {}", node.label(), place);
    }
    return values_[static_cast<size_t>(place)];
  }

  Result<int64_t> IntAt(const Node& node, int64_t place) const {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> value, ValueAt(node, place));
    if (value->rank() != 0 || !IsInteger(value->dtype())) {
      return InvalidArgument("{}: expected an integer scalar, found {}", MakerOf(node),
                             value->SpecString());
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> number, Cast(*value, DType::kInt64));
    return number->item<int64_t>();
  }

  // The dataset that stands in the element itself.
  Result<Ref<const Node>> ElementAt(const Node& node, int64_t leaf) const {
    if (static_cast<size_t>(leaf) >= element_.num_leaves() ||
        element_.leaf(static_cast<size_t>(leaf)).kind() != LeafKind::kDataset) {
      return InvalidArgument("{}: component {} of the element is no dataset", node.label(), leaf);
    }
    const auto* const dataset =
        element_.leaf(static_cast<size_t>(leaf)).object_as<const Dataset>();
    return Ref<const Node>::Retain(&dataset->node());
  }

  Result<Ref<const Node>> Source(const Node& node) const {
    const std::string maker = MakerOf(node);
    const auto& places = *node.attributes().Get<std::vector<int64_t>>("places");
    if (maker == kElementMaker) return ElementAt(node, places[0]);
    TUTTI_ASSIGN_OR_RETURN(const OpTraits* op, ops_->Find(maker));
    Attributes attributes;
    if (maker == "range") {
      constexpr std::array<std::string_view, 3> kBounds = {"start", "stop", "step"};
      for (size_t i = 0; i < kBounds.size(); ++i) {
        TUTTI_ASSIGN_OR_RETURN(const int64_t bound, IntAt(node, places[i]));
        attributes.Set(kBounds[i], bound);
      }
      attributes.Set("dtype", static_cast<int64_t>(DType::kInt64));
    } else {
      std::vector<Leaf> leaves;
      for (const int64_t place : places) {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> value, ValueAt(node, place));
        leaves.push_back(Leaf::OfTensor(std::move(value)));
      }
      TUTTI_ASSIGN_OR_RETURN(Ref<Value> value,
                             Value::FromLeaves(*node.attributes().Get<Ref<const TreeSpec>>("tree"),
                                               std::move(leaves)));
      attributes.Set("value", Ref<const Value>(std::move(value)));
    }
    return Node::Create(*op, node.name(), std::move(attributes), {});
  }

  Result<Ref<const Node>> Count(const Node& node) {
    TUTTI_ASSIGN_OR_RETURN(const OpTraits* op, ops_->Find(MakerOf(node)));
    TUTTI_ASSIGN_OR_RETURN(
        const int64_t count,
        IntAt(node, (*node.attributes().Get<std::vector<int64_t>>("places"))[0]));
    Attributes attributes;
    attributes.Set("count", count);
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> input, Rewrite(node.input()));
    return Node::Create(*op, node.name(), std::move(attributes), {std::move(input)});
  }

  OpRegistry* const ops_;
  const std::span<const Ref<Tensor>> values_;
  const Value& element_;
};

// Of which trace the places of a node are, while that is put together; 0 in what it has become.
constexpr std::string_view kTrace = "trace";
int64_t NumberOf(const Expression* trace) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(trace));
}

// The datasets of placeholders are this trace's. Seeds that nobody gave come from the element,
// where what is drawn depends on one.
class SeededByElement final : public GraphRewrite {
 public:
  SeededByElement(const Expression* trace, const Node& root) : trace_(trace) {
    for (const Node* node : InputsFirst(root)) {
      bool depends = IsTraced(*node);
      for (const Ref<Function>& function : node->functions()) {
        depends = depends || AsCapturing(*function) != nullptr;
      }
      for (const Ref<const Node>& input : node->inputs()) {
        depends = depends || depending_.contains(input.get());
      }
      if (depends) depending_.insert(node);
    }
  }

 protected:
  Result<Ref<const Node>> Replace(const Node& node) override {
    if (IsTraced(node) && node.attributes().Int(kTrace) != 0) return Own(node);
    const bool is_drawn = node.op().determinism == Determinism::kSeeded &&
                          node.attributes().Find("seed") != nullptr &&
                          !node.attributes().Bool("seed_given", true) &&
                          !node.attributes().Bool("seed_by_element");
    if (!is_drawn) return Ref<const Node>();
    if (!depending_.contains(&node)) {
      return InvalidArgument(
          "{}: its seed was drawn once, and the traced function gives a dataset for each element; "
          "give it a seed, or use a callback",
          node.label());
    }
    Attributes attributes;
    for (const auto& [key, value] : node.attributes().items()) {
      if (key == "seed_by_element") continue;
      attributes.Set(key, key == "seed" ? Attribute(int64_t{0}) : value);
    }
    attributes.Set("seed_by_element", true);
    Node::Inputs inputs;
    for (const Ref<const Node>& input : node.inputs()) {
      TUTTI_ASSIGN_OR_RETURN(Ref<const Node> made, Rewrite(*input));
      inputs.push_back(std::move(made));
    }
    return NodeWith(node, std::move(attributes), std::move(inputs));
  }

 private:
  Result<Ref<const Node>> Own(const Node& node) {
    if (node.attributes().Int(kTrace) != NumberOf(trace_)) {
      return InvalidArgument(
          "expression: {} is made of placeholders of another traced function, and is used outside "
          "of it; capture them, and make it of what they are here",
          node.label());
    }
    Attributes attributes;
    for (const auto& [key, value] : node.attributes().items()) {
      if (key != kTrace) attributes.Set(key, value);
    }
    Node::Inputs inputs;
    for (const Ref<const Node>& input : node.inputs()) {
      TUTTI_ASSIGN_OR_RETURN(Ref<const Node> made, Rewrite(*input));
      inputs.push_back(std::move(made));
    }
    return NodeWith(node, std::move(attributes), std::move(inputs));
  }

  const Expression* const trace_;
  std::unordered_set<const Node*> depending_;
};

// "range -> map": what is done one after the other.
std::string NameOfDataset(const Dataset& dataset) {
  std::string text;
  for (const Node* node : InputsFirst(dataset.node())) {
    if (text.size() > 120) return text + " ...";
    if (!text.empty()) text += " -> ";
    text += IsTraced(*node) ? MakerOf(*node) : std::string(node->op().name);
  }
  return text;
}

bool HasDatasets(const ElementSpec& input) {
  return std::ranges::any_of(input.leaves(), [](const LeafSpec& leaf) {
    return leaf.kind == LeafKind::kDataset;
  });
}

class DatasetFunction final : public CapturingFunction {
 public:
  // `values`: an expression that gives the exports as a tuple; null without any.
  DatasetFunction(Ref<Function> values, Ref<const ElementSpec> input, Ref<const Dataset> dataset)
      : CapturingFunction(NameOfDataset(*dataset)),
        values_(std::move(values)),
        input_(std::move(input)),
        dataset_(std::move(dataset)) {}

  std::span<const CapturedNode> captures() const override {
    const CapturingFunction* const capturing = values_ ? AsCapturing(*values_) : nullptr;
    return capturing == nullptr ? std::span<const CapturedNode>() : capturing->captures();
  }
  const Expression* outer() const override {
    const CapturingFunction* const capturing = values_ ? AsCapturing(*values_) : nullptr;
    return capturing == nullptr ? nullptr : capturing->outer();
  }
  Result<Ref<Function>> Bind(std::span<const Ref<Tensor>> exported) const override {
    TUTTI_ASSIGN_OR_RETURN(Ref<Function> values, AsCapturing(*values_)->Bind(exported));
    return Ref<Function>(MakeRef<DatasetFunction>(std::move(values), input_, dataset_));
  }

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    std::vector<Ref<Tensor>> values;
    if (values_) {
      Ref<Value> given;
      TUTTI_RETURN_IF_ERROR(values_->Call(context, in, &given));
      for (const Leaf& leaf : given->leaves()) values.push_back(leaf.tensor_ref());
    }
    const Ref<DatasetEnvironment>& environment = dataset_->environment();
    Filling filling(&environment->ops(), values, in);
    TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node, filling.Rewrite(dataset_->node()));
    Ref<Dataset> made = Dataset::OfNode(environment, std::move(node), dataset_->options());
    *out = Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
    return OkStatus();
  }

  // Null where it is made of nodes, too.
  const Dataset* of_element() const { return values_ ? nullptr : dataset_.get(); }

  Granularity granularity() const override { return Granularity::kRow; }
  bool calls_host() const override { return false; }

  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override {
    if (input != nullptr && !input_->IsCompatibleWith(*input)) {
      return InvalidArgument("expression: it was made for elements of {}, and these are {}",
                             input_->ToString(), input->ToString());
    }
    Ref<const ElementSpec> inner = dataset_->promised_spec();
    if (!inner) return Ref<const ElementSpec>();
    return ElementSpec::Dataset(std::move(inner));
  }

  Result<FunctionDefinition> Define() const override {
    StateWriter writer;
    writer.Section(kDatasetFunctionKind);
    if (HasDatasets(*input_)) {
      writer.Int(kElementDatasetsVersion);
      v1::SpecDef spec;
      TUTTI_RETURN_IF_ERROR(CheckLevels(*input_));
      WriteSpec(*input_, &spec);
      writer.Bytes(spec.SerializeAsString());
      TUTTI_ASSIGN_OR_RETURN(const std::string given, dataset_->Serialize());
      writer.Bytes(given);
      return FunctionDefinition{std::string(kDatasetFunctionKind), std::move(writer).TakeBytes()};
    }
    writer.Int(kDatasetFunctionVersion);
    // Without values there is one all the same, which says what elements are.
    Ref<Function> values = values_;
    if (!values) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Expression> expression, Expression::Create(input_));
      TUTTI_ASSIGN_OR_RETURN(const int64_t node, expression->Parameter(0));
      const auto leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
      TUTTI_ASSIGN_OR_RETURN(values, MakeExpressionFunction(*expression, leaf, {&node, 1}));
    }
    TUTTI_ASSIGN_OR_RETURN(const FunctionDefinition definition, values->Define());
    writer.Int(values_ ? 1 : 0);
    writer.Bytes(definition.payload);
    TUTTI_ASSIGN_OR_RETURN(const std::string dataset, dataset_->Serialize());
    writer.Bytes(dataset);
    return FunctionDefinition{std::string(kDatasetFunctionKind), std::move(writer).TakeBytes()};
  }

 private:
  const Ref<Function> values_;
  const Ref<const ElementSpec> input_;
  const Ref<const Dataset> dataset_;
};

// Leaf specs of nodes, as `row`s of them where it is asked for.
Result<std::vector<LeafSpec>> SpecsOf(const Expression& expression,
                                      std::span<const int64_t> nodes) {
  std::vector<LeafSpec> specs;
  for (const int64_t node : nodes) {
    TUTTI_ASSIGN_OR_RETURN(const TensorSpec spec, expression.SpecOf(node));
    specs.push_back(LeafSpec::OfTensor(spec.dtype, spec.shape));
  }
  return specs;
}

Status CheckInteger(std::string_view maker, const LeafSpec& spec) {
  if (spec.shape.rank() == 0 && IsInteger(spec.dtype)) return OkStatus();
  return InvalidArgument("{}: expected integer scalars, found a node of {}", maker,
                         spec.ToString());
}

Result<std::vector<int64_t>> ExportAll(Expression* expression, std::span<const int64_t> nodes) {
  std::vector<int64_t> places;
  for (const int64_t node : nodes) {
    TUTTI_ASSIGN_OR_RETURN(const int64_t place, expression->Export(node));
    places.push_back(place);
  }
  return places;
}

// The dataset in the element that the one node is.
Result<Ref<Dataset>> MakeElementSource(const Ref<DatasetEnvironment>& environment,
                                       const Expression& expression,
                                       std::span<const int64_t> nodes) {
  if (nodes.size() != 1) {
    return InvalidArgument("element: expected one node, that of a dataset in the element, got {}",
                           nodes.size());
  }
  TUTTI_ASSIGN_OR_RETURN(const int64_t leaf, expression.DatasetLeaf(nodes[0]));
  Attributes attributes;
  attributes.Set("maker", std::string(kElementMaker));
  attributes.Set("places", std::vector<int64_t>{leaf});
  attributes.Set("tree", Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()));
  attributes.Set("spec", expression.input()->leaf(static_cast<size_t>(leaf)).inner);
  attributes.Set(kTrace, NumberOf(&expression));
  return Dataset::Make(environment, kTracedSourceOp.name, {}, std::move(attributes), {});
}

// What stands behind the version of a function of elements in which datasets stand.
Result<Ref<Function>> ReadOfDatasets(const Ref<DatasetEnvironment>& environment,
                                     StateReader* reader, int depth) {
  const std::string_view spec_bytes = reader->Bytes();
  const std::string_view dataset_bytes = reader->Bytes();
  TUTTI_RETURN_IF_ERROR(reader->status());
  v1::SpecDef def;
  if (!def.ParseFromArray(spec_bytes.data(), static_cast<int>(spec_bytes.size()))) {
    return InvalidArgument("deserialize: of a function that gives datasets it cannot be read what "
                           "its elements are");
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> input, ReadSpec(def));
  TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> dataset,
                         ReadDefinition(environment, dataset_bytes, depth + 1));
  return Ref<Function>(
      MakeRef<DatasetFunction>(Ref<Function>(), std::move(input), std::move(dataset)));
}

}  // namespace

const Dataset* DatasetOfElement(const Function& function) {
  const auto* const gives = dynamic_cast<const DatasetFunction*>(&function);
  return gives == nullptr ? nullptr : gives->of_element();
}

std::optional<int64_t> ElementLeafOf(const Node& node) {
  if (&node.op() != &kTracedSourceOp || MakerOf(node) != kElementMaker) return std::nullopt;
  return (*node.attributes().Get<std::vector<int64_t>>("places"))[0];
}

constinit const OpTraits kTracedSourceOp = {
    .name = "traced_source",
    .attributes = {{"maker"}, {"places"}, {"tree"}, {"spec"}, {kTrace, 0}},
    .num_inputs = 0,
    .check = CheckTracedSource,
    .cardinality = UnknownCount,
    .element_spec = SpecOfTracedSource,
    .make_stage = NoStage,
};

constinit const OpTraits kTracedCountOp = {
    .name = "traced_count",
    .attributes = {{"maker"}, {"places"}, {kTrace, 0}},
    .row_ratio = RowRatio::kRepeated,
    .check = CheckTracedCount,
    .cardinality = UnknownCount,
    .element_spec = SpecOfTracedCount,
    .make_stage = NoStage,
};

Result<Ref<Dataset>> MakeTracedSource(const Ref<DatasetEnvironment>& environment,
                                      Expression* expression, std::string_view maker,
                                      Ref<const TreeSpec> structure,
                                      std::span<const int64_t> nodes) {
  if (!IsOneOf(kSourceMakers, maker)) return NoMaker(maker);
  if (maker == kElementMaker) return MakeElementSource(environment, *expression, nodes);
  TUTTI_ASSIGN_OR_RETURN(std::vector<LeafSpec> leaves, SpecsOf(*expression, nodes));
  if (maker == "range" && nodes.size() != 3) {
    return InvalidArgument("range: expected start, stop and step, got {} nodes", nodes.size());
  }
  for (LeafSpec& leaf : leaves) {
    if (maker == "range") {
      TUTTI_RETURN_IF_ERROR(CheckInteger(maker, leaf));
    } else if (maker == "from_tensor_slices") {
      if (leaf.shape.rank() == 0) {
        return InvalidArgument("from_tensor_slices: expected nodes with an axis to slice, found "
                               "one of {}",
                               leaf.ToString());
      }
      const std::vector<int64_t> dims(leaf.shape.dims().begin() + 1, leaf.shape.dims().end());
      TUTTI_ASSIGN_OR_RETURN(leaf.shape, PartialShape::Create(dims.data(), dims.size()));
    }
  }
  Ref<const ElementSpec> spec = ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar());
  if (maker != "range") {
    TUTTI_ASSIGN_OR_RETURN(spec, ElementSpec::Create(structure, std::move(leaves)));
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<int64_t> places, ExportAll(expression, nodes));
  Attributes attributes;
  attributes.Set("maker", std::string(maker));
  attributes.Set("places", std::move(places));
  attributes.Set("tree", std::move(structure));
  attributes.Set("spec", std::move(spec));
  attributes.Set(kTrace, NumberOf(expression));
  return Dataset::Make(environment, kTracedSourceOp.name, {}, std::move(attributes), {});
}

Result<Ref<Dataset>> MakeTracedCount(const Dataset& input, Expression* expression,
                                     std::string_view maker, int64_t node) {
  if (!IsOneOf(kCountMakers, maker)) return NoMaker(maker);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<LeafSpec> specs, SpecsOf(*expression, {&node, 1}));
  TUTTI_RETURN_IF_ERROR(CheckInteger(maker, specs[0]));
  TUTTI_ASSIGN_OR_RETURN(std::vector<int64_t> places, ExportAll(expression, {&node, 1}));
  Attributes attributes;
  attributes.Set("maker", std::string(maker));
  attributes.Set("places", std::move(places));
  attributes.Set(kTrace, NumberOf(expression));
  return Dataset::Make(input.environment(), kTracedCountOp.name, {}, std::move(attributes),
                       {Ref<Dataset>::Retain(const_cast<Dataset*>(&input))});
}

Result<Ref<Function>> MakeDatasetFunction(const Ref<Expression>& expression,
                                          const Dataset& dataset) {
  for (const Node* node : InputsFirst(dataset.node())) {
    for (const Ref<Function>& function : node->functions()) {
      const CapturingFunction* const capturing = AsCapturing(*function);
      if (capturing == nullptr || capturing->outer() == expression.get()) continue;
      return InvalidArgument(
          "expression: a function of {} has captured placeholders of another traced function, and "
          "is used outside of it",
          node->label());
    }
  }
  SeededByElement seeded(expression.get(), dataset.node());
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node, seeded.Rewrite(dataset.node()));
  const std::vector<int64_t> exports = expression->exports();
  Ref<Function> values;
  if (!exports.empty()) {
    const TreeSpec::Children leaves(exports.size(),
                                    Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()));
    TUTTI_ASSIGN_OR_RETURN(
        values, MakeExpressionFunction(*expression, TreeSpec::Tuple(leaves), exports));
  }
  return Ref<Function>(MakeRef<DatasetFunction>(
      std::move(values), expression->input(),
      Dataset::OfNode(dataset.environment(), std::move(node), dataset.options())));
}

Result<Ref<Function>> ReadDatasetFunction(const Ref<DatasetEnvironment>& environment,
                                          std::string_view payload, int depth) {
  if (depth > kMostInsideOfOneAnother) {
    return InvalidArgument("deserialize: more than {} functions that give datasets stand inside of "
                           "one another", kMostInsideOfOneAnother);
  }
  StateReader reader(payload);
  reader.Section(kDatasetFunctionKind);
  const int64_t version = reader.Int();
  if (reader.ok() && version == kElementDatasetsVersion) {
    return ReadOfDatasets(environment, &reader, depth);
  }
  const bool has_values = reader.IntIn(0, 1) != 0;
  const std::string_view definition = reader.Bytes();
  const std::string_view dataset_bytes = reader.Bytes();
  TUTTI_RETURN_IF_ERROR(reader.status());
  if (version != kDatasetFunctionVersion) {
    return InvalidArgument("deserialize: this definition has a function that gives datasets in "
                           "version {}, and version {} is known here; read it with the release "
                           "that wrote it",
                           version, kElementDatasetsVersion)
        .With("version", version);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Function> values, ReadExpressionFunction(definition));
  TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> input, InputOfExpression(*values));
  TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> dataset,
                         ReadDefinition(environment, dataset_bytes, depth + 1));
  if (!has_values) values = nullptr;
  return Ref<Function>(
      MakeRef<DatasetFunction>(std::move(values), std::move(input), std::move(dataset)));
}

}  // namespace tutti
