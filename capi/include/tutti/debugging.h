/* Assertions about tensors, and checks that no NaN or infinity goes unseen.
 *
 * An assertion that holds returns NULL. One that does not is INVALID_ARGUMENT: its message begins
 * with the caller's, says what was expected and where it does not hold (the index of the first
 * element, the elements, dtypes, shapes) and ends with the first elements of the tensors. Details:
 * index (in row-major order), replica, path, assertion (its name); dtype where it is about a dtype.
 *
 * What is asserted about is a value: a tensor, a variable (every copy), a per-replica value (every
 * component) or a structure of them; the message names path and replica. A value of two is compared
 * leaf by leaf with one of the same structure, or with a single leaf. None is passed over inside a
 * structure. Assertions about elements pass for tensors without any, and compare by broadcasting.
 * They may be called in functions of datasets and of replicas: the element or the run fails with
 * the assertion's error. A run of several workers fails with INVALID_ARGUMENT on all of them: the
 * others name worker and replica, and have the assertion's error as cause. */
#ifndef TUTTI_DEBUGGING_H_
#define TUTTI_DEBUGGING_H_

#include <tutti/function.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_assert_options {
  size_t struct_size;
  const char *message; /* goes in front; NULL: none */
  int64_t summarize;   /* elements of each tensor that are shown; default 3, negative: all */
} tutti_assert_options;
#define TUTTI_ASSERT_OPTIONS_INIT \
  { sizeof(tutti_assert_options), NULL, 0 }

typedef int32_t tutti_comparison;
enum {
  TUTTI_COMPARISON_EQUAL = 1,
  TUTTI_COMPARISON_NONE_EQUAL = 2,
  TUTTI_COMPARISON_LESS = 3,
  TUTTI_COMPARISON_LESS_EQUAL = 4,
  TUTTI_COMPARISON_GREATER = 5,
  TUTTI_COMPARISON_GREATER_EQUAL = 6,
  TUTTI_COMPARISON_NEAR = 7 /* |x - y| < atol + rtol * |y| */
};

typedef struct tutti_compare_options {
  size_t struct_size;
  const char *message; /* goes in front; NULL: none */
  int64_t summarize;   /* elements of each tensor that are shown; default 3, negative: all */
  /* Of NEAR: real numbers that broadcast to the shape of x and y. NULL: 10 times the distance from
   * 1 to the next larger number of their dtype. */
  const tutti_tensor *rtol;
  const tutti_tensor *atol;
} tutti_compare_options;
#define TUTTI_COMPARE_OPTIONS_INIT \
  { sizeof(tutti_compare_options), NULL, 0, NULL, NULL }

/* x and y, of one dtype, compare so at every element. EQUAL and NONE_EQUAL take every dtype, NEAR
 * floating and complex ones, the others integers and floats. A NaN is equal to nothing.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_assert_compare(tutti_comparison comparison,
                                                       const tutti_value *x, const tutti_value *y,
                                                       const tutti_compare_options *options);

typedef int32_t tutti_condition;
enum {
  TUTTI_CONDITION_POSITIVE = 1,
  TUTTI_CONDITION_NEGATIVE = 2,
  TUTTI_CONDITION_NON_POSITIVE = 3,
  TUTTI_CONDITION_NON_NEGATIVE = 4,
  TUTTI_CONDITION_ALL_FINITE = 5, /* integers and booleans are */
  TUTTI_CONDITION_NUMERICS = 6,   /* the same, of floating and complex dtypes only */
  TUTTI_CONDITION_INTEGER = 7,    /* the dtype is an integer's */
  TUTTI_CONDITION_SCALAR = 8      /* the rank is 0 */
};

