// What a computing callback asks of its context, and what replicas do together.
#include <tutti/context.h>

#include <utility>

#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/strategy/replica_context.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

// The context of the replica callback that the caller is in.
Result<ReplicaContext *> FindReplica(Call call, tutti_context *context) {
  TUTTI_REQUIRE(call, context);
  if (ReplicaContext *replica = AsReplicaContext(FromHandle(context))) return replica;
  return FailedPrecondition(
      "{}: the context is that of {}; expected the one that the replica "
      "callback received",
      call.function, CallbackClassName(FromHandle(context)->callback_class()));
}

}  // namespace

tutti_callback_class tutti_context_get_class(const tutti_context *context) {
  return context == nullptr
             ? 0
             : static_cast<tutti_callback_class>(FromHandle(context)->callback_class());
}

tutti_runtime *tutti_context_get_runtime(const tutti_context *context) {
  return context == nullptr ? nullptr : ToHandle(&FromHandle(context)->environment());
}

tutti_strategy *tutti_context_get_strategy(const tutti_context *context) {
  return context == nullptr ? nullptr : ToHandle(FromHandle(context)->strategy());
}

int64_t tutti_context_get_replica_id(const tutti_context *context) {
  return context == nullptr ? -1 : FromHandle(context)->replica_id();
}

int64_t tutti_context_get_replica_count(const tutti_context *context) {
  return context == nullptr ? 1 : FromHandle(context)->num_replicas();
}

int64_t tutti_context_get_global_rows(const tutti_context *context) {
  return context == nullptr ? -1 : FromHandle(context)->global_rows();
}

const char *tutti_context_get_device(const tutti_context *context) {
  return context == nullptr ? "" : FromHandle(context)->device_name().data();
}

int32_t tutti_context_is_cancelled(const tutti_context *context) {
  return context != nullptr && FromHandle(context)->cancelled();
}

tutti_status *tutti_context_all_reduce(tutti_context *context, tutti_reduce_op op,
                                       const tutti_value *value,
                                       const tutti_call_options *call_options,
                                       tutti_value **out_value) {
  return Guard(__func__, From::kReplica, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(ReplicaContext *const replica, FindReplica(call, context));
    TUTTI_REQUIRE_ANYWHERE(call, value, out_value);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, replica->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto reduced,
                           replica->AllReduce(static_cast<ReduceOp>(op), *FromHandle(value), wait));
    *out_value = Give(std::move(reduced));
    return OkStatus();
  });
}

tutti_status *tutti_context_all_gather(tutti_context *context, const tutti_value *value,
                                       int64_t axis, const tutti_call_options *call_options,
                                       tutti_value **out_value) {
  return Guard(__func__, From::kReplica, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(ReplicaContext *const replica, FindReplica(call, context));
    TUTTI_REQUIRE_ANYWHERE(call, value, out_value);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, replica->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto joined, replica->AllGather(*FromHandle(value), axis, wait));
    *out_value = Give(std::move(joined));
    return OkStatus();
  });
}

tutti_status *tutti_context_merge_call(tutti_context *context, tutti_fn fn, void *user_data,
                                       const tutti_value *args,
                                       const tutti_call_options *call_options,
                                       tutti_value **out_value) {
  return Guard(__func__, From::kReplica, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(ReplicaContext *const replica, FindReplica(call, context));
    TUTTI_REQUIRE(call, fn, out_value);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, replica->environment(), call_options));
    BorrowedCallback callback(ToCallbackFn(fn), user_data);
    TUTTI_ASSIGN_OR_RETURN(
        auto result,
        replica->MergeCall(callback, reinterpret_cast<const void *>(fn), FromHandle(args), wait));
    *out_value = Give(std::move(result));
    return OkStatus();
  });
}
