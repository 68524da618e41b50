// Trees of structure: making, comparing, walking, printing.
#include "core/tensor/tree_spec.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

uint64_t MixHash(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

std::string QuoteKey(std::string_view key) { return "'" + std::string(key) + "'"; }

// What stands at a node, for messages: "a leaf", "a tuple of 2".
std::string Describe(const TreeSpec& spec) {
  if (spec.is_leaf()) return "a leaf";
  std::string text =
      Format("a {} of {}", NodeKindName(spec.kind()), spec.num_children());
  if (spec.kind() == NodeKind::kNamedTuple) text += " named " + spec.name();
  return text;
}

std::string KeysText(const TreeSpec& spec) {
  std::string text;
  for (const std::string& key : spec.keys()) {
    if (!text.empty()) text += ", ";
    text += QuoteKey(key);
  }
  return "{" + text + "}";
}

PathStep StepTo(const TreeSpec& spec, size_t child) {
  return spec.keys().empty() ? PathStep(child) : PathStep(spec.key(child));
}

// Walks both trees to the first node at which they differ; leaves of `expected` fit anything when
// `prefix`.
Status CheckNodes(const TreeSpec& expected, const TreeSpec& found, bool prefix,
                  std::string_view what, Path* path) {
  if (&expected == &found || (prefix && expected.is_leaf())) return OkStatus();
  const bool same_node = expected.kind() == found.kind() &&
                         expected.num_children() == found.num_children() &&
                         expected.name() == found.name();
  if (!same_node) {
    return InvalidArgument("{}: structures differ{}: expected {}, found {}; expected {}, found {}",
                           what, path->empty() ? "" : " at " + PathToString(*path),
                           Describe(expected), Describe(found), expected.ToString(),
                           found.ToString())
        .With("path", PathToString(*path));
  }
  if (!std::equal(expected.keys().begin(), expected.keys().end(), found.keys().begin())) {
    return InvalidArgument("{}: keys differ{}: expected {}, found {}", what,
                           path->empty() ? "" : " at " + PathToString(*path), KeysText(expected),
                           KeysText(found))
        .With("path", PathToString(*path));
  }
  for (size_t i = 0; i < expected.num_children(); ++i) {
    path->push_back(StepTo(expected, i));
    TUTTI_RETURN_IF_ERROR(CheckNodes(expected.child(i), found.child(i), prefix, what, path));
    path->pop_back();
  }
  return OkStatus();
}

}  // namespace

std::string_view NodeKindName(NodeKind kind) {
  switch (kind) {
    case NodeKind::kLeaf: return "leaf";
    case NodeKind::kTuple: return "tuple";
    case NodeKind::kList: return "list";
    case NodeKind::kDict: return "dict";
    case NodeKind::kNamedTuple: return "named tuple";
  }
  return "unknown";
}

std::string PathToString(std::span<const PathStep> path) {
  std::string text;
  for (const PathStep& step : path) {
    text += "[" + (step.is_key() ? Quote(step.key()) : std::to_string(step.index())) + "]";
  }
  return text;
}

TreeSpec::TreeSpec(NodeKind kind, Children children, std::vector<std::string> keys,
                   std::string name)
    : kind_(kind), children_(std::move(children)), keys_(std::move(keys)), name_(std::move(name)) {
  hash_ = MixHash(static_cast<uint64_t>(kind_), std::hash<std::string>()(name_));
  first_leaves_.reserve(children_.size());
  for (const Ref<const TreeSpec>& child : children_) {
    first_leaves_.push_back(num_leaves_);
    num_leaves_ += child->num_leaves_;
    has_composites_ = has_composites_ || child->has_composites_;
    hash_ = MixHash(hash_, child->hash_);
  }
  for (const std::string& key : keys_) hash_ = MixHash(hash_, std::hash<std::string>()(key));
  if (kind_ == NodeKind::kLeaf) num_leaves_ = 1;
  if (CompositeOf(*this) != Composite::kNone) has_composites_ = true;
}

const TreeSpec& TreeSpec::Leaf() {
  // Never destroyed: values may outlive every static object.
  static const TreeSpec* const leaf = new TreeSpec(NodeKind::kLeaf, {}, {}, "");
  return *leaf;
}

Ref<const TreeSpec> TreeSpec::Tuple(Children children) {
  return Ref<const TreeSpec>::Adopt(new TreeSpec(NodeKind::kTuple, std::move(children), {}, ""));
}

Ref<const TreeSpec> TreeSpec::List(Children children) {
  return Ref<const TreeSpec>::Adopt(new TreeSpec(NodeKind::kList, std::move(children), {}, ""));
}

