/* Communicators: collectives between ranks, without a strategy on top.
 *
 * One handle per rank. Every rank makes the same calls in the same order; a call whose operation,
 * dtype, dims, root or reduction differs between ranks fails on all of them with the same
 * INVALID_ARGUMENT that names both sides. Results are bit-identical on all ranks and from run to
 * run: operands fold in rank order. An error, a deadline and an abort end the epoch: every later
 * call of every rank fails with the first error.
 *
 * "Rows" are along axis 0. Tensors may be strided. But for a tensor that is input and output, and
 * where a call says that its output may be a part of its input or the other way round, outputs
 * overlap nothing. A bytes tensor cannot be written in place: only all_gather and gather, which
 * make a new one, take it.
 *
 * Tensors may lie on GPUs: those of one call on one GPU of the rank's, on all ranks or on none
 * (INVALID_ARGUMENT on all of them otherwise); new tensors lie there, too. Ranks of one process
 * reach each other's GPUs, with the bits that the host's tensors have, and the work goes on in the
 * order of the tensors' streams when a call returns. Ranks of several processes go by NCCL where
 * all of them have it, which the first such call finds out for the epoch; folds are in NCCL's order
 * then, and what NCCL does not fold, or the setting reproducible wants in the order of the ranks,
 * kernels fold, with the host's bits. Everything else goes through pinned memory of the host, with
 * one warning that says why. A send and its receive may have their tensors in different places, and
 * go by NCCL where both have it and both lie on GPUs. A stream of the caller's, in `call`, orders
 * the call with the caller's work on the GPU.
 *
 * Functions that end in _async return at once with a future. Their calls run on a thread of the
 * communicator's own, or on that of who waits for one of them without a limit, one after the other
 * in the order of issue, and count among the calls of the rank; a call without _async takes its
 * turn behind those that were issued before. Wrong arguments fail at issue; all other errors are
 * the future's. Tensors are retained until the call is done and
 * must not be written, and outputs not read, before. The timeout counts from the issue. A
 * cancellation in `call` is retained and ends the call, and the epoch with it; giving up the wait
 * for a future, or the future itself, leaves the call alone. Abort, close and an error of any rank
 * end all calls under way. */
#ifndef TUTTI_COMMUNICATOR_H_
#define TUTTI_COMMUNICATOR_H_

#include <tutti/cluster.h>
#include <tutti/context.h>
#include <tutti/future.h>

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
 * same name begins the next epoch. FAILED_PRECONDITION while another thread of this worker makes
 * one of that name.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_create(tutti_cluster *cluster,
                                                  const tutti_communicator_options *options,
                                                  const tutti_call_options *call,
                                                  tutti_communicator **out_communicator);

