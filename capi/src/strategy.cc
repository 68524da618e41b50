// Strategies.
#include "core/strategy/strategy.h"

#include <tutti/extended.h>
#include <tutti/strategy.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/src/callback.h"
#include "capi/src/cluster_resolver.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/placement.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/collective/communicator/communicator.h"
#include "core/runtime/multi_worker.h"
#include "core/runtime/runtime.h"
#include "core/strategy/built_in_ops.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Result<StrategyOptions> ReadStrategyOptions(Call call, const Runtime &runtime,
                                            const tutti_strategy_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  const DeviceSet &devices = runtime.devices();
  StrategyOptions read;
  read.in_replica_order = runtime.ReadNumber("reproducible") != 0;
  read.name = TextOr(set.name, "");
  switch (set.cross_device_ops) {
    case TUTTI_UNSET:
    case TUTTI_CROSS_DEVICE_AUTO:
      break;
    case TUTTI_CROSS_DEVICE_REDUCTION_TO_ONE_DEVICE: {
      TUTTI_ASSIGN_OR_RETURN(read.cross_device_ops, MakeReductionToOneDevice(devices, "", nullptr));
      break;
    }
    default:
      return InvalidArgument(
          "{}: the option cross_device_ops is {}; expected AUTO (1) or "
          "REDUCTION_TO_ONE_DEVICE (2)",
          call.function, set.cross_device_ops);
  }
  if (set.reducer != nullptr) {
    read.cross_device_ops = Ref<CrossDeviceOps>::Retain(FromHandle(set.reducer));
  }
  return read;
}

Result<CommunicationOptions> ReadCommunication(Call call, const tutti_multi_worker_options &set) {
  CommunicationOptions read;
  read.bytes_per_pack = set.bytes_per_pack;
  TUTTI_ASSIGN_OR_RETURN(read.implementation, ReadImplementation(call, set.implementation));
  return read;
}

Result<std::vector<std::string>> ReadNames(Call call, size_t count, const char *const *devices) {
  TUTTI_REQUIRE_ARRAY(call, count, devices);
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    if (devices[i] == nullptr) return NullArgument(call.function, "devices", 0).With("index", i);
    names.emplace_back(devices[i]);
  }
  return names;
}

}  // namespace

tutti_status *tutti_strategy_create_default(tutti_runtime *runtime, tutti_strategy **out_strategy) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_strategy);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(auto strategy, Strategy::CreateDefault(root, root->devices()));
    *out_strategy = Give(std::move(strategy));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_create_one_device(tutti_runtime *runtime, const char *device,
                                               const tutti_strategy_options *options,
                                               const tutti_call_options *call_options,
                                               tutti_strategy **out_strategy) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, device, out_strategy);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const StrategyOptions read,
                           ReadStrategyOptions(call, *root, options));
    TUTTI_RETURN_IF_ERROR(ReadCall(call, *root, call_options).status());
    TUTTI_ASSIGN_OR_RETURN(auto strategy,
                           Strategy::CreateOneDevice(root, root->devices(), device, read));
    *out_strategy = Give(std::move(strategy));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_create_mirrored(tutti_runtime *runtime, size_t count,
                                             const char *const *devices,
                                             const tutti_strategy_options *options,
                                             const tutti_call_options *call_options,
                                             tutti_strategy **out_strategy) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_strategy);
    TUTTI_ASSIGN_OR_RETURN(const auto names, ReadNames(call, count, devices));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const StrategyOptions read,
                           ReadStrategyOptions(call, *root, options));
    TUTTI_RETURN_IF_ERROR(ReadCall(call, *root, call_options).status());
    TUTTI_ASSIGN_OR_RETURN(auto strategy,
                           Strategy::CreateMirrored(root, root->devices(), names, read));
    *out_strategy = Give(std::move(strategy));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_create_central_storage(
    tutti_runtime *runtime, size_t count, const char *const *devices, const char *parameter_device,
    const tutti_strategy_options *options, const tutti_call_options *call_options,
    tutti_strategy **out_strategy) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_strategy);
    TUTTI_ASSIGN_OR_RETURN(const auto names, ReadNames(call, count, devices));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const StrategyOptions read,
                           ReadStrategyOptions(call, *root, options));
    TUTTI_RETURN_IF_ERROR(ReadCall(call, *root, call_options).status());
    TUTTI_ASSIGN_OR_RETURN(
        auto strategy, Strategy::CreateCentralStorage(root, root->devices(), names,
                                                      TextOr(parameter_device, ""), read));
    *out_strategy = Give(std::move(strategy));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_create_multi_worker_mirrored(
    tutti_runtime *runtime, const tutti_multi_worker_options *options,
    const tutti_call_options *call_options, tutti_strategy **out_strategy) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_strategy);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(auto names, ReadNames(call, set.device_count, set.devices));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCall(call, *root, call_options));
    StrategyOptions read;
    read.name = TextOr(set.name, "");
    TUTTI_ASSIGN_OR_RETURN(const CommunicationOptions communication, ReadCommunication(call, set));
    TUTTI_ASSIGN_OR_RETURN(
        auto strategy,
        CreateMultiWorkerMirrored(*root, *ResolverOrTfConfig(set.resolver), std::move(names), read,
                                  communication, wait));
    *out_strategy = Give(std::move(strategy));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_create_for_communicator(tutti_communicator *communicator,
                                                     const char *name,
                                                     const tutti_call_options *call_options,
                                                     tutti_strategy **out_strategy) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, communicator, out_strategy);
    Communicator &object = *FromHandle(communicator);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    StrategyOptions read;
    read.name = TextOr(name, "");
    TUTTI_ASSIGN_OR_RETURN(auto strategy,
                           CreateStrategyOver(Runtime::Of(object.environment()),
                                              Ref<Communicator>::Retain(&object), read, wait));
    *out_strategy = Give(std::move(strategy));
    return OkStatus();
  });
}

