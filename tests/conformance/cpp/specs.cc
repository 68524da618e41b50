#include "specs.h"

#include <stdexcept>

namespace conformance {
namespace {

// Leaf specs from `begin` on, appended to `leaves`.
void AddLeaves(const Spec &spec, size_t begin, size_t count, std::vector<Spec> *leaves) {
  for (size_t leaf = begin; leaf < begin + count; ++leaf) {
    leaves->emplace_back();
    Check(tutti_spec_leaf(spec.get(), leaf, leaves->back().out()));
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

// A shape; null is an unknown size or, as the shape, an unknown rank.
struct Dims {
  explicit Dims(const Json &shape) {
    for (const Json &size : shape) {
      sizes.push_back(size.is_null() ? TUTTI_UNKNOWN_DIMENSION : size.get<int64_t>());
    }
    if (!shape.is_null()) rank = static_cast<int64_t>(sizes.size());
  }
  std::vector<int64_t> sizes;
  int64_t rank = TUTTI_UNKNOWN_RANK;
};

// Of {"sparse": {"shape", "dtype"}} and {"ragged": {"shape", "dtype"}}, all of whose axes but the
// first are ragged.
Json AddCompositeLeaves(const Json &expected, std::vector<Spec> *leaves) {
  const bool sparse = expected.contains("sparse");
  CheckKeys(expected, {sparse ? "sparse" : "ragged"});
  const Json &whole = expected.at(sparse ? "sparse" : "ragged");
  CheckKeys(whole, {"shape", "dtype"});
  const Dims dims(whole.at("shape"));
  const tutti_dtype dtype = DTypeOf(whole.at("dtype"));
  Spec spec;
  if (sparse) {
    Check(tutti_spec_create_sparse(dtype, dims.rank, dims.sizes.data(), spec.out()));
  } else {
    Check(tutti_spec_create_ragged(dtype, dims.rank, dims.sizes.data(), dims.rank - 1,
                                   TUTTI_DTYPE_INT64, spec.out()));
  }
  AddLeaves(spec, 0, tutti_spec_get_leaf_count(spec.get()), leaves);
  if (sparse) {
    const Json none = Json::array();
    return Json{{"sparse", {{"indices", none}, {"values", none}, {"dense_shape", none}}}};
  }
  Json lists = 0;
  for (int64_t axis = 0; axis < dims.rank; ++axis) lists = Json::array({lists});
  return Json{{"ragged", lists}};
}

// The leaves of {"shape": [...], "dtype": D} or {"ds": SPEC} and structures of it, in the order of
// the library, which sorts the keys of a dict; null is an unknown dimension or, as the shape, an
// unknown rank. Gives the JSON of a value of the same structure.
Json AddDescribedLeaves(const Json &expected, std::vector<Spec> *leaves) {
  if (expected.contains("t")) {
    Json parts = Json::array();
    for (const Json &part : expected.at("t")) parts.push_back(AddDescribedLeaves(part, leaves));
    return Json{{"t", parts}};
  }
  if (expected.contains("d")) {
    Json parts = Json::object();
    for (const auto &[key, part] : expected.at("d").get<std::map<std::string, Json>>()) {
      parts[key] = AddDescribedLeaves(part, leaves);
    }
    return Json{{"d", parts}};
  }
  if (expected.contains("ds")) {
    CheckKeys(expected, {"ds"});
    leaves->emplace_back();
    Check(tutti_spec_create_dataset(DescribedSpec(expected.at("ds")).get(), leaves->back().out()));
    return 0;
  }
  if (expected.contains("sparse") || expected.contains("ragged")) {
    return AddCompositeLeaves(expected, leaves);
  }
  CheckKeys(expected, {"shape", "dtype"});
  const Dims dims(expected.at("shape"));
  leaves->emplace_back();
  Check(tutti_spec_create_tensor(DTypeOf(expected.at("dtype")), dims.rank, dims.sizes.data(),
                                 leaves->back().out()));
  return 0;
}

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

Spec DescribedSpec(const Json &described) {
  std::vector<Spec> leaves;
  const Value structure = ValueOf(AddDescribedLeaves(described, &leaves));
  Spec like;
  Check(tutti_spec_create_from_value(structure.get(), like.out()));
  return FromLeaves(tutti_spec_get_treespec(like.get()), leaves);
}

}  // namespace conformance
