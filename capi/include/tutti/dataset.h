/* Datasets: immutable definitions of a sequence of elements. Nothing runs until an iterator is
 * made.
 *
 * A transformation replaces the handle it is given (the old reference is taken over), and leaves it
 * untouched on failure; retain first to branch:
 *
 *   tutti_dataset_map(&digits, parse, NULL);
 *   tutti_dataset_shuffle(&digits, 1000, &seed, NULL);
 *   tutti_dataset_batch(&digits, 128, NULL);
 *
 * Order is deterministic unless asked otherwise, and does not depend on threads or timing. Bad
 * arguments are reported by the call that takes them, bad data by the iterator that meets it. */
#ifndef TUTTI_DATASET_H_
#define TUTTI_DATASET_H_

#include <tutti/function.h>

TUTTI_BEGIN_DECLS

/* What tutti_dataset_get_cardinality says besides a count. */
#define TUTTI_CARDINALITY_INFINITE (-1)
#define TUTTI_CARDINALITY_UNKNOWN (-2)

/* prefetch's and num_parallel_calls' "you choose". */
#define TUTTI_AUTOTUNE (-1)

/* tutti_dataset_shard's "the workers decide". */
#define TUTTI_SHARD_HINT (-1)

/* Compression of record files, over the whole file. */
typedef int32_t tutti_compression;
enum { TUTTI_COMPRESSION_NONE = 1, TUTTI_COMPRESSION_GZIP = 2, TUTTI_COMPRESSION_ZLIB = 3 };

/* ---- sources. `name`, where there is one, appears in messages. */

typedef struct tutti_source_options {
  size_t struct_size;
  const char *name;
} tutti_source_options;
#define TUTTI_SOURCE_OPTIONS_INIT \
  { sizeof(tutti_source_options), NULL }

typedef struct tutti_range_options {
  size_t struct_size;
  const char *name;
  tutti_dtype dtype; /* int64 by default */
} tutti_range_options;
#define TUTTI_RANGE_OPTIONS_INIT \
  { sizeof(tutti_range_options), NULL, 0 }

/* start, start + step, ... before stop; step 0 is INVALID_ARGUMENT.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_range(tutti_runtime *runtime, int64_t start,
                                                   int64_t stop, int64_t step,
                                                   const tutti_range_options *options,
                                                   tutti_dataset **out_dataset);

/* One element, `value`.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_from_tensors(tutti_runtime *runtime,
                                                          const tutti_value *value,
                                                          const tutti_source_options *options,
                                                          tutti_dataset **out_dataset);

/* The slices of every tensor of `value` along axis 0, which must have equal sizes there.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_from_tensor_slices(tutti_runtime *runtime,
                                                                const tutti_value *value,
                                                                const tutti_source_options *options,
                                                                tutti_dataset **out_dataset);

typedef struct tutti_generator_options {
  size_t struct_size;
  const char *name;
  const char *fingerprint; /* as in tutti_function_options, of what both make; NULL: nobody knows */
} tutti_generator_options;
#define TUTTI_GENERATOR_OPTIONS_INIT \
  { sizeof(tutti_generator_options), NULL, NULL }

/* Elements that the host makes. For each iterator `start` is called once (in: none; out: any value,
 * the generator's state, a host object say), then `next` for each element with that state as `in`;
 * it ends the sequence by leaving *out NULL. The state is released when the iterator ends. Both are
 * dataset callbacks. Elements must fit `spec` and are converted to its dtypes as by
 * tutti_tensor_convert. Such a dataset cannot be serialised, and its iterators resume by replay.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_from_generator(
    tutti_runtime *runtime, tutti_callback start, tutti_callback next, const tutti_spec *spec,
    const tutti_generator_options *options, tutti_dataset **out_dataset);

typedef struct tutti_list_files_options {
  size_t struct_size;
  const char *name;
  tutti_tristate shuffle;    /* default true */
  tutti_optional_int64 seed; /* of the shuffle */
} tutti_list_files_options;
#define TUTTI_LIST_FILES_OPTIONS_INIT                   \
  {                                                     \
    sizeof(tutti_list_files_options), NULL, 0, { 0, 0 } \
  }

/* The names of the files that match any of the glob patterns, as scalars of byte strings; sorted,
 * then shuffled anew for each iteration. NOT_FOUND names the patterns when nothing matches, at
 * iteration.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_list_files(tutti_runtime *runtime, size_t count,
                                                        const char *const *patterns,
                                                        const tutti_list_files_options *options,
                                                        tutti_dataset **out_dataset);

typedef struct tutti_tf_record_options {
  size_t struct_size;
  const char *name;
  tutti_compression compression; /* default none */
  int64_t buffer_size;           /* bytes read at once; default 256 KiB */
  int64_t num_parallel_reads;    /* n > 1: so many files at a time, which threads read ahead; their
                                    records come in turn, as those of tutti_dataset_interleave with
                                    cycle_length n and block_length 1. TUTTI_AUTOTUNE: 10. 1 and 0,
                                    the default: one file after the other */
} tutti_tf_record_options;
#define TUTTI_TF_RECORD_OPTIONS_INIT \
  { sizeof(tutti_tf_record_options), NULL, 0, 0, 0 }

