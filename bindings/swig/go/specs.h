// Specs of nested structures for Go, which makes them level by level where the C interface takes a
// structure and its leaves.
#ifndef TUTTI_BINDINGS_SWIG_GO_SPECS_H_
#define TUTTI_BINDINGS_SWIG_GO_SPECS_H_

namespace tutti_go {

inline tutti_status *spec_of_tensor(int32_t dtype, int64_t known_rank, size_t rank,
                                    const int64_t *dims, tutti_spec **out_spec) {
  return tutti_spec_create_tensor(dtype, known_rank < 0 ? known_rank : static_cast<int64_t>(rank),
                                  dims, out_spec);
}

inline tutti_status *spec_of_sparse(int32_t dtype, int64_t known_rank, size_t rank,
                                    const int64_t *dims, tutti_spec **out_spec) {
  return tutti_spec_create_sparse(dtype, known_rank < 0 ? known_rank : static_cast<int64_t>(rank),
                                  dims, out_spec);
}
inline tutti_status *spec_of_ragged(int32_t dtype, int64_t ragged_rank, int32_t splits,
                                    int64_t known_rank, size_t rank, const int64_t *dims,
                                    tutti_spec **out_spec) {
  return tutti_spec_create_ragged(dtype, known_rank < 0 ? known_rank : static_cast<int64_t>(rank),
                                  dims, ragged_rank, splits, out_spec);
}

// Leaf `leaf` of `spec` as a spec of its own.
inline tutti_status *LeafOf(const tutti_spec *spec, size_t leaf, tutti_spec **out_spec) {
  return tutti_spec_leaf(spec, leaf, out_spec);
}
// A spec over the specs of its children: `make` makes the structure from those of the children.
template <class Make>
tutti_status *Nested(size_t count, const tutti_spec *const *specs, tutti_spec **out_spec,
                     Make make) {
  std::vector<const tutti_treespec *> children;
  std::vector<tutti_spec *> leaves;
  tutti_treespec *structure = nullptr;
  tutti_status *status = nullptr;
  for (size_t i = 0; i < count && status == nullptr; ++i) {
    children.push_back(tutti_spec_get_treespec(specs[i]));
    for (size_t j = 0; j < tutti_spec_get_leaf_count(specs[i]) && status == nullptr; ++j) {
      tutti_spec *leaf = nullptr;
      status = LeafOf(specs[i], j, &leaf);
      if (status == nullptr) leaves.push_back(leaf);
    }
  }
  if (status == nullptr) status = make(children.data(), &structure);
  if (status == nullptr) {
    status = tutti_spec_create_from_leaves(structure, leaves.size(), leaves.data(), out_spec);
  }
  for (tutti_spec *leaf : leaves) tutti_spec_release(leaf);
  tutti_treespec_release(structure);
  return status;
}
inline tutti_status *spec_of_sequence(bool list, size_t count, const tutti_spec *const *specs,
                                      tutti_spec **out_spec) {
  return Nested(count, specs, out_spec, [&](const tutti_treespec *const *children,
                                            tutti_treespec **out) {
    return tutti_treespec_create_sequence(list ? TUTTI_NODE_LIST : TUTTI_NODE_TUPLE, count,
                                          children, out);
  });
}
// The keys in their order.
inline tutti_status *spec_of_dict(size_t value_count, const char *const *texts, size_t count,
                                  const tutti_spec *const *specs, tutti_spec **out_spec) {
  if (value_count != count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT, "a dict: as many specs as keys, please");
  }
  return Nested(count, specs, out_spec, [&](const tutti_treespec *const *children,
                                            tutti_treespec **out) {
    return tutti_treespec_create_dict(count, texts, children, out);
  });
}
inline tutti_status *spec_to_string(const tutti_spec *spec, tutti_bytes **out_text) {
  return tutti_spec_to_string(spec, out_text);
}
inline bool spec_equal(const tutti_spec *left, const tutti_spec *right) {
  return tutti_spec_equal(left, right) != 0;
}
inline tutti_status *spec_of_named_tuple(const char *type_name, size_t value_count,
                                         const char *const *texts, size_t count,
                                         const tutti_spec *const *specs, tutti_spec **out_spec) {
  if (value_count != count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT,
                               "a named tuple: as many specs as fields, please");
  }
  return Nested(count, specs, out_spec, [&](const tutti_treespec *const *children,
                                            tutti_treespec **out) {
    return tutti_treespec_create_named_tuple(type_name == nullptr ? "" : type_name, count, texts,
                                             children, out);
  });
}
inline tutti_status *spec_of_none(tutti_spec **out_spec) {
  return tutti_spec_create_none(out_spec);
}
inline tutti_status *spec_of_optional(const tutti_spec *inner, tutti_spec **out_spec) {
  return tutti_spec_create_optional(inner, out_spec);
}
inline tutti_status *spec_of_per_replica(size_t count, const tutti_spec *const *specs,
                                         tutti_spec **out_spec) {
  return tutti_spec_create_per_replica(count, specs, out_spec);
}
inline tutti_status *spec_of_variant(tutti_spec **out_spec) {
  return tutti_spec_create_dataset(nullptr, out_spec);
}
inline tutti_status *spec_of_dataset(const tutti_spec *inner, size_t rank, const int64_t *dims,
                                     tutti_spec **out_spec) {
  return tutti_spec_create_dataset_of_shape(inner, static_cast<int64_t>(rank), dims, out_spec);
}
inline tutti_status *spec_of_iterator(const tutti_spec *inner, tutti_spec **out_spec) {
  return tutti_spec_create_iterator(inner, out_spec);
}

