// The host's functions as the core calls them. Handles are pointers to core objects, so that C's
// tutti_fn and the core's CallbackFn are one signature seen from two sides.
#ifndef TUTTI_CAPI_SRC_CALLBACK_H_
#define TUTTI_CAPI_SRC_CALLBACK_H_

#include <tutti/function.h>

#include "capi/src/guard.h"
#include "capi/src/hook.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/function/callback.h"

namespace tutti::capi {

inline CallbackFn ToCallbackFn(tutti_fn fn) { return reinterpret_cast<CallbackFn>(fn); }

// A stored callback as the caller gave it, until it becomes a function: whatever happens before,
// `destroy` runs once.
class GivenCallback {
 public:
  explicit GivenCallback(const tutti_callback &callback)
      : fn_(callback.fn), hook_(callback.destroy, callback.user_data) {}

  // `executor` runs `destroy`. INVALID_ARGUMENT naming `parameter` when there is no fn.
  Result<Ref<Function>> Take(Call call, const char *parameter, CallbackExecutor *executor,
                             StoredCallbackOptions options = {}) {
    Ref<HostData> user_data = hook_.Take(executor);
    if (fn_ == nullptr) return NullArgument(call.function, parameter, 0);
    return StoredCallback::Create(ToCallbackFn(fn_), std::move(user_data), std::move(options));
  }

 private:
  const tutti_fn fn_;
  Hook hook_;
};

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_CALLBACK_H_