/* The records of the TFRecord files that `files` names (scalars or vectors of byte strings), in
 * order. `runtime` is that of `files`, or NULL. Errors name file, offset and record index:
 * NOT_FOUND, DATA_LOSS. Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_tf_record(tutti_runtime *runtime,
                                                       const tutti_dataset *files,
                                                       const tutti_tf_record_options *options,
                                                       tutti_dataset **out_dataset);

/* As tutti_dataset_create_tf_record, for a list of file names.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_tf_record_from_paths(
    tutti_runtime *runtime, size_t count, const char *const *paths,
    const tutti_tf_record_options *options, tutti_dataset **out_dataset);

typedef struct tutti_fixed_length_record_options {
  size_t struct_size;
  const char *name;
  tutti_compression compression; /* default none */
  int64_t header_bytes;          /* skipped at the start of each file */
  int64_t footer_bytes;          /* ignored at the end of each file */
  int64_t buffer_size;           /* default 256 KiB */
  int64_t num_parallel_reads;    /* as in tutti_tf_record_options */
} tutti_fixed_length_record_options;
#define TUTTI_FIXED_LENGTH_RECORD_OPTIONS_INIT \
  { sizeof(tutti_fixed_length_record_options), NULL, 0, 0, 0, 0, 0 }

/* Records of `record_bytes` bytes each from the files that `files` names; a rest that is no whole
 * record is INVALID_ARGUMENT naming file and sizes. `runtime` is that of `files`, or NULL.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_fixed_length_record(
    tutti_runtime *runtime, const tutti_dataset *files, int64_t record_bytes,
    const tutti_fixed_length_record_options *options, tutti_dataset **out_dataset);

typedef struct tutti_text_line_options {
  size_t struct_size;
  const char *name;
  tutti_compression compression; /* default none */
  int64_t buffer_size;           /* bytes read at once; default 256 KiB */
  int64_t num_parallel_reads;    /* as in tutti_tf_record_options */
} tutti_text_line_options;
#define TUTTI_TEXT_LINE_OPTIONS_INIT \
  { sizeof(tutti_text_line_options), NULL, 0, 0, 0 }

/* The lines of the text files that `files` names (scalars or vectors of byte strings), in order, as
 * byte strings. A line ends with LF; one CR before that belongs to the end, and the last line needs
 * none. `runtime` is that of `files`, or NULL. Errors name the file: NOT_FOUND, DATA_LOSS of a
 * compressed file that is truncated or corrupt.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_text_line(tutti_runtime *runtime,
                                                       const tutti_dataset *files,
                                                       const tutti_text_line_options *options,
                                                       tutti_dataset **out_dataset);
/* The rows that `query` gives on a SQLite database, as tuples of scalars, in its order.
 * `driver_name` is "sqlite" and `data_source_name` the database's file, which is opened to be read;
 * SQLite's library is loaded when the first query runs (Debian: libsqlite3-0), FAILED_PRECONDITION
 * at iteration where there is none. `output_types` has a dtype for each column: bytes, bool, int8
 * to int64, uint8 to uint64, float32 or float64. NULL is 0, false or "". A row with a value that
 * its dtype cannot hold is an element that fails (INVALID_ARGUMENT), and the next one follows. A
 * query that cannot be run fails once and ends the dataset: INVALID_ARGUMENT with SQLite's text,
 * also for another number of columns; NOT_FOUND without the file, DATA_LOSS for a damaged one.
 * Iterators resume by asking again: a query should say "order by".
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_sql(
    tutti_runtime *runtime, const char *driver_name, const char *data_source_name,
    const char *query, size_t type_count, const tutti_dtype *output_types,
    const tutti_source_options *options, tutti_dataset **out_dataset);

/* Elements with the structure of `datasets` (a value whose leaves are datasets), one element of
 * each; as long as the shortest. `runtime` is that of the datasets, or NULL.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_zip(tutti_runtime *runtime,
                                                 const tutti_value *datasets,
                                                 const tutti_source_options *options,
                                                 tutti_dataset **out_dataset);

typedef struct tutti_choose_from_datasets_options {
  size_t struct_size;
  const char *name;
  tutti_tristate stop_on_empty_dataset; /* default true */
} tutti_choose_from_datasets_options;
#define TUTTI_CHOOSE_FROM_DATASETS_OPTIONS_INIT \
  { sizeof(tutti_choose_from_datasets_options), NULL, 0 }

