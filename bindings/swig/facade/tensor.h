// Tensors, element specs and futures.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_TENSOR_H_
#define TUTTI_BINDINGS_SWIG_FACADE_TENSOR_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

namespace tutti_facade {

inline tutti_status *tensor_from(const tutti_tensor *tensor, tutti_tensor **out_tensor) {
  tutti_tensor_retain(tensor);
  *out_tensor = const_cast<tutti_tensor *>(tensor);
  return nullptr;
}

inline int64_t tensor_dim(const tutti_tensor *tensor, int64_t axis) {
  return tutti_tensor_get_dims(tensor)[axis];
}
inline int64_t tensor_stride(const tutti_tensor *tensor, int64_t axis) {
  return tutti_tensor_get_strides(tensor)[axis];
}

inline tutti_status *future_on_ready(tutti_future *future, tutti_host_handle ready_fn) {
  return tutti_future_on_ready(future, StoreHostNotification(ready_fn));
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_TENSOR_H_
