/* Expressions: functions over the elements of datasets that are data. They run without a callback,
 * on many rows at once, can be serialised, and do the same in every process.
 *
 * An expression is put together node by node. Nodes are numbers, and what each gives, of one row,
 * is known at once:
 *
 *   tutti_expression_create(spec, &trace);                       a dataset's tutti_spec
 *   tutti_expression_add_parameter(trace, 0, &x);
 *   tutti_expression_add_constant(trace, two, TUTTI_TRUE, &number);
 *   tutti_expression_add_operation(trace, "multiply", 2, (int64_t[]){x, number}, NULL, &twice);
 *   tutti_expression_create_function(trace, result, &function);  `result`: an integer, twice
 *   tutti_dataset_map(&dataset, function, NULL);
 *
 * The operations, which are NumPy's unless said; shapes broadcast:
 *
 *   add subtract multiply power                        of numbers of one dtype
 *   minimum maximum                                    of real numbers of one dtype
 *   floor_divide remainder                             rounded down; the divisor's sign
 *   divide sqrt exp log sin cos tan tanh
 *   isnan isinf isfinite                               of floats and complex numbers
 *   expm1 log1p floor ceil trunc rint                  of floats
 *   negative square absolute; sign                     of numbers; of real numbers. What absolute
 *                                                      gives of a complex number is a float
 *   complex; real imag angle conjugate                 of two floats; of a complex number
 *   bitwise_and bitwise_or bitwise_xor invert          of integers and booleans
 *   left_shift right_shift                             of integers
 *   equal not_equal less less_equal greater
 *   greater_equal                                      of real numbers, booleans and bytes; the
 *                                                      first two of complex numbers, too
 *   logical_and logical_or logical_xor logical_not     of booleans
 *   where                                              condition, then, else
 *   cast                      `dtype`; as tutti_tensor_cast
 *   reshape                   `numbers`: dims, of which one may be -1
 *   transpose                 `numbers`: the axes in their new order; none: turned round
 *   slice                     `numbers`: start, stop and step of each of the first axes, INT64_MIN
 *                             for what is left out
 *   index                     `numbers`: an axis, which goes, and the place along it
 *   expand_dims               `numbers`: the axis that comes
 *   stack concatenate         one or more inputs; `numbers`: the axis, by default 0
 *   take                      a tensor, and integers as places; `numbers`: the axis, by default 0
 *   sum prod min max mean
 *   argmin argmax; any all    of numbers; of booleans. `numbers`: the axes, none for all;
 *                             `keep_dims`. The dtype stays, places are int64; mean is of floats
 *   one_hot                   `numbers`: the depth; `dtype`, by default float32. A place outside is
 *                             a row of zeros
 *   join_strings              one or more inputs of bytes; `text` between them
 *   reduce_join               of bytes; `numbers`, `keep_dims`: as sum; `text` between them. Along
 *                             the first axis named first, all in row-major order where none is
 *   as_string                 as tutti_tensor_as_string without options
 *   string_length             int32; `text`: BYTE, the default, or UTF8_CHAR, what is counted
 *   string_lower string_upper of ASCII letters; other bytes stay
 *   string_strip              without blanks (of ASCII) at both ends
 *   substr                    bytes, and two integers: a position, from the end where it is
 *                             negative, and a length, to the end where it is negative; `text` as
 *                             above. A position outside is an error of its row
 *   string_split              of bytes; `text`: what is between the parts, "" any blanks;
 *                             `numbers`: at how many places at most (-1: any number), and into how
 *                             many parts, along a new last axis. 0 parts: as many as there are, of
 *                             a scalar or, one after the other, a vector
 *   string_split_row_splits   the same, of a vector: the row_splits of these parts, int64
 *   regex_full_match          of bytes: whether `text`, a pattern in RE2's syntax, matches all
 *   regex_replace             bytes, and one text that comes in place of what `text`, a pattern as
 *                             above, matches: \0 in it is what matched, \1 to \9 are its groups;
 *                             `numbers`: 1, the default, for all matches, 0 for the first one
 *   to_hash_bucket_fast       of bytes; `numbers`: how many buckets there are: FarmHash's
 *                             Fingerprint64 modulo that, int64
 *   to_hash_bucket_strong     the same of SipHash-2-4; `numbers`: the buckets, and the two words
 *                             of the key
 *   to_number                 of bytes; `dtype`
 *   stateless_random_uniform
 *   stateless_random_normal   a seed of two integers; `numbers`: the dims; `dtype`, a float, by
 *                             default float32: in [0, 1); of mean 0 and deviation 1
 *   stateless_random_truncated_normal
 *                             as normal, without numbers of size 2 or more
 *   stateless_random_bits     the same of int32 (the default), int64, uint32 and uint64: any number
 *   stateless_random_integers a seed, and two bounds of one of these dtypes, the first below the
 *                             second: from the first up to, not with, the second
 *   decode_raw                of bytes, in which numbers of `dtype` lie in this machine's order
 *
 * Two dtypes do not meet: INVALID_ARGUMENT, cast one of them. Integers wrap. A zero divisor of an
 * integer, a negative exponent of one, a place that is not there, a text that is no number and a
 * rewrite with a group that the pattern has not are INVALID_ARGUMENT at iteration, for the row
 * alone. A pattern is compiled where its node is made, and one that is none, as a constant that is
 * no rewrite, is INVALID_ARGUMENT there. float16 and bfloat16 are computed in float32
 * and rounded after each operation. Rows do not depend on how many are computed at once. What is
 * drawn depends on the seed alone: Philox-4x32-10, and the bits that TensorFlow's stateless
 * functions give for the same seed (core/tensor/stateless_random.h has the formulas). */