int64_t tutti_strategy_get_worker(const tutti_strategy *strategy) {
  return strategy == nullptr ? 0 : FromHandle(strategy)->worker();
}

int64_t tutti_strategy_get_worker_count(const tutti_strategy *strategy) {
  return strategy == nullptr ? 0 : FromHandle(strategy)->num_workers();
}

const tutti_cluster_resolver *tutti_strategy_get_cluster_resolver(const tutti_strategy *strategy) {
  return strategy == nullptr ? nullptr : ToHandle(FromHandle(strategy)->cluster_resolver());
}

int64_t tutti_strategy_get_num_replicas_in_sync(const tutti_strategy *strategy) {
  return strategy == nullptr ? 0 : FromHandle(strategy)->num_replicas_in_sync();
}

size_t tutti_strategy_get_local_replica_count(const tutti_strategy *strategy) {
  return strategy == nullptr ? 0 : FromHandle(strategy)->num_local_replicas();
}

const char *tutti_strategy_get_worker_device(const tutti_strategy *strategy, size_t replica) {
  if (replica >= tutti_strategy_get_local_replica_count(strategy)) return nullptr;
  return FromHandle(strategy)->device(replica).name().c_str();
}

const char *tutti_strategy_get_type_name(const tutti_strategy *strategy) {
  return strategy == nullptr ? "" : FromHandle(strategy)->type_name();
}

namespace {

Status RunStrategy(Call call, tutti_strategy *strategy, tutti_fn fn, void *user_data,
                   const tutti_value *args, const tutti_call_options *call_options,
                   tutti_value **out_value) {
  TUTTI_REQUIRE(call, strategy, fn, out_value);
  Strategy &object = *FromHandle(strategy);
  TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                         ReadCall(call, object.environment(), call_options));
  BorrowedCallback callback(ToCallbackFn(fn), user_data);
  TUTTI_ASSIGN_OR_RETURN(auto value, object.Run(callback, FromHandle(args), wait));
  *out_value = Give(std::move(value));
  return OkStatus();
}

}  // namespace

tutti_status *tutti_strategy_run(tutti_strategy *strategy, tutti_fn fn, void *user_data,
                                 const tutti_value *args, const tutti_call_options *call_options,
                                 tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) {
    return RunStrategy(call, strategy, fn, user_data, args, call_options, out_value);
  });
}

