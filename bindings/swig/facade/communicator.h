// Communicators and bucket plans. Parameters by name: `tensor` is an input and `mutable_tensor` an
// output that the caller gives; `root_tensor` and `root_output` are the root's alone, null on the
// other ranks; `tensors` and `mutable_tensors` are arrays of both kinds.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_COMMUNICATOR_H_
#define TUTTI_BINDINGS_SWIG_FACADE_COMMUNICATOR_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

namespace tutti_facade {

// ---- making and asking

inline tutti_status *communicator_create_local(tutti_runtime *runtime, size_t size,
                                               const char *name,
                                               tutti_communicator **out_communicators) {
  tutti_communicator_options options = TUTTI_COMMUNICATOR_OPTIONS_INIT;
  options.name = name;
  return tutti_communicator_create_local(runtime, size, &options, out_communicators);
}
inline tutti_status *communicator_create(tutti_cluster *cluster, const char *name,
                                         const tutti_call_options *call,
                                         tutti_communicator **out_communicator) {
  tutti_communicator_options options = TUTTI_COMMUNICATOR_OPTIONS_INIT;
  options.name = name;
  return tutti_communicator_create(cluster, &options, call, out_communicator);
}
// Null for a rank that is in none of the groups.
inline tutti_status *communicator_split(tutti_communicator *communicator, int64_t color,
                                        int64_t key, const char *name,
                                        const tutti_call_options *call,
                                        tutti_communicator **out_communicator) {
  tutti_communicator_options options = TUTTI_COMMUNICATOR_OPTIONS_INIT;
  options.name = name;
  return tutti_communicator_split(communicator, color, key, &options, call, out_communicator);
}
inline tutti_status *communicator_create_tensor(tutti_communicator *communicator, int32_t dtype,
                                                size_t rank, const int64_t *dims,
                                                tutti_tensor **out_tensor) {
  return tutti_communicator_create_tensor(communicator, dtype, rank, dims, out_tensor);
}
inline const char *communicator_transport(const tutti_communicator *communicator) {
  return tutti_communicator_get_transport(communicator);
}
inline int64_t communicator_rank(const tutti_communicator *communicator) {
  return tutti_communicator_get_rank(communicator);
}
inline int64_t communicator_size(const tutti_communicator *communicator) {
  return tutti_communicator_get_size(communicator);
}
inline int64_t communicator_epoch(const tutti_communicator *communicator) {
  return tutti_communicator_get_epoch(communicator);
}

// ---- collectives

inline tutti_status *communicator_all_reduce(tutti_communicator *communicator,
                                             const tutti_tensor *tensor, int32_t op,
                                             const tutti_call_options *call,
                                             tutti_tensor *mutable_tensor) {
  return tutti_communicator_all_reduce(communicator, tensor, op, call, mutable_tensor);
}
inline tutti_status *communicator_all_reduce_many(tutti_communicator *communicator, size_t count,
                                                  const tutti_tensor *const *tensors,
                                                  int32_t op, const tutti_call_options *call,
                                                  size_t output_count,
                                                  tutti_tensor *const *mutable_tensors) {
  if (output_count != count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT,
                               "all_reduce_many: as many outputs as inputs are needed");
  }
  return tutti_communicator_all_reduce_many(communicator, count, tensors, op, call,
                                            mutable_tensors);
}
inline tutti_status *communicator_reduce(tutti_communicator *communicator,
                                         const tutti_tensor *tensor, int32_t op, int64_t root,
                                         const tutti_call_options *call,
                                         tutti_tensor *root_output) {
  return tutti_communicator_reduce(communicator, tensor, op, root, call, root_output);
}
inline tutti_status *communicator_broadcast(tutti_communicator *communicator, int64_t root,
                                            const tutti_call_options *call,
                                            tutti_tensor *mutable_tensor) {
  return tutti_communicator_broadcast(communicator, root, call, mutable_tensor);
}
inline tutti_status *communicator_reduce_scatter(tutti_communicator *communicator,
                                                 const tutti_tensor *tensor, int32_t op,
                                                 const tutti_call_options *call,
                                                 tutti_tensor *mutable_tensor) {
  return tutti_communicator_reduce_scatter(communicator, tensor, op, call, mutable_tensor);
}
inline tutti_status *communicator_all_gather(tutti_communicator *communicator,
                                             const tutti_tensor *tensor,
                                             const tutti_call_options *call,
                                             tutti_tensor **out_array) {
  return tutti_communicator_all_gather(communicator, tensor, call, out_array);
}
inline tutti_status *communicator_all_gather_into(tutti_communicator *communicator,
                                                  const tutti_tensor *tensor,
                                                  const tutti_call_options *call,
                                                  tutti_tensor *mutable_tensor) {
  return tutti_communicator_all_gather_into(communicator, tensor, call, mutable_tensor);
}
// Null but at the root.
inline tutti_status *communicator_gather(tutti_communicator *communicator,
                                         const tutti_tensor *tensor, int64_t root,
                                         const tutti_call_options *call, tutti_tensor **out_array) {
  return tutti_communicator_gather(communicator, tensor, root, call, out_array);
}
inline tutti_status *communicator_scatter(tutti_communicator *communicator,
                                          const tutti_tensor *root_tensor, int64_t root,
                                          const tutti_call_options *call,
                                          tutti_tensor *mutable_tensor) {
  return tutti_communicator_scatter(communicator, root_tensor, root, call, mutable_tensor);
}
inline tutti_status *communicator_all_to_all(tutti_communicator *communicator,
                                             const tutti_tensor *tensor,
                                             const tutti_call_options *call,
                                             tutti_tensor *mutable_tensor) {
  return tutti_communicator_all_to_all(communicator, tensor, call, mutable_tensor);
}
// A number per rank in both arrays.
inline tutti_status *communicator_all_to_all_uneven(tutti_communicator *communicator,
                                                    const tutti_tensor *tensor, size_t rank_count,
                                                    const int64_t *send_rows,
                                                    const tutti_call_options *call,
                                                    size_t received_count, int64_t *received_rows,
                                                    tutti_tensor **out_array) {
  if (received_count != rank_count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT,
                               "all_to_all: as many received rows as sent rows are needed");
  }
  return tutti_communicator_all_to_all_uneven(communicator, tensor, rank_count, send_rows, call,
                                              received_rows, out_array);
}
inline tutti_status *communicator_send(tutti_communicator *communicator, const tutti_tensor *tensor,
                                       int64_t to, const tutti_call_options *call) {
  return tutti_communicator_send(communicator, tensor, to, call);
}
inline tutti_status *communicator_receive(tutti_communicator *communicator, int64_t source,
                                          const tutti_call_options *call,
                                          tutti_tensor *mutable_tensor) {
  return tutti_communicator_receive(communicator, source, call, mutable_tensor);
}
inline tutti_status *communicator_barrier(tutti_communicator *communicator,
                                          const tutti_call_options *call) {
  return tutti_communicator_barrier(communicator, call);
}

