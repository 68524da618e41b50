/* Bucket plans: gradients that are reduced between the ranks of a communicator while the backward
 * pass goes on.
 *
 * Consecutive gradients share a bucket; a bucket whose gradients are all ready travels as one
 * asynchronous all_reduce, behind the buckets before it. So all ranks make the same calls in the
 * same order, whatever the order in which they report gradients. */
#ifndef TUTTI_BUCKET_PLAN_H_
#define TUTTI_BUCKET_PLAN_H_

#include <tutti/communicator.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_bucket_plan_options {
  size_t struct_size;
  int64_t bytes_per_pack; /* of a bucket; default 0: 4 MiB */
} tutti_bucket_plan_options;
#define TUTTI_BUCKET_PLAN_OPTIONS_INIT \
  { sizeof(tutti_bucket_plan_options), 0 }

/* A plan for `tensors`, the gradients in the order in which the backward pass makes them (last
 * layer first); they are retained, and reduced in place. All ranks pass the same dtypes and shapes
 * in the same order, and the same size. A tensor that is there twice, or cannot be reduced in
 * place: INVALID_ARGUMENT.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_bucket_plan_create(tutti_communicator *communicator, size_t count,
                                                 tutti_tensor *const *tensors, tutti_reduce_op op,
                                                 const tutti_bucket_plan_options *options,
                                                 tutti_bucket_plan **out_plan);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_bucket_plan_get_bucket_count(const tutti_bucket_plan *plan);

/* Tensor `index` is complete in this step, and is not touched until the wait has returned. One that
 * is ready already: FAILED_PRECONDITION. Does not wait.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_bucket_plan_ready(tutti_bucket_plan *plan, size_t index);

/* Waits until all tensors are ready and reduced, and begins the next step. Any failure, a deadline
 * and a cancellation too, ends the epoch of the communicator for all ranks.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_bucket_plan_wait(tutti_bucket_plan *plan,
                                               const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_bucket_plan_retain(const tutti_bucket_plan *plan);

/* Calls that are under way go on.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_bucket_plan_release(const tutti_bucket_plan *plan);

TUTTI_END_DECLS

#endif /* TUTTI_BUCKET_PLAN_H_ */