/* For each element of `choice_dataset`, an integer scalar, the next element of the dataset of that
 * number; `datasets` is a value whose leaves are datasets, numbered from 0. Their elements must be
 * compatible (INVALID_ARGUMENT); the spec is the most specific one that all fit. A choice of a
 * dataset that has ended ends the sequence, or is passed over if not stop_on_empty_dataset, until
 * all have ended. A choice that is no number of a dataset fails at iteration, as INVALID_ARGUMENT
 * that names its element. `runtime` is that of the datasets, or NULL.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_choose_from_datasets(
    tutti_runtime *runtime, const tutti_value *datasets, const tutti_dataset *choice_dataset,
    const tutti_choose_from_datasets_options *options, tutti_dataset **out_dataset);

typedef struct tutti_sample_from_datasets_options {
  size_t struct_size;
  const char *name;
  const tutti_value *weights; /* numbers, or a dataset of such vectors; NULL, none: all the same */
  tutti_tristate stop_on_empty_dataset;      /* default false */
  tutti_tristate rerandomize_each_iteration; /* default true: each has an order of its own */
} tutti_sample_from_datasets_options;
#define TUTTI_SAMPLE_FROM_DATASETS_OPTIONS_INIT \
  { sizeof(tutti_sample_from_datasets_options), NULL, NULL, 0, 0 }

/* The next element of a dataset that is drawn at random, again and again, until all have ended, or,
 * if stop_on_empty_dataset, one that is drawn has. `datasets` is a value whose leaves are datasets;
 * their elements must be compatible (INVALID_ARGUMENT), and the spec is the most specific one that
 * all fit. `weights` is a vector of a finite number of 0 or more for each dataset, not all 0; a
 * dataset of weight 0 is never drawn. It may be a dataset of such vectors: then each is of one
 * draw, a draw of a dataset that has ended is passed over, and where the vectors end the sequence
 * does; a vector that is none fails at iteration, as INVALID_ARGUMENT that names its element.
 * `seed` NULL: the runtime's random seed, or a fresh one. The order that a seed gives is a promise
 * of compatibility. `runtime` is the datasets' own, or NULL.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_sample_from_datasets(
    tutti_runtime *runtime, const tutti_value *datasets, const int64_t *seed,
    const tutti_sample_from_datasets_options *options, tutti_dataset **out_dataset);

/* The dataset that `variant` is, a value of one dataset (tutti_value_create_dataset), whose
 * elements must be compatible with `element_spec`: INVALID_ARGUMENT names both. A dataset that does
 * not say what its elements are computes one of them here.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_from_variant(const tutti_value *variant,
                                                          const tutti_spec *element_spec,
                                                          const tutti_call_options *call,
                                                          tutti_dataset **out_dataset);

/* ---- transformations. */

typedef struct tutti_map_options {
  size_t struct_size;
  const char *name;
  int64_t num_parallel_calls;   /* 0: on the iterating thread; calls at once; TUTTI_AUTOTUNE */
  tutti_tristate deterministic; /* false: results may overtake; default: the dataset's options */
} tutti_map_options;
#define TUTTI_MAP_OPTIONS_INIT \
  { sizeof(tutti_map_options), NULL, 0, 0 }

/* Every element replaced by what `function` makes of it. A row function is called once per element,
 * in order, and never beyond what the consumer asked for. With num_parallel_calls it is called on
 * threads, for so many elements at once and as many ahead, though for none beyond what a take
 * leaves; what has not been delivered at a save is called again after a restore.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_map(tutti_dataset **dataset, tutti_function *function,
                                          const tutti_map_options *options);

typedef struct tutti_transform_options {
  size_t struct_size;
  const char *name;
} tutti_transform_options;
#define TUTTI_TRANSFORM_OPTIONS_INIT \
  { sizeof(tutti_transform_options), NULL }

/* The elements for which `predicate` gives a true boolean scalar.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_filter(tutti_dataset **dataset, tutti_function *predicate,
                                             const tutti_transform_options *options);

typedef struct tutti_batch_options {
  size_t struct_size;
  const char *name;
  tutti_tristate drop_remainder; /* default false: a last, smaller batch is kept */
} tutti_batch_options;
#define TUTTI_BATCH_OPTIONS_INIT \
  { sizeof(tutti_batch_options), NULL, 0 }

/* `batch_size` > 0 consecutive elements stacked along a new axis 0. Elements of unequal shapes fail
 * at iteration with both shapes named.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_batch(tutti_dataset **dataset, int64_t batch_size,
                                            const tutti_batch_options *options);

typedef struct tutti_padded_batch_options {
  size_t struct_size;
  const char *name;
  const tutti_value *padded_shapes;  /* NULL, or none: every axis as long as its longest */
  const tutti_value *padding_values; /* NULL, or none: 0, false, or an empty byte string */
  tutti_tristate drop_remainder;     /* default false: a last, smaller batch is kept */
} tutti_padded_batch_options;
#define TUTTI_PADDED_BATCH_OPTIONS_INIT \
  { sizeof(tutti_padded_batch_options), NULL, NULL, NULL, 0 }