// ---- the same at once, with a future. `issue` is a timeout only where the host's cancellation
// belongs to the thread that waits.

inline tutti_status *communicator_all_reduce_async(tutti_communicator *communicator,
                                                   const tutti_tensor *tensor, int32_t op,
                                                   const tutti_call_options *issue,
                                                   tutti_tensor *mutable_tensor,
                                                   tutti_future **out_future) {
  return tutti_communicator_all_reduce_async(communicator, tensor, op, issue, mutable_tensor,
                                             out_future);
}
inline tutti_status *communicator_all_reduce_many_async(
    tutti_communicator *communicator, size_t count, const tutti_tensor *const *tensors, int32_t op,
    const tutti_call_options *issue, size_t output_count, tutti_tensor *const *mutable_tensors,
    tutti_future **out_future) {
  if (output_count != count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT,
                               "all_reduce_many: as many outputs as inputs are needed");
  }
  return tutti_communicator_all_reduce_many_async(communicator, count, tensors, op, issue,
                                                  mutable_tensors, out_future);
}
inline tutti_status *communicator_reduce_async(tutti_communicator *communicator,
                                               const tutti_tensor *tensor, int32_t op, int64_t root,
                                               const tutti_call_options *issue,
                                               tutti_tensor *root_output,
                                               tutti_future **out_future) {
  return tutti_communicator_reduce_async(communicator, tensor, op, root, issue, root_output,
                                         out_future);
}
inline tutti_status *communicator_broadcast_async(tutti_communicator *communicator, int64_t root,
                                                  const tutti_call_options *issue,
                                                  tutti_tensor *mutable_tensor,
                                                  tutti_future **out_future) {
  return tutti_communicator_broadcast_async(communicator, root, issue, mutable_tensor, out_future);
}
inline tutti_status *communicator_reduce_scatter_async(tutti_communicator *communicator,
                                                       const tutti_tensor *tensor, int32_t op,
                                                       const tutti_call_options *issue,
                                                       tutti_tensor *mutable_tensor,
                                                       tutti_future **out_future) {
  return tutti_communicator_reduce_scatter_async(communicator, tensor, op, issue, mutable_tensor,
                                                 out_future);
}
inline tutti_status *communicator_all_gather_async(tutti_communicator *communicator,
                                                   const tutti_tensor *tensor,
                                                   const tutti_call_options *issue,
                                                   tutti_future **out_future) {
  return tutti_communicator_all_gather_async(communicator, tensor, issue, out_future);
}
inline tutti_status *communicator_all_gather_into_async(tutti_communicator *communicator,
                                                        const tutti_tensor *tensor,
                                                        const tutti_call_options *issue,
                                                        tutti_tensor *mutable_tensor,
                                                        tutti_future **out_future) {
  return tutti_communicator_all_gather_into_async(communicator, tensor, issue, mutable_tensor,
                                                  out_future);
}
inline tutti_status *communicator_gather_async(tutti_communicator *communicator,
                                               const tutti_tensor *tensor, int64_t root,
                                               const tutti_call_options *issue,
                                               tutti_future **out_future) {
  return tutti_communicator_gather_async(communicator, tensor, root, issue, out_future);
}
inline tutti_status *communicator_scatter_async(tutti_communicator *communicator,
                                                const tutti_tensor *root_tensor, int64_t root,
                                                const tutti_call_options *issue,
                                                tutti_tensor *mutable_tensor,
                                                tutti_future **out_future) {
  return tutti_communicator_scatter_async(communicator, root_tensor, root, issue, mutable_tensor,
                                          out_future);
}
inline tutti_status *communicator_all_to_all_async(tutti_communicator *communicator,
                                                   const tutti_tensor *tensor,
                                                   const tutti_call_options *issue,
                                                   tutti_tensor *mutable_tensor,
                                                   tutti_future **out_future) {
  return tutti_communicator_all_to_all_async(communicator, tensor, issue, mutable_tensor,
                                             out_future);
}
inline tutti_status *communicator_send_async(tutti_communicator *communicator,
                                             const tutti_tensor *tensor, int64_t to,
                                             const tutti_call_options *issue,
                                             tutti_future **out_future) {
  return tutti_communicator_send_async(communicator, tensor, to, issue, out_future);
}
inline tutti_status *communicator_receive_async(tutti_communicator *communicator, int64_t source,
                                                const tutti_call_options *issue,
                                                tutti_tensor *mutable_tensor,
                                                tutti_future **out_future) {
  return tutti_communicator_receive_async(communicator, source, issue, mutable_tensor, out_future);
}
inline tutti_status *communicator_barrier_async(tutti_communicator *communicator,
                                                const tutti_call_options *issue,
                                                tutti_future **out_future) {
  return tutti_communicator_barrier_async(communicator, issue, out_future);
}

