// Hook: the {destroy, user_data} that a caller hands over with a call. It runs exactly once,
// whatever becomes of the call: by the object that took it over, or here when none did.
#ifndef TUTTI_CAPI_SRC_HOOK_H_
#define TUTTI_CAPI_SRC_HOOK_H_

#include <tutti/abi.h>

#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/executor.h"
#include "core/base/host_data.h"
#include "core/base/ref.h"

namespace tutti::capi {

class Hook {
 public:
  Hook(tutti_destroy_fn destroy, void *user_data) noexcept
      : destroy_(destroy), user_data_(user_data) {}
  Hook(const Hook &) = delete;
  Hook &operator=(const Hook &) = delete;
  ~Hook() {
    if (destroy_ == nullptr) return;
    const CallbackScope scope(CallbackClass::kNotification);
    destroy_(user_data_);
  }

  // Hands over: `destroy` runs with the last reference to what is returned, on `executor` (may be
  // null: on the releasing thread).
  Ref<HostData> Take(CallbackExecutor *executor, const void *tag = nullptr) {
    auto host =
        MakeRef<HostData>(user_data_, destroy_, Ref<CallbackExecutor>::Retain(executor), tag);
    destroy_ = nullptr;
    return host;
  }

 private:
  tutti_destroy_fn destroy_;
  void *const user_data_;
};

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_HOOK_H_