/* `batch_size` > 0 consecutive elements stacked along a new axis 0, each padded behind its last
 * elements to one shape. `padded_shapes` has the structure of an element, and in the place of each
 * component a vector of int64, its sizes; -1 is the longest of the batch, and a component in whose
 * place there is none has -1 for all. An element that is larger fails at iteration with both shapes
 * named. It must be given where a number of axes is unknown. `padding_values` is a scalar for all
 * components of its dtype, or has the structure of an element, with a scalar of the component's
 * dtype or none in each place.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_padded_batch(tutti_dataset **dataset, int64_t batch_size,
                                                   const tutti_padded_batch_options *options);

/* `batch_size` > 0 consecutive elements, each one tensor, as a sparse tensor (value.h) with a new
 * axis 0: it has every item of each element as a value, zeros, too. `row_shape` is a vector of
 * int64, the sizes behind the first of its dense_shape; -1 is the largest of the batch. An element
 * of another number of axes, or that is larger, fails at iteration with both shapes named. The last
 * batch may be of fewer elements.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_dense_to_sparse_batch(
    tutti_dataset **dataset, int64_t batch_size, const tutti_value *row_shape,
    const tutti_transform_options *options);

typedef struct tutti_bucket_by_sequence_length_options {
  size_t struct_size;
  const char *name;
  const tutti_value *padded_shapes;        /* as of padded_batch */
  const tutti_value *padding_values;       /* as of padded_batch */
  tutti_tristate pad_to_bucket_boundary;   /* default false: to the longest of a batch */
  tutti_tristate no_padding;               /* default false; true: elements have one shape */
  tutti_tristate drop_remainder;           /* default false: smaller batches come at the end */
} tutti_bucket_by_sequence_length_options;
#define TUTTI_BUCKET_BY_SEQUENCE_LENGTH_OPTIONS_INIT \
  { sizeof(tutti_bucket_by_sequence_length_options), NULL, NULL, NULL, 0, 0, 0 }

/* Padded batches of elements of about the same length. `element_length_func` gives the length of an
 * element, an integer scalar; `bucket_boundaries` is a vector of increasing integers, and a bucket
 * has the lengths from one of them up to the next, that one not included; the first has all that
 * are less, the last all others. `bucket_batch_sizes` is a vector of one more integers, how many
 * elements make a batch of each bucket; a batch comes as soon as it is full, smaller ones at the
 * end, by buckets, unless drop_remainder. Sizes that padded_shapes (or the element's spec, which
 * must then be known before anything runs) leaves open are the longest of the batch, or, with
 * pad_to_bucket_boundary, the bucket's upper boundary less 1; an element of the last bucket then
 * fails. With no_padding elements are stacked as they are, sparse and ragged ones, too.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_bucket_by_sequence_length(
    tutti_dataset **dataset, tutti_function *element_length_func,
    const tutti_value *bucket_boundaries, const tutti_value *bucket_batch_sizes,
    const tutti_bucket_by_sequence_length_options *options);

/* The sequence `count` times; -1 (or any negative number) = for ever.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_repeat(tutti_dataset **dataset, int64_t count,
                                             const tutti_transform_options *options);

typedef struct tutti_shuffle_options {
  size_t struct_size;
  const char *name;
  tutti_tristate reshuffle_each_iteration; /* default true */
} tutti_shuffle_options;
#define TUTTI_SHUFFLE_OPTIONS_INIT \
  { sizeof(tutti_shuffle_options), NULL, 0 }

/* A random order: a buffer of `buffer_size` > 0 elements, each output drawn uniformly from it.
 * `seed` NULL: the runtime's random seed, or a fresh one. The order that a seed gives is a promise
 * of compatibility.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_shuffle(tutti_dataset **dataset, int64_t buffer_size,
                                              const int64_t *seed,
                                              const tutti_shuffle_options *options);

/* `count` random orders of the sequence, one behind the other; -1 (or any negative number) = for
 * ever: shuffle, anew for each, then repeat. No element of an order comes before the last of the
 * one before it.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_shuffle_and_repeat(tutti_dataset **dataset,
                                                         int64_t buffer_size, int64_t count,
                                                         const int64_t *seed,
                                                         const tutti_transform_options *options);

/* The first `count` elements; -1 = all.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_take(tutti_dataset **dataset, int64_t count,
                                           const tutti_transform_options *options);

/* All but the first `count` elements; -1 skips all.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_skip(tutti_dataset **dataset, int64_t count,
                                           const tutti_transform_options *options);

/* Elements index, index + num_shards, ...; 0 <= index < num_shards. With TUTTI_SHARD_HINT for both
 * all elements, but under auto_shard_policy HINT those of this worker of all workers.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_shard(tutti_dataset **dataset, int64_t num_shards,
                                            int64_t index, const tutti_transform_options *options);

/* The elements of *dataset, then those of `other`; structures and dtypes must be equal.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_concatenate(tutti_dataset **dataset,
                                                  const tutti_dataset *other,
                                                  const tutti_transform_options *options);

/* Pairs (int64 index, element), from `start` on.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_enumerate(tutti_dataset **dataset, int64_t start,
                                                const tutti_transform_options *options);

/* Up to `buffer_size` elements made ahead by a thread; TUTTI_AUTOTUNE chooses.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_prefetch(tutti_dataset **dataset, int64_t buffer_size,
                                               const tutti_transform_options *options);

/* The elements up to the first for which `predicate` gives false; that one ends the sequence, for
 * good.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_take_while(tutti_dataset **dataset, tutti_function *predicate,
                                                 const tutti_transform_options *options);

/* The elements of the datasets that `function` gives, one dataset after the other: it gives a
 * dataset for each element, and anything else is INVALID_ARGUMENT. An element for which it fails is
 * one failed element. What is drawn at random in such a dataset follows from the outer one's seed
 * and from the element's place, so that all workers draw the same.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_flat_map(tutti_dataset **dataset, tutti_function *function,
                                               const tutti_transform_options *options);

typedef struct tutti_interleave_options {
  size_t struct_size;
  const char *name;
  tutti_optional_int64 cycle_length; /* slots; not set: 10, or num_parallel_calls if more */
  int64_t block_length;              /* elements of a visit */
  int64_t num_parallel_calls;        /* 0: on the iterating thread; n threads; TUTTI_AUTOTUNE */
  tutti_tristate deterministic;      /* default: the dataset's options */
} tutti_interleave_options;
#define TUTTI_INTERLEAVE_OPTIONS_INIT \
  { sizeof(tutti_interleave_options), NULL, { 0, 0 }, 1, 0, 0 }

