// TreeSpec: the structure of a nested value without its leaves.
//
//   {'a': (*, *), 'b': *}      a dict of a tuple of two leaves, and a leaf
//
// The leaves of a structure are numbered from left to right, depth first; dict keys are sorted by
// their UTF-8 bytes, so that two dicts with equal keys have equal specs. Immutable; comparing two
// specs of one origin costs a pointer comparison.
#ifndef TUTTI_CORE_TENSOR_TREE_SPEC_H_
#define TUTTI_CORE_TENSOR_TREE_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

// Append-only; the same numbers as TUTTI_NODE_* of the C interface.
enum class NodeKind : int32_t {
  kLeaf = 1,
  kTuple = 2,
  kList = 3,
  kDict = 4,
  kNamedTuple = 5,
};

// "leaf", "tuple", "list", "dict", "named tuple"; static.
std::string_view NodeKindName(NodeKind kind);

// One step from a node to a child: by position, or by the key of a dict or the field of a named
// tuple.
class PathStep {
 public:
  PathStep(int index) : index_(index) {}      // NOLINT: {"a", 0} is a path
  PathStep(size_t index) : index_(static_cast<int64_t>(index)) {}  // NOLINT
  PathStep(const char* key) : key_(key), is_key_(true) {}          // NOLINT
  PathStep(std::string key) : key_(std::move(key)), is_key_(true) {}  // NOLINT

  bool is_key() const { return is_key_; }
  int64_t index() const { return index_; }
  const std::string& key() const { return key_; }

  friend bool operator==(const PathStep& a, const PathStep& b) = default;

 private:
  int64_t index_ = 0;
  std::string key_;
  bool is_key_ = false;
};
using Path = std::vector<PathStep>;

// `["a"][0]`; the empty path is "".
std::string PathToString(std::span<const PathStep> path);

class TreeSpec final : public RefCounted {
 public:
  using Children = std::vector<Ref<const TreeSpec>>;

  // The spec of a single leaf: one object for the whole process.
  static const TreeSpec& Leaf();

  static Ref<const TreeSpec> Tuple(Children children);
  static Ref<const TreeSpec> List(Children children);
  // Keys in any order, children in the order of the keys; INVALID_ARGUMENT for a key that comes
  // twice or unequal counts.
  static Result<Ref<const TreeSpec>> Dict(std::vector<std::string> keys, Children children);
  // `name` is the type's name. Fields keep their order; INVALID_ARGUMENT as above, and for a name
  // that is reserved (composite.h) with other fields than it has.
  static Result<Ref<const TreeSpec>> NamedTuple(std::string name, std::vector<std::string> fields,
                                                Children children);

  NodeKind kind() const { return kind_; }
  bool is_leaf() const { return kind_ == NodeKind::kLeaf; }
  size_t num_children() const { return children_.size(); }
  const TreeSpec& child(size_t i) const { return *children_[i]; }
  Ref<const TreeSpec> child_ref(size_t i) const { return children_[i]; }
  size_t num_leaves() const { return num_leaves_; }
  // Whether a sparse or a ragged tensor (composite.h) stands here or anywhere below.
  bool has_composites() const { return has_composites_; }
  // The number of the first leaf under child `i`, relative to this node.
  size_t first_leaf(size_t i) const { return first_leaves_[i]; }
  // Keys of a dict (sorted) or fields of a named tuple; empty otherwise.
  std::span<const std::string> keys() const { return keys_; }
  const std::string& key(size_t i) const { return keys_[i]; }
  // The type's name of a named tuple.
  const std::string& name() const { return name_; }

  // Position of the child with this key, or -1.
  int64_t FindKey(std::string_view key) const;
  // The node at `path` and the number of its first leaf. NOT_FOUND naming the step that leads
  // nowhere, and what there is.
  struct Location {
    const TreeSpec* node;
    size_t first_leaf;
  };
  Result<Location> Locate(std::span<const PathStep> path) const;
  // The same for a path in text, steps joined by '/': "image", "0/labels"; "" is this node.
  Result<Location> Locate(std::string_view text) const;
  // The path of leaf `i`.
  Path LeafPath(size_t i) const;

  uint64_t hash() const { return hash_; }
  // "{'a': (*, *), 'b': *}"; tuples of one are "(*,)", named tuples "Point(x=*, y=*)".
  std::string ToString() const;

  friend bool operator==(const TreeSpec& a, const TreeSpec& b);

 private:
  TreeSpec(NodeKind kind, Children children, std::vector<std::string> keys, std::string name);
  ~TreeSpec() override = default;
  static Status CheckKeys(NodeKind kind, std::span<const std::string> keys, size_t num_children);
  Status NoSuchChild(std::span<const PathStep> path, size_t step) const;
  void AppendTo(std::string* out) const;

  const NodeKind kind_;
  const Children children_;
  const std::vector<std::string> keys_;
  const std::string name_;
  std::vector<size_t> first_leaves_;
  size_t num_leaves_ = 0;
  bool has_composites_ = false;
  uint64_t hash_ = 0;
};

// OK when the structures are equal. Otherwise INVALID_ARGUMENT naming `what`, the first path at
// which they differ, and what was expected and found there.
Status CheckSameStructure(const TreeSpec& expected, const TreeSpec& found, std::string_view what);

// OK when `prefix` becomes `full` by replacing leaves with structures; otherwise an error as above.
Status CheckPrefix(const TreeSpec& prefix, const TreeSpec& full, std::string_view what);

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_TREE_SPEC_H_
