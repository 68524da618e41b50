#include "core/function/context.h"

#include "core/base/clock.h"
#include "core/device/device.h"

namespace tutti {

Context::~Context() = default;

std::string_view Context::device_name() const noexcept {
  return fields_.device == nullptr ? std::string_view("") : fields_.device->short_name();
}

bool Context::cancelled() const {
  const CallOptions& options = fields_.options;
  return (options.cancellation != nullptr && options.cancellation->cancelled()) ||
         options.deadline.Expired(environment_.clock());
}

}  // namespace tutti
