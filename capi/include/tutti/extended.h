/* What a strategy does on devices (StrategyExtended): values reduced and copied to some, functions
 * called on those that a variable lies on. Destinations: as <tutti/reducer.h> says. */
#ifndef TUTTI_EXTENDED_H_
#define TUTTI_EXTENDED_H_

#include <tutti/reducer.h>
#include <tutti/strategy.h>

TUTTI_BEGIN_DECLS

/* The device of a local replica in full, "/job:localhost/replica:0/task:0/device:CPU:0"; NULL past
 * the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_strategy_get_full_worker_device(const tutti_strategy *strategy,
                                                            size_t replica);

/* A device that variables lie on, in full; NULL past the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_strategy_get_parameter_device(const tutti_strategy *strategy,
                                                          size_t index);

/* What the replicas of all workers have, reduced to the destinations: a tensor on one device, a
 * mirrored value on several. SUM or MEAN; one tensor for all replicas as in tutti_strategy_reduce.
 * Errors: as tutti_reducer_reduce.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_reduce_to(tutti_strategy *strategy, tutti_reduce_op op,
                                                 const tutti_value *value,
                                                 const tutti_value *destinations,
                                                 const tutti_call_options *call,
                                                 tutti_value **out_value);

/* The same of a tuple or list of pairs (value, destinations): a tuple of results.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_batch_reduce_to(tutti_strategy *strategy,
                                                       tutti_reduce_op op,
                                                       const tutti_value *pairs,
                                                       const tutti_call_options *call,
                                                       tutti_value **out_tuple);

/* The tensor of `value` on the destinations of this process.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_broadcast_to(tutti_strategy *strategy,
                                                    const tutti_value *value,
                                                    const tutti_value *destinations,
                                                    const tutti_call_options *call,
                                                    tutti_value **out_value);

/* Calls `fn` on this thread once for each device of this process that `variable` has a copy on;
 * `in` is the tuple (variable, args ...), where `args` (may be NULL) is a tuple or one argument,
 * and each device gets its component of what is distributed. The context is one of an update:
 * variables that are read and written with it are so on that device alone, whatever their
 * aggregation; run and collectives are FAILED_PRECONDITION. With `group` unset or true the results
 * are joined, mirrored where no argument differs between devices; false: a tuple of one for each
 * device. The first error ends it and has the detail "device". INVALID_ARGUMENT for a variable of
 * another strategy, and for distributed arguments where there is one copy.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_update(tutti_strategy *strategy, tutti_variable *variable,
                                              tutti_fn fn, void *user_data,
                                              const tutti_value *args, tutti_tristate group,
                                              const tutti_call_options *call,
                                              tutti_value **out_value);

/* The same without a variable, on each device that `colocate_with` stands for: destinations, or a
 * tuple or list of names of devices. `in` is `args`.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_update_non_slot(tutti_strategy *strategy,
                                                       const tutti_value *colocate_with,
                                                       tutti_fn fn, void *user_data,
                                                       const tutti_value *args,
                                                       tutti_tristate group,
                                                       const tutti_call_options *call,
                                                       tutti_value **out_value);

/* In an update function the number of the copies that it works on, 0 .. devices-1; -1 elsewhere.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_context_get_update_replica_id(const tutti_context *context);

/* Whether what `variable` is made beside would lie where `variable` does: all variables of a
 * strategy lie on the same devices, so that it is enough to be one of them. INVALID_ARGUMENT for a
 * variable of another strategy, FAILED_PRECONDITION in replica functions.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_colocate_vars_with(tutti_strategy *strategy,
                                                          const tutti_variable *variable);

/* 1 for a variable of this strategy, else 0.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_strategy_created_variable(const tutti_strategy *strategy,
                                                  const tutti_variable *variable);

/* The variable of `strategy` that `component`, of tutti_variable_get_copy or over the same memory,
 * is a copy of: what it is contained in. NOT_FOUND for what is no copy of one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_find_variable(const tutti_strategy *strategy,
                                                     const tutti_tensor *component,
                                                     tutti_variable **out_variable);

/* Lines that say where replicas and variables are, how the strategy reduces, and, where it was
 * given a reducer, how often that was used for tensors of which dtype and shape.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_explain(const tutti_strategy *strategy,
                                               tutti_bytes **out_text);

/* Replicas on `count` devices (none: all GPUs, else the CPU), variables on `parameter_device` alone
 * (NULL: the GPU where that is the only device, else the CPU): one copy, which replicas' writes are
 * aggregated for and which is updated once. Of `options` a reducer is used as by a mirrored
 * strategy. Errors: as tutti_strategy_create_mirrored.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_central_storage(
    tutti_runtime *runtime, size_t count, const char *const *devices, const char *parameter_device,
    const tutti_strategy_options *options, const tutti_call_options *call,
    tutti_strategy **out_strategy);

TUTTI_END_DECLS

#endif /* TUTTI_EXTENDED_H_ */