Status TreeSpec::CheckKeys(NodeKind kind, std::span<const std::string> keys, size_t num_children) {
  if (keys.size() != num_children) {
    return InvalidArgument("{}: {} keys for {} children", NodeKindName(kind), keys.size(),
                           num_children);
  }
  std::vector<std::string_view> sorted(keys.begin(), keys.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return OkStatus();
  return InvalidArgument("{}: the key {} comes twice", NodeKindName(kind), Quote(*twice))
      .With("key", *twice);
}

Result<Ref<const TreeSpec>> TreeSpec::Dict(std::vector<std::string> keys, Children children) {
  TUTTI_RETURN_IF_ERROR(CheckKeys(NodeKind::kDict, keys, children.size()));
  if (!std::is_sorted(keys.begin(), keys.end())) {
    std::vector<size_t> order(keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
    std::vector<std::string> sorted_keys;
    Children sorted_children;
    for (size_t i : order) {
      sorted_keys.push_back(std::move(keys[i]));
      sorted_children.push_back(std::move(children[i]));
    }
    keys = std::move(sorted_keys);
    children = std::move(sorted_children);
  }
  return Ref<const TreeSpec>::Adopt(
      new TreeSpec(NodeKind::kDict, std::move(children), std::move(keys), ""));
}

Result<Ref<const TreeSpec>> TreeSpec::NamedTuple(std::string name, std::vector<std::string> fields,
                                                 Children children) {
  TUTTI_RETURN_IF_ERROR(CheckKeys(NodeKind::kNamedTuple, fields, children.size()));
  TUTTI_RETURN_IF_ERROR(CheckReservedName(name, fields, children));
  return Ref<const TreeSpec>::Adopt(new TreeSpec(NodeKind::kNamedTuple, std::move(children),
                                                 std::move(fields), std::move(name)));
}

int64_t TreeSpec::FindKey(std::string_view key) const {
  // Fields of a named tuple are not sorted; either list is short.
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  return found == keys_.end() ? -1 : found - keys_.begin();
}

Status TreeSpec::NoSuchChild(std::span<const PathStep> path, size_t step) const {
  const std::string where = step == 0 ? "the value" : PathToString(path.first(step));
  const std::string there = !keys_.empty() ? "with the keys " + KeysText(*this) : "";
  return NotFound("path {}: there is no {} in {}, which is {}{}{}", PathToString(path),
                  PathToString(path.subspan(step, 1)), where, Describe(*this),
                  there.empty() ? "" : " ", there)
      .With("path", PathToString(path));
}

Result<TreeSpec::Location> TreeSpec::Locate(std::span<const PathStep> path) const {
  Location here{this, 0};
  for (size_t i = 0; i < path.size(); ++i) {
    const int64_t child = path[i].is_key() ? here.node->FindKey(path[i].key()) : path[i].index();
    if (child < 0 || child >= static_cast<int64_t>(here.node->num_children())) {
      return here.node->NoSuchChild(path, i);
    }
    here = {here.node->children_[child].get(), here.first_leaf + here.node->first_leaf(child)};
  }
  return here;
}

Result<TreeSpec::Location> TreeSpec::Locate(std::string_view text) const {
  Path path;
  const TreeSpec* node = this;
  while (!text.empty()) {
    const size_t slash = text.find('/');
    const std::string_view step = text.substr(0, slash);
    text = slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
    // A key wins over an index, so that {'0': *} can be read.
    int64_t child = node == nullptr ? -1 : node->FindKey(step);
    int64_t index = -1;
    const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
    const bool is_index = error == std::errc() && end == step.data() + step.size();
    const bool in_dict = node != nullptr && node->kind_ == NodeKind::kDict;
    const bool by_key = child >= 0 || !is_index || in_dict;
    path.push_back(by_key ? PathStep(std::string(step)) : PathStep(static_cast<size_t>(index)));
    if (!by_key) child = index;
    const bool there = node != nullptr && child >= 0 &&
                       child < static_cast<int64_t>(node->num_children());
    node = there ? node->children_[child].get() : nullptr;
  }
  return Locate(path);
}

Path TreeSpec::LeafPath(size_t i) const {
  Path path;
  const TreeSpec* node = this;
  while (!node->is_leaf()) {
    // The last child whose first leaf is not after leaf i; children without leaves share a number
    // with the one that follows.
    const auto after =
        std::upper_bound(node->first_leaves_.begin(), node->first_leaves_.end(), i);
    const auto child = static_cast<size_t>(after - node->first_leaves_.begin()) - 1;
    path.push_back(StepTo(*node, child));
    i -= node->first_leaves_[child];
    node = node->children_[child].get();
  }
  return path;
}

void TreeSpec::AppendTo(std::string* out) const {
  switch (kind_) {
    case NodeKind::kLeaf: *out += '*'; return;
    case NodeKind::kTuple: *out += '('; break;
    case NodeKind::kList: *out += '['; break;
    case NodeKind::kDict: *out += '{'; break;
    case NodeKind::kNamedTuple: *out += name_ + '('; break;
  }
  for (size_t i = 0; i < children_.size(); ++i) {
    if (i > 0) *out += ", ";
    if (kind_ == NodeKind::kDict) *out += QuoteKey(keys_[i]) + ": ";
    if (kind_ == NodeKind::kNamedTuple) *out += keys_[i] + '=';
    children_[i]->AppendTo(out);
  }
  if (kind_ == NodeKind::kTuple && children_.size() == 1) *out += ',';
  *out += kind_ == NodeKind::kList ? ']' : kind_ == NodeKind::kDict ? '}' : ')';
}

std::string TreeSpec::ToString() const {
  std::string text;
  AppendTo(&text);
  return text;
}

bool operator==(const TreeSpec& a, const TreeSpec& b) {
  if (&a == &b) return true;
  return a.hash_ == b.hash_ && a.kind_ == b.kind_ && a.num_leaves_ == b.num_leaves_ &&
         a.name_ == b.name_ && a.keys_ == b.keys_ &&
         std::equal(a.children_.begin(), a.children_.end(), b.children_.begin(), b.children_.end(),
                    [](const auto& x, const auto& y) { return *x == *y; });
}

Status CheckSameStructure(const TreeSpec& expected, const TreeSpec& found, std::string_view what) {
  if (expected == found) return OkStatus();
  Path path;
  return CheckNodes(expected, found, false, what, &path);
}

Status CheckPrefix(const TreeSpec& prefix, const TreeSpec& full, std::string_view what) {
  if (prefix == full) return OkStatus();
  Path path;
  return CheckNodes(prefix, full, true, what, &path);
}

}  // namespace tutti
