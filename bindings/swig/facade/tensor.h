// Tensors, element specs and futures.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_TENSOR_H_
#define TUTTI_BINDINGS_SWIG_FACADE_TENSOR_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

namespace tutti_facade {

inline tutti_status *tensor_create(tutti_runtime *runtime, int32_t dtype, size_t rank,
                                   const int64_t *dims, tutti_tristate zeroed,
                                   tutti_tensor **out_tensor) {
  tutti_tensor_options options = TUTTI_TENSOR_OPTIONS_INIT;
  options.zeroed = zeroed;
  return tutti_tensor_create(runtime, dtype, rank, dims, &options, out_tensor);
}

inline tutti_status *tensor_from(const tutti_tensor *tensor, tutti_tensor **out_tensor) {
  tutti_tensor_retain(tensor);
  *out_tensor = const_cast<tutti_tensor *>(tensor);
  return nullptr;
}

inline int32_t tensor_dtype(const tutti_tensor *tensor) { return tutti_tensor_get_dtype(tensor); }
inline int64_t tensor_rank(const tutti_tensor *tensor) {
  return static_cast<int64_t>(tutti_tensor_get_rank(tensor));
}
inline int64_t tensor_dim(const tutti_tensor *tensor, int64_t axis) {
  return tutti_tensor_get_dims(tensor)[axis];
}
inline int64_t tensor_stride(const tutti_tensor *tensor, int64_t axis) {
  return tutti_tensor_get_strides(tensor)[axis];
}
inline int64_t tensor_element_count(const tutti_tensor *tensor) {
  return tutti_tensor_get_element_count(tensor);
}
inline int64_t tensor_byte_size(const tutti_tensor *tensor) {
  return static_cast<int64_t>(tutti_tensor_get_byte_size(tensor));
}
inline bool tensor_is_read_only(const tutti_tensor *tensor) {
  return tutti_tensor_is_read_only(tensor) != 0;
}
inline bool tensor_is_contiguous(const tutti_tensor *tensor) {
  return tutti_tensor_is_contiguous(tensor) != 0;
}
inline bool tensor_equal(const tutti_tensor *tensor, const tutti_tensor *other) {
  return tutti_tensor_equal(tensor, other) != 0;
}
inline uintptr_t tensor_address(const tutti_tensor *tensor) {
  return reinterpret_cast<uintptr_t>(tutti_tensor_get_data(tensor));
}
inline tutti_status *tensor_slice(const tutti_tensor *tensor, size_t axis, int64_t start,
                                  int64_t stop, tutti_tensor **out_tensor) {
  return tutti_tensor_slice(tensor, axis, start, stop, out_tensor);
}
inline tutti_status *tensor_reshape(const tutti_tensor *tensor, size_t rank, const int64_t *dims,
                                    tutti_tensor **out_tensor) {
  return tutti_tensor_reshape(tensor, rank, dims, out_tensor);
}
inline tutti_status *tensor_cast(const tutti_tensor *tensor, int32_t dtype,
                                 tutti_tensor **out_tensor) {
  return tutti_tensor_cast(tensor, dtype, out_tensor);
}
inline tutti_status *tensor_copy(const tutti_tensor *tensor, tutti_tensor **out_tensor) {
  return tutti_tensor_copy(tensor, out_tensor);
}
inline tutti_status *tensor_to_string(const tutti_tensor *tensor, tutti_bytes **out_text) {
  return tutti_tensor_to_string(tensor, out_text);
}

// The spec of a value, and how two specs relate.
inline tutti_status *spec_from_value(const tutti_value *data, tutti_spec **out_spec) {
  return tutti_spec_create_from_value(data, out_spec);
}
inline bool spec_is_compatible(const tutti_spec *signature, const tutti_spec *specific) {
  return tutti_spec_is_compatible(signature, specific) != 0;
}

inline tutti_status *value_to_string(const tutti_value *value, tutti_bytes **out_text) {
  return tutti_value_to_string(value, out_text);
}

inline tutti_status *future_create(tutti_runtime *runtime, tutti_future **out_future) {
  return tutti_future_create(runtime, out_future);
}
// `failure` is taken over; null completes the future with `value`.
inline tutti_status *future_complete(tutti_future *future, tutti_status *failure,
                                     const tutti_value *value) {
  return tutti_future_complete(future, failure, value);
}
inline bool future_is_done(const tutti_future *future) {
  return tutti_future_is_done(future) != 0;
}
inline tutti_status *future_wait(const tutti_future *future, const tutti_call_options *call) {
  return tutti_future_wait(future, call);
}
inline tutti_status *future_on_ready(tutti_future *future, tutti_host_handle ready_fn) {
  return tutti_future_on_ready(future, StoreHostNotification(ready_fn));
}
inline tutti_status *future_result(const tutti_future *future, tutti_value **out_value) {
  return tutti_future_result(future, out_value);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_TENSOR_H_
