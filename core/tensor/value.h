// Value: a nested structure of leaves, immutable and shared: what user functions take and give, and
// what datasets yield.
//
//   Ref<Value> x = Value::OfTensor(image);
//   TUTTI_ASSIGN_OR_RETURN(Ref<Value> row, Value::Dict({{"image", x}, {"label", y}}));
//   TUTTI_ASSIGN_OR_RETURN(Ref<Value> label, row->Get({"label"}));
//   for (const Leaf& leaf : row->leaves()) ...           // the fast path: leaves in treespec order
//
// A value is its TreeSpec and a flat array of leaves in one allocation; a single leaf costs no
// spec. Children are values of their own, made when asked for; they hold the leaves, not the
// parent. Threads: any.
#ifndef TUTTI_CORE_TENSOR_VALUE_H_
#define TUTTI_CORE_TENSOR_VALUE_H_

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/leaf.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

class Value final : public RefCounted {
 public:
  using Children = std::vector<Ref<Value>>;

  // ---- Making ----

  static Ref<Value> OfLeaf(Leaf leaf);
  static Ref<Value> OfTensor(Ref<Tensor> tensor) {
    return OfLeaf(Leaf::OfTensor(std::move(tensor)));
  }
  static Ref<Value> OfString(std::string_view text) { return OfLeaf(Leaf::OfString(text)); }
  static Ref<Value> None() { return OfLeaf(Leaf::None()); }

  static Ref<Value> Tuple(std::span<const Ref<Value>> children);
  static Ref<Value> List(std::span<const Ref<Value>> children);
  static Ref<Value> Tuple(std::initializer_list<Ref<Value>> children) {
    return Tuple(std::span<const Ref<Value>>(children.begin(), children.size()));
  }
  static Ref<Value> List(std::initializer_list<Ref<Value>> children) {
    return List(std::span<const Ref<Value>>(children.begin(), children.size()));
  }
  // Items in any order. INVALID_ARGUMENT for a key that comes twice.
  static Result<Ref<Value>> Dict(std::vector<std::pair<std::string, Ref<Value>>> items);
  static Result<Ref<Value>> NamedTuple(std::string name, std::vector<std::string> fields,
                                       std::span<const Ref<Value>> children);
  // INVALID_ARGUMENT when the number of leaves is not the spec's.
  static Result<Ref<Value>> FromLeaves(Ref<const TreeSpec> spec, std::vector<Leaf> leaves);

  // ---- Reading ----

  const TreeSpec& spec() const { return spec_ ? *spec_ : TreeSpec::Leaf(); }
  Ref<const TreeSpec> spec_ref() const { return Ref<const TreeSpec>::Retain(&spec()); }
  bool is_leaf() const { return !spec_ || spec_->is_leaf(); }
  std::span<const Leaf> leaves() const { return {leaf_array(), num_leaves_}; }
  size_t num_leaves() const { return num_leaves_; }
  const Leaf& leaf(size_t i) const { return leaf_array()[i]; }
  // Of a value that is a single leaf.
  const Leaf& leaf() const;
  // The tensor of a value that is a single tensor leaf, else null.
  const Tensor* AsTensor() const;
  // The same with an error: INVALID_ARGUMENT naming `what` and what was found.
  Result<Ref<Tensor>> GetTensor(std::string_view what) const;

  size_t num_children() const { return spec().num_children(); }
  // Child `i`, which must exist; the same with OUT_OF_RANGE; by key or field, NOT_FOUND naming the
  // keys that there are.
  Ref<Value> Child(size_t i) const;
  Result<Ref<Value>> At(int64_t i) const;
  Result<Ref<Value>> Find(std::string_view key) const;
  // The value at a path, of steps or in text ("0/labels"); errors are TreeSpec::Locate's.
  Result<Ref<Value>> Get(std::span<const PathStep> path) const;
  Result<Ref<Value>> Get(std::initializer_list<PathStep> path) const {
    return Get(std::span<const PathStep>(path.begin(), path.size()));
  }
  Result<Ref<Value>> GetByText(std::string_view path) const;
  // The part of this value at a node of its own spec.
  Ref<Value> Part(const TreeSpec::Location& location) const;
  std::vector<Ref<Value>> AllChildren() const;

  // A value of the same structure with fn(leaf) -> Result<Leaf> in the place of each leaf; the
  // first error ends it.
  template <class Fn>
  Result<Ref<Value>> MapLeaves(Fn&& fn) const {
    std::vector<Leaf> mapped;
    mapped.reserve(num_leaves_);
    for (const Leaf& leaf : leaves()) {
      Result<Leaf> result = fn(leaf);
      if (!result.ok()) return result.status();
      mapped.push_back(std::move(result).value());
    }
    return WithLeaves(std::move(mapped));
  }
  // The same structure with other leaves, as many as there are.
  Ref<Value> WithLeaves(std::vector<Leaf> leaves) const;

  // Repeats each leaf of this value over the structure that `full` has in its place, so that the
  // result has the structure of `full`: one padding value for all components, say. INVALID_ARGUMENT
  // naming `what` and the first path that does not fit.
  Result<Ref<Value>> BroadcastTo(const Ref<const TreeSpec>& full, std::string_view what) const;

  // Structure and contents (Leaf::ContentsEqual).
  bool ContentsEqual(const Value& other) const;
  std::string ToString() const;  // "{'image': [1 2 3], 'label': 7}"

  static void operator delete(void* memory) { ::operator delete(memory); }

 private:
  enum class LeafCount : size_t {};
  static void* operator new(size_t object_bytes, LeafCount leaves) {
    return ::operator new(object_bytes + static_cast<size_t>(leaves) * sizeof(Leaf));
  }
  static void operator delete(void* memory, LeafCount) { ::operator delete(memory); }

  // The array behind the object is filled by the makers.
  Value(Ref<const TreeSpec> spec, size_t num_leaves)
      : num_leaves_(num_leaves), spec_(std::move(spec)) {}
  ~Value() override;
  static Ref<Value> OfChildren(Ref<const TreeSpec> spec, std::span<const Ref<Value>> children);
  static Ref<Value> CopyOfLeaves(Ref<const TreeSpec> spec, std::span<const Leaf> leaves);
  Leaf* leaf_array() { return reinterpret_cast<Leaf*>(this + 1); }
  const Leaf* leaf_array() const { return reinterpret_cast<const Leaf*>(this + 1); }

  const size_t num_leaves_;
  const Ref<const TreeSpec> spec_;  // null: a single leaf
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_VALUE_H_
