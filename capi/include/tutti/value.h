/* Values: leaves and nested structures of leaves. What callbacks receive and return, what a
 * dataset's elements are.
 *
 * A value is immutable. It is a leaf, or a tuple, list, dict (keys in UTF-8 byte order) or named
 * tuple of values. Its treespec is its structure without the leaves; the leaves in treespec order
 * are the fast path for bindings. */
#ifndef TUTTI_VALUE_H_
#define TUTTI_VALUE_H_

#include <tutti/tensor.h>

TUTTI_BEGIN_DECLS

/* What a value or a node of a treespec is; append-only. */
typedef int32_t tutti_node_kind;
enum {
  TUTTI_NODE_LEAF = 1,
  TUTTI_NODE_TUPLE = 2,
  TUTTI_NODE_LIST = 3,
  TUTTI_NODE_DICT = 4,
  TUTTI_NODE_NAMED_TUPLE = 5
};

/* What a leaf is; append-only. */
typedef int32_t tutti_leaf_kind;
enum {
  TUTTI_LEAF_TENSOR = 1,
  TUTTI_LEAF_STRING = 2,
  TUTTI_LEAF_DISTRIBUTED = 3,
  TUTTI_LEAF_VARIABLE = 4,
  TUTTI_LEAF_DATASET = 5,
  TUTTI_LEAF_OPTIONAL = 6,
  TUTTI_LEAF_NONE = 7,
  TUTTI_LEAF_HOST_OBJECT = 8,
  TUTTI_LEAF_ITERATOR = 9 /* of specs only: no value holds one */
};

/* What is known of the components of a distributed leaf, or of a variable's copies; append-only. */
typedef int32_t tutti_distribution;
enum {
  TUTTI_DISTRIBUTION_PER_REPLICA = 1, /* each replica's own */
  TUTTI_DISTRIBUTION_MIRRORED = 2,    /* equal: component 0 is the value */
  TUTTI_DISTRIBUTION_SYNC_ON_READ = 3 /* of variables alone: each replica's own until it is read */
};

/* ---- leaves. Each retains what it is made of. */

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_tensor(const tutti_tensor *tensor,
                                                  tutti_value **out_value);

/* A rank-0 tensor of float64 with one number.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_float64(double number, tutti_value **out_value);

/* A rank-0 tensor of int64 with one number.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_int64(int64_t number, tutti_value **out_value);

/* A text that is no tensor.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_string(tutti_string_view text, tutti_value **out_value);

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_none(tutti_value **out_value);

/* An optional that holds `value`, or nothing when `value` is NULL.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_optional(const tutti_value *value,
                                                    tutti_value **out_value);

/* An optional that holds nothing, where a value of `element_spec` could be: what
 * tutti_spec_create_from_value says of it is an optional of that.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_empty_optional(const tutti_spec *element_spec,
                                                          tutti_value **out_value);

/* An object of the host, told apart by `tag`; `destroy` runs once, also on failure, on the default
 * runtime's callback thread, or on the releasing thread while that runtime is not running.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_host_object(const void *tag, void *object,
                                                       tutti_destroy_fn destroy,
                                                       tutti_value **out_value);

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_variable(const tutti_variable *variable,
                                                    tutti_value **out_value);

/* A dataset as a value, which others call a variant: it stands in elements, arguments and results,
 * and is taken out with tutti_value_get_leaf_dataset or tutti_dataset_create_from_variant.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_dataset(const tutti_dataset *dataset,
                                                   tutti_value **out_value);

/* ---- structures, from `count` children that stay the caller's. */

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_tuple(size_t count, const tutti_value *const *children,
                                                 tutti_value **out_value);

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_list(size_t count, const tutti_value *const *children,
                                                tutti_value **out_value);