// ---- the leaves of a spec

inline int64_t spec_leaf_count(const tutti_spec *spec) {
  return static_cast<int64_t>(tutti_spec_get_leaf_count(spec));
}
inline int32_t spec_leaf_kind(const tutti_spec *spec, int64_t leaf) {
  return tutti_spec_get_leaf_kind(spec, static_cast<size_t>(leaf));
}
// Borrowed; null where the leaf holds nothing.
inline const tutti_spec *spec_leaf_inner(const tutti_spec *spec, int64_t leaf) {
  return tutti_spec_get_leaf_inner(spec, static_cast<size_t>(leaf));
}
inline int32_t spec_leaf_dtype(const tutti_spec *spec, int64_t leaf) {
  return tutti_spec_get_leaf_dtype(spec, static_cast<size_t>(leaf));
}
inline int64_t spec_leaf_rank(const tutti_spec *spec, int64_t leaf) {
  return tutti_spec_get_leaf_rank(spec, static_cast<size_t>(leaf));
}
inline int64_t spec_leaf_dim(const tutti_spec *spec, int64_t leaf, int64_t axis) {
  return tutti_spec_get_leaf_dims(spec, static_cast<size_t>(leaf))[axis];
}

// ---- the structure of a spec, whose nodes go by the places of children on the way to them

inline const tutti_treespec *NodeAt(const tutti_spec *spec, size_t rank, const int64_t *dims) {
  const tutti_treespec *node = tutti_spec_get_treespec(spec);
  for (size_t i = 0; i < rank; ++i) {
    node = tutti_treespec_get_child(node, static_cast<size_t>(dims[i]));
  }
  return node;
}
inline int32_t spec_node_kind(const tutti_spec *spec, size_t rank, const int64_t *dims) {
  return tutti_treespec_get_kind(NodeAt(spec, rank, dims));
}
inline int64_t spec_node_child_count(const tutti_spec *spec, size_t rank, const int64_t *dims) {
  return static_cast<int64_t>(tutti_treespec_get_child_count(NodeAt(spec, rank, dims)));
}
inline const char *spec_node_key(const tutti_spec *spec, size_t rank, const int64_t *dims,
                                 int64_t index) {
  return tutti_treespec_get_key(NodeAt(spec, rank, dims), static_cast<size_t>(index));
}

}  // namespace tutti_go

#endif  // TUTTI_BINDINGS_SWIG_GO_SPECS_H_