/* Every rank calls it: ranks of one `color` form a communicator of their own, ordered by `key` and
 * then by rank. A negative color is in none and gets NULL. Without a name it has one that says
 * where it comes from. Its errors leave `communicator` alone; the split itself is a call of it,
 * whose timeout and cancellation end the epoch, and nothing may be issued on this rank meanwhile.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_split(tutti_communicator *communicator, int64_t color,
                                                 int64_t key,
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

/* A zeroed tensor of this rank's, in memory that all ranks of one machine map: calls of it need no
 * copy into shared memory, where it lies so on all ranks (small calls copy it all the same, by the
 * table of algorithms: that is faster). Where ranks share no memory, and when there is no more of
 * it, it is a tensor like those of tutti_tensor_create. It may be used in every call of every
 * communicator, as may views of it, and outlives this one. Calls go straight to it over this
 * communicator, those that are split from it, and those that it becomes when it shrinks or grows.
 * In a forked child it stays the parent's: what the child writes, the parent sees.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_create_tensor(tutti_communicator *communicator,
                                                         tutti_dtype dtype, size_t rank,
                                                         const int64_t *dims,
                                                         tutti_tensor **out_tensor);

/* Folds `input` of all ranks into `output` of every rank; `output` may be `input` (in place).
 * Numeric dtypes; complex has no MIN and MAX; BAND, BOR and BXOR are for integers and bool. float16
 * and bfloat16 accumulate in float32 and round once; MEAN of integers truncates towards zero.
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

/* Several tensors, of any dtypes and shapes, in one call: outputs[i], which may be inputs[i], from
 * inputs[i].
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_reduce_many(tutti_communicator *communicator,
                                                           size_t count,
                                                           const tutti_tensor *const *inputs,
                                                           tutti_reduce_op op,
                                                           const tutti_call_options *call,
                                                           tutti_tensor *const *outputs);

/* Folds `input` of all ranks into `output` of rank `root`, which may be its `input`; the others may
 * pass NULL.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_reduce(tutti_communicator *communicator,
                                                  const tutti_tensor *input, tutti_reduce_op op,
                                                  int64_t root, const tutti_call_options *call,
                                                  tutti_tensor *output);

/* Folds `input` [size * m, ...] of all ranks; rank r gets rows [r * m, (r + 1) * m) of the result
 * in `output` [m, ...], which may be that part of its own input.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_reduce_scatter(tutti_communicator *communicator,
                                                          const tutti_tensor *input,
                                                          tutti_reduce_op op,
                                                          const tutti_call_options *call,
                                                          tutti_tensor *output);

/* Joins `input` [m, ...], equal on all ranks, into `output` [size * m, ...], in rank order. `input`
 * may be this rank's own part of it.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_gather_into(tutti_communicator *communicator,
                                                           const tutti_tensor *input,
                                                           const tutti_call_options *call,
                                                           tutti_tensor *output);

/* Joins as all_gather does, at rank `root` only: the others get NULL.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_gather(tutti_communicator *communicator,
                                                  const tutti_tensor *input, int64_t root,
                                                  const tutti_call_options *call,
                                                  tutti_tensor **out_tensor);

/* Rank r gets rows [r * m, (r + 1) * m) of the root's `input` [size * m, ...] in `output` [m, ...],
 * which may be the root's own part of it. The others may pass NULL for `input`.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_scatter(tutti_communicator *communicator,
                                                   const tutti_tensor *input, int64_t root,
                                                   const tutti_call_options *call,
                                                   tutti_tensor *output);

/* Rows [p * m, (p + 1) * m) of `input` [size * m, ...] go to rank p; `output` of the same shape
 * gets rank p's rows for this rank at [p * m, (p + 1) * m).
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_to_all(tutti_communicator *communicator,
                                                      const tutti_tensor *input,
                                                      const tutti_call_options *call,
                                                      tutti_tensor *output);

/* The first send_rows[0] rows of `input` go to rank 0, the next send_rows[1] to rank 1 and so on;
 * together they are all of its rows. A new tensor holds what came, in rank order, and
 * `received_rows` (may be NULL) how many rows came from each. Both arrays have `num_ranks` numbers,
 * which is the size of the communicator.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_to_all_uneven(tutti_communicator *communicator,
                                                             const tutti_tensor *input,
                                                             size_t num_ranks,
                                                             const int64_t *send_rows,
                                                             const tutti_call_options *call,
                                                             int64_t *received_rows,
                                                             tutti_tensor **out_tensor);

/* One tensor from this rank to rank `to`, which calls receive with the same dtype and shape;
 * neither returns before both have come and the bytes have moved. Transfers of a pair match in
 * order, and no other rank takes part in them. Two ranks that send to each other at once wait for
 * each other: let one of them receive first.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_send(tutti_communicator *communicator,
                                                const tutti_tensor *tensor, int64_t to,
                                                const tutti_call_options *call);

/* What rank `from` sends, into `tensor`.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_receive(tutti_communicator *communicator, int64_t from,
                                                   const tutti_call_options *call,
                                                   tutti_tensor *tensor);

/* Returns when every rank has called it.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_barrier(tutti_communicator *communicator,
                                                   const tutti_call_options *call);

/* ---- The same at once, with a future ---- */

