#include "core/dataset/graph/node.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/function/function.h"

namespace tutti {
namespace {

std::string LabelOf(std::string_view op, std::string_view name) {
  return name.empty() ? std::string(op) : Format("{} '{}'", op, name);
}

// A chain with fewer stages has them all from the start.
constexpr int64_t kMostEarlyStages = 256;

int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

std::string_view TypeText(const Attribute& value) {
  if (std::holds_alternative<int64_t>(value)) return "an integer";
  return std::holds_alternative<bool>(value) ? "a boolean" : "a text";
}

std::optional<Attribute> ValueOtherwise(const AttributeTraits& traits) {
  if (const auto* number = std::get_if<int64_t>(&traits.otherwise)) return Attribute(*number);
  if (const auto* flag = std::get_if<bool>(&traits.otherwise)) return Attribute(*flag);
  const auto* text = std::get_if<std::string_view>(&traits.otherwise);
  if (text == nullptr) return std::nullopt;
  return Attribute(std::string(*text));
}

Status NoSuchAttribute(const OpTraits& op, std::string_view label, std::string_view attribute) {
  std::vector<std::string> names;
  for (const AttributeTraits& traits : op.AllAttributes()) names.emplace_back(traits.name);
  const std::string nearest = NearestName(attribute, names);
  return InvalidArgument("{}: there is no attribute '{}'{}; there are {}", label, attribute,
                         nearest.empty() ? "" : Format(", did you mean '{}'?", nearest),
                         names.empty() ? "none" : Join(names, ", "))
      .With("attribute", std::string(attribute));
}

// All that there are, in the order of the op's traits.
Result<Attributes> Complete(const OpTraits& op, std::string_view label, const Attributes& given) {
  Attributes complete;
  for (const AttributeTraits& traits : op.AllAttributes()) {
    std::optional<Attribute> otherwise = ValueOtherwise(traits);
    const Attribute* value = given.Find(traits.name);
    if (value != nullptr && otherwise && value->index() != otherwise->index()) {
      return InvalidArgument("{}: the attribute '{}' must be {}, and is of another type", label,
                             traits.name, TypeText(*otherwise));
    }
    if (value != nullptr) {
      complete.Set(traits.name, *value);
    } else if (otherwise) {
      complete.Set(traits.name, std::move(*otherwise));
    }
  }
  for (const auto& [name, value] : given.items()) {
    if (op.FindAttribute(name) == nullptr) return NoSuchAttribute(op, label, name);
  }
  return complete;
}

// Nodes whose last reference this thread has given up, while it ends one of them.
struct Released {
  const Node* first = nullptr;
  bool ending = false;
};
thread_local constinit Released released;

}  // namespace

bool AttributeTraits::IsOtherwise(const Attribute& value) const {
  const std::optional<Attribute> mine = ValueOtherwise(*this);
  return mine && *mine == value;
}

std::span<const AttributeTraits> OpTraits::AllAttributes() const {
  const auto* end = std::find_if(std::begin(attributes), std::end(attributes),
                                 [](const AttributeTraits& one) { return one.name.empty(); });
  return {attributes, end};
}

const AttributeTraits* OpTraits::FindAttribute(std::string_view attribute) const {
  for (const AttributeTraits& one : AllAttributes()) {
    if (one.name == attribute) return &one;
  }
  return nullptr;
}

Node::Node(const OpTraits& op, std::string name, Attributes attributes, Inputs inputs,
           Functions functions)
    : op_(op),
      name_(std::move(name)),
      label_(LabelOf(op.name, name_)),
      attributes_(std::move(attributes)),
      inputs_(std::move(inputs)),
      functions_(std::move(functions)) {}

Node::~Node() = default;

// Ending a node gives up its inputs: those wait here until it has gone, so that a long chain needs
// no more stack than a short one.
void Node::OnLastRelease() const noexcept {
  next_released_ = std::exchange(released.first, this);
  if (released.ending) return;
  released.ending = true;
  while (const Node* node = released.first) {
    released.first = node->next_released_;
    delete node;
  }
  released.ending = false;
}

void Node::Measure() {
  if (op_.appends_inputs) num_parts_ = part_stages_ = 0;
  has_host_functions_ = std::ranges::any_of(
      functions_, [](const Ref<Function>& function) { return function->calls_host(); });
  has_host_maps_ = has_host_functions_ && op_.row_ratio == RowRatio::kOneToOne;
  for (const Ref<const Node>& input : inputs_) {
    const bool continues = op_.appends_inputs && input->op_.appends_inputs;
    depth_ = std::max(depth_, input->depth_ + (continues ? 0 : 1));
    num_stages_ = SaturatingSum(num_stages_, input->num_stages_);
    has_host_functions_ = has_host_functions_ || input->has_host_functions_;
    has_host_maps_ = has_host_maps_ || input->has_host_maps_;
    if (!op_.appends_inputs) continue;
    num_parts_ = SaturatingSum(num_parts_, input->num_parts_);
    part_stages_ =
        std::max(part_stages_, continues ? input->part_stages_ : input->num_stages_);
    makes_parts_late_ = makes_parts_late_ || (continues && input->makes_parts_late_);
  }
  if (op_.appends_inputs && num_stages_ > kMostEarlyStages) makes_parts_late_ = true;
  if (makes_parts_late_) num_stages_ = SaturatingSum(part_stages_, 1);
}

Result<Ref<const Node>> Node::Create(const OpTraits& op, std::string name, Attributes attributes,
                                     Inputs inputs, Functions functions,
                                     int32_t max_depth) {
  TUTTI_ASSIGN_OR_RETURN(Attributes complete, Complete(op, LabelOf(op.name, name), attributes));
  Ref<Node> node = MakeRef<Node>(op, std::move(name), std::move(complete), std::move(inputs),
                                 std::move(functions));
  const auto count = static_cast<int32_t>(node->inputs_.size());
  if (op.num_inputs >= 0 ? count != op.num_inputs : count < 1) {
    return InvalidArgument("{}: expected {} inputs, got {}", node->label_,
                           op.num_inputs >= 0 ? Format("{}", op.num_inputs) : "1 or more", count);
  }
  node->Measure();
  if (node->depth_ > max_depth) {
    return InvalidArgument(
               "{}: this dataset would be {} operations deep, and at most {} may stand one on "
               "another; let one operation do what a loop adds one by one (concatenate counts as "
               "one however often it follows on itself)",
               node->label_, node->depth_, max_depth)
        .With("node", node->label_)
        .With("depth", node->depth_)
        .With("limit", max_depth);
  }
  if (op.check != nullptr) TUTTI_RETURN_IF_ERROR(op.check(*node));
  node->cardinality_ = op.cardinality(*node);
  return Ref<const Node>(std::move(node));
}

Ref<const ElementSpec> Node::known_spec() const {
  std::lock_guard lock(mutex_);
  return spec_;
}

Ref<const ElementSpec> Node::element_spec() const {
  if (Ref<const ElementSpec> spec = known_spec()) return spec;
  if (op_.appends_inputs) return SpecOfChain();
  Result<Ref<const ElementSpec>> spec = op_.element_spec(*this);
  if (!spec.ok() || !spec.value()) return nullptr;
  std::lock_guard lock(mutex_);
  if (!spec_) spec_ = *spec;
  return spec_;
}

bool Node::IsHeldUp() const {
  const Node* part = nullptr;
  {
    std::lock_guard lock(mutex_);
    part = held_up_by_;
  }
  return part != nullptr && !part->element_spec();
}

// The spec of each node of the chain from those of its inputs, the inputs first and none twice. The
// first part without a spec leaves all without one that have been entered, and they remember it:
// until it is known, nobody walks there again.
Ref<const ElementSpec> Node::SpecOfChain() const {
  if (IsHeldUp()) return nullptr;
  std::vector<const Node*> entered = {this};
  while (!entered.empty()) {
    const Node& node = *entered.back();
    const Node* next = nullptr;
    const Node* unknown = nullptr;
    for (const Ref<const Node>& input : node.inputs_) {
      if (input->known_spec()) continue;
      if (!input->op_.appends_inputs) {
        if (!input->element_spec()) unknown = input.get();
      } else if (input->IsHeldUp()) {
        std::lock_guard lock(input->mutex_);
        unknown = input->held_up_by_;
      } else {
        next = input.get();
      }
      if (unknown != nullptr || next != nullptr) break;
    }
    if (next != nullptr) {
      entered.push_back(next);
      continue;
    }
    Result<Ref<const ElementSpec>> spec = Ref<const ElementSpec>();
    if (unknown == nullptr) spec = node.op_.element_spec(node);
    if (unknown == nullptr && spec.ok() && *spec) {
      node.LearnSpec(std::move(spec).value());
      entered.pop_back();
      continue;
    }
    for (const Node* waiting : entered) {
      std::lock_guard lock(waiting->mutex_);
      waiting->held_up_by_ = unknown;
    }
    return nullptr;
  }
  return known_spec();
}

void Node::LearnSpec(Ref<const ElementSpec> spec) const {
  std::lock_guard lock(mutex_);
  if (!spec_) spec_ = std::move(spec);
}

Ref<RefCounted> Node::ShareAmongIterations(Ref<RefCounted> state) const {
  std::lock_guard lock(mutex_);
  if (!shared_) shared_ = std::move(state);
  return shared_;
}

Status OpRegistry::Add(const OpTraits& op) {
  for (const OpTraits* known : ops_) {
    if (known->name == op.name) {
      return AlreadyExists("the op registry has an op '{}' already", op.name);
    }
  }
  ops_.push_back(&op);
  return OkStatus();
}

Result<const OpTraits*> OpRegistry::Find(std::string_view name) const {
  std::vector<std::string> names;
  for (const OpTraits* op : ops_) {
    if (op->name == name) return op;
    names.emplace_back(op->name);
  }
  const std::string nearest = NearestName(name, names);
  return NotFound("there is no dataset op '{}'{}", name,
                  nearest.empty() ? std::string() : Format("; did you mean '{}'?", nearest));
}

}  // namespace tutti
