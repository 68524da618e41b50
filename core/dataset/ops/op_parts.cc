#include "core/dataset/ops/op_parts.h"

#include <limits>

#include "core/base/error.h"

namespace tutti {
namespace {

template <class T>
Status CheckType(const Node& node, std::string_view attribute, std::string_view type) {
  if (node.attributes().Get<T>(attribute) != nullptr) return OkStatus();
  return InvalidArgument(
      "{}: the attribute '{}' must be {}, and is {}", node.label(), attribute, type,
      node.attributes().Find(attribute) == nullptr ? "missing" : "of another type");
}

}  // namespace

Result<Ref<const ElementSpec>> SpecOfInput(const Node& node) { return node.input().element_spec(); }

int64_t CardinalityOfInput(const Node& node) { return node.input().cardinality(); }

Status CheckInt(const Node& node, std::string_view attribute, int64_t low, int64_t high) {
  TUTTI_RETURN_IF_ERROR(CheckType<int64_t>(node, attribute, "an integer"));
  const int64_t value = node.attributes().Int(attribute);
  if (value >= low && value <= high) return OkStatus();
  const std::string wanted = high != std::numeric_limits<int64_t>::max()
                                 ? Format("in [{}, {}]", low, high)
                             : low == 1 ? std::string("positive")
                                        : Format("{} or more", low);
  return InvalidArgument("{}: {} must be {}, got {}", node.label(), attribute, wanted, value);
}

Status CheckInt(const Node& node, std::string_view attribute) {
  return CheckType<int64_t>(node, attribute, "an integer");
}
Status CheckBool(const Node& node, std::string_view attribute) {
  return CheckType<bool>(node, attribute, "a boolean");
}
Status CheckText(const Node& node, std::string_view attribute) {
  return CheckType<std::string>(node, attribute, "a text");
}
Status CheckValue(const Node& node, std::string_view attribute) {
  return CheckType<Ref<const Value>>(node, attribute, "a value");
}
Status CheckTree(const Node& node, std::string_view attribute) {
  return CheckType<Ref<const TreeSpec>>(node, attribute, "a structure");
}
Status CheckSpec(const Node& node, std::string_view attribute) {
  return CheckType<Ref<const ElementSpec>>(node, attribute, "a spec");
}

Status CheckSeed(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "seed"));
  TUTTI_RETURN_IF_ERROR(CheckBool(node, "seed_given"));
  if (node.attributes().Find("seed_by_element") == nullptr) return OkStatus();
  return CheckBool(node, "seed_by_element");
}

Status CheckFunctions(const Node& node, size_t count) {
  if (node.functions().size() == count) return OkStatus();
  return InvalidArgument("{}: expected {} functions, got {}", node.label(), count,
                         node.functions().size());
}

}  // namespace tutti
