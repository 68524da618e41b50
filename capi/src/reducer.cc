// Cross-device ops: the library's, and those that a program brings.
#include <tutti/reducer.h>

#include <string>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/hook.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/strategy/built_in_ops.h"
#include "core/strategy/cross_device_ops.h"
#include "core/strategy/replica_context.h"
#include "core/strategy/strategy.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

// The functions of a program as cross-device ops.
class ProgramOps final : public CrossDeviceOps {
 public:
  ProgramOps(const tutti_reducer_functions &functions, Ref<HostData> user_data)
      : functions_(functions),
        name_(TextOr(functions.name, "CrossDeviceOps")),
        user_data_(std::move(user_data)) {}

  std::string Describe() const override { return name_; }

 protected:
  bool calls_host() const override { return true; }

  Result<std::vector<Ref<Value>>> ReduceImplementation(
      const CrossDeviceCall &call, ReduceOp op, bool batch,
      std::span<const Reduction> reductions) override {
    if (batch && functions_.batch_reduce != nullptr) return ReduceBatch(call, op, reductions);
    std::vector<Ref<Value>> results;
    for (const Reduction &reduction : reductions) {
      TUTTI_ASSIGN_OR_RETURN(
          Ref<Value> result,
          Invoke(call, [&](tutti_context *context, const tutti_communication_options *options,
                           tutti_value **out) {
            return functions_.reduce(context, static_cast<tutti_reduce_op>(op),
                                     ToHandle(reduction.value.get()),
                                     ToHandle(reduction.destinations.get()), options, out,
                                     user_data_->data());
          }));
      results.push_back(std::move(result));
    }
    return results;
  }

  Result<Ref<Value>> BroadcastImplementation(const CrossDeviceCall &call,
                                             const Broadcasting &broadcasting) override {
    if (functions_.broadcast == nullptr) {
      return CrossDeviceOps::BroadcastImplementation(call, broadcasting);
    }
    const Ref<Value> value = Value::OfTensor(broadcasting.tensor);
    return Invoke(call, [&](tutti_context *context, const tutti_communication_options *,
                            tutti_value **out) {
      return functions_.broadcast(context, ToHandle(value.get()),
                                  ToHandle(broadcasting.destinations.get()), out,
                                  user_data_->data());
    });
  }

 private:
  template <class Body>
  Result<Ref<Value>> Invoke(const CrossDeviceCall &call, Body &&body) const {
    UpdateContext context(call.strategy, UpdateContext::kNoCopy, nullptr, call.options);
    tutti_communication_options options = TUTTI_COMMUNICATION_OPTIONS_INIT;
    options.bytes_per_pack = call.options.hints.bytes_per_pack;
    options.implementation =
        static_cast<tutti_communication>(call.options.hints.implementation);
    Value *raw = nullptr;
    const CallbackScope scope(CallbackClass::kUpdate);
    tutti_value *out = nullptr;
    Status status = Status::Adopt(FromHandle(body(ToHandle(&context), &options, &out)));
    raw = FromHandle(out);
    Ref<Value> result = Ref<Value>::Adopt(raw);
    TUTTI_RETURN_IF_ERROR(std::move(status));
    return result ? std::move(result) : Value::None();
  }

  Result<std::vector<Ref<Value>>> ReduceBatch(const CrossDeviceCall &call, ReduceOp op,
                                              std::span<const Reduction> reductions) const {
    std::vector<Ref<Value>> parts;
    for (const Reduction &reduction : reductions) {
      parts.push_back(Value::Tuple({reduction.value, reduction.destinations}));
    }
    const Ref<Value> pairs = Value::Tuple(parts);
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Value> results,
        Invoke(call, [&](tutti_context *context, const tutti_communication_options *options,
                         tutti_value **out) {
          return functions_.batch_reduce(context, static_cast<tutti_reduce_op>(op),
                                         ToHandle(pairs.get()), options, out,
                                         user_data_->data());
        }));
    if (results->is_leaf()) {
      return InvalidArgument("{}: batch_reduce of {} gave {}; a tuple of {} results is expected",
                             call.what, name_, results->ToString(), reductions.size());
    }
    return results->AllChildren();
  }

  const tutti_reducer_functions functions_;
  const std::string name_;
  const Ref<HostData> user_data_;
};

}  // namespace

