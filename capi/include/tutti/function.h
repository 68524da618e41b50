/* User functions: what a strategy runs, what a dataset maps with.
 *
 * There is one computing signature. A *borrowed* callback is a function and its user_data: the call
 * that takes them returns only when no callback is running any more, also on timeout or
 * cancellation. A *stored* callback is a tutti_callback whose `destroy` runs exactly once, when
 * nobody needs it any more and also when the call that takes it fails: on the runtime's callback
 * thread, after shutdown on the releasing thread. No lock of the library is held while a callback
 * runs. */
#ifndef TUTTI_FUNCTION_H_
#define TUTTI_FUNCTION_H_

#include <tutti/spec.h>

TUTTI_BEGIN_DECLS

/* Computes *out from `in`, both of a structure the callee's documentation states. `context` and
 * `in` are borrowed and end with the call. Success: NULL, and *out is a reference that the library
 * takes over (left NULL it means none). Failure: a status that the library takes over. Must not
 * throw or longjmp through the library. Nor should it end its thread (pthread_exit): in a function
 * of a dataset or of replicas on a thread of the library that is ABORTED for whoever waits; a
 * notification (a destroy or on_ready callback) that does so leaves those behind it uncalled. */
typedef tutti_status *(*tutti_fn)(tutti_context *context, const tutti_value *in, tutti_value **out,
                                  void *user_data);

/* A stored callback. Frozen. */
typedef struct tutti_callback {
  tutti_fn fn;
  void *user_data;
  tutti_destroy_fn destroy; /* may be NULL */
} tutti_callback;

typedef struct tutti_function_options {
  size_t struct_size;
  const char *name; /* for messages */
  /* The spec of one row's result, which is converted to its dtypes as by tutti_tensor_convert.
   * NULL: learnt from the first row, which a function that may never see a row cannot do; later
   * integers become those of the first row, any other dtype is an error. */
  const tutti_spec *output_spec;
  /* True: `in` and *out hold many rows at once, every leaf with one more leading dimension. A slab
   * function that fails may name the row by the status detail "row". */
  tutti_tristate slab;
  /* What tells the code of this function from that of others, in other processes, too: a hash of
   * it, for instance. NULL: nobody knows; tutti_dataset_snapshot wants a registered function. */
  const char *fingerprint;
  /* Why it is a callback and no expression, for tutti_dataset_explain. NULL: nobody says. */
  const char *callback_reason;
} tutti_function_options;
#define TUTTI_FUNCTION_OPTIONS_INIT \
  { sizeof(tutti_function_options), NULL, NULL, 0, NULL, NULL }

/* A function from a callback.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_function_create(tutti_runtime *runtime, tutti_callback callback,
                                              const tutti_function_options *options,
                                              tutti_function **out_function);

/* Makes `name` mean `callback` in this runtime, so that a serialised dataset finds it again.
 * ALREADY_EXISTS when the name is taken.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_function_register(tutti_runtime *runtime, const char *name,
                                                tutti_callback callback,
                                                const tutti_function_options *options);

/* Frees the name; functions that were looked up keep working. NOT_FOUND when there is none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_function_unregister(tutti_runtime *runtime, const char *name);

/* The function registered as `name`; NOT_FOUND names the nearest ones.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_function_create_registered(tutti_runtime *runtime, const char *name,
                                                         tutti_function **out_function);

/* How many values of a feature an Example has, and what they become. */
typedef int32_t tutti_feature_kind;
enum {
  TUTTI_FEATURE_FIXED = 0,    /* as many as dims say: a tensor */
  TUTTI_FEATURE_SEQUENCE = 1, /* any number of steps of dims: a tensor with the number of steps in
                                 front of them, as long as the longest of several Examples */
  TUTTI_FEATURE_VAR_LEN = 2,  /* any number of scalars: a sparse tensor; no dims */
  TUTTI_FEATURE_RAGGED = 3    /* any number of steps of dims: a ragged tensor of a vector of
                                 Examples, and of one Example a tensor */
};

/* One feature of a tf.train.Example. */
typedef struct tutti_feature {
  size_t struct_size;
  const char *key;
  tutti_dtype
      dtype; /* int64, float32, bytes; other numeric dtypes are converted with a range check */
  size_t rank;
  const int64_t *dims;
  const tutti_tensor
      *default_value; /* converted to dtype as by tutti_tensor_convert. Fixed: of dims, for records
                         without the feature; NULL: it is required. Sequence: a scalar, behind the
                         values of Examples that are shorter than the longest; NULL: 0 or "". Others
                         have none, and a record without one that is not fixed has no values. */
  tutti_feature_kind kind; /* default fixed */
} tutti_feature;
#define TUTTI_FEATURE_INIT \
  { sizeof(tutti_feature), NULL, 0, 0, NULL, NULL, 0 }

/* The native function from a serialised tf.train.Example (bytes, any shape; a scalar or a vector
 * where a feature is var_len or ragged) to a dict of its features, each with the input's dims in
 * front. Serialisable; runs without a callback. INVALID_ARGUMENT at iteration names the feature.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_function_create_parse_example(tutti_runtime *runtime, size_t count,
                                                            const tutti_feature *const *features,
                                                            tutti_function **out_function);

/* The native function from a serialised tf.train.SequenceExample (bytes, a scalar) to a tuple: a
 * dict of the first `context_count` features, which are its context's, and a dict of the others,
 * which are its feature lists, each with the number of its steps in front. Context features are of
 * any kind, as those of one Example. A fixed list with a default value takes it for steps without
 * values, and is empty where it is missing; without one it is required. The steps of a var_len or
 * ragged list, which may be missing, have any number of values: they are the rows of a sparse
 * tensor [steps, most values] or of a ragged one. INVALID_ARGUMENT for a list of kind sequence;
 * one at iteration names feature and step. Serialisable; runs without a callback. Semantics:
 * tf.io.parse_single_sequence_example; row_splits are int64.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_function_create_parse_sequence_example(
    tutti_runtime *runtime, size_t count, const tutti_feature *const *features,
    int64_t context_count, tutti_function **out_function);

typedef struct tutti_decode_csv_options {
  size_t struct_size;
  const char *field_delim;         /* one byte, no quote and no line end; default "," */
  const char *na_value;            /* what a missing value looks like besides ""; default "" */
  tutti_tristate use_quote_delim;  /* fields may stand in quotes; default true */
} tutti_decode_csv_options;
#define TUTTI_DECODE_CSV_OPTIONS_INIT \
  { sizeof(tutti_decode_csv_options), NULL, NULL, 0 }

/* The native function from records of comma-separated values (bytes, any shape), a line each, to a
 * tuple of columns of the input's shape: as RFC 4180 has it, and spaces around numbers do not
 * count. `features` are the columns: a dtype (bytes, an integer, a real floating one), a default
 * value that is a scalar and stands for an empty field, NULL where a field is required; their key
 * is a name for messages, which may be "". `select_cols`: the places of their fields in a record,
 * growing, and what stands behind the last of them is not looked at; none: a record has these
 * fields alone, and an empty one has none. INVALID_ARGUMENT at iteration names record and field.
 * Serialisable; runs without a callback; tutti_expression_add_call calls it, too.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_function_create_decode_csv(tutti_runtime *runtime, size_t count,
                                                         const tutti_feature *const *features,
                                                         size_t select_count,
                                                         const int64_t *select_cols,
                                                         const tutti_decode_csv_options *options,
                                                         tutti_function **out_function);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_function_retain(const tutti_function *function);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_function_release(const tutti_function *function);

TUTTI_END_DECLS

#endif /* TUTTI_FUNCTION_H_ */
