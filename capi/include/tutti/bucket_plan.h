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
  /* TUTTI_TRUE: the plan reduces tensors of its own, see below. Default: those given. */
  tutti_tristate own_tensors;
  /* Of each tensor, in UTF-8, for warnings and errors: `name_count` is 0, for none, or `count`. */
  size_t name_count;
  const char *const *names;
} tutti_bucket_plan_options;
#define TUTTI_BUCKET_PLAN_OPTIONS_INIT \
  { sizeof(tutti_bucket_plan_options), 0, TUTTI_UNSET, 0, NULL }

/* A plan for `tensors`, the gradients in the order in which the backward pass makes them (last
 * layer first); they are retained, and reduced in place. All ranks pass the same dtypes and shapes
 * in the same order, and the same size. A tensor that is there twice, or cannot be reduced in
 * place: INVALID_ARGUMENT.
 *
 * With `own_tensors` those given only say of which dtypes and shapes the gradients are. The plan
 * makes zeroed ones, side by side in one tensor of tutti_communicator_create_tensor, each at a
 * multiple of 64 bytes: between ranks that share memory a large bucket is then reduced where it
 * lies, with no copy before. tutti_bucket_plan_get_tensor hands them out. RESOURCE_EXHAUSTED when
 * there is no memory for them.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_bucket_plan_create(tutti_communicator *communicator, size_t count,
                                                 tutti_tensor *const *tensors, tutti_reduce_op op,
                                                 const tutti_bucket_plan_options *options,
                                                 tutti_bucket_plan **out_plan);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_bucket_plan_get_bucket_count(const tutti_bucket_plan *plan);

/* The tensor that is reduced as gradient `index`; it outlives the plan. INVALID_ARGUMENT for an
 * index that is none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_bucket_plan_get_tensor(const tutti_bucket_plan *plan, size_t index,
                                                     tutti_tensor **out_tensor);

/* Tensor `index` is complete in this step, and is not touched until the wait has returned. One that
 * is ready already: FAILED_PRECONDITION. Does not wait.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_bucket_plan_ready(tutti_bucket_plan *plan, size_t index);

/* Waits until all tensors are ready and reduced, and begins the next step. Any failure, a deadline
 * and a cancellation too, ends the epoch of the communicator for all ranks. Where some tensor does
 * not become ready the log warns of it after the setting wait_warning (30 s), and again after twice
 * that.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_bucket_plan_wait(tutti_bucket_plan *plan,
                                               const tutti_call_options *call);

/* For people: how many tensors, how they are reduced, in how many buckets, how many steps so far.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_bucket_plan_to_string(const tutti_bucket_plan *plan,
                                                    tutti_bytes **out_text);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_bucket_plan_retain(const tutti_bucket_plan *plan);

/* Calls that are under way go on.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_bucket_plan_release(const tutti_bucket_plan *plan);

TUTTI_END_DECLS

#endif /* TUTTI_BUCKET_PLAN_H_ */
