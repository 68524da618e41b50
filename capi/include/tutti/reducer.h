/* Reducers: cross-device ops, how the values of a strategy's replicas become one on some devices,
 * and how one value gets to several. A strategy is given one when it is made
 * (tutti_strategy_options); a program may bring its own.
 *
 * Destinations are a value that says where. A distributed value and a mirrored variable stand for
 * the replicas' devices, another variable for the device that it lies on, a tensor for the host, a
 * string for the device of that name. They are not written. */
#ifndef TUTTI_REDUCER_H_
#define TUTTI_REDUCER_H_

#include <tutti/call.h>
#include <tutti/context.h>
#include <tutti/function.h>

TUTTI_BEGIN_DECLS

/* What a program brings. Each function runs in a cross-replica context, in which run and
 * collectives are FAILED_PRECONDITION, possibly on several threads at once: on the one that asks,
 * or, where the call has a deadline, on one of the library's; `value` holds one tensor for each
 * replica of this process, all of one dtype and shape; what it gives belongs to the caller. The
 * result has that dtype and shape, one tensor or, for several destinations, a distributed value;
 * another one is INVALID_ARGUMENT for who asked. At the deadline of the call who asked gets
 * DEADLINE_EXCEEDED that names the reducer, and tutti_context_is_cancelled says 1; the function may
 * still come back, with its arguments intact until then, and what it gives is dropped.
 * tutti_runtime_shutdown waits for it. `options` is never NULL. */
typedef struct tutti_reducer_functions {
  size_t struct_size;
  const char *name; /* for messages; default "CrossDeviceOps" */
  void *user_data;
  tutti_destroy_fn destroy; /* ends user_data, once, also when the reducer cannot be made */
  /* `op` of the replicas' tensors, on the destinations: SUM or MEAN, or what an all_reduce of
   * replicas asks for. Required. */
  tutti_status *(*reduce)(tutti_context *context, tutti_reduce_op op, const tutti_value *value,
                          const tutti_value *destinations,
                          const tutti_communication_options *options, tutti_value **out_value,
                          void *user_data);
  /* The same of a tuple of pairs (value, destinations): a tuple of results. NULL: one by one. */
  tutti_status *(*batch_reduce)(tutti_context *context, tutti_reduce_op op,
                                const tutti_value *pairs,
                                const tutti_communication_options *options,
                                tutti_value **out_tuple, void *user_data);
  /* The tensor of `value` on the destinations. NULL: the tensor itself on each. */
  tutti_status *(*broadcast)(tutti_context *context, const tutti_value *value,
                             const tutti_value *destinations, tutti_value **out_value,
                             void *user_data);
} tutti_reducer_functions;
#define TUTTI_REDUCER_FUNCTIONS_INIT \
  { sizeof(tutti_reducer_functions), NULL, NULL, NULL, NULL, NULL, NULL }

/* A reducer of a program's own functions, which are copied.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_create(tutti_runtime *runtime,
                                             const tutti_reducer_functions *functions,
                                             tutti_reducer **out_reducer);

/* What a strategy does that was given nothing: each element is read from all replicas and written
 * once, in the order of the replicas.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_create_all_reduce(tutti_runtime *runtime,
                                                        tutti_reducer **out_reducer);

/* All to one device, and from there to where they go. `reduce_to_device` NULL: the first
 * destination; NOT_FOUND or INVALID_ARGUMENT for one that is not there. `accumulation` makes one
 * tensor of a tuple of the replicas' tensors, of their dtype and shape, in the context of an
 * update; without a function it is addition in the order of the replicas. MEAN divides what it
 * gives; operations other than SUM and MEAN do without it.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_create_reduction_to_one_device(
    tutti_runtime *runtime, const char *reduce_to_device, tutti_callback accumulation,
    tutti_reducer **out_reducer);

/* The tensors of a batch in `num_packs` packs, one fold each, and more where a pack would have more
 * than the bytes_per_pack of the call; 0: none is packed. INVALID_ARGUMENT for a negative number.
 * Results have the bits of those of all_reduce, but between GPUs: there packs go along a tree of
 * the links between them and back, and of more than two GPUs sums and products of floats have the
 * bits of that tree, the same on all of them. Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_create_hierarchical_copy_all_reduce(
    tutti_runtime *runtime, int64_t num_packs, tutti_reducer **out_reducer);

/* NVIDIA's library, between GPUs of which each has one tensor. What it cannot serve (values on the
 * host, no NCCL, one of a version before 2.18) goes as by all_reduce, and the first such use says
 * why in one warning. num_packs and bytes_per_pack: as above. Context: building. Threads: any.
 * Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_create_nccl_all_reduce(tutti_runtime *runtime,
                                                             int64_t num_packs,
                                                             tutti_reducer **out_reducer);

/* "HierarchicalCopyAllReduce(num_packs=1)"; a byte buffer of the caller's.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_to_string(const tutti_reducer *reducer,
                                                tutti_bytes **out_text);

/* `op` of what the replicas of `strategy` have, on the destinations: a tensor on one
 * device, a mirrored value on several. Of one tensor for all replicas MEAN is the tensor and SUM
 * INVALID_ARGUMENT with several replicas. INVALID_ARGUMENT for another number of components, other
 * shapes or dtypes, a variable of another strategy and destinations that are none;
 * FAILED_PRECONDITION for a strategy of several workers, whose own reduce_to is meant.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_reduce(tutti_reducer *reducer, tutti_strategy *strategy,
                                             tutti_reduce_op op, const tutti_value *value,
                                             const tutti_value *destinations,
                                             const tutti_call_options *call,
                                             tutti_value **out_value);

/* The same of a tuple or list of pairs (value, destinations): a tuple of results.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_batch_reduce(tutti_reducer *reducer,
                                                   tutti_strategy *strategy, tutti_reduce_op op,
                                                   const tutti_value *pairs,
                                                   const tutti_call_options *call,
                                                   tutti_value **out_tuple);

/* The tensor of `value` on the destinations.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_reducer_broadcast(tutti_reducer *reducer, tutti_strategy *strategy,
                                                const tutti_value *value,
                                                const tutti_value *destinations,
                                                const tutti_call_options *call,
                                                tutti_value **out_value);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_reducer_retain(const tutti_reducer *reducer);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_reducer_release(const tutti_reducer *reducer);

TUTTI_END_DECLS

#endif /* TUTTI_REDUCER_H_ */
