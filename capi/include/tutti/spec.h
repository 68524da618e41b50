/* Element specs: the structure of a dataset's elements, with dtype and shape per leaf. Immutable.
 */
#ifndef TUTTI_SPEC_H_
#define TUTTI_SPEC_H_

#include <tutti/value.h>

TUTTI_BEGIN_DECLS

/* A dimension whose size is not known. */
#define TUTTI_UNKNOWN_DIMENSION (-1)
/* A rank that is not known. */
#define TUTTI_UNKNOWN_RANK (-1)

/* The spec of one tensor; rank TUTTI_UNKNOWN_RANK takes no dims.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_tensor(tutti_dtype dtype, int64_t rank,
                                                 const int64_t *dims, tutti_spec **out_spec);

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_none(tutti_spec **out_spec);

/* The spec of an optional of `inner`; NULL: what it holds is not known.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_optional(const tutti_spec *inner, tutti_spec **out_spec);

/* The spec of a dataset whose elements are `inner`; NULL: they are not known, which is what others
 * call a variant.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_dataset(const tutti_spec *inner, tutti_spec **out_spec);

/* The same of an array of datasets. Values have single ones only (rank 0), so that none fits
 * another shape: it is kept and compared.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_dataset_of_shape(const tutti_spec *inner, int64_t rank,
                                                           const int64_t *dims,
                                                           tutti_spec **out_spec);

/* The spec of an iterator over elements of `inner`; NULL: they are not known. It is for comparing:
 * no value holds an iterator.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_iterator(const tutti_spec *inner, tutti_spec **out_spec);

/* The spec of a distributed leaf, a component for each replica of this process; its inner is a
 * tuple of them. INVALID_ARGUMENT unless there are some, each of one leaf that is not distributed
 * itself.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_per_replica(size_t count,
                                                      const tutti_spec *const *components,
                                                      tutti_spec **out_spec);

/* The spec of a sparse tensor of this shape; rank and dims as above. Its structure is that of the
 * value, and the spec of `dense_shape` has the whole as its inner.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_sparse(tutti_dtype dtype, int64_t rank,
                                                 const int64_t *dims, tutti_spec **out_spec);

/* The spec of a ragged tensor of this shape, whose axes 1 to `ragged_rank` are ragged; ragged_rank
 * is 1 or more, and less than the rank. row_splits are TUTTI_DTYPE_INT64 or TUTTI_DTYPE_INT32. The
 * spec of the outermost `row_splits` has the whole as its inner.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_ragged(tutti_dtype dtype, int64_t rank,
                                                 const int64_t *dims, int64_t ragged_rank,
                                                 tutti_dtype row_splits_dtype,
                                                 tutti_spec **out_spec);

/* The structure `treespec` with `count` specs of one leaf each.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_from_leaves(const tutti_treespec *treespec, size_t count,
                                                      const tutti_spec *const *leaves,
                                                      tutti_spec **out_spec);

/* The spec that exactly describes a value.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_create_from_value(const tutti_value *value,
                                                     tutti_spec **out_spec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_treespec *tutti_spec_get_treespec(const tutti_spec *spec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_spec_get_leaf_count(const tutti_spec *spec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_leaf_kind tutti_spec_get_leaf_kind(const tutti_spec *spec, size_t leaf);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_dtype tutti_spec_get_leaf_dtype(const tutti_spec *spec, size_t leaf);

/* Of a tensor or a dataset, whose rank is 0 as a rule; TUTTI_UNKNOWN_RANK when it is not known.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_spec_get_leaf_rank(const tutti_spec *spec, size_t leaf);

/* Sizes, TUTTI_UNKNOWN_DIMENSION where not known; NULL for rank 0 or an unknown rank.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const int64_t *tutti_spec_get_leaf_dims(const tutti_spec *spec, size_t leaf);

/* Leaf `leaf` as a spec of its own, with its inner. OUT_OF_RANGE past the last one.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_leaf(const tutti_spec *spec, size_t leaf, tutti_spec **out_leaf);

/* What an optional leaf holds, the elements of a dataset or an iterator, or a tuple of the
 * components of a distributed leaf; of a sparse or ragged tensor's last leaf the dtype and the
 * shape of the whole. NULL when that is not known, and for
 * others.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_spec *tutti_spec_get_leaf_inner(const tutti_spec *spec, size_t leaf);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_spec_equal(const tutti_spec *left, const tutti_spec *right);

/* 1 when a value could fit both: structure, kinds and dtypes are equal, and no two sizes that are
 * known differ. What is not known, on either side, fits.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_spec_is_compatible(const tutti_spec *left, const tutti_spec *right);

/* The most specific spec that every value of `left` and every value of `right` fits: a size in
 * which they differ is not known in it, a rank in which they differ neither. INVALID_ARGUMENT,
 * which names both sides and the place, where structure, kinds or dtypes differ.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_most_specific(const tutti_spec *left, const tutti_spec *right,
                                                 tutti_spec **out_spec);

/* "{'image': float32[?,64], 'label': int64[?]}".
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_spec_to_string(const tutti_spec *spec, tutti_bytes **out_text);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_spec_retain(const tutti_spec *spec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_spec_release(const tutti_spec *spec);

TUTTI_END_DECLS

#endif /* TUTTI_SPEC_H_ */
