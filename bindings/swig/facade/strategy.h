// Strategies, contexts, variables, distributed datasets.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_STRATEGY_H_
#define TUTTI_BINDINGS_SWIG_FACADE_STRATEGY_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

#include "callback.h"

namespace tutti_facade {

// ---- strategies

inline tutti_status *strategy_default(tutti_runtime *runtime, tutti_strategy **out_strategy) {
  return tutti_strategy_create_default(runtime, out_strategy);
}

inline tutti_strategy_options StrategyOptions(const char *name, int32_t cross_device_ops) {
  tutti_strategy_options options = TUTTI_STRATEGY_OPTIONS_INIT;
  options.name = name;
  options.cross_device_ops = cross_device_ops;
  return options;
}

inline tutti_status *strategy_one_device(tutti_runtime *runtime, const char *device,
                                         const char *name, const tutti_call_options *call,
                                         tutti_strategy **out_strategy) {
  const tutti_strategy_options options = StrategyOptions(name, 0);
  return tutti_strategy_create_one_device(runtime, device, &options, call, out_strategy);
}

inline tutti_status *strategy_mirrored(tutti_runtime *runtime, size_t count,
                                       const char *const *texts, int32_t cross_device_ops,
                                       const char *name, const tutti_call_options *call,
                                       tutti_strategy **out_strategy) {
  const tutti_strategy_options options = StrategyOptions(name, cross_device_ops);
  return tutti_strategy_create_mirrored(runtime, count, texts, &options, call, out_strategy);
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

inline int64_t strategy_worker(const tutti_strategy *strategy) {
  return tutti_strategy_get_worker(strategy);
}
inline int64_t strategy_worker_count(const tutti_strategy *strategy) {
  return tutti_strategy_get_worker_count(strategy);
}
// Null for a strategy of one worker.
inline tutti_status *strategy_cluster_resolver(const tutti_strategy *strategy,
                                               tutti_cluster_resolver **out_resolver) {
  const tutti_cluster_resolver *resolver = tutti_strategy_get_cluster_resolver(strategy);
  tutti_cluster_resolver_retain(resolver);
  *out_resolver = const_cast<tutti_cluster_resolver *>(resolver);
  return nullptr;
}
inline int64_t strategy_num_replicas_in_sync(const tutti_strategy *strategy) {
  return tutti_strategy_get_num_replicas_in_sync(strategy);
}
inline int64_t strategy_local_replica_count(const tutti_strategy *strategy) {
  return static_cast<int64_t>(tutti_strategy_get_local_replica_count(strategy));
}
inline const char *strategy_worker_device(const tutti_strategy *strategy, size_t replica) {
  return tutti_strategy_get_worker_device(strategy, replica);
}
inline const char *strategy_type_name(const tutti_strategy *strategy) {
  return tutti_strategy_get_type_name(strategy);
}

inline tutti_status *strategy_run(tutti_strategy *strategy, tutti_host_handle replica_fn,
                                  const tutti_value *args, const tutti_call_options *call,
                                  tutti_value **out_value) {
  HostCallback callback{replica_fn, TUTTI_HOST_REPLICA};
  return tutti_strategy_run(strategy, &CallHost, &callback, args, call, out_value);
}

inline tutti_status *strategy_reduce(tutti_strategy *strategy, int32_t op,
                                     const tutti_value *value, tutti_optional_int64 axis,
                                     const tutti_call_options *call, tutti_value **out_value) {
  return tutti_strategy_reduce(strategy, op, value, axis.present ? &axis.value : nullptr, call,
                               out_value);
}

inline tutti_status *strategy_gather(tutti_strategy *strategy, const tutti_value *value,
                                     int64_t axis, const tutti_call_options *call,
                                     tutti_value **out_value) {
  return tutti_strategy_gather(strategy, value, axis, call, out_value);
}

inline tutti_status *strategy_local_results(tutti_strategy *strategy, const tutti_value *value,
                                            tutti_value **out_value) {
  return tutti_strategy_local_results(strategy, value, out_value);
}

inline tutti_status *strategy_create_values(tutti_strategy *strategy, tutti_host_handle values_fn,
                                            const tutti_call_options *call,
                                            tutti_value **out_value) {
  HostCallback callback{values_fn, TUTTI_HOST_VALUES};
  return tutti_strategy_create_values(strategy, &CallHost, &callback, call, out_value);
}

inline tutti_status *strategy_create_per_replica(tutti_strategy *strategy, size_t count,
                                                 const tutti_value *const *values,
                                                 tutti_value **out_value) {
  return tutti_strategy_create_per_replica(strategy, count, values, out_value);
}

inline tutti_status *strategy_close(tutti_strategy *strategy, const tutti_call_options *call) {
  return tutti_strategy_close(strategy, call);
}

// ---- contexts of callbacks

inline int64_t context_replica_id(const tutti_context *context) {
  return tutti_context_get_replica_id(context);
}
inline int64_t context_replica_count(const tutti_context *context) {
  return tutti_context_get_replica_count(context);
}
inline int64_t context_global_rows(const tutti_context *context) {
  return tutti_context_get_global_rows(context);
}
inline const char *context_device(const tutti_context *context) {
  return tutti_context_get_device(context);
}
inline bool context_is_cancelled(const tutti_context *context) {
  return tutti_context_is_cancelled(context) != 0;
}
inline tutti_status *context_strategy(const tutti_context *context, tutti_strategy **out_strategy) {
  tutti_strategy *strategy = tutti_context_get_strategy(context);
  tutti_strategy_retain(strategy);
  *out_strategy = strategy;
  return nullptr;
}

inline tutti_status *context_all_reduce(tutti_context *context, int32_t op,
                                        const tutti_value *operand, const tutti_call_options *call,
                                        tutti_value **out_value) {
  return tutti_context_all_reduce(context, op, operand, call, out_value);
}

inline tutti_status *context_all_gather(tutti_context *context, const tutti_value *operand,
                                        int64_t axis, const tutti_call_options *call,
                                        tutti_value **out_value) {
  return tutti_context_all_gather(context, operand, axis, call, out_value);
}

inline tutti_status *context_merge_call(tutti_context *context, tutti_host_handle merge_fn,
                                        const tutti_value *value, const tutti_call_options *call,
                                        tutti_value **out_value) {
  HostCallback callback{merge_fn, TUTTI_HOST_MERGE};
  return tutti_context_merge_call(context, &CallHost, &callback, value, call, out_value);
}

// ---- variables; `ambient` is the context that the caller's thread is in

inline tutti_status *variable_create(tutti_strategy *strategy, const tutti_tensor *tensor,
                                     const char *name, int32_t synchronization,
                                     int32_t aggregation, tutti_tristate trainable,
                                     const tutti_call_options *call,
                                     tutti_variable **out_variable) {
  tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
  options.name = name;
  options.synchronization = synchronization;
  options.aggregation = aggregation;
  options.trainable = trainable;
  return tutti_variable_create(strategy, tensor, &options, call, out_variable);
}

inline tutti_status *variable_read(const tutti_variable *variable, tutti_context *ambient,
                                   const tutti_call_options *call, tutti_tensor **out_array) {
  return tutti_variable_read(variable, ambient, call, out_array);
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

inline tutti_status *variable_assign(tutti_variable *variable, tutti_context *ambient,
                                     const tutti_tensor *operand, const tutti_call_options *call) {
  return tutti_variable_assign(variable, ambient, operand, call);
}
inline tutti_status *variable_assign_add(tutti_variable *variable, tutti_context *ambient,
                                         const tutti_tensor *operand,
                                         const tutti_call_options *call) {
  return tutti_variable_assign_add(variable, ambient, operand, call);
}
inline tutti_status *variable_assign_sub(tutti_variable *variable, tutti_context *ambient,
                                         const tutti_tensor *operand,
                                         const tutti_call_options *call) {
  return tutti_variable_assign_sub(variable, ambient, operand, call);
}

inline const char *variable_name(const tutti_variable *variable) {
  return tutti_variable_get_name(variable);
}
inline int32_t variable_dtype(const tutti_variable *variable) {
  return tutti_variable_get_dtype(variable);
}
inline int64_t variable_rank(const tutti_variable *variable) {
  return static_cast<int64_t>(tutti_variable_get_rank(variable));
}
inline int64_t variable_dim(const tutti_variable *variable, int64_t axis) {
  return tutti_variable_get_dims(variable)[axis];
}
inline int32_t variable_synchronization(const tutti_variable *variable) {
  return tutti_variable_get_synchronization(variable);
}
inline int32_t variable_aggregation(const tutti_variable *variable) {
  return tutti_variable_get_aggregation(variable);
}
inline bool variable_is_trainable(const tutti_variable *variable) {
  return tutti_variable_is_trainable(variable) != 0;
}
inline int64_t variable_copy_count(const tutti_variable *variable) {
  return static_cast<int64_t>(tutti_variable_get_copy_count(variable));
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
inline const char *variable_copy_name(const tutti_variable *variable, size_t copy) {
  return tutti_variable_get_copy_name(variable, copy);
}
inline tutti_status *variable_strategy(const tutti_variable *variable,
                                       tutti_strategy **out_strategy) {
  tutti_strategy *strategy = tutti_variable_get_strategy(variable);
  tutti_strategy_retain(strategy);
  *out_strategy = strategy;
  return nullptr;
}
inline tutti_status *variable_to_string(const tutti_variable *variable, tutti_bytes **out_text) {
  return tutti_variable_to_string(variable, out_text);
}

// ---- distributed datasets

inline tutti_input_options InputOptions(int32_t rebatch, tutti_tristate prefetch_to_device) {
  tutti_input_options options = TUTTI_INPUT_OPTIONS_INIT;
  options.rebatch = rebatch;
  options.prefetch_to_device = prefetch_to_device;
  return options;
}

inline tutti_status *strategy_distribute_dataset(tutti_strategy *strategy,
                                                 const tutti_dataset *dataset, int32_t rebatch,
                                                 tutti_tristate prefetch_to_device,
                                                 const tutti_call_options *call,
                                                 tutti_distributed_dataset **out_distributed) {
  const tutti_input_options options = InputOptions(rebatch, prefetch_to_device);
  return tutti_strategy_distribute_dataset(strategy, dataset, &options, call, out_distributed);
}

inline tutti_status *strategy_distribute_datasets_from_function(
    tutti_strategy *strategy, tutti_host_handle input_fn, tutti_tristate prefetch_to_device,
    const tutti_call_options *call, tutti_distributed_dataset **out_distributed) {
  const tutti_input_options options = InputOptions(0, prefetch_to_device);
  return tutti_strategy_distribute_datasets_from_function(
      strategy, StoreHost(input_fn, TUTTI_HOST_INPUT), &options, call, out_distributed);
}

inline tutti_status *distributed_dataset_element_spec(const tutti_distributed_dataset *distributed,
                                                      tutti_spec **out_spec) {
  const tutti_spec *spec = tutti_distributed_dataset_get_element_spec(distributed);
  tutti_spec_retain(spec);
  *out_spec = const_cast<tutti_spec *>(spec);
  return nullptr;
}
inline int64_t distributed_dataset_cardinality(const tutti_distributed_dataset *distributed) {
  return tutti_distributed_dataset_get_cardinality(distributed);
}
inline tutti_status *distributed_dataset_explain(const tutti_distributed_dataset *distributed,
                                                 tutti_bytes **out_text) {
  return tutti_distributed_dataset_explain(distributed, out_text);
}
inline tutti_status *distributed_iterator_create(const tutti_distributed_dataset *distributed,
                                                 const tutti_call_options *call,
                                                 tutti_distributed_iterator **out_iterator) {
  return tutti_distributed_iterator_create(distributed, call, out_iterator);
}
inline tutti_status *distributed_iterator_next(tutti_distributed_iterator *iterator,
                                               const tutti_call_options *call,
                                               tutti_value **out_element) {
  return tutti_distributed_iterator_next(iterator, call, out_element);
}
inline tutti_status *distributed_iterator_next_optional(tutti_distributed_iterator *iterator,
                                                        const tutti_call_options *call,
                                                        tutti_value **out_value) {
  return tutti_distributed_iterator_next_optional(iterator, call, out_value);
}
inline tutti_status *distributed_iterator_element_spec(const tutti_distributed_iterator *iterator,
                                                       tutti_spec **out_spec) {
  const tutti_spec *spec = tutti_distributed_iterator_get_element_spec(iterator);
  tutti_spec_retain(spec);
  *out_spec = const_cast<tutti_spec *>(spec);
  return nullptr;
}
inline tutti_status *distributed_iterator_save(tutti_distributed_iterator *iterator,
                                               const tutti_call_options *call,
                                               tutti_bytes **out_bytes) {
  return tutti_distributed_iterator_save(iterator, call, out_bytes);
}
inline tutti_status *distributed_iterator_restore(tutti_distributed_iterator *iterator,
                                                  const void *bytes, size_t size,
                                                  const tutti_call_options *call) {
  return tutti_distributed_iterator_restore(iterator, bytes, size, call);
}
inline tutti_status *distributed_iterator_close(tutti_distributed_iterator *iterator,
                                                const tutti_call_options *call) {
  return tutti_distributed_iterator_close(iterator, call);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_STRATEGY_H_
