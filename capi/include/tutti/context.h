/* The context that a computing callback receives. Borrowed: it ends with the callback. */
#ifndef TUTTI_CONTEXT_H_
#define TUTTI_CONTEXT_H_

#include <tutti/call.h>
#include <tutti/function.h>

TUTTI_BEGIN_DECLS

/* How values of several ranks or replicas become one. */
typedef int32_t tutti_reduce_op;
enum {
  TUTTI_REDUCE_SUM = 1,
  TUTTI_REDUCE_MEAN = 2,
  TUTTI_REDUCE_MIN = 3,
  TUTTI_REDUCE_MAX = 4,
  TUTTI_REDUCE_PROD = 5,
  /* Of the bits: integers and bool. */
  TUTTI_REDUCE_BAND = 6,
  TUTTI_REDUCE_BOR = 7,
  TUTTI_REDUCE_BXOR = 8
};

/* The class of a callback. */
typedef int32_t tutti_callback_class;
enum {
  TUTTI_CALLBACK_REPLICA = 1,
  TUTTI_CALLBACK_CROSS_REPLICA = 2,
  TUTTI_CALLBACK_DATASET = 3,
  TUTTI_CALLBACK_UPDATE = 5 /* an update function, a function of a reducer */
};

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_callback_class tutti_context_get_class(const tutti_context *context);

/* The runtime of the call, borrowed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_runtime *tutti_context_get_runtime(const tutti_context *context);

/* The strategy of the call, borrowed; NULL in a dataset callback.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_strategy *tutti_context_get_strategy(const tutti_context *context);

/* The replica among all replicas in sync, 0 .. n-1; -1 outside replica callbacks.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_context_get_replica_id(const tutti_context *context);

/* 1 in a dataset callback.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_context_get_replica_count(const tutti_context *context);

/* Rows of this step over all replicas of all workers, when run's `args` hold a batch of a
 * distributed iterator, or leaves or tensors of one; else -1, as for tensors that were computed of
 * a batch, for views and copies, and for batches of different steps. Scale a loss by
 * 1 / global_rows and sum: the mean of means is wrong when batches are uneven.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_context_get_global_rows(const tutti_context *context);

/* The device of this replica, "CPU:0"; NUL-terminated, borrowed; "" outside replica callbacks.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_context_get_device(const tutti_context *context);

/* 1 when the call was cancelled, ran out of time or failed in another replica: return soon.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_context_is_cancelled(const tutti_context *context);

/* Reduces every tensor of `value` over all replicas; each gets the same bits, on the device that
 * its tensor lies on: the host or the replica's own, another GPU is INVALID_ARGUMENT. All replicas
 * must call it with the same structure, dtypes and shapes; otherwise all get INVALID_ARGUMENT
 * naming both sides. ABORTED when another replica failed.
 * Context: replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_context_all_reduce(tutti_context *context, tutti_reduce_op op,
                                                 const tutti_value *value,
                                                 const tutti_call_options *call,
                                                 tutti_value **out_value);

/* Joins every tensor of `value` of all replicas along `axis`, in replica order.
 * Context: replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_context_all_gather(tutti_context *context, const tutti_value *value,
                                                 int64_t axis, const tutti_call_options *call,
                                                 tutti_value **out_value);

/* Runs `fn` once for all replicas, on the thread that called tutti_strategy_run, in cross-replica
 * context. `fn` gets `args` regrouped: every leaf that differs between replicas is distributed. Its
 * result is split again, and each replica gets its own part. All replicas must make the same number
 * of merge calls with the same `fn`; FAILED_PRECONDITION names the replicas that did not.
 * Context: replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_context_merge_call(tutti_context *context, tutti_fn fn,
                                                 void *user_data, const tutti_value *args,
                                                 const tutti_call_options *call,
                                                 tutti_value **out_value);

TUTTI_END_DECLS

#endif /* TUTTI_CONTEXT_H_ */
