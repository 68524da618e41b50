// NumericsObserver: refuses a tensor that has a NaN or an infinity in it.
#ifndef TUTTI_CORE_DEBUGGING_NUMERICS_OBSERVER_H_
#define TUTTI_CORE_DEBUGGING_NUMERICS_OBSERVER_H_

#include "core/base/status.h"
#include "core/tensor/tensor_observer.h"

namespace tutti {

class NumericsObserver final : public TensorObserver {
 public:
  // INVALID_ARGUMENT for a floating or complex tensor that is not finite: what it is, dtype, shape,
  // how many elements are NaN, +Inf and -Inf, and the first of them. Details: op, replica, step,
  // index, nan, positive_infinity, negative_infinity.
  Status Observe(const TensorSighting& sighting, const Tensor& tensor) override;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DEBUGGING_NUMERICS_OBSERVER_H_