/* Keys in any order, sorted here; a key twice is INVALID_ARGUMENT.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_dict(size_t count, const char *const *keys,
                                                const tutti_value *const *children,
                                                tutti_value **out_value);

/* Fields keep their order; `type_name` tells types of equal fields apart.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_named_tuple(const char *type_name, size_t count,
                                                       const char *const *fields,
                                                       const tutti_value *const *children,
                                                       tutti_value **out_value);

/* ---- sparse and ragged tensors: named tuples of these two names, which no others may have.
 *   tutti.SparseTensor  indices int64[n, axes], values [n], dense_shape int64[axes]: values[i]
 *                       stands at indices[i] of a tensor of that shape, 0 everywhere else
 *   tutti.RaggedTensor  values, a tensor or ragged itself, row_splits int64 or int32 [rows + 1]:
 *                       row i is values[row_splits[i]] up to, not with, values[row_splits[i + 1]]
 */

#define TUTTI_SPARSE_TYPE_NAME "tutti.SparseTensor"
#define TUTTI_RAGGED_TYPE_NAME "tutti.RaggedTensor"

/* INVALID_ARGUMENT where dtypes, ranks or sizes do not fit each other, and for an index outside
 * `dense_shape`. Indices may come in any order.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_sparse(const tutti_tensor *indices,
                                                  const tutti_tensor *values,
                                                  const tutti_tensor *dense_shape,
                                                  tutti_value **out_value);

/* INVALID_ARGUMENT unless `row_splits` begin with 0, never become smaller and end with the number
 * of rows of `values`.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_ragged(const tutti_value *values,
                                                  const tutti_tensor *row_splits,
                                                  tutti_value **out_value);

/* ---- indexed slices: a named tuple of this name, which no other may have.
 *   tutti.IndexedSlices  values [n, ...], indices int64 or int32 [n], dense_shape int64[rank] or
 *                        none: values[i] belongs to row indices[i] of a tensor, whose shape is
 *                        dense_shape where that is said. An index may come more than once. */

#define TUTTI_INDEXED_SLICES_TYPE_NAME "tutti.IndexedSlices"

/* `dense_shape` may be NULL. INVALID_ARGUMENT where dtypes, ranks or sizes do not fit each other,
 * and for an index outside `dense_shape`. Indices become int64.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_indexed_slices(const tutti_tensor *values,
                                                          const tutti_tensor *indices,
                                                          const tutti_tensor *dense_shape,
                                                          tutti_value **out_value);

/* The tensor that a sparse or ragged one stands for, with `default_value`, a scalar of its dtype,
 * in the places without a value; NULL is 0, false or an empty byte string. A ragged one's axes are
 * as long as their longest. INVALID_ARGUMENT for any other value, and for an index that comes
 * twice.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_to_dense(const tutti_value *value,
                                             const tutti_tensor *default_value,
                                             tutti_tensor **out_tensor);

/* The rows of a sparse or ragged tensor along axis 0, as a list: sparse tensors; ragged ones, or
 * tensors where it is ragged once. INVALID_ARGUMENT for any other value.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_to_rows(const tutti_value *value, tutti_value **out_value);

/* The structure `treespec` with `count` leaves (each a value that is one leaf).
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_create_from_leaves(const tutti_treespec *treespec, size_t count,
                                                       const tutti_value *const *leaves,
                                                       tutti_value **out_value);

/* ---- reading. */

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_node_kind tutti_value_get_kind(const tutti_value *value);

