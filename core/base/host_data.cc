#include "core/base/host_data.h"

#include <new>

#include "core/base/callback_scope.h"

namespace tutti {

void HostData::Finish(const HostData* self) noexcept {
  if (self->destroy_ != nullptr) {
    CallbackScope scope(CallbackClass::kNotification);
    self->destroy_(self->data_);
  }
  delete self;
}

void HostData::OnLastRelease() const noexcept {
  if (destroy_ != nullptr && executor_) {
    // The task may run, and delete this object with its reference, before Post returns.
    const Ref<CallbackExecutor> executor = executor_;
    try {
      if (executor->Post(Task([this] { Finish(this); }))) return;
    } catch (const std::bad_alloc&) {
      // Not posted: it runs here.
    }
  }
  Finish(this);
}

}  // namespace tutti
