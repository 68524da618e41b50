// The option `device` of what is made or run under a strategy.
#ifndef TUTTI_CAPI_SRC_PLACEMENT_H_
#define TUTTI_CAPI_SRC_PLACEMENT_H_

#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "core/device/device.h"
#include "core/runtime/runtime.h"
#include "core/strategy/strategy.h"

namespace tutti::capi {

// Null where nothing is said, and for strategies that have devices of their own.
template <class Options>
Result<Ref<Device>> ReadDevice(Call call, const Strategy &strategy, const Options *options) {
  TUTTI_ASSIGN_OR_RETURN(const Options set, ReadOptions(call, options));
  if (set.device == nullptr || set.device[0] == '\0' || !strategy.is_default()) {
    return Ref<Device>();
  }
  return Runtime::Of(strategy.environment()).devices().Place(set.device);
}

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_PLACEMENT_H_