tutti_status *tutti_reducer_create(tutti_runtime *runtime,
                                   const tutti_reducer_functions *functions,
                                   tutti_reducer **out_reducer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, functions);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, functions));
    Hook hook(set.destroy, set.user_data);
    TUTTI_REQUIRE(call, out_reducer);
    if (set.reduce == nullptr) {
      return InvalidArgument("{}: the function reduce is NULL; it is required", call.function);
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    *out_reducer = Give(Ref<CrossDeviceOps>(
        MakeRef<ProgramOps>(set, hook.Take(&root->callback_executor()))));
    return OkStatus();
  });
}

tutti_status *tutti_reducer_create_all_reduce(tutti_runtime *runtime,
                                              tutti_reducer **out_reducer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_reducer);
    TUTTI_RETURN_IF_ERROR(UseRuntime(call, runtime).status());
    *out_reducer = Give(MakeAllReduce());
    return OkStatus();
  });
}

tutti_status *tutti_reducer_create_reduction_to_one_device(tutti_runtime *runtime,
                                                           const char *reduce_to_device,
                                                           tutti_callback accumulation,
                                                           tutti_reducer **out_reducer) {
  GivenCallback given(accumulation);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_reducer);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    Ref<Function> fn;
    if (accumulation.fn != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(fn,
                             given.Take(call, "accumulation", &root->callback_executor()));
    }
    TUTTI_ASSIGN_OR_RETURN(auto reducer,
                           MakeReductionToOneDevice(root->devices(),
                                                    TextOr(reduce_to_device, ""), std::move(fn)));
    *out_reducer = Give(std::move(reducer));
    return OkStatus();
  });
}

tutti_status *tutti_reducer_create_hierarchical_copy_all_reduce(tutti_runtime *runtime,
                                                                int64_t num_packs,
                                                                tutti_reducer **out_reducer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_reducer);
    TUTTI_RETURN_IF_ERROR(UseRuntime(call, runtime).status());
    TUTTI_ASSIGN_OR_RETURN(auto reducer, MakeHierarchicalCopyAllReduce(num_packs));
    *out_reducer = Give(std::move(reducer));
    return OkStatus();
  });
}

tutti_status *tutti_reducer_create_nccl_all_reduce(tutti_runtime *runtime, int64_t num_packs,
                                                   tutti_reducer **out_reducer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_reducer);
    TUTTI_RETURN_IF_ERROR(UseRuntime(call, runtime).status());
    TUTTI_ASSIGN_OR_RETURN(auto reducer, MakeNcclAllReduce(num_packs));
    *out_reducer = Give(std::move(reducer));
    return OkStatus();
  });
}

tutti_status *tutti_reducer_to_string(const tutti_reducer *reducer, tutti_bytes **out_text) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, reducer, out_text);
    *out_text = GiveBytes(FromHandle(reducer)->Describe());
    return OkStatus();
  });
}

tutti_status *tutti_reducer_reduce(tutti_reducer *reducer, tutti_strategy *strategy,
                                   tutti_reduce_op op, const tutti_value *value,
                                   const tutti_value *destinations,
                                   const tutti_call_options *call_options,
                                   tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, reducer, strategy, value, destinations, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(
        auto reduced,
        FromHandle(reducer)->Reduce(object, static_cast<ReduceOp>(op), *FromHandle(value),
                                    *FromHandle(destinations), wait));
    *out_value = Give(std::move(reduced));
    return OkStatus();
  });
}

tutti_status *tutti_reducer_batch_reduce(tutti_reducer *reducer, tutti_strategy *strategy,
                                         tutti_reduce_op op, const tutti_value *pairs,
                                         const tutti_call_options *call_options,
                                         tutti_value **out_tuple) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, reducer, strategy, pairs, out_tuple);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto reduced,
                           FromHandle(reducer)->BatchReduce(object, static_cast<ReduceOp>(op),
                                                            *FromHandle(pairs), wait));
    *out_tuple = Give(std::move(reduced));
    return OkStatus();
  });
}

tutti_status *tutti_reducer_broadcast(tutti_reducer *reducer, tutti_strategy *strategy,
                                      const tutti_value *value, const tutti_value *destinations,
                                      const tutti_call_options *call_options,
                                      tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, reducer, strategy, value, destinations, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto copied,
                           FromHandle(reducer)->Broadcast(object, *FromHandle(value),
                                                          *FromHandle(destinations), wait));
    *out_value = Give(std::move(copied));
    return OkStatus();
  });
}

void tutti_reducer_retain(const tutti_reducer *reducer) { RetainHandle(reducer); }
void tutti_reducer_release(const tutti_reducer *reducer) { ReleaseHandle(reducer); }
