#include "core/base/callback_scope.h"

#include <string>

#include "core/base/error.h"

namespace tutti {
namespace {

thread_local CallbackClass current_class = CallbackClass::kNone;

Status Refuse(std::string_view what, const char* allowed) {
  return FailedPrecondition("{} was called inside {}, where it could wait for ever; call it {}",
                            what, CallbackClassName(current_class), allowed);
}

}  // namespace

const char* CallbackClassName(CallbackClass callback_class) {
  switch (callback_class) {
    case CallbackClass::kNone: return "no callback";
    case CallbackClass::kReplica: return "a replica callback";
    case CallbackClass::kCrossReplica: return "a cross-replica callback (merge)";
    case CallbackClass::kDataset: return "a dataset callback (map, filter, generator)";
    case CallbackClass::kNotification:
      return "a notification callback (on_ready, destroy, log sink)";
    case CallbackClass::kUpdate: return "an update function or a cross-device op";
  }
  return "an unknown callback";
}

CallbackClass CurrentCallbackClass() noexcept { return current_class; }

CallbackScope::CallbackScope(CallbackClass callback_class) noexcept : previous_(current_class) {
  current_class = callback_class;
}

CallbackScope::~CallbackScope() { current_class = previous_; }

Status CheckCallbackClass(std::initializer_list<CallbackClass> allowed, std::string_view what) {
  std::string places;
  for (const CallbackClass one : allowed) {
    if (one == current_class) return OkStatus();
    if (!places.empty()) places += " or ";
    if (one == CallbackClass::kNone) {
      places += "outside of callbacks";
    } else {
      places += "in ";
      places += CallbackClassName(one);
    }
  }
  return Refuse(what, places.c_str());
}

Status CheckBuildingAllowed(std::string_view what) {
  if (current_class != CallbackClass::kNotification) return OkStatus();
  return Refuse(what, "anywhere but in a notification");
}

Status CheckComputingAllowed(std::string_view what) {
  if (current_class != CallbackClass::kNotification && current_class != CallbackClass::kDataset) {
    return OkStatus();
  }
  return Refuse(what, "outside of callbacks, or in a replica or cross-replica callback");
}

Status CheckCollectiveAllowed(std::string_view what) {
  if (current_class != CallbackClass::kUpdate) return CheckComputingAllowed(what);
  return Refuse(what, "outside of callbacks, or in a replica or cross-replica callback");
}

Status CheckCrossReplicaAllowed(std::string_view what) {
  if (current_class == CallbackClass::kNone || current_class == CallbackClass::kCrossReplica) {
    return OkStatus();
  }
  return Refuse(what, "outside of callbacks or in a cross-replica callback");
}

Status CheckOutsideCallbacks(std::string_view what) {
  if (current_class == CallbackClass::kNone) return OkStatus();
  return Refuse(what, "outside of callbacks");
}

Status CheckInside(CallbackClass callback_class, std::string_view what) {
  if (current_class == callback_class) return OkStatus();
  return FailedPrecondition("{} was called inside {}; call it inside {}", what,
                            CallbackClassName(current_class), CallbackClassName(callback_class));
}

}  // namespace tutti