/* The condition holds for x: for every element, its dtype or its shape. Details of ALL_FINITE and
 * NUMERICS: nan, positive_infinity, negative_infinity, the numbers of such elements.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_assert_condition(tutti_condition condition,
                                                         const tutti_value *x,
                                                         const tutti_assert_options *options);

typedef int32_t tutti_rank_relation;
enum { TUTTI_RANK_EQUAL = 1, TUTTI_RANK_AT_LEAST = 2, TUTTI_RANK_IN = 3 };

/* The rank of x is the one of `ranks`, at least that, or one of them.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_assert_rank(tutti_rank_relation relation,
                                                    const tutti_value *x, size_t count,
                                                    const int64_t *ranks,
                                                    const tutti_assert_options *options);

/* The dtype of x is `dtype`.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_assert_type(const tutti_value *x, tutti_dtype dtype,
                                                    const tutti_assert_options *options);

/* All tensors in `x`, NULL for none, are of one floating dtype, and of `dtype` unless that is
 * TUTTI_DTYPE_INVALID. *out_dtype is that dtype, float32 where neither is given.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_assert_same_float_dtype(const tutti_value *x,
                                                                tutti_dtype dtype,
                                                                tutti_dtype *out_dtype);

/* Child i of the list or tuple `x` is a tensor of a shape that fits shapes[i]: axes by commas, each
 * a number, a symbol that stands for one size wherever it is, or "." for any size; first of them
 * "..." or "*" for any number of axes. An empty text is one axis of size 1, as which a scalar
 * counts, too. Of per-replica values every replica is looked at for itself. An error shows `data`,
 * where it is not NULL, in place of the tensor that does not fit.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_assert_shapes(const tutti_value *x, size_t count,
                                                      const char *const *shapes,
                                                      const tutti_value *data,
                                                      const tutti_assert_options *options);

/* Every element of x, of dtype bool, is true; an error shows `data`, where it is not NULL.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_assert_true(const tutti_value *x, const tutti_value *data,
                                                    const tutti_assert_options *options);

/* Whether x is a tensor, a variable or a per-replica value whose elements are numbers: neither
 * booleans nor byte strings.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_debugging_is_numeric(const tutti_value *x);

/* Every assertion of one tensor, or of one and another: 0 + a comparison, 16 + a condition, 32 + a
 * relation of ranks; append-only. */
typedef int32_t tutti_assertion;
enum {
  TUTTI_ASSERTION_EQUAL = 1,
  TUTTI_ASSERTION_NONE_EQUAL = 2,
  TUTTI_ASSERTION_LESS = 3,
  TUTTI_ASSERTION_LESS_EQUAL = 4,
  TUTTI_ASSERTION_GREATER = 5,
  TUTTI_ASSERTION_GREATER_EQUAL = 6,
  TUTTI_ASSERTION_NEAR = 7,
  TUTTI_ASSERTION_POSITIVE = 17,
  TUTTI_ASSERTION_NEGATIVE = 18,
  TUTTI_ASSERTION_NON_POSITIVE = 19,
  TUTTI_ASSERTION_NON_NEGATIVE = 20,
  TUTTI_ASSERTION_ALL_FINITE = 21,
  TUTTI_ASSERTION_NUMERICS = 22,
  TUTTI_ASSERTION_INTEGER = 23,
  TUTTI_ASSERTION_SCALAR = 24,
  TUTTI_ASSERTION_RANK = 33,
  TUTTI_ASSERTION_RANK_AT_LEAST = 34,
  TUTTI_ASSERTION_RANK_IN = 35,
  TUTTI_ASSERTION_TYPE = 48,
  TUTTI_ASSERTION_TRUE = 49,
  TUTTI_ASSERTION_SHAPES = 50,
  TUTTI_ASSERTION_SAME_FLOAT_DTYPE = 51
};

typedef struct tutti_assertion_options {
  size_t struct_size;
  const char *path;    /* as of tutti_value_find: the leaves there and below; NULL: every leaf */
  const char *y_path;  /* the leaf that a comparison compares with, in place of y; needs `path` */
  const char *message; /* goes in front; NULL: none */
  int64_t summarize;   /* elements of each tensor that are shown; default 3, negative: all */
  tutti_dtype dtype;   /* of TYPE; of SAME_FLOAT_DTYPE, 0: any floating one */
  const tutti_tensor *rtol; /* of NEAR, as in tutti_compare_options */
  const tutti_tensor *atol;
  /* of SHAPES: paths of leaves, each with the shape of a row as in tutti_debugging_assert_shapes,
   * "image=N,3;mask=N" */
  const char *shapes;
} tutti_assertion_options;
#define TUTTI_ASSERTION_OPTIONS_INIT \
  { sizeof(tutti_assertion_options), NULL, NULL, NULL, 0, 0, NULL, NULL, NULL }

/* The native function that gives an element on as it is where an assertion holds for it, and fails
 * where not: the error names node, element, leaf and, where elements are read from files, the
 * record (details: index, node, row, source_file, source_record). It looks at many rows at once,
 * without a callback, and is serialisable. What is known of a dataset's elements
 * (paths, dtypes, ranks) is checked where the function is given to it.
 *
 * y: what each row is compared with, broadcast, for a comparison without y_path, else NULL; `ranks`
 * of those about ranks, else none. Tensors must not change from here on.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_function_create_assertion(tutti_runtime *runtime,
                                                        tutti_assertion assertion,
                                                        const tutti_tensor *y, size_t count,
                                                        const int64_t *ranks,
                                                        const tutti_assertion_options *options,
                                                        tutti_function **out_function);

/* ---- checks while training */

typedef struct tutti_check_numerics_options {
  size_t struct_size;
  /* For all threads of the process, and not only for the calling one. Default false. */
  tutti_tristate whole_process;
} tutti_check_numerics_options;
#define TUTTI_CHECK_NUMERICS_OPTIONS_INIT \
  { sizeof(tutti_check_numerics_options), 0 }