#ifndef TUTTI_EXPRESSION_H_
#define TUTTI_EXPRESSION_H_

#include <tutti/dataset.h>

TUTTI_BEGIN_DECLS

/* An expression over elements of `input`, which are tensors of known rank in any structure, or
 * datasets whose elements are known, such as windows: INVALID_ARGUMENT for others.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_create(const tutti_spec *input,
                                                tutti_expression **out_expression);

/* Leaf `leaf` of the element, in treespec order; OUT_OF_RANGE when there is none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_add_parameter(tutti_expression *expression, int64_t leaf,
                                                       int64_t *out_node);

/* A tensor that is the same for every row. `weak`: it is a number of the program's, which becomes
 * what it meets: an integer becomes any integer that holds it or a float, a float any float, a
 * boolean stays one; beside nothing it is int32 (int64 where it has to be), float32 or bool.
 * Default: it has the dtype that it has.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_add_constant(tutti_expression *expression,
                                                      const tutti_tensor *value,
                                                      tutti_tristate weak, int64_t *out_node);

/* What an operation is told besides its inputs: see the table above. */
typedef struct tutti_operation_options {
  size_t struct_size;
  size_t number_count;
  const int64_t *numbers;
  tutti_dtype dtype;
  tutti_tristate keep_dims; /* default false */
  const char *text;         /* default "" */
} tutti_operation_options;
#define TUTTI_OPERATION_OPTIONS_INIT \
  { sizeof(tutti_operation_options), 0, NULL, 0, 0, NULL }

