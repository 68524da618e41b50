#include "core/dataset/graph/dataset.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/graph/host_functions.h"
#include "core/dataset/graph/run_profile.h"
#include "core/dataset/graph/run_report.h"
#include "core/function/function.h"
#include "core/tensor/dtype.h"

namespace tutti {
namespace {

// "3 elements", "1 element", as people say it.
std::string CountText(int64_t cardinality) {
  if (cardinality == kInfiniteCardinality) return "infinitely many elements";
  if (cardinality == kUnknownCardinality) return "an unknown number of elements";
  return Format("{} element{}", cardinality, cardinality == 1 ? "" : "s");
}

// Attributes of these names are numbers that stand for DTypes, whose names people read.
bool HoldsDTypes(std::string_view attribute) {
  return attribute == "dtype" || attribute == "output_types";
}

std::string NameOfDType(int64_t number) {
  return std::string(DTypeName(static_cast<DType>(number)));
}

std::string AttributeText(const Attribute& attribute, bool is_dtypes) {
  if (const auto* number = std::get_if<int64_t>(&attribute)) {
    return is_dtypes ? NameOfDType(*number) : Format("{}", *number);
  }
  if (const auto* flag = std::get_if<bool>(&attribute)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&attribute)) return Quote(*text);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) {
    if (texts->size() == 1) return Quote((*texts)[0]);
    return Format("{} names", texts->size());
  }
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attribute)) {
    if (!is_dtypes) return Format("[{}]", JoinAll(*numbers, ","));
    std::vector<std::string> names;
    std::transform(numbers->begin(), numbers->end(), std::back_inserter(names), NameOfDType);
    return Format("[{}]", Join(names, ","));
  }
  return "";
}

// One line without its end.
std::string ExplainNode(const Node& node, int32_t depth) {
  std::string arguments;
  for (const auto& [name, value] : node.attributes().items()) {
    const std::string text = AttributeText(value, HoldsDTypes(name));
    if (text.empty()) continue;
    arguments += Format("{}{}={}", arguments.empty() ? "" : ", ", name, text);
  }
  for (const Ref<Function>& function : node.functions()) {
    const std::string_view name = function->name();
    arguments +=
        Format("{}{} {}", arguments.empty() ? "" : ", ",
               function->calls_host() ? "callback" : "native", name.empty() ? "(unnamed)" : name);
    if (!function->callback_reason().empty()) {
      arguments += Format(" [{}]", function->callback_reason());
    }
  }
  const Ref<const ElementSpec> spec = node.element_spec();
  std::string line =
      Format("{}{}({}): {} of {}", std::string(static_cast<size_t>(depth) * 2, ' '),
             node.label(), arguments, CountText(node.cardinality()),
             spec ? spec->ToString() : "a spec that the first element tells");
  if (node.num_parts() > 2) line += Format(", {} parts", node.num_parts());
  return line;
}

// From the last op to the sources. A chain of concatenations is told by its last one and its parts.
// What comes again is told in one line, and a chain's part that is a chain told already in none.
std::string ExplainGraph(const Node& root) {
  struct Line {
    const Node* node;
    int32_t depth;
    bool in_chain;  // it belongs to a chain that has its line
  };
  std::string text;
  std::unordered_set<const Node*> told;
  std::vector<Line> lines = {{&root, 0, false}};
  while (!lines.empty()) {
    const Line line = lines.back();
    lines.pop_back();
    const bool known = !told.insert(line.node).second && !line.node->inputs().empty();
    if (!line.in_chain) {
      text += ExplainNode(*line.node, line.depth);
      text += known ? " (as above)\n" : "\n";
    }
    if (known) continue;
    const bool appends = line.node->op().appends_inputs;
    const int32_t depth = line.depth + (line.in_chain ? 0 : 1);
    for (size_t i = line.node->inputs().size(); i-- > 0;) {
      const Node& input = line.node->input(i);
      lines.push_back({&input, depth, appends && input.op().appends_inputs});
    }
  }
  return text;
}

}  // namespace

