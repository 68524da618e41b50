// Futures.
#include "core/collective/communicator/future.h"

#include <tutti/future.h>

#include <utility>

#include "capi/src/guard.h"
#include "capi/src/hook.h"
#include "capi/src/roots.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_future_create(tutti_runtime *runtime, tutti_future **out_future) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_future);
    TUTTI_ASSIGN_OR_RETURN(Ref<Runtime> root, UseRuntime(call, runtime));
    *out_future = Give(MakeRef<Future>(std::move(root)));
    return OkStatus();
  });
}

tutti_status *tutti_future_complete(tutti_future *future, tutti_status *error,
                                    const tutti_value *value) {
  Status failure = Status::Adopt(FromHandle(error));
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, future);
    auto result = Ref<Value>::Retain(const_cast<Value *>(FromHandle(value)));
    return FromHandle(future)->Complete(std::move(failure), std::move(result));
  });
}

int32_t tutti_future_is_done(const tutti_future *future) {
  return future != nullptr && FromHandle(future)->IsDone();
}

tutti_status *tutti_future_wait(const tutti_future *future, const tutti_call_options *options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, future);
    const Future &object = *FromHandle(future);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCall(call, object.environment(), options));
    return object.Wait(wait);
  });
}

tutti_status *tutti_future_result(const tutti_future *future, tutti_value **out_value) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, future, out_value);
    Ref<Value> value;
    TUTTI_RETURN_IF_ERROR(FromHandle(future)->GetResult(&value));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_future_on_ready(tutti_future *future, tutti_notification notification) {
  Hook owner(notification.destroy, notification.user_data);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, future, notification.fn);
    Environment &environment = FromHandle(future)->environment();
    return FromHandle(future)->OnReady(notification.fn,
                                       owner.Take(&environment.callback_executor()));
  });
}

void tutti_future_retain(const tutti_future *future) { RetainHandle(future); }
void tutti_future_release(const tutti_future *future) { ReleaseHandle(future); }