/* 0 for a leaf.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_value_get_child_count(const tutti_value *value);

/* Child `index`, with a reference for the caller. OUT_OF_RANGE past the last one.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_child(const tutti_value *value, size_t index,
                                          tutti_value **out_child);

/* The part of the value at `path`: keys, fields and indexes joined by '/', "" is the value itself
 * ("image", "0/labels"). NOT_FOUND names the part of the path that is missing and the keys there
 * are.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_find(const tutti_value *value, const char *path,
                                         tutti_value **out_value);

/* As tutti_value_find where a tensor is expected; borrowed, lives as long as `value`.
 * INVALID_ARGUMENT when something else stands there.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_find_tensor(const tutti_value *value, const char *path,
                                                const tutti_tensor **out_tensor);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_treespec *tutti_value_get_treespec(const tutti_value *value);

/* Leaves of the whole structure.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_value_get_leaf_count(const tutti_value *value);

/* 0 past the last leaf.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_leaf_kind tutti_value_get_leaf_kind(const tutti_value *value, size_t leaf);

/* Leaf `leaf` as a value of its own, with a reference for the caller.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_leaf(const tutti_value *value, size_t leaf,
                                         tutti_value **out_leaf);

/* NULL when the leaf is of another kind; so below.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_tensor *tutti_value_get_leaf_tensor(const tutti_value *value, size_t leaf);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_string_view tutti_value_get_leaf_string(const tutti_value *value, size_t leaf);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_variable *tutti_value_get_leaf_variable(const tutti_value *value, size_t leaf);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_dataset *tutti_value_get_leaf_dataset(const tutti_value *value, size_t leaf);

/* The object when the leaf was made with `tag`.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void *tutti_value_get_leaf_host_object(const tutti_value *value, size_t leaf,
                                                 const void *tag);

/* What an optional holds; NULL when it is empty.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_value *tutti_value_get_leaf_optional(const tutti_value *value, size_t leaf);

/* The number of components of a distributed leaf (replicas of this process), 0 for others.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_value_get_leaf_component_count(const tutti_value *value, size_t leaf);

/* What is known of the components of a distributed leaf; 0 for others.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_distribution tutti_value_get_leaf_distribution(const tutti_value *value,
                                                               size_t leaf);

/* Component `component` of a distributed leaf, borrowed; NULL past the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_value *tutti_value_get_leaf_component(const tutti_value *value, size_t leaf,
                                                            size_t component);

/* For people, with nested structure and shortened tensors; distributed leaves read PerReplica:{0:
 * ..., 1: ...} or Mirrored:{0: ..., 1: ...}.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_to_string(const tutti_value *value, tutti_bytes **out_text);

/* The value as bytes, for other processes and other languages: the protocol buffer message ValueDef
 * of proto/tutti/v1/dataset.proto, structure and leaves. Tensors, texts, optionals and datasets
 * (their definitions) in structures of up to 32 levels. FAILED_PRECONDITION for what lives in this
 * process only: host objects, variables, values per replica.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_serialize(const tutti_value *value, tutti_bytes **out_bytes);

/* The value that was serialised, by whatever language. INVALID_ARGUMENT for bytes that are none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_value_parse(tutti_runtime *runtime, const void *data, size_t size,
                                          tutti_value **out_value);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_value_retain(const tutti_value *value);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_value_release(const tutti_value *value);

/* ---- treespecs: immutable structures without leaves. */

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_treespec_create_leaf(tutti_treespec **out_treespec);

/* A tuple (TUTTI_NODE_TUPLE) or list (TUTTI_NODE_LIST).
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_treespec_create_sequence(tutti_node_kind kind, size_t count,
                                                       const tutti_treespec *const *children,
                                                       tutti_treespec **out_treespec);

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_treespec_create_dict(size_t count, const char *const *keys,
                                                   const tutti_treespec *const *children,
                                                   tutti_treespec **out_treespec);

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_treespec_create_named_tuple(const char *type_name, size_t count,
                                                          const char *const *fields,
                                                          const tutti_treespec *const *children,
                                                          tutti_treespec **out_treespec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_node_kind tutti_treespec_get_kind(const tutti_treespec *treespec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_treespec_get_leaf_count(const tutti_treespec *treespec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_treespec_get_child_count(const tutti_treespec *treespec);

/* NULL past the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_treespec *tutti_treespec_get_child(const tutti_treespec *treespec,
                                                         size_t index);

/* The key of a dict's or the field of a named tuple's child, NUL-terminated; NULL for others.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_treespec_get_key(const tutti_treespec *treespec, size_t index);

/* The type name of a named tuple; NULL for others.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_treespec_get_type_name(const tutti_treespec *treespec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_treespec_equal(const tutti_treespec *left, const tutti_treespec *right);

/* "{'a': (*, *), 'b': *}".
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_treespec_to_string(const tutti_treespec *treespec,
                                                 tutti_bytes **out_text);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_treespec_retain(const tutti_treespec *treespec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_treespec_release(const tutti_treespec *treespec);

TUTTI_END_DECLS

#endif /* TUTTI_VALUE_H_ */