/* The elements of the datasets that `function` gives, of `cycle_length` of them in turn: a slot
 * takes the next element when the cycle comes to it, gives up to `block_length` elements of its
 * dataset a visit, and another when the cycle comes back behind that dataset's end. With
 * `num_parallel_calls`, at most `cycle_length`, so many threads call the function and make the
 * elements ahead; the order is the same, unless it is not `deterministic`: then whatever is ready
 * comes first.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_interleave(tutti_dataset **dataset, tutti_function *function,
                                                 const tutti_interleave_options *options);

/* Of equal elements the first. Elements are single tensors of int32, int64 or byte strings, and
 * equal when dtype, shape and contents are; others are INVALID_ARGUMENT. What has been seen is kept
 * in memory.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_unique(tutti_dataset **dataset,
                                             const tutti_transform_options *options);

/* The rows of the elements along axis 0, element after element; structures are kept. All components
 * of an element have the same size along axis 0, and none is a scalar: INVALID_ARGUMENT where the
 * specs say so, else of that element alone. The cardinality is known where the input's and that
 * size are.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_unbatch(tutti_dataset **dataset,
                                              const tutti_transform_options *options);

typedef struct tutti_window_options {
  size_t struct_size;
  const char *name;
  tutti_optional_int64 shift;    /* from one window's first element to the next; not set: size */
  int64_t stride;                /* from one element of a window to the next */
  tutti_tristate drop_remainder; /* default false: the last windows may be smaller */
} tutti_window_options;
#define TUTTI_WINDOW_OPTIONS_INIT \
  { sizeof(tutti_window_options), NULL, { 0, 0 }, 1, 0 }

/* Windows of `size` elements, `stride` apart; each begins `shift` elements behind the one before,
 * or `size` where no shift is given. The last ones are smaller, down to one element, or left out
 * with `drop_remainder`. An element has a dataset in the place of each component, which holds that
 * component of the window's elements: of pairs it is a pair of datasets. These datasets are in
 * memory, and good for as long as anybody has them. An element of the input that failed fails each
 * window that it would stand in, once. `size`, `shift` and `stride` are positive: INVALID_ARGUMENT.
 * Where flat_map has a function that runs natively and only makes batches of its window, these are
 * made of the input's elements at once, and there are no such datasets.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_window(tutti_dataset **dataset, int64_t size,
                                             const tutti_window_options *options);

typedef struct tutti_group_by_window_options {
  size_t struct_size;
  const char *name;
  tutti_optional_int64 window_size;  /* of all windows */
  tutti_function *window_size_func;  /* NULL, or from a key to the size of its windows */
} tutti_group_by_window_options;
#define TUTTI_GROUP_BY_WINDOW_OPTIONS_INIT \
  { sizeof(tutti_group_by_window_options), NULL, { 0, 0 }, NULL }

