// Assertions whose results C gives in a way of its own.
#ifndef TUTTI_BINDINGS_FACADE_DEBUGGING_H_
#define TUTTI_BINDINGS_FACADE_DEBUGGING_H_

#include <tutti/tutti.h>

#include <cstdint>

namespace tutti_facade {

inline tutti_status *debugging_assert_same_float_dtype(const tutti_value *x, int32_t dtype,
                                                       int64_t *out_count) {
  tutti_dtype common = TUTTI_DTYPE_INVALID;
  tutti_status *status = tutti_debugging_assert_same_float_dtype(x, dtype, &common);
  if (status == nullptr) *out_count = common;
  return status;
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_FACADE_DEBUGGING_H_
