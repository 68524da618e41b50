/* Variables: tensors that live as long as training does, with one copy per replica.
 *
 * ON_WRITE (= AUTO): the copies are equal; writes from replicas are aggregated and applied to every
 * copy. ON_READ: each replica writes its own copy, and a read from outside aggregates them. Every
 * function takes the context that it is called from: a replica's own inside run, NULL
 * (cross-replica) elsewhere. */
#ifndef TUTTI_VARIABLE_H_
#define TUTTI_VARIABLE_H_

#include <tutti/call.h>
#include <tutti/context.h>
#include <tutti/value.h>

TUTTI_BEGIN_DECLS

typedef int32_t tutti_synchronization;
enum {
  TUTTI_SYNCHRONIZATION_AUTO = 1,
  TUTTI_SYNCHRONIZATION_NONE = 2,
  TUTTI_SYNCHRONIZATION_ON_WRITE = 3,
  TUTTI_SYNCHRONIZATION_ON_READ = 4
};

typedef int32_t tutti_aggregation;
enum {
  TUTTI_AGGREGATION_NONE = 1,
  TUTTI_AGGREGATION_SUM = 2,
  TUTTI_AGGREGATION_MEAN = 3,
  TUTTI_AGGREGATION_ONLY_FIRST_REPLICA = 4
};

typedef struct tutti_variable_options {
  size_t struct_size;
  const char *name;                      /* default "Variable" */
  tutti_synchronization synchronization; /* default AUTO */
  tutti_aggregation aggregation;         /* default NONE */
  tutti_tristate trainable;              /* default true, false for ON_READ */
  const int64_t *dims;                   /* what every value has to fit, -1: any size; default NULL:
                                            the shape of the initial value */
  size_t rank;                           /* of `dims`; (size_t)TUTTI_UNKNOWN_RANK without dims:
                                            any shape fits */
  /* Where the default strategy's variable lies, as of tutti_device_place; NULL, and under other
   * strategies: on the strategy's devices. */
  const char *device;
} tutti_variable_options;
#define TUTTI_VARIABLE_OPTIONS_INIT \
  { sizeof(tutti_variable_options), NULL, 0, 0, 0, NULL, 0, NULL }

/* How a sparse update changes a row; append-only. */
typedef int32_t tutti_scatter;
enum {
  TUTTI_SCATTER_ADD = 1,
  TUTTI_SCATTER_SUB = 2,
  TUTTI_SCATTER_UPDATE = 3, /* of an index that comes several times the last counts */
  TUTTI_SCATTER_MIN = 4,
  TUTTI_SCATTER_MAX = 5,
  TUTTI_SCATTER_MUL = 6,
  TUTTI_SCATTER_DIV = 7
};