/* The operation `name` of the table above. NOT_FOUND names all that there are, INVALID_ARGUMENT
 * what was expected and found.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_add_operation(tutti_expression *expression,
                                                       const char *name, size_t count,
                                                       const int64_t *nodes,
                                                       const tutti_operation_options *options,
                                                       int64_t *out_node);

/* What an operation of the table above makes of `tensors`, at once: the bits that it gives of rows
 * that they are. A number of the program's is a tensor of the dtype of what it meets. Errors as of
 * tutti_expression_add_operation, and as of iteration.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_operation_apply(tutti_runtime *runtime, const char *name,
                                              size_t count, const tutti_tensor *const *tensors,
                                              const tutti_operation_options *options,
                                              tutti_tensor **out_tensor);

/* Leaf `leaf` of what the native function of tutti_function_create_parse_example makes of `node`.
 * Several nodes of one call are computed once. The parts of a sparse or ragged feature are leaves
 * one by one, of which a result may put it together again. INVALID_ARGUMENT for another function.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_add_call(tutti_expression *expression,
                                                  const tutti_function *function, int64_t node,
                                                  int64_t leaf, int64_t *out_node);

/* The dtype and shape that a node has in one row.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_get_spec(const tutti_expression *expression, int64_t node,
                                                  tutti_spec **out_spec);

/* For people: "((x * 2) + 1)", shortened.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_to_string(const tutti_expression *expression, int64_t node,
                                                   tutti_bytes **out_text);

/* The function from an element to `result`, a structure whose leaves are nodes: integers; the parts
 * of a sparse or ragged tensor are nodes that have to fit each other in each row. It takes rows and
 * slabs alike, and can be serialised. The expression may go on growing, or be
 * released.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_create_function(const tutti_expression *expression,
                                                         const tutti_value *result,
                                                         tutti_function **out_function);

/* ---- functions that give datasets, for flat_map, interleave and group_by_window.
 *
 * Inside of the expression `outer` a dataset is put together of its nodes, by functions of
 * datasets, and by expressions that capture its nodes:
 *
 *   tutti_expression_add_dataset(outer, NULL, "range", NULL, bounds, &inner);   0, x and 1
 *   tutti_expression_create(numbers, &trace);
 *   tutti_expression_add_parameter(trace, 0, &y);
 *   tutti_expression_capture(trace, outer, x, &captured);
 *   ... the sum of y and captured, as a function ...
 *   tutti_dataset_map(&inner, sum, NULL);
 *   tutti_expression_create_dataset_function(outer, inner, &function);
 *   tutti_dataset_flat_map(&dataset, function, NULL);
 */

/* A dataset of nodes, which has elements only in what tutti_expression_create_dataset_function
 * makes of it (FAILED_PRECONDITION). `maker` is "range", of a tuple of the integers start, stop and
 * step; "from_tensors" or "from_tensor_slices", of a structure; "element", of the parameter of a
 * component that is a dataset, such as a window: that dataset; or, of the dataset `input`, which
 * is NULL otherwise, "repeat", "take" or "skip" by an integer. The leaves of `nodes` are nodes.
 * NOT_FOUND names the makers. A file's name becomes its records by way of from_tensors, and of
 * tutti_dataset_create_text_line and its like.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_add_dataset(tutti_expression *expression,
                                                     tutti_runtime *runtime, const char *maker,
                                                     const tutti_dataset *input,
                                                     const tutti_value *nodes,
                                                     tutti_dataset **out_dataset);

/* Node `node` of `outer` as a parameter that has one value for all rows. What `expression` becomes
 * can only stand in a dataset that `outer` gives: FAILED_PRECONDITION at iteration elsewhere.
 * INVALID_ARGUMENT when nodes of another expression were captured before.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_capture(tutti_expression *expression,
                                                 tutti_expression *outer, int64_t node,
                                                 int64_t *out_node);

/* The function from an element to `dataset`. It can be serialised if the functions in it can.
 * INVALID_ARGUMENT for something drawn at random without a seed that does not depend on the
 * element, for functions that have captured nodes of another expression, for datasets of its
 * nodes, and for nodes beside datasets of the element.
 *
 * Behind a window, a flat_map of such a function that only makes batches of its windows
 * (w.batch(n); zip(x, y).batch(n); zip(x.batch(n), y.batch(n))) makes them of the input's elements
 * at once, without a dataset for each window, unless the option
 * experimental_optimization.apply_default_optimizations is false. A position goes on under either
 * from what was saved with that option false; what was saved with it true needs it to be true.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_expression_create_dataset_function(
    tutti_expression *expression, const tutti_dataset *dataset, tutti_function **out_function);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_expression_retain(const tutti_expression *expression);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_expression_release(const tutti_expression *expression);

TUTTI_END_DECLS

#endif /* TUTTI_EXPRESSION_H_ */