/* Windows of elements with the same key, an integer scalar, which `key_func` gives for each
 * element. As soon as there are `window_size` of one key, `reduce_func` gets the tuple of the key,
 * as an int64 (of a uint64 as that), and of a dataset of these elements, which is in memory and
 * good for as long as anybody has it; the elements of the dataset that it gives come out before
 * more input is read. At the input's end come the smaller windows, by ascending keys. Exactly one
 * of `window_size` and `window_size_func` is given, which is asked once for each new key; sizes are
 * positive: INVALID_ARGUMENT. An element for which `key_func` fails, a window for which
 * `reduce_func` does, or gives anything but a dataset, is one failed element. What is drawn at
 * random in such a dataset follows from the outer one's seed and from the window's place, so that
 * all workers draw the same. An iterator that is restored calls `reduce_func` again for the window
 * that was being read.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_group_by_window(tutti_dataset **dataset,
                                                      tutti_function *key_func,
                                                      tutti_function *reduce_func,
                                                      const tutti_group_by_window_options *options);

/* The elements of the first complete pass, which later ones read: kept in memory, for all iterators
 * of this definition, or under `filename` in a file, which is used from then on by whoever names
 * it, whatever the input is. A pass that is given up, or in which an element fails, counts for
 * nothing. A file has one writer at a time: who finds another writer, also in another process,
 * hands the elements on, and looks again at its next pass; one that died is none. A damaged file is
 * DATA_LOSS, one of the elements of other shards INVALID_ARGUMENT, also while it is written:
 * workers that read their parts of the data need a filename each.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_cache(tutti_dataset **dataset, const char *filename,
                                            const tutti_transform_options *options);

typedef struct tutti_on_error_options {
  size_t struct_size;
  const char *name;
  int64_t max_skipped; /* of "skip": in one pass at most; -1: any number */
} tutti_on_error_options;
#define TUTTI_ON_ERROR_OPTIONS_INIT \
  { sizeof(tutti_on_error_options), NULL, -1 }

/* The elements, and of those that failed in any operation before this one what `policy` says: with
 * "fail" they are reported in their places, as without this operation; with "skip" they are left
 * out, in one pass at most `max_skipped` of them, -1 for any number; with "quarantine:PATH" they
 * are left out as with "skip" and go to a TFRecord file, below. One beyond is reported as the error
 * it is, which then says how many were skipped, and has their number as the detail "skipped".
 * The log has a warning at the first and at most every ten seconds, with their number and the last
 * error.
 *
 * Never skipped are a deadline and a cancellation, lack of memory (RESOURCE_EXHAUSTED), and what
 * takes an unknown number of elements along, such as a missing file, the unreadable rest of one, or
 * a generator that raised and has no more to give: what is lost with it would not be missed. Failed
 * or not is known of an element that is made, so that those that are passed over are made, too. The
 * cardinality is that of the input where it is infinite or 0, and unknown otherwise.
 *
 * A quarantine holds what was left out of the last pass, as tf.train.Examples: of the element that
 * a function refused every tensor but complex ones, by its path in the structure, "value"
 * where it is the element; quarantine/cause, /code and /node (bytes), /element (int64), and, where
 * elements are read from files, /file (bytes) and /record (int64). It can be read while the pass
 * goes on, goes on from a saved position, and has up to 64 MiB; what does not fit is counted in the
 * log. A file that cannot be written ends the pass. Every process, and every iterator, that reads
 * at the same time needs a path of its own.
 *
 * The number is part of a saved position. Each worker of a distributed dataset counts its own.
 * INVALID_ARGUMENT for another policy, for a number below -1, and for a number with "fail".
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_on_error(tutti_dataset **dataset, const char *policy,
                                               const tutti_on_error_options *options);

/* The elements as they are. Where the options of the dataset that is read name an aggregator
 * (<tutti/stats_aggregator.h>), it gets a histogram `tag` of how long elements took to be made,
 * what stands below included, and counters `tag`::elements and `tag`::failures; elements that are
 * passed over do not count. Without one nothing is measured, at no cost. An empty tag is
 * INVALID_ARGUMENT.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_latency_stats(tutti_dataset **dataset, const char *tag,
                                                    const tutti_transform_options *options);

/* The elements as they are, of which there must be `expected_cardinality`; -1 says that they have
 * no end. The first one that is too many, or an end that comes too early, is a FAILED_PRECONDITION
 * that says what was expected, and the end of the sequence; nothing skips it. The cardinality is
 * what was expected. Where files are dealt out among workers each counts its own elements.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_assert_cardinality(tutti_dataset **dataset,
                                                         int64_t expected_cardinality,
                                                         const tutti_transform_options *options);

/* The elements as they are; where standard error is a terminal, a line there says how many of them
 * there were, how many come in a second, and, where the cardinality is known, how long the rest
 * will take. It begins with `label`, one line of text, and is written a few times a second;
 * elsewhere nothing is written, at no cost. Another label is INVALID_ARGUMENT. Context: building.
 * Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_progress(tutti_dataset **dataset, const char *label,
                                               const tutti_transform_options *options);

/* The same dataset with `options` merged into its own. Twice with different values of one option is
 * INVALID_ARGUMENT.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_with_options(tutti_dataset **dataset,
                                                   const tutti_data_options *options);

/* The same dataset with `options` in the place of its own: what tutti_dataset_options gave, then
 * changed.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_replace_options(tutti_dataset **dataset,
                                                      const tutti_data_options *options);

typedef struct tutti_snapshot_options {
  size_t struct_size;
  const char *name;
  const char *compression;     /* "AUTO" (SNAPPY), "GZIP", "SNAPPY" or "NONE"; NULL: "AUTO" */
  tutti_function *shard_func;  /* NULL: all elements are in shard 0 */
  tutti_function *reader_func; /* NULL: one element of each shard in turn, read by threads */
} tutti_snapshot_options;
#define TUTTI_SNAPSHOT_OPTIONS_INIT \
  { sizeof(tutti_snapshot_options), NULL, NULL, NULL, NULL }

