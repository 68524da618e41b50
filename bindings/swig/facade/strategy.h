// Strategies, contexts, variables, distributed datasets.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_STRATEGY_H_
#define TUTTI_BINDINGS_SWIG_FACADE_STRATEGY_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

#include "callback.h"

namespace tutti_facade {

// ---- strategies

inline tutti_status *strategy_one_device(tutti_runtime *runtime, const char *device,
                                         const char *name, const tutti_call_options *call,
                                         tutti_strategy **out_strategy) {
  tutti_strategy_options options = TUTTI_STRATEGY_OPTIONS_INIT;
  options.name = name;
  return tutti_strategy_create_one_device(runtime, device, &options, call, out_strategy);
}

inline tutti_status *strategy_multi_worker_mirrored(
    tutti_runtime *runtime, const tutti_cluster_resolver *resolver, size_t count,
    const char *const *texts, const char *name, int32_t implementation, int64_t bytes_per_pack,
    const tutti_call_options *call, tutti_strategy **out_strategy) {
  tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
  options.name = name;
  options.resolver = resolver;
  options.device_count = count;
  options.devices = texts;
  options.implementation = implementation;
  options.bytes_per_pack = bytes_per_pack;
  return tutti_strategy_create_multi_worker_mirrored(runtime, &options, call, out_strategy);
}

inline tutti_status *strategy_run(tutti_strategy *strategy, tutti_host_handle replica_fn,
                                  const tutti_value *args, const tutti_call_options *call,
                                  tutti_value **out_value) {
  HostCallback callback{replica_fn, TUTTI_HOST_REPLICA};
  return tutti_strategy_run(strategy, &CallHost, &callback, args, call, out_value);
}

inline tutti_status *strategy_run_with_options(
    tutti_strategy *strategy, tutti_host_handle replica_fn, const tutti_value *args,
    tutti_tristate enable_dynamic_batch_size, tutti_tristate bucketizing_dynamic_shape,
    const char *device, const tutti_call_options *call, tutti_value **out_value) {
  HostCallback callback{replica_fn, TUTTI_HOST_REPLICA};
  tutti_run_options options = TUTTI_RUN_OPTIONS_INIT;
  options.enable_dynamic_batch_size = enable_dynamic_batch_size;
  options.bucketizing_dynamic_shape = bucketizing_dynamic_shape;
  options.device = device;
  return tutti_strategy_run_with_options(strategy, &CallHost, &callback, args, &options, call,
                                         out_value);
}

inline tutti_status *strategy_create_values(tutti_strategy *strategy, tutti_host_handle values_fn,
                                            const tutti_call_options *call,
                                            tutti_value **out_value) {
  HostCallback callback{values_fn, TUTTI_HOST_VALUES};
  return tutti_strategy_create_values(strategy, &CallHost, &callback, call, out_value);
}

// ---- contexts of callbacks

inline tutti_status *context_merge_call(tutti_context *context, tutti_host_handle merge_fn,
                                        const tutti_value *value, const tutti_call_options *call,
                                        tutti_value **out_value) {
  HostCallback callback{merge_fn, TUTTI_HOST_MERGE};
  return tutti_context_merge_call(context, &CallHost, &callback, value, call, out_value);
}

// ---- variables; `ambient` is the context that the caller's thread is in

// `shaped`: values have to fit the sizes; INT64_MIN alone among them stands for any shape.
struct VariableOptions {
  tutti_variable_options c = TUTTI_VARIABLE_OPTIONS_INIT;
  VariableOptions(const char *name, int32_t synchronization, int32_t aggregation,
                  tutti_tristate trainable, bool shaped, size_t rank, const int64_t *dims,
                  const char *device) {
    static const int64_t no_axes = 0;
    c.name = name;
    c.synchronization = synchronization;
    c.aggregation = aggregation;
    c.trainable = trainable;
    const bool any = shaped && rank == 1 && dims[0] == INT64_MIN;
    if (shaped && !any) c.dims = rank == 0 ? &no_axes : dims;
    c.rank = any ? static_cast<size_t>(TUTTI_UNKNOWN_RANK) : rank;
    c.device = device;
  }
};

// Of the strategy that the replica runs under, where the thread is in its function.
inline tutti_status *variable_create(tutti_strategy *strategy, tutti_context *ambient,
                                     const tutti_tensor *tensor, const char *name,
                                     int32_t synchronization, int32_t aggregation,
                                     tutti_tristate trainable, bool shaped, size_t rank,
                                     const int64_t *dims, const char *device,
                                     const tutti_call_options *call,
                                     tutti_variable **out_variable) {
  const VariableOptions options(name, synchronization, aggregation, trainable, shaped, rank, dims,
                                device);
  if (ambient != nullptr && tutti_context_get_strategy(ambient) == strategy) {
    return tutti_variable_create_in_context(ambient, tensor, &options.c, call, out_variable);
  }
  return tutti_variable_create(strategy, tensor, &options.c, call, out_variable);
}

inline tutti_status *variable_data(const tutti_variable *variable, tutti_context *ambient,
                                   tutti_tensor **out_array) {
  const tutti_tensor *tensor = nullptr;
  tutti_status *status = tutti_variable_get_data(variable, ambient, &tensor);
  if (status != nullptr) return status;
  tutti_tensor_retain(tensor);
  *out_array = const_cast<tutti_tensor *>(tensor);
  return nullptr;
}

inline int64_t variable_dim(const tutti_variable *variable, int64_t axis) {
  return tutti_variable_get_dims(variable)[axis];
}
inline tutti_status *variable_copy(const tutti_variable *variable, size_t copy,
                                   tutti_tensor **out_array) {
  const tutti_tensor *tensor = tutti_variable_get_copy(variable, copy);
  if (tensor == nullptr) {
    return tutti_status_create(TUTTI_OUT_OF_RANGE, "the variable has no such copy");
  }
  tutti_tensor_retain(tensor);
  *out_array = const_cast<tutti_tensor *>(tensor);
  return nullptr;
}

// ---- distributed datasets

inline tutti_status *strategy_distribute_datasets_from_function(
    tutti_strategy *strategy, tutti_host_handle input_fn, tutti_tristate prefetch_to_device,
    int32_t replication_mode, tutti_tristate place_dataset_on_device,
    const tutti_call_options *call, tutti_distributed_dataset **out_distributed) {
  tutti_input_options options = TUTTI_INPUT_OPTIONS_INIT;
  options.prefetch_to_device = prefetch_to_device;
  options.replication_mode = replication_mode;
  options.place_dataset_on_device = place_dataset_on_device;
  return tutti_strategy_distribute_datasets_from_function(
      strategy, StoreHost(input_fn, TUTTI_HOST_INPUT), &options, call, out_distributed);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_STRATEGY_H_
