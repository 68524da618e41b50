// What functions that make tensors are given: a dtype and sizes, checked.
#ifndef TUTTI_CAPI_SRC_TENSOR_ARGUMENTS_H_
#define TUTTI_CAPI_SRC_TENSOR_ARGUMENTS_H_

#include <tutti/tensor.h>

#include <cstddef>
#include <cstdint>

#include "capi/src/guard.h"
#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tutti::capi {

inline Result<DType> ReadDType(Call call, tutti_dtype dtype) {
  const auto known = static_cast<DType>(dtype);
  if (IsValid(known)) return known;
  return InvalidArgument(
      "{}: {} is no dtype; expected TUTTI_DTYPE_BOOL (1) to TUTTI_DTYPE_BYTES "
      "(16)",
      call.function, dtype);
}

inline Result<Shape> ReadShape(Call call, size_t rank, const int64_t *dims) {
  TUTTI_REQUIRE_ARRAY(call, rank, dims);
  return Shape::Create(dims, rank);
}

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_TENSOR_ARGUMENTS_H_
