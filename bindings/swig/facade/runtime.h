// What the facade has by hand of runtimes and devices; functions that only call C are generated
// (bindings/generate/facade.py).
#ifndef TUTTI_BINDINGS_SWIG_FACADE_RUNTIME_H_
#define TUTTI_BINDINGS_SWIG_FACADE_RUNTIME_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

#include "callback.h"

namespace tutti_facade {

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

// The host keeps what `log_sink` stands for, for as long as the library may call it; 0 brings
// standard error back.
inline tutti_status *runtime_set_log_sink(tutti_runtime *given_runtime,
                                          tutti_host_handle log_sink) {
  return tutti_runtime_set_log_sink(given_runtime, log_sink == 0 ? nullptr : &LogToHost,
                                    reinterpret_cast<void *>(log_sink));
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

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_RUNTIME_H_
