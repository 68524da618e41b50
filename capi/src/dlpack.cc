// Tensors in and out as DLPack.
#include "core/tensor/dlpack.h"

#include <tutti/tensor.h>

#include <utility>

#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/device/gpu_memory.h"
#include "core/tensor/tensor.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

int64_t StreamOf(const tutti_dlpack_options &options) {
  return options.stream.present != 0 ? options.stream.value : kDefaultStream;
}

GpuImport OnGpuOf(const Runtime &root) {
  return [&root](int ordinal, void *data, size_t bytes, DType dtype, const Shape &shape,
                 std::span<const int64_t> strides, bool read_only,
                 Ref<const RefCounted> keeper) -> Result<Ref<Tensor>> {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Device> device, root.devices().FindGpuByOrdinal(ordinal));
    return GpuMemoryOf(*device)->Wrap(data, bytes, dtype, shape, strides, read_only,
                                      std::move(keeper));
  };
}

}  // namespace

tutti_status *tutti_tensor_to_dlpack(const tutti_tensor *tensor,
                                     const tutti_dlpack_options *options,
                                     struct DLManagedTensorVersioned **out_managed) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_managed);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const bool copy, ReadTristate(call, set.copy, false, "copy"));
    TUTTI_ASSIGN_OR_RETURN(*out_managed, TensorToDlpack(*FromHandle(tensor), copy, StreamOf(set)));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_to_dlpack_unversioned(const tutti_tensor *tensor,
                                                 const tutti_dlpack_options *options,
                                                 struct DLManagedTensor **out_managed) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, tensor, out_managed);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const bool copy, ReadTristate(call, set.copy, false, "copy"));
    TUTTI_ASSIGN_OR_RETURN(*out_managed,
                           TensorToDlpackUnversioned(*FromHandle(tensor), copy, StreamOf(set)));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_from_dlpack(tutti_runtime *runtime,
                                       struct DLManagedTensorVersioned *managed,
                                       tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, managed, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(auto tensor, TensorFromDlpack(managed, &root->callback_executor(),
                                                         OnGpuOf(*root)));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}

tutti_status *tutti_tensor_from_dlpack_unversioned(tutti_runtime *runtime,
                                                   struct DLManagedTensor *managed,
                                                   tutti_tensor **out_tensor) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, managed, out_tensor);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(auto tensor, TensorFromDlpack(managed, &root->callback_executor(),
                                                         OnGpuOf(*root)));
    *out_tensor = Give(std::move(tensor));
    return OkStatus();
  });
}
