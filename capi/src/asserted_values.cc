#include "capi/src/asserted_values.h"

#include <tutti/value.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/variable.h"

namespace tutti::capi {

namespace {

class LeafWalk {
 public:
  LeafWalk(Call call, const char *what) : call_(call), what_(what) {}

  Status Take(const Value &value, const std::string &path) {
    if (value.is_leaf()) {
      leaves_.emplace_back();
      return TakeLeaf(value.leaf(), path);
    }
    const TreeSpec &spec = value.spec();
    if (spec.kind() == NodeKind::kNamedTuple &&
        (spec.name() == TUTTI_SPARSE_TYPE_NAME || spec.name() == TUTTI_RAGGED_TYPE_NAME)) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Value> values, value.Find("values"));
      return Take(*values, path);
    }
    for (size_t i = 0; i < value.num_children(); ++i) {
      const PathStep step = spec.keys().empty() ? PathStep(i) : PathStep(spec.key(i));
      TUTTI_RETURN_IF_ERROR(Take(*value.Child(i), path + PathToString(std::span(&step, 1))));
    }
    return OkStatus();
  }

  std::vector<AssertedLeaf> TakeLeaves() { return std::move(leaves_); }

 private:
  void Add(std::string name, Ref<Tensor> tensor) {
    leaves_.back().tensors.push_back({std::move(name), std::move(tensor)});
  }

  Status TakeLeaf(const Leaf &leaf, const std::string &path) {
    if (leaf.is_tensor()) {
      Add(path, leaf.tensor_ref());
      return OkStatus();
    }
    if (leaf.is_none()) return OkStatus();
    if (const DistributedValue *distributed = AsDistributed(leaf)) {
      for (size_t i = 0; i < distributed->num_components(); ++i) {
        TUTTI_RETURN_IF_ERROR(TakeLeaf(distributed->component(i).leaf(),
                                       path + " of replica " + std::to_string(i)));
      }
      return OkStatus();
    }
    if (leaf.kind() == LeafKind::kVariable) {
      const auto &variable = *leaf.object_as<Variable>();
      for (size_t i = 0; i < variable.num_copies(); ++i) {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> copy, variable.ReadCopy(i));
        Add(path + " of variable '" + variable.copy_name(i) + "'", std::move(copy));
      }
      return OkStatus();
    }
    if (leaf.kind() == LeafKind::kOptional) {
      if (leaf.optional_value() == nullptr) return OkStatus();
      const Value &held = *leaf.optional_value();
      if (held.is_leaf()) return TakeLeaf(held.leaf(), path);
    }
    return InvalidArgument("{}: {}{} is a {}; expected a tensor, a variable, a per-replica value "
                           "or a structure of them",
                           call_.function, what_, path, LeafKindName(leaf.kind()))
        .With("structure", LeafKindName(leaf.kind()));
  }

  const Call call_;
  const char *const what_;
  std::vector<AssertedLeaf> leaves_;
};

// Which of `count` goes with number `i`.
size_t PartnerOf(size_t i, size_t count) { return count == 1 ? 0 : i; }

}  // namespace

Result<std::vector<AssertedLeaf>> AssertedLeaves(Call call, const Value &value,
                                                 const char *what) {
  LeafWalk walk(call, what);
  TUTTI_RETURN_IF_ERROR(walk.Take(value, ""));
  return walk.TakeLeaves();
}

Result<std::vector<NamedTensor>> AssertedTensors(Call call, const Value &value, const char *what) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<AssertedLeaf> leaves, AssertedLeaves(call, value, what));
  std::vector<NamedTensor> tensors;
  for (AssertedLeaf &leaf : leaves) {
    for (NamedTensor &tensor : leaf.tensors) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<std::vector<AssertedPair>> AssertedPairs(Call call, const Value &x, const Value &y) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<AssertedLeaf> left, AssertedLeaves(call, x, "x"));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<AssertedLeaf> right, AssertedLeaves(call, y, "y"));
  if (!x.is_leaf() && !y.is_leaf() && left.size() != right.size()) {
    return InvalidArgument("{}: x is {} and y is {}; expected one structure, or one that is a leaf",
                           call.function, x.spec().ToString(), y.spec().ToString())
        .With("structure", y.spec().ToString());
  }
  if (left.empty() || right.empty()) return std::vector<AssertedPair>();
  std::vector<AssertedPair> pairs;
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const std::vector<NamedTensor> &a = left[PartnerOf(i, left.size())].tensors;
    const std::vector<NamedTensor> &b = right[PartnerOf(i, right.size())].tensors;
    if (a.empty() != b.empty() || (a.empty() && (x.is_leaf() || y.is_leaf()))) {
      return InvalidArgument("{}: leaf {} of {} is none; expected a tensor in both x and y",
                             call.function, i, a.empty() ? "x" : "y")
          .With("structure", "none");
    }
    if (a.size() != b.size() && a.size() != 1 && b.size() != 1) {
      return InvalidArgument(
                 "{}: leaf {} has {} components in x and {} in y; expected as many in both, or one",
                 call.function, i, a.size(), b.size())
          .With("structure", "components");
    }
    for (size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
      pairs.push_back({a[PartnerOf(k, a.size())], b[PartnerOf(k, b.size())]});
    }
  }
  return pairs;
}

}  // namespace tutti::capi
