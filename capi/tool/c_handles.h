// Owners of the C interface's objects.

#ifndef TUTTI_CAPI_TOOL_C_HANDLES_H_
#define TUTTI_CAPI_TOOL_C_HANDLES_H_

#include <tutti/tutti.h>

#include <memory>
#include <string>

namespace tutti::tool {

template <auto Release>
struct Releaser {
  template <typename T>
  void operator()(T* object) const {
    Release(object);
  }
};

using CStatus = std::unique_ptr<tutti_status, Releaser<tutti_status_release>>;
using CRuntime = std::unique_ptr<tutti_runtime, Releaser<tutti_runtime_release>>;
using CBytes = std::unique_ptr<tutti_bytes, Releaser<tutti_bytes_release>>;
using CClusterSpec = std::unique_ptr<tutti_cluster_spec, Releaser<tutti_cluster_spec_release>>;
using CClusterResolver =
    std::unique_ptr<tutti_cluster_resolver, Releaser<tutti_cluster_resolver_release>>;

using CCluster = std::unique_ptr<tutti_cluster, Releaser<tutti_cluster_release>>;
using CCommunicator = std::unique_ptr<tutti_communicator, Releaser<tutti_communicator_release>>;
using CFuture = std::unique_ptr<tutti_future, Releaser<tutti_future_release>>;
using CValue = std::unique_ptr<tutti_value, Releaser<tutti_value_release>>;
using CTensor = std::unique_ptr<tutti_tensor, Releaser<tutti_tensor_release>>;

// For an out-parameter: filled when the full expression ends.
template <typename Owner>
class OutPointer {
 public:
  explicit OutPointer(Owner* owner) : owner_(owner) {}
  ~OutPointer() { owner_->reset(raw_); }
  operator typename Owner::pointer*() { return &raw_; }

 private:
  Owner* const owner_;
  typename Owner::pointer raw_ = nullptr;
};

template <typename Owner>
OutPointer<Owner> Out(Owner* owner) {
  return OutPointer<Owner>(owner);
}

inline std::string TextOf(const CBytes& bytes) {
  const tutti_string_view view = tutti_bytes_get_view(bytes.get());
  return std::string(view.data, view.size);
}

// Of a function that gives a CStatus: ends it with the failure of `expression`, a tutti_status* or
// CStatus.
#define TUTTI_TOOL_RETURN_IF_FAILED(expression)                    \
  do {                                                             \
    if (::tutti::tool::CStatus failed{expression}) return failed;  \
  } while (false)

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_C_HANDLES_H_