/* The future has no value.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_reduce_async(tutti_communicator *communicator,
                                                            const tutti_tensor *input,
                                                            tutti_reduce_op op,
                                                            const tutti_call_options *call,
                                                            tutti_tensor *output,
                                                            tutti_future **out_future);

/* The arrays are copied.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_reduce_many_async(tutti_communicator *communicator,
                                                                 size_t count,
                                                                 const tutti_tensor *const *inputs,
                                                                 tutti_reduce_op op,
                                                                 const tutti_call_options *call,
                                                                 tutti_tensor *const *outputs,
                                                                 tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_reduce_async(tutti_communicator *communicator,
                                                        const tutti_tensor *input,
                                                        tutti_reduce_op op, int64_t root,
                                                        const tutti_call_options *call,
                                                        tutti_tensor *output,
                                                        tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_broadcast_async(tutti_communicator *communicator,
                                                           int64_t root,
                                                           const tutti_call_options *call,
                                                           tutti_tensor *tensor,
                                                           tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_reduce_scatter_async(tutti_communicator *communicator,
                                                                const tutti_tensor *input,
                                                                tutti_reduce_op op,
                                                                const tutti_call_options *call,
                                                                tutti_tensor *output,
                                                                tutti_future **out_future);

/* The future's value is the tensor.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_gather_async(tutti_communicator *communicator,
                                                            const tutti_tensor *input,
                                                            const tutti_call_options *call,
                                                            tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_gather_into_async(tutti_communicator *communicator,
                                                                 const tutti_tensor *input,
                                                                 const tutti_call_options *call,
                                                                 tutti_tensor *output,
                                                                 tutti_future **out_future);

/* The future's value is the tensor at the root; the others have none.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_gather_async(tutti_communicator *communicator,
                                                        const tutti_tensor *input, int64_t root,
                                                        const tutti_call_options *call,
                                                        tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_scatter_async(tutti_communicator *communicator,
                                                         const tutti_tensor *input, int64_t root,
                                                         const tutti_call_options *call,
                                                         tutti_tensor *output,
                                                         tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_to_all_async(tutti_communicator *communicator,
                                                            const tutti_tensor *input,
                                                            const tutti_call_options *call,
                                                            tutti_tensor *output,
                                                            tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_barrier_async(tutti_communicator *communicator,
                                                         const tutti_call_options *call,
                                                         tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_send_async(tutti_communicator *communicator,
                                                      const tutti_tensor *tensor, int64_t to,
                                                      const tutti_call_options *call,
                                                      tutti_future **out_future);

/* Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_receive_async(tutti_communicator *communicator,
                                                         int64_t from,
                                                         const tutti_call_options *call,
                                                         tutti_tensor *tensor,
                                                         tutti_future **out_future);

/* ---- The epoch ---- */

/* Ends the epoch: calls in flight and later ones fail on every rank with ABORTED and `message`.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_communicator_abort(tutti_communicator *communicator, const char *message);

/* The same, gently: no rank begins another call, those under way may end, and those that wait for a
 * rank that will not come fail with ABORTED and `message`. Others hear of it in the background.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_communicator_revoke(tutti_communicator *communicator, const char *message);

/* The next epoch of this communicator, in an elastic job (the setting elastic) or within a process:
 * of the ranks that are left, in their old order. All of them call it but those that close this
 * communicator, which nobody waits for; this epoch is revoked. An error tells of another death
 * meanwhile, or that a rank gave the call up: then all that are left call it again. The old
 * communicator is still to be closed. FAILED_PRECONDITION in a job that is not elastic, and while
 * another thread of this rank is in it.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_shrink(tutti_communicator *communicator,
                                                  const tutti_call_options *call,
                                                  tutti_communicator **out_communicator);

/* The same of all workers that are there, in their order, newcomers too: those create a
 * communicator of this name. Waits until there are `least` ranks (0: whoever is there).
 * FAILED_PRECONDITION within a process, for a part of another communicator (split), and while
 * another thread of this rank is in it.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_grow(tutti_communicator *communicator, int64_t least,
                                                const tutti_call_options *call,
                                                tutti_communicator **out_communicator);

/* What every rank brings, any structure of tensors and texts, another one on each rank, as a list
 * in the order of the ranks. It travels as tutti_value_serialize makes it, so that ranks may be of
 * different languages; large tensors go better by the calls above. A value that cannot be
 * serialised fails the call on all ranks, and leaves the communicator as it is.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_all_gather_value(tutti_communicator *communicator,
                                                            const tutti_value *value,
                                                            const tutti_call_options *call,
                                                            tutti_value **out_value);

/* What rank `root` brings, on every rank; the others' `value` is not looked at, and may be NULL.
 * Else as tutti_communicator_all_gather_value.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_communicator_broadcast_value(tutti_communicator *communicator,
                                                           const tutti_value *value, int64_t root,
                                                           const tutti_call_options *call,
                                                           tutti_value **out_value);

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
