#include "core/dataset/graph/node.h"

#include "core/base/error.h"
#include "core/function/function.h"

namespace tutti {
namespace {

std::string LabelOf(std::string_view op, std::string_view name) {
  return name.empty() ? std::string(op) : Format("{} '{}'", op, name);
}

}  // namespace

Node::Node(const OpTraits& op, std::string name, Attributes attributes, Inputs inputs,
           Functions functions)
    : op_(op),
      name_(std::move(name)),
      label_(LabelOf(op.name, name_)),
      attributes_(std::move(attributes)),
      inputs_(std::move(inputs)),
      functions_(std::move(functions)) {}

Node::~Node() = default;

Result<Ref<const Node>> Node::Create(const OpTraits& op, std::string name, Attributes attributes,
                                     Inputs inputs, Functions functions) {
  Ref<Node> node = MakeRef<Node>(op, std::move(name), std::move(attributes), std::move(inputs),
                                 std::move(functions));
  const auto count = static_cast<int32_t>(node->inputs_.size());
  if (op.num_inputs >= 0 ? count != op.num_inputs : count < 1) {
    return InvalidArgument("{}: expected {} inputs, got {}", node->label_,
                           op.num_inputs >= 0 ? Format("{}", op.num_inputs) : "1 or more", count);
  }
  if (op.check != nullptr) TUTTI_RETURN_IF_ERROR(op.check(*node));
  node->cardinality_ = op.cardinality(*node);
  return Ref<const Node>(std::move(node));
}

Ref<const ElementSpec> Node::element_spec() const {
  {
    std::lock_guard lock(mutex_);
    if (spec_) return spec_;
  }
  Result<Ref<const ElementSpec>> spec = op_.element_spec(*this);
  if (!spec.ok() || !spec.value()) return nullptr;
  std::lock_guard lock(mutex_);
  if (!spec_) spec_ = *spec;
  return spec_;
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