/* From now on a NaN or an infinity in a floating or complex tensor is INVALID_ARGUMENT where it
 * enters or leaves a collective, a reduction over replicas, the update of a variable or a
 * checkpoint, or is returned by a replica's function. The message names the operation, its number,
 * the variable or the path in the structure, replica and worker or rank, dtype and shape, how many
 * elements are NaN, +Inf and -Inf, and the first of them. Where workers or ranks take part in the
 * operation it fails on all of them, with the message of the one that brought it in.
 *
 * It holds for calls of the calling thread, and of the replicas that it runs. Between the workers
 * of a strategy it is enough that one of them has enabled it. Calling it twice is as calling it
 * once.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_enable_check_numerics(
    const tutti_check_numerics_options *options);

/* Ends it, for the calling thread and, where it was enabled so, for the process.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_debugging_disable_check_numerics(void);

/* Whether calls of this thread are checked.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_debugging_is_checking_numerics(void);

/* ---- dumps: what has passed through operations, for people to look at */

/* What is kept of a tensor beside operation, name, replica, step and dtype; append-only. */
typedef int32_t tutti_debug_mode;
enum {
  TUTTI_DEBUG_NO_TENSOR = 1,
  TUTTI_DEBUG_CURT_HEALTH = 2,    /* whether there is a NaN or an infinity */
  TUTTI_DEBUG_CONCISE_HEALTH = 3, /* how many elements, NaN, +Inf and -Inf there are */
  TUTTI_DEBUG_FULL_HEALTH = 4,    /* and the rank, and how many finite ones are < 0, 0, > 0 */
  TUTTI_DEBUG_SHAPE = 5           /* the shape */
};

typedef struct tutti_dump_options {
  size_t struct_size;
  tutti_debug_mode mode; /* default TUTTI_DEBUG_NO_TENSOR */
  /* The most recent events that are kept until they are flushed; default 1000. 0 or less: all are
   * written, a thousand at a time. */
  tutti_optional_int64 circular_buffer_size;
  /* ECMAScript's syntax, matched at the beginning of an operation's name ("all_reduce"); NULL or
   * empty: all operations. At most 1024 bytes. */
  const char *op_regex;
  int64_t dtypes; /* a bit for each dtype's number, 1 << TUTTI_DTYPE_FLOAT32; 0: all */
} tutti_dump_options;
#define TUTTI_DUMP_OPTIONS_INIT \
  { sizeof(tutti_dump_options), 0, {0, 0}, NULL, 0 }

/* From now on the tensors that tutti_debugging_enable_check_numerics would look at, of all threads
 * of the process, leave an event each in files of their own under `dump_root`, a directory that is
 * made where it is missing; several processes may share it. Files and format:
 * proto/tutti/v1/debug_event.proto. *out_writer is what flushes.
 *
 * One dump at a time: with the same root it goes on, with another one it takes the place of the one
 * before. INVALID_ARGUMENT for another mode or size of the buffer than that of a dump that goes on,
 * and for an expression that does not read; the disk's errors where the root cannot be written.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_enable_dump(const char *dump_root,
                                                    const tutti_dump_options *options,
                                                    int64_t *out_writer);

/* The events that wait go to the disk, in a file that appears whole. FAILED_PRECONDITION for the
 * writer of a dump that has ended.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_flush_execution_files(int64_t writer);

/* The same of what is known of the process and of the dump.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_flush_non_execution_files(int64_t writer);

/* Ends the dump; what was not flushed is gone. Without one nothing happens.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_debugging_disable_dump(void);

/* The dumps of all processes in a directory, as a JSON object: processes (host, pid, worker and
 * task, null in no job, mode, format_version, circular_buffer_size, op_regex, events); events in
 * the order of time, of which the fields are those of the mode (process, time_us, sequence, op,
 * name, replica, step, worker, dtype and shape or has_nan_or_infinity, elements, nan,
 * positive_infinity, negative_infinity, rank, negative, zero, positive); first_not_finite, the
 * first event with a NaN or an infinity or null; damaged, the files that do not read to their end
 * and why. NOT_FOUND where there is no dump, DATA_LOSS where what is known of a process does not
 * read.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_debugging_read_dumps(const char *directory, tutti_bytes **out_json);

/* ---- where things are */

/* Whether a line of the log says of each variable, per-replica value, run, dataset and collective
 * from now on which devices it is on, and why: "placement: WHAT: DEVICES (REASON)". For the whole
 * process; false at first. Under a log level that leaves out INFO the lines come with the lowest
 * that it does not.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_debugging_set_log_device_placement(int32_t enabled);

/* Whether it does.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_debugging_is_logging_device_placement(void);

TUTTI_END_DECLS

#endif /* TUTTI_DEBUGGING_H_ */