/* The elements of the first complete pass, in this process or another one, which is written to a
 * folder and read from then on. The folder stands below `path` and goes by what the pipeline
 * computes: another pipeline has another one. Its functions must be registered, be native, or have
 * a fingerprint, and a generator a name: INVALID_ARGUMENT otherwise. Drawn seeds do not count.
 *
 * While a pass is written its elements come in order. One that is given up, in which an element
 * fails, or that cannot be written, which is said once, leaves nothing; who finds another writer
 * passes the elements through. `shard_func` gives for each element the number of its shard, an
 * integer scalar of 0 or more; `reader_func` makes of a dataset of datasets, one of each shard by
 * number, the dataset that is read. A damaged file is DATA_LOSS naming it and the offset. Looking
 * at the spec or the cardinality, which are the input's, writes nothing.
 *
 * A saved iterator that was reading goes on as long as that snapshot is there
 * (FAILED_PRECONDITION); one that was writing passes the rest of its input through.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_snapshot(tutti_dataset **dataset, const char *path,
                                               const tutti_snapshot_options *options);

/* ---- reading a definition. */

/* The number of elements, TUTTI_CARDINALITY_INFINITE or _UNKNOWN.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_dataset_get_cardinality(const tutti_dataset *dataset);

/* Structure, dtypes and shapes of an element. A map whose function has no output spec learns it by
 * computing one element here. An element that fails tells nothing: the next one is computed, until
 * 100 have failed; then the first one's failure comes, and says to give an output spec. Nothing is
 * written for it, and no position moves.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_element_spec(const tutti_dataset *dataset,
                                                   const tutti_call_options *call,
                                                   tutti_spec **out_spec);

/* The same where every operation promises what its elements are, so that it holds for all of them;
 * NULL where only elements can tell. Nothing is computed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_get_promised_spec(const tutti_dataset *dataset,
                                                        tutti_spec **out_spec);

/* The last state: `initial_state`, then for each element what `reduce_func` gives for the tuple of
 * state and element; an element that is a tuple is one part of it. Structure and dtypes of the
 * state stay, INVALID_ARGUMENT naming both otherwise; its shapes may change. A failure, of an
 * element or of the function, ends it, and has the element's number as the detail "index". Of a
 * dataset without end it ends with the call's deadline or cancellation.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_reduce(const tutti_dataset *dataset,
                                             const tutti_value *initial_state,
                                             tutti_function *reduce_func,
                                             const tutti_call_options *call,
                                             tutti_value **out_value);

/* A copy of the dataset's options: what is set in it does not count for the dataset before
 * tutti_dataset_replace_options has it.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_options(const tutti_dataset *dataset,
                                              tutti_data_options **out_options);

/* The plan for people: one line per operation from the last to the sources, with cardinality and
 * spec; behind it what the iterator that was made last has measured and chosen, as of
 * tutti_iterator_explain.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_explain(const tutti_dataset *dataset, tutti_bytes **out_text);

/* The same as `format` says: "text", "json" or "svg"; INVALID_ARGUMENT for another one.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_explain_as(const tutti_dataset *dataset, const char *format,
                                                 tutti_bytes **out_text);

/* What an explain wrote as "json", in another format. INVALID_ARGUMENT for bytes that are none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_explain_report(const void *data, size_t size,
                                                     const char *format, tutti_bytes **out_text);

/* The definition as bytes, with those of datasets in its values, such as the windows of a window of
 * windows. FAILED_PRECONDITION names an operation that holds a callback without a registered name,
 * and values that are nested more than 32 levels deep.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_serialize(const tutti_dataset *dataset,
                                                tutti_bytes **out_bytes);

/* The dataset that was serialised, by this release or an earlier one. INVALID_ARGUMENT for bytes
 * that are none, and for attributes or options that only a later release knows; NOT_FOUND for such
 * an operation, and for a function that is not registered here.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_deserialize(tutti_runtime *runtime, const void *data,
                                                  size_t size, tutti_dataset **out_dataset);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_dataset_retain(const tutti_dataset *dataset);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_dataset_release(const tutti_dataset *dataset);

/* ---- options of datasets: typed values by name, each of which knows whether it was set. What
 * has no effect yet is named by tutti_dataset_explain. threading.private_threadpool_size bounds the
 * calls that all parallel maps of an iterator make at once, and
 * threading.max_intra_op_parallelism those of each of them (0: no bound); a native function runs on
 * one thread.
 *
 * autotune.ram_budget is how many bytes of elements the buffers of one iterator may hold in all (0,
 * the default: any number). Where there is no more room prefetch, parallel maps and parallel
 * interleaves wait, and make one element at a time. What has to keep elements (shuffle, batches,
 * windows, the groups of group_by_window, the keys of unique) is RESOURCE_EXHAUSTED when as much is
 * kept, which names the operation that keeps most, as the details "node", "node_bytes",
 * "held_bytes" and "budget_bytes" do; a saved position goes on under a larger budget. A cache in
 * memory reports the same once and passes its elements through, and what it has kept counts while
 * it is read. Not counted are elements that were given out, and what readers have of their files.
 *
 * What is TUTTI_AUTOTUNE follows what is measured while elements are read: a parallel map's and an
 * interleave's calls grow while the consumer waits for them and more calls give more elements, up
 * to 16; a prefetch that was full and is found empty gets twice its buffer, up to 512 elements,
 * within the RAM budget, or 64 MiB where there is none.
 * experimental_optimization.autotune_cpu_budget is how many such calls one iterator makes at once
 * in all, but one each (0, the default: any number). With experimental_optimization.autotune = 0
 * these are constants: as many calls as there are cores, 8 elements; with autotune_buffers = 0 the
 * buffers are. tutti_iterator_explain has what was chosen.
 *
 * Booleans: deterministic (true), experimental_slack (false). Integers:
 * experimental_external_state_policy (WARN 0, IGNORE 1, FAIL 2; unset: as IGNORE),
 * threading.private_threadpool_size, threading.max_intra_op_parallelism, autotune.ram_budget,
 * experimental_distribute.auto_shard_policy (OFF -1, AUTO 0, FILE 1, DATA 2, HINT 3),
 * experimental_distribute.num_devices; and the boolean experimental_distribute.share_files (false).
 * Under experimental_optimization booleans:
 * apply_default_optimizations, autotune, map_and_batch_fusion, map_parallelization,
 * noop_elimination, shuffle_and_repeat_fusion (true), autotune_buffers, filter_fusion,
 * filter_with_random_uniform_fusion, hoist_random_uniform, map_and_filter_fusion, map_fusion,
 * map_vectorization.enabled, map_vectorization.use_choose_fastest, parallel_batch,
 * reorder_data_discarding_ops (false), and the integer autotune_cpu_budget. Under
 * experimental_stats the booleans latency_all_edges and profile (false; with profile an iterator
 * measures what tutti_iterator_explain tells), and the texts prefix and counter_prefix;
 * <tutti/stats_aggregator.h> has these, and the aggregator that they are for. With
 * apply_default_optimizations false no two operations are made in one: else batches of windows are,
 * as tutti_expression_create_dataset_function says.
 *
 * experimental_deterministic and experimental_threading.* are other names of deterministic and of
 * threading.*. With experimental_slack the thread of the last prefetch pauses after each
 * experimental_distribute.num_devices elements (unset: 1; a strategy sets it to its replicas in
 * this process) for a fifth of the time that the last one lay ready. With
 * experimental_distribute.share_files fewer files than workers are no error under FILE and AUTO:
 * the files are dealt out in as many parts as there are files, and workers that share a part take
 * its elements, as they come out of the dataset, in turn. The policy for external
 * state is asked where an operation calls a function of the program's and the dataset is
 * serialised or an iterator over it is saved: under WARN the log says that its state is left
 * out, under FAIL it is FAILED_PRECONDITION. experimental_optimization.native_functions, a
 * boolean, demands that no operation calls one: an iterator is FAILED_PRECONDITION otherwise;
 * false is for languages that make expressions of functions. Kept, merged and saved, and
 * without effect, which tutti_dataset_explain says: the others of experimental_optimization but
 * for what begins with autotune. */

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_create(tutti_data_options **out_options);

/* INVALID_ARGUMENT for an unknown key, naming the nearest and all known ones, or for a value out of
 * range or of another type.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_set_int64(tutti_data_options *options, const char *key,
                                                     int64_t value);

/* As tutti_data_options_set_int64.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_set_bool(tutti_data_options *options, const char *key,
                                                    int32_t value);

/* As if `key` had never been set.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_clear(tutti_data_options *options, const char *key);

/* present = 0 when it was not set; booleans read as 0 and 1.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_read(const tutti_data_options *options, const char *key,
                                                tutti_optional_int64 *out_value);

/* `other` where it was set, else `options`; a value that changes is logged as a warning.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_merge(const tutti_data_options *options,
                                                 const tutti_data_options *other,
                                                 tutti_data_options **out_options);

/* Whether the same options are set, to the same values.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_data_options_equal(const tutti_data_options *left,
                                           const tutti_data_options *right);

/* "deterministic=false, threading.private_threadpool_size=2": what is set.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_data_options_to_string(const tutti_data_options *options,
                                                     tutti_bytes **out_text);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_data_options_retain(const tutti_data_options *options);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_data_options_release(const tutti_data_options *options);

TUTTI_END_DECLS

#endif /* TUTTI_DATASET_H_ */