// ---- the end of an epoch

inline void communicator_abort(tutti_communicator *communicator, const char *message) {
  tutti_communicator_abort(communicator, message);
}
inline void communicator_revoke(tutti_communicator *communicator, const char *message) {
  tutti_communicator_revoke(communicator, message);
}
inline tutti_status *communicator_shrink(tutti_communicator *communicator,
                                         const tutti_call_options *call,
                                         tutti_communicator **out_communicator) {
  return tutti_communicator_shrink(communicator, call, out_communicator);
}
inline tutti_status *communicator_grow(tutti_communicator *communicator, int64_t least,
                                       const tutti_call_options *call,
                                       tutti_communicator **out_communicator) {
  return tutti_communicator_grow(communicator, least, call, out_communicator);
}
// `leaving`: as in cluster_close.
inline tutti_status *communicator_close(tutti_communicator *communicator,
                                        const tutti_call_options *leaving) {
  return tutti_communicator_close(communicator, leaving);
}

// ---- bucket plans

inline tutti_status *bucket_plan_create(tutti_communicator *communicator, size_t count,
                                        tutti_tensor *const *mutable_tensors, int32_t op,
                                        int64_t bytes_per_pack, bool own_tensors,
                                        tutti_bucket_plan **out_plan) {
  tutti_bucket_plan_options options = TUTTI_BUCKET_PLAN_OPTIONS_INIT;
  options.bytes_per_pack = bytes_per_pack;
  options.own_tensors = own_tensors ? TUTTI_TRUE : TUTTI_FALSE;
  return tutti_bucket_plan_create(communicator, count, mutable_tensors, op, &options, out_plan);
}
inline int64_t bucket_plan_bucket_count(const tutti_bucket_plan *plan) {
  return tutti_bucket_plan_get_bucket_count(plan);
}
inline tutti_status *bucket_plan_tensor(const tutti_bucket_plan *plan, size_t index,
                                        tutti_tensor **out_tensor) {
  return tutti_bucket_plan_get_tensor(plan, index, out_tensor);
}
inline tutti_status *bucket_plan_ready(tutti_bucket_plan *plan, size_t index) {
  return tutti_bucket_plan_ready(plan, index);
}
inline tutti_status *bucket_plan_wait(tutti_bucket_plan *plan, const tutti_call_options *call) {
  return tutti_bucket_plan_wait(plan, call);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_COMMUNICATOR_H_