/* A variable of `strategy` with a copy of `initial` on every replica, on the replica's device (byte
 * strings on the host). It keeps the shape of
 * `initial`, but for sizes that options leave open, which assignments may change; such a variable
 * has no memory that stays (tutti_variable_get_data). Byte strings can be assigned, read and saved,
 * not added.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_create(tutti_strategy *strategy, const tutti_tensor *initial,
                                              const tutti_variable_options *options,
                                              const tutti_call_options *call,
                                              tutti_variable **out_variable);

/* As tutti_variable_create, of the strategy of `context`, also in a replica's function: there all
 * replicas must come here, each gets the same variable, and replica 0's `initial` is its value.
 * INVALID_ARGUMENT naming both replicas where dtype, shape, name or options differ.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_create_in_context(tutti_context *context,
                                                         const tutti_tensor *initial,
                                                         const tutti_variable_options *options,
                                                         const tutti_call_options *call,
                                                         tutti_variable **out_variable);

/* A copy of the value: of this replica's copy in replica context; outside, of the first copy
 * (ON_WRITE) or of the copies aggregated (ON_READ). It lies where that copy does.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_read(const tutti_variable *variable, tutti_context *context,
                                            const tutti_call_options *call,
                                            tutti_tensor **out_tensor);

/* The live memory of this replica's copy (outside: of the first), read-only and without a copy;
 * writes show through. Borrowed; lives as long as the variable. INVALID_ARGUMENT for byte strings
 * and where the variable's shape is not fully known.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_get_data(const tutti_variable *variable,
                                                const tutti_context *context,
                                                const tutti_tensor **out_tensor);

/* Sets the value to `tensor`, of the variable's dtype and shape, wherever it lies. Without memory
 * on a GPU no copy is changed. In replica context ON_WRITE
 * aggregates the replicas' tensors (all replicas must come here; aggregation NONE is
 * INVALID_ARGUMENT); ON_READ writes this copy. Outside, every copy; ON_READ with SUM writes tensor
 * / replicas.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_assign(tutti_variable *variable, tutti_context *context,
                                              const tutti_tensor *tensor,
                                              const tutti_call_options *call);

/* Adds, as tutti_variable_assign; outside, ON_READ with SUM is INVALID_ARGUMENT.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_assign_add(tutti_variable *variable, tutti_context *context,
                                                  const tutti_tensor *tensor,
                                                  const tutti_call_options *call);

/* Subtracts, as tutti_variable_assign_add.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_assign_sub(tutti_variable *variable, tutti_context *context,
                                                  const tutti_tensor *tensor,
                                                  const tutti_call_options *call);

/* Changes the rows that `sparse_delta` names: indexed slices (tutti/value.h) of the variable's
 * dtype and row shape; of an index that comes several times each slice counts, in their order.
 * INVALID_ARGUMENT naming index and rows for one that is outside, before anything is written. In
 * replica context ON_WRITE joins the slices of the replicas in their order (all replicas must come
 * here): all for aggregation SUM, divided by the number of replicas for MEAN, replica 0's alone for
 * ONLY_FIRST_REPLICA; SUM and MEAN are for ADD and SUB, else it is UNIMPLEMENTED. ON_READ changes
 * this copy. Outside every copy; ON_READ with SUM is INVALID_ARGUMENT.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_scatter(tutti_variable *variable, tutti_context *context,
                                               tutti_scatter scatter,
                                               const tutti_value *sparse_delta,
                                               const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_variable_get_name(const tutti_variable *variable);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_dtype tutti_variable_get_dtype(const tutti_variable *variable);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_variable_get_rank(const tutti_variable *variable);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API const int64_t *tutti_variable_get_dims(const tutti_variable *variable);

/* AUTO reads as ON_WRITE.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_synchronization tutti_variable_get_synchronization(const tutti_variable *variable);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_aggregation tutti_variable_get_aggregation(const tutti_variable *variable);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_variable_is_trainable(const tutti_variable *variable);

/* Of its copies: MIRRORED or SYNC_ON_READ; 0 for a plain variable, whose strategy is not mirrored.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_distribution tutti_variable_get_distribution(const tutti_variable *variable);

/* The strategy it belongs to, borrowed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_strategy *tutti_variable_get_strategy(const tutti_variable *variable);

/* The copies of this process.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_variable_get_copy_count(const tutti_variable *variable);

/* The live memory of copy `copy`; NULL past the last one, and for byte strings, which local results
 * of the strategy give.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_tensor *tutti_variable_get_copy(const tutti_variable *variable, size_t copy);

/* "name", "name/replica_1", ...; NULL past the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_variable_get_copy_name(const tutti_variable *variable, size_t copy);

/* Where copy `copy` is placed, "/job:localhost/replica:0/task:0/device:CPU:0"; NULL past the last
 * one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_variable_get_copy_device(const tutti_variable *variable, size_t copy);

/* "MirroredVariable:{0: ..., 1: ...}".
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_variable_to_string(const tutti_variable *variable,
                                                 tutti_bytes **out_text);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_variable_retain(const tutti_variable *variable);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_variable_release(const tutti_variable *variable);

TUTTI_END_DECLS

#endif /* TUTTI_VARIABLE_H_ */
