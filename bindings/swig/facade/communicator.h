// Calls of communicators that take arrays of two counts, and making bucket plans.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_COMMUNICATOR_H_
#define TUTTI_BINDINGS_SWIG_FACADE_COMMUNICATOR_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

namespace tutti_facade {

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

inline tutti_status *bucket_plan_create(tutti_communicator *communicator, size_t count,
                                        tutti_tensor *const *mutable_tensors, int32_t op,
                                        int64_t bytes_per_pack, bool own_tensors,
                                        size_t value_count, const char *const *values,
                                        tutti_bucket_plan **out_plan) {
  tutti_bucket_plan_options options = TUTTI_BUCKET_PLAN_OPTIONS_INIT;
  options.bytes_per_pack = bytes_per_pack;
  options.own_tensors = own_tensors ? TUTTI_TRUE : TUTTI_FALSE;
  options.name_count = value_count;
  options.names = values;
  return tutti_bucket_plan_create(communicator, count, mutable_tensors, op, &options, out_plan);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_COMMUNICATOR_H_
