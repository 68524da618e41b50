#include "capi/src/guard.h"

#include <string>

#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/text.h"

namespace tutti::capi {

Status CheckEntry(const char *function, From from) {
  if (from == From::kAny) return OkStatus();
  if (__builtin_expect(InForkedChild(), 0)) {
    return FailedPrecondition(
        "{}: this process was forked from one that uses Tutti, and has none of its threads; start "
        "workers as fresh processes (spawn or exec), or fork before the first use",
        function);
  }
  switch (from) {
    case From::kAny:
      return OkStatus();
    case From::kBuilding:
      return CheckBuildingAllowed(function);
    case From::kComputing:
      return CheckComputingAllowed(function);
    case From::kCrossReplica:
      return CheckCrossReplicaAllowed(function);
    case From::kReplica:
      return CheckInside(CallbackClass::kReplica, function);
    case From::kHost:
      return CheckOutsideCallbacks(function);
  }
  return OkStatus();
}

Status NullArgument(const char *function, const char *names, int index) {
  const std::string name(Trim(Split(names, ',')[static_cast<size_t>(index)]));
  return InvalidArgument("{}: the argument {} is NULL", function, name).With("argument", name);
}

Status AbortReason(const char *function, const char *message) {
  Status reason;
  const Status made = GuardedStatus(function, From::kAny, [&](Call) -> Status {
    reason = Aborted("{}", message != nullptr ? message : "the job was aborted");
    return OkStatus();
  });
  return made.ok() ? reason : made;
}

}  // namespace tutti::capi
