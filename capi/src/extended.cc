// What a strategy does on devices.
#include <tutti/extended.h>

#include <string>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/callback_scope.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/strategy.h"
#include "core/strategy/variable.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

const char *NameOf(const std::string *text) { return text == nullptr ? nullptr : text->c_str(); }

}  // namespace

const char *tutti_strategy_get_full_worker_device(const tutti_strategy *strategy, size_t replica) {
  return strategy == nullptr ? nullptr : NameOf(FromHandle(strategy)->full_worker_device(replica));
}

const char *tutti_strategy_get_parameter_device(const tutti_strategy *strategy, size_t index) {
  return strategy == nullptr ? nullptr : NameOf(FromHandle(strategy)->full_parameter_device(index));
}

tutti_status *tutti_strategy_reduce_to(tutti_strategy *strategy, tutti_reduce_op op,
                                       const tutti_value *value, const tutti_value *destinations,
                                       const tutti_call_options *call_options,
                                       tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, value, destinations, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto reduced,
                           object.ReduceTo(static_cast<ReduceOp>(op), *FromHandle(value),
                                           *FromHandle(destinations), wait));
    *out_value = Give(std::move(reduced));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_batch_reduce_to(tutti_strategy *strategy, tutti_reduce_op op,
                                             const tutti_value *pairs,
                                             const tutti_call_options *call_options,
                                             tutti_value **out_tuple) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, pairs, out_tuple);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(
        auto reduced, object.BatchReduceTo(static_cast<ReduceOp>(op), *FromHandle(pairs), wait));
    *out_tuple = Give(std::move(reduced));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_broadcast_to(tutti_strategy *strategy, const tutti_value *value,
                                          const tutti_value *destinations,
                                          const tutti_call_options *call_options,
                                          tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, value, destinations, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(
        auto copied, object.BroadcastTo(*FromHandle(value), *FromHandle(destinations), wait));
    *out_value = Give(std::move(copied));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_update(tutti_strategy *strategy, tutti_variable *variable,
                                    tutti_fn fn, void *user_data, const tutti_value *args,
                                    tutti_tristate group, const tutti_call_options *call_options,
                                    tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, variable, fn, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(const bool grouped, ReadTristate(call, group, true, "group"));
    BorrowedCallback callback(ToCallbackFn(fn), user_data);
    TUTTI_ASSIGN_OR_RETURN(auto value, object.Update(*FromHandle(variable), callback,
                                                     FromHandle(args), grouped, wait));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_update_non_slot(tutti_strategy *strategy,
                                             const tutti_value *colocate_with, tutti_fn fn,
                                             void *user_data, const tutti_value *args,
                                             tutti_tristate group,
                                             const tutti_call_options *call_options,
                                             tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, colocate_with, fn, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(const bool grouped, ReadTristate(call, group, true, "group"));
    BorrowedCallback callback(ToCallbackFn(fn), user_data);
    TUTTI_ASSIGN_OR_RETURN(auto value, object.UpdateNonSlot(*FromHandle(colocate_with), callback,
                                                            FromHandle(args), grouped, wait));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

int64_t tutti_context_get_update_replica_id(const tutti_context *context) {
  const UpdateContext *update = AsUpdateContext(FromHandle(context));
  return update == nullptr ? -1 : update->copy();
}

tutti_status *tutti_strategy_colocate_vars_with(tutti_strategy *strategy,
                                                const tutti_variable *variable) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, variable);
    return FromHandle(strategy)->CheckOwns(*FromHandle(variable), "colocate_vars_with");
  });
}

int32_t tutti_strategy_created_variable(const tutti_strategy *strategy,
                                        const tutti_variable *variable) {
  if (strategy == nullptr || variable == nullptr) return 0;
  return FromHandle(variable)->strategy().get() == FromHandle(strategy);
}

tutti_status *tutti_strategy_find_variable(const tutti_strategy *strategy,
                                           const tutti_tensor *component,
                                           tutti_variable **out_variable) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, component, out_variable);
    TUTTI_ASSIGN_OR_RETURN(auto variable,
                           FromHandle(strategy)->FindVariable(*FromHandle(component)));
    *out_variable = Give(std::move(variable));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_explain(const tutti_strategy *strategy, tutti_bytes **out_text) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, out_text);
    *out_text = GiveBytes(FromHandle(strategy)->Explain());
    return OkStatus();
  });
}
