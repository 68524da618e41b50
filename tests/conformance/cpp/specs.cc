#include "specs.h"

#include <stdexcept>

namespace conformance {
namespace {

// Leaf specs from `begin` on, appended to `leaves`.
void AddLeaves(const Spec &spec, size_t begin, size_t count, std::vector<Spec> *leaves) {
  for (size_t leaf = begin; leaf < begin + count; ++leaf) {
    leaves->emplace_back();
    Check(tutti_spec_create_tensor(
        tutti_spec_get_leaf_dtype(spec.get(), leaf), tutti_spec_get_leaf_rank(spec.get(), leaf),
        tutti_spec_get_leaf_dims(spec.get(), leaf), leaves->back().out()));
  }
}

Spec FromLeaves(const tutti_treespec *treespec, const std::vector<Spec> &leaves) {
  std::vector<const tutti_spec *> handles;
  for (const Spec &leaf : leaves) handles.push_back(leaf.get());
  Spec spec;
  Check(tutti_spec_create_from_leaves(treespec, handles.size(), handles.data(), spec.out()));
  return spec;
}

// The parts side by side: their structures and all their leaves.
struct Parts {
  void Add(const Spec &part) {
    structures.push_back(tutti_spec_get_treespec(part.get()));
    AddLeaves(part, 0, tutti_spec_get_leaf_count(part.get()), &leaves);
  }

  std::vector<const tutti_treespec *> structures;
  std::vector<Spec> leaves;
};

}  // namespace

Spec SpecOfTensor(tutti_dtype dtype, const std::vector<int64_t> &dims) {
  Spec spec;
  Check(
      tutti_spec_create_tensor(dtype, static_cast<int64_t>(dims.size()), dims.data(), spec.out()));
  return spec;
}

Spec TupleSpec(const std::vector<Spec> &parts) {
  Parts all;
  for (const Spec &part : parts) all.Add(part);
  Treespec structure;
  Check(tutti_treespec_create_sequence(TUTTI_NODE_TUPLE, all.structures.size(),
                                       all.structures.data(), structure.out()));
  return FromLeaves(structure.get(), all.leaves);
}

Spec DictSpec(const std::map<std::string, Spec> &parts) {
  Parts all;  // in the order of the keys, as the library has them
  std::vector<const char *> keys;
  for (const auto &[key, part] : parts) {
    keys.push_back(key.c_str());
    all.Add(part);
  }
  Treespec structure;
  Check(tutti_treespec_create_dict(keys.size(), keys.data(), all.structures.data(),
                                   structure.out()));
  return FromLeaves(structure.get(), all.leaves);
}

Spec PartSpec(const Spec &spec, const Json &which) {
  const tutti_treespec *whole = tutti_spec_get_treespec(spec.get());
  size_t begin = 0;
  for (size_t i = 0; i < tutti_treespec_get_child_count(whole); ++i) {
    const tutti_treespec *child = tutti_treespec_get_child(whole, i);
    const size_t count = tutti_treespec_get_leaf_count(child);
    const char *key = tutti_treespec_get_key(whole, i);
    if (which.is_string() ? key != nullptr && which == key : which == i) {
      std::vector<Spec> leaves;
      AddLeaves(spec, begin, count, &leaves);
      return FromLeaves(child, leaves);
    }
    begin += count;
  }
  throw std::invalid_argument("the elements have no part " + which.dump());
}

}  // namespace conformance
