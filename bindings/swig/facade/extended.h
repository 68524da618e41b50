// What a strategy does on devices, and cross-device ops.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_EXTENDED_H_
#define TUTTI_BINDINGS_SWIG_FACADE_EXTENDED_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "callback.h"

namespace tutti_facade {

// ---- strategies that take cross-device ops; none: null

inline tutti_status *strategy_mirrored(tutti_runtime *runtime, size_t count,
                                       const char *const *texts, int32_t cross_device_ops,
                                       tutti_reducer *given_reducer, const char *name,
                                       const tutti_call_options *call,
                                       tutti_strategy **out_strategy) {
  tutti_strategy_options options = TUTTI_STRATEGY_OPTIONS_INIT;
  options.name = name;
  options.cross_device_ops = cross_device_ops;
  options.reducer = given_reducer;
  return tutti_strategy_create_mirrored(runtime, count, texts, &options, call, out_strategy);
}

inline tutti_status *strategy_central_storage(tutti_runtime *runtime, size_t count,
                                              const char *const *texts,
                                              const char *parameter_device,
                                              tutti_reducer *given_reducer, const char *name,
                                              const tutti_call_options *call,
                                              tutti_strategy **out_strategy) {
  tutti_strategy_options options = TUTTI_STRATEGY_OPTIONS_INIT;
  options.name = name;
  options.reducer = given_reducer;
  return tutti_strategy_create_central_storage(runtime, count, texts, parameter_device, &options,
                                               call, out_strategy);
}

// ---- updates

inline tutti_status *strategy_update(tutti_strategy *strategy, tutti_variable *variable,
                                     tutti_host_handle update_fn, const tutti_value *args,
                                     tutti_tristate group, const tutti_call_options *call,
                                     tutti_value **out_value) {
  HostCallback callback{update_fn, TUTTI_HOST_UPDATE};
  return tutti_strategy_update(strategy, variable, &CallHost, &callback, args, group, call,
                               out_value);
}

inline tutti_status *strategy_update_non_slot(tutti_strategy *strategy,
                                              const tutti_value *colocate_with,
                                              tutti_host_handle update_fn,
                                              const tutti_value *args, tutti_tristate group,
                                              const tutti_call_options *call,
                                              tutti_value **out_value) {
  HostCallback callback{update_fn, TUTTI_HOST_UPDATE};
  return tutti_strategy_update_non_slot(strategy, colocate_with, &CallHost, &callback, args, group,
                                        call, out_value);
}

// ---- cross-device ops of the host: one function, (strategy, text, value, destinations) -> value,
// where the text is "reduce", "batch_reduce" or "broadcast", and behind it the numbers of the
// operation and the implementation, and the bytes of a pack; a batch has its pairs as the value

inline tutti_status *CallReducer(void *user_data, tutti_context *context, const char *what,
                                 int32_t op, const tutti_communication_options *options,
                                 const tutti_value *value, const tutti_value *destinations,
                                 tutti_value **out) {
  char text[96];
  const int size = snprintf(text, sizeof(text), "%s %d %d %lld", what, static_cast<int>(op),
                            options == nullptr ? 0 : static_cast<int>(options->implementation),
                            options == nullptr ? 0LL
                                               : static_cast<long long>(options->bytes_per_pack));
  tutti_value *asked = nullptr;
  tutti_value *none = nullptr;
  tutti_value *in = nullptr;
  tutti_status *status =
      tutti_value_create_string(tutti_string_view{text, static_cast<size_t>(size)}, &asked);
  if (status == nullptr && destinations == nullptr) status = tutti_value_create_none(&none);
  if (status == nullptr) {
    const tutti_value *parts[] = {asked, value, destinations == nullptr ? none : destinations};
    status = tutti_value_create_tuple(3, parts, &in);
  }
  if (status == nullptr) status = CallHost(context, in, out, user_data);
  tutti_value_release(in);
  tutti_value_release(none);
  tutti_value_release(asked);
  return status;
}

inline tutti_status *ReduceByHost(tutti_context *context, tutti_reduce_op op,
                                  const tutti_value *value, const tutti_value *destinations,
                                  const tutti_communication_options *options, tutti_value **out,
                                  void *user_data) {
  return CallReducer(user_data, context, "reduce", op, options, value, destinations, out);
}

inline tutti_status *BatchReduceByHost(tutti_context *context, tutti_reduce_op op,
                                       const tutti_value *pairs,
                                       const tutti_communication_options *options,
                                       tutti_value **out, void *user_data) {
  return CallReducer(user_data, context, "batch_reduce", op, options, pairs, nullptr, out);
}

inline tutti_status *BroadcastByHost(tutti_context *context, const tutti_value *value,
                                     const tutti_value *destinations, tutti_value **out,
                                     void *user_data) {
  return CallReducer(user_data, context, "broadcast", 0, nullptr, value, destinations, out);
}

inline tutti_status *reducer_create(tutti_runtime *runtime, tutti_host_handle reducer_fn,
                                    const char *name, tutti_reducer **out_reducer) {
  const tutti_callback stored = StoreHost(reducer_fn, TUTTI_HOST_REDUCER);
  if (stored.user_data == nullptr) {
    return tutti_status_create(TUTTI_RESOURCE_EXHAUSTED, "no memory for cross-device ops");
  }
  tutti_reducer_functions functions = TUTTI_REDUCER_FUNCTIONS_INIT;
  functions.name = name;
  functions.user_data = stored.user_data;
  functions.destroy = stored.destroy;
  functions.reduce = &ReduceByHost;
  functions.batch_reduce = &BatchReduceByHost;
  functions.broadcast = &BroadcastByHost;
  return tutti_reducer_create(runtime, &functions, out_reducer);
}

inline tutti_status *reducer_reduction_to_one_device(tutti_runtime *runtime,
                                                     const char *reduce_to_device,
                                                     tutti_reducer **out_reducer) {
  return tutti_reducer_create_reduction_to_one_device(
      runtime, reduce_to_device, tutti_callback{nullptr, nullptr, nullptr}, out_reducer);
}

// `reducer_fn` gets (strategy, tensors ...).
inline tutti_status *reducer_accumulation(tutti_runtime *runtime, const char *reduce_to_device,
                                          tutti_host_handle reducer_fn,
                                          tutti_reducer **out_reducer) {
  return tutti_reducer_create_reduction_to_one_device(
      runtime, reduce_to_device, StoreHost(reducer_fn, TUTTI_HOST_REDUCER), out_reducer);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_EXTENDED_H_
