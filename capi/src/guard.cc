#include "capi/src/guard.h"

#include <string>

#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/text.h"
#include "core/tensor/device_buffer.h"
#include "core/tensor/tensor.h"
#include "core/tensor/value.h"

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

namespace {

Status Readable(Call call, const char *names, int index, const Tensor &tensor) {
  if (__builtin_expect(tensor.device().is_cpu(), 1)) return OkStatus();
  const std::string name(Trim(Split(names, ',')[static_cast<size_t>(index)]));
  return CheckOnHost(Format("{}: {}", call.function, name), tensor).With("argument", name);
}

}  // namespace

Status CheckOnHost(Call call, const char *names, int index, const tutti_tensor *tensor) {
  return Readable(call, names, index, *FromHandle(tensor));
}

Status CheckOnHost(Call call, const char *names, int index, const tutti_value *value) {
  for (const Leaf &leaf : FromHandle(value)->leaves()) {
    if (leaf.kind() != LeafKind::kTensor) continue;
    TUTTI_RETURN_IF_ERROR(Readable(call, names, index, leaf.tensor()));
  }
  return OkStatus();
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