Ref<const ElementSpec> Dataset::promised_spec() const {
  return PromisesSpec(*node_) ? node_->element_spec() : nullptr;
}

void SetDrawnSeed(Environment& environment, Attributes* attributes) {
  const bool in_function = CurrentCallbackClass() == CallbackClass::kDataset;
  attributes->Set("seed", in_function ? int64_t{0} : static_cast<int64_t>(environment.DrawSeed()));
  attributes->Set("seed_given", false);
  if (in_function) attributes->Set("seed_by_element", true);
}

Dataset::Dataset(Ref<DatasetEnvironment> environment, Ref<const Node> node, DatasetOptions options)
    : environment_(std::move(environment)), node_(std::move(node)), options_(options) {}

Dataset::~Dataset() = default;

Ref<Dataset> Dataset::OfNode(Environments environment, Ref<const Node> node,
                             DatasetOptions options) {
  return MakeRef<Dataset>(environment, std::move(node), options);
}

Result<Ref<Dataset>> Dataset::Make(Environments environment, std::string_view op, std::string name,
                                   Attributes attributes, const std::vector<Ptr>& inputs,
                                   std::vector<Ref<Function>> functions) {
  TUTTI_RETURN_IF_ERROR(environment->environment().CheckUsable(op));
  TUTTI_ASSIGN_OR_RETURN(const OpTraits* traits, environment->ops().Find(op));
  if (traits->determinism == Determinism::kSeeded && attributes.Find("seed") == nullptr) {
    SetDrawnSeed(environment->environment(), &attributes);
  }
  Node::Inputs nodes;
  DatasetOptions options;
  std::vector<std::string> changed;
  for (const Ptr& input : inputs) {
    nodes.push_back(input->node_);
    options = options.Merge(input->options_, &changed);
  }
  for (const std::string& key : changed) {
    environment->environment().log().Warning(
        Format("{}: its inputs set the option '{}' differently; the later one counts", op, key));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> node,
                         Node::Create(*traits, std::move(name), std::move(attributes),
                                      std::move(nodes), std::move(functions)));
  return OfNode(environment, std::move(node), options);
}

Result<Ref<Dataset>> Dataset::Derive(std::string_view op, std::string name, Attributes attributes,
                                     std::vector<Ref<Function>> functions) const {
  return Make(environment_, op, std::move(name), std::move(attributes),
              {Ptr::Retain(const_cast<Dataset*>(this))}, std::move(functions));
}

Result<Ref<Dataset>> Dataset::WithOptions(const DatasetOptions& options) const {
  const std::vector<std::string> conflicts = options_.Conflicts(options);
  if (!conflicts.empty()) {
    return InvalidArgument(
               "with_options: the option '{}' has another value already ({}; now {}); "
               "set each option once",
               conflicts[0], options_.ToString(), options.ToString())
        .With("key", conflicts[0]);
  }
  return OfNode(environment_, node_, options_.Merge(options, nullptr));
}

Ref<Dataset> Dataset::ReplaceOptions(const DatasetOptions& options) const {
  return OfNode(environment_, node_, options);
}

std::string NodeText(const Node& node) { return ExplainNode(node, 0); }

void Dataset::NoteRun(Ref<RunProfile> run) const {
  std::lock_guard lock(mutex_);
  std::swap(run_, run);
}

RunReport Dataset::ExplainRun() const {
  Ref<RunProfile> run;
  {
    std::lock_guard lock(mutex_);
    run = run_;
  }
  return RunReport::Of(*node_, options_, run.get());
}

std::string Dataset::Explain() const {
  const RunReport report = ExplainRun();
  if (report.tells_of_run()) return report.ToText();
  std::string text = ExplainGraph(*node_);
  if (!options_.empty()) text += Format("options: {}\n", options_.Explain());
  if (options_.slack()) {
    const Node* const prefetch = LastPrefetch(*node_);
    text += prefetch == nullptr
                ? std::string("slack: without effect, as no prefetch is the last\n")
                : Format("slack: {} pauses after each {} elements\n", prefetch->label(),
                         std::max<int64_t>(1, options_.num_devices()));
  }
  return text;
}

}  // namespace tutti