tutti_status *tutti_strategy_run_with_options(tutti_strategy *strategy, tutti_fn fn,
                                              void *user_data, const tutti_value *args,
                                              const tutti_run_options *options,
                                              const tutti_call_options *call_options,
                                              tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_RETURN_IF_ERROR(ReadTristate(call, set.enable_dynamic_batch_size, true,
                                       "enable_dynamic_batch_size")
                              .status());
    TUTTI_RETURN_IF_ERROR(ReadTristate(call, set.bucketizing_dynamic_shape, false,
                                       "bucketizing_dynamic_shape")
                              .status());
    if (strategy != nullptr) {
      TUTTI_RETURN_IF_ERROR(ReadDevice(call, *FromHandle(strategy), options).status());
    }
    return RunStrategy(call, strategy, fn, user_data, args, call_options, out_value);
  });
}

tutti_status *tutti_strategy_reduce(tutti_strategy *strategy, tutti_reduce_op op,
                                    const tutti_value *value, const int64_t *axis,
                                    const tutti_call_options *call_options,
                                    tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, value, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, object.environment(), call_options));
    std::optional<int64_t> along;
    if (axis != nullptr) along = *axis;
    TUTTI_ASSIGN_OR_RETURN(
        auto reduced, object.Reduce(static_cast<ReduceOp>(op), *FromHandle(value), along, wait));
    *out_value = Give(std::move(reduced));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_gather(tutti_strategy *strategy, const tutti_value *value,
                                    int64_t axis, const tutti_call_options *call_options,
                                    tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, value, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                           ReadCollective(call, object.environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto joined, object.Gather(*FromHandle(value), axis, wait));
    *out_value = Give(std::move(joined));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_local_results(tutti_strategy *strategy, const tutti_value *value,
                                           tutti_value **out_tuple) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, value, out_tuple);
    TUTTI_ASSIGN_OR_RETURN(auto tuple, FromHandle(strategy)->LocalResults(*FromHandle(value)));
    *out_tuple = Give(std::move(tuple));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_create_values(tutti_strategy *strategy, tutti_fn fn, void *user_data,
                                           const tutti_call_options *call_options,
                                           tutti_value **out_value) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, fn, out_value);
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment(), call_options));
    BorrowedCallback callback(ToCallbackFn(fn), user_data);
    TUTTI_ASSIGN_OR_RETURN(auto value, object.CreateValues(callback, wait));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_create_per_replica(tutti_strategy *strategy, size_t count,
                                                const tutti_value *const *components,
                                                tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, strategy, out_value);
    TUTTI_REQUIRE_ARRAY(call, count, components);
    std::vector<Ref<Value>> read;
    for (size_t i = 0; i < count; ++i) {
      if (components[i] == nullptr) {
        return NullArgument(call.function, "components", 0).With("index", i);
      }
      read.push_back(Ref<Value>::Retain(const_cast<Value *>(FromHandle(components[i]))));
    }
    TUTTI_ASSIGN_OR_RETURN(auto value, FromHandle(strategy)->CreatePerReplica(read));
    *out_value = Give(std::move(value));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_create_mirrored_value(tutti_strategy *strategy,
                                                   const tutti_value *value,
                                                   tutti_value **out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, strategy, value, out_value);
    TUTTI_ASSIGN_OR_RETURN(auto made,
                           FromHandle(strategy)->CreateMirroredValue(*FromHandle(value)));
    *out_value = Give(std::move(made));
    return OkStatus();
  });
}

tutti_status *tutti_strategy_close(tutti_strategy *strategy,
                                   const tutti_call_options *call_options) {
  return Guard(__func__, From::kCrossReplica, [&](Call call) -> Status {
    if (strategy == nullptr) return OkStatus();
    Strategy &object = *FromHandle(strategy);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCallToClose(call, object.environment(), call_options));
    return object.Close(wait);
  });
}

void tutti_strategy_retain(const tutti_strategy *strategy) { RetainHandle(strategy); }
void tutti_strategy_release(const tutti_strategy *strategy) { ReleaseHandle(strategy); }
