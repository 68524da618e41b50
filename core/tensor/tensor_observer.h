// TensorObserver: looks at the tensors that pass through operations (numerics checks, dumps). The
// runtime installs them.
#ifndef TUTTI_CORE_TENSOR_TENSOR_OBSERVER_H_
#define TUTTI_CORE_TENSOR_TENSOR_OBSERVER_H_

#include <cstddef>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Where a tensor was seen.
struct TensorSighting {
  std::string_view op;    // "all_reduce", "assign_add", "run"
  std::string_view name;  // of the variable or the path in the value; may be empty
  int replica_id = 0;
  size_t output = 0;  // which of the operation's tensors
};

class TensorObserver : public RefCounted {
 public:
  // Called after the operation, on its thread, with no lock held. An error becomes the operation's
  // error.
  virtual Status Observe(const TensorSighting& sighting, const Tensor& tensor) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_TENSOR_OBSERVER_H_
