// Runtimes, devices and cancellation. Each function is one C call; parameters that the C interface
// takes in structs stand on their own.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_RUNTIME_H_
#define TUTTI_BINDINGS_SWIG_FACADE_RUNTIME_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

#include "callback.h"

namespace tutti_facade {

inline const char *api_version() { return tutti_api_version_string(); }

inline tutti_status *runtime_create(size_t count, const char *const *keys, size_t value_count,
                                    const char *const *values, tutti_runtime **out_runtime) {
  if (count != value_count) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT, "settings: as many values as keys, please");
  }
  tutti_runtime_options options = TUTTI_RUNTIME_OPTIONS_INIT;
  options.setting_count = count;
  options.setting_keys = keys;
  options.setting_values = values;
  return tutti_runtime_create(&options, out_runtime);
}

inline tutti_status *runtime_shutdown(tutti_runtime *given_runtime,
                                      const tutti_call_options *call) {
  return tutti_runtime_shutdown(given_runtime, call);
}

inline bool runtime_is_running(const tutti_runtime *given_runtime) {
  return tutti_runtime_is_running(given_runtime) != 0;
}

inline tutti_status *runtime_set(tutti_runtime *given_runtime, const char *key,
                                 const char *value_text) {
  return tutti_runtime_set(given_runtime, key, value_text);
}

inline tutti_status *runtime_read_setting(tutti_runtime *given_runtime, const char *key,
                                          tutti_bytes **out_text) {
  return tutti_runtime_read_setting(given_runtime, key, out_text);
}

inline tutti_status *runtime_describe(tutti_runtime *given_runtime, tutti_bytes **out_text) {
  return tutti_runtime_describe(given_runtime, out_text);
}

inline tutti_status *runtime_describe_collectives(tutti_runtime *given_runtime,
                                                  tutti_bytes **out_text) {
  return tutti_runtime_describe_collectives(given_runtime, out_text);
}

inline tutti_status *runtime_set_random_seed(tutti_runtime *given_runtime,
                                             tutti_optional_int64 seed) {
  return tutti_runtime_set_random_seed(given_runtime, seed);
}

// The host keeps what `log_sink` stands for, for as long as the library may call it; 0 brings
// standard error back.
inline tutti_status *runtime_set_log_sink(tutti_runtime *given_runtime,
                                          tutti_host_handle log_sink) {
  return tutti_runtime_set_log_sink(given_runtime, log_sink == 0 ? nullptr : &LogToHost,
                                    reinterpret_cast<void *>(log_sink));
}

inline tutti_status *runtime_dump_recorder(tutti_runtime *given_runtime, tutti_bytes **out_text) {
  return tutti_runtime_dump_recorder(given_runtime, out_text);
}

inline tutti_status *device_list(tutti_runtime *runtime, const char *device_type,
                                 tutti_bytes **out_text) {
  return tutti_device_list(runtime, device_type, out_text);
}

inline tutti_status *device_spec_parse(const char *text, tutti_device_spec **out_spec) {
  return tutti_device_spec_parse(text, out_spec);
}

inline tutti_status *device_spec_create(const char *job, tutti_optional_int64 replica,
                                        tutti_optional_int64 task, const char *device_type,
                                        tutti_optional_int64 device_index,
                                        tutti_device_spec **out_spec) {
  tutti_device_fields fields = TUTTI_DEVICE_FIELDS_INIT;
  fields.job = job;
  fields.replica = replica;
  fields.task = task;
  fields.device_type = device_type;
  fields.device_index = device_index;
  return tutti_device_spec_create(&fields, out_spec);
}

inline tutti_status *device_spec_merge(const tutti_device_spec *outer,
                                       const tutti_device_spec *inner,
                                       tutti_device_spec **out_spec) {
  return tutti_device_spec_merge(outer, inner, out_spec);
}

inline tutti_device_fields DeviceFields(const tutti_device_spec *spec) {
  tutti_device_fields fields = TUTTI_DEVICE_FIELDS_INIT;
  tutti_status_release(tutti_device_spec_get_fields(spec, &fields));
  return fields;
}

inline const char *device_spec_job(const tutti_device_spec *spec) { return DeviceFields(spec).job; }
inline const char *device_spec_type(const tutti_device_spec *spec) {
  return DeviceFields(spec).device_type;
}
inline tutti_optional_int64 device_spec_replica(const tutti_device_spec *spec) {
  return DeviceFields(spec).replica;
}
inline tutti_optional_int64 device_spec_task(const tutti_device_spec *spec) {
  return DeviceFields(spec).task;
}
inline tutti_optional_int64 device_spec_index(const tutti_device_spec *spec) {
  return DeviceFields(spec).device_index;
}
inline const char *device_spec_text(const tutti_device_spec *spec) {
  return tutti_device_spec_get_text(spec);
}
inline bool device_spec_equal(const tutti_device_spec *left, const tutti_device_spec *right) {
  return tutti_device_spec_equal(left, right) != 0;
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_RUNTIME_H_
