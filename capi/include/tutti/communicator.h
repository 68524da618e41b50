/* Communicators: collectives between ranks, without a strategy on top.
 *
 * One handle per rank. Every rank makes the same calls in the same order; a call whose operation,
 * dtype, dims, root or reduction differs between ranks fails on all of them with the same
 * INVALID_ARGUMENT that names both sides. Results are bit-identical on all ranks and from run to
 * run: operands fold in rank order. An error, a deadline and an abort end the epoch: every later
 * call of every rank fails with the first error. */
#ifndef TUTTI_COMMUNICATOR_H_
#define TUTTI_COMMUNICATOR_H_

#include <tutti/cluster.h>
#include <tutti/context.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_communicator_options {
  size_t struct_size;
  const char *name; /* for messages */
} tutti_communicator_options;
#define TUTTI_COMMUNICATOR_OPTIONS_INIT \
  { sizeof(tutti_communicator_options), NULL }

/* `size` ranks within this process, each to be used by a thread of its own. `out_communicators` has
 * room for `size`.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_create_local(tutti_runtime *runtime, size_t size,
                                                        const tutti_communicator_options *options,
                                                        tutti_communicator **out_communicators);

/* One rank per worker of `cluster`: every worker makes the same call with the same name. Workers of
 * one machine share memory, others speak TCP (the setting transport). Making it again under the
 * same name begins the next epoch.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_create(tutti_cluster *cluster,
                                                  const tutti_communicator_options *options,
                                                  const tutti_call_options *call,
                                                  tutti_communicator **out_communicator);

/* How the ranks reach each other: "in_process", "shared_memory", "tcp" or "mixed"; static.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_communicator_get_transport(const tutti_communicator *communicator);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_communicator_get_rank(const tutti_communicator *communicator);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_communicator_get_size(const tutti_communicator *communicator);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_communicator_get_epoch(const tutti_communicator *communicator);

/* Folds `input` of all ranks into `output` of every rank; `output` may be `input` (in place).
 * Numeric dtypes; complex has no MIN and MAX. float16 and bfloat16 accumulate in float32 and round
 * once; MEAN of integers truncates towards zero.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_reduce(tutti_communicator *communicator,
                                                      const tutti_tensor *input, tutti_reduce_op op,
                                                      const tutti_call_options *call,
                                                      tutti_tensor *output);

/* Copies `tensor` of rank `root` into `tensor` of every other rank.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_broadcast(tutti_communicator *communicator, int64_t root,
                                                     const tutti_call_options *call,
                                                     tutti_tensor *tensor);

/* Joins `input` [n, ...] of all ranks along axis 0 into a new tensor [sum of n, ...]; n may differ
 * between ranks, the other sizes may not.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_gather(tutti_communicator *communicator,
                                                      const tutti_tensor *input,
                                                      const tutti_call_options *call,
                                                      tutti_tensor **out_tensor);

/* Returns when every rank has called it.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_barrier(tutti_communicator *communicator,
                                                   const tutti_call_options *call);

/* Ends the epoch: calls in flight and later ones fail on every rank with ABORTED and `message`.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_communicator_abort(tutti_communicator *communicator, const char *message);

/* Leaves. Peers that still need this rank fail with UNAVAILABLE that says it left.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_close(tutti_communicator *communicator,
                                                 const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_communicator_retain(const tutti_communicator *communicator);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_communicator_release(const tutti_communicator *communicator);

TUTTI_END_DECLS

#endif /* TUTTI_COMMUNICATOR_H_ */
