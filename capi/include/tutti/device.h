/* Device names: /job:worker/replica:0/task:1/device:GPU:0, with every part optional; and the
 * devices of this process. */
#ifndef TUTTI_DEVICE_H_
#define TUTTI_DEVICE_H_

#include <tutti/abi.h>

TUTTI_BEGIN_DECLS

/* The parts of a device name. NULL or present = 0: not given. */
typedef struct tutti_device_fields {
  size_t struct_size;
  const char *job;
  tutti_optional_int64 replica;
  tutti_optional_int64 task;
  const char *device_type; /* upper case in what the library returns */
  tutti_optional_int64 device_index;
} tutti_device_fields;
#define TUTTI_DEVICE_FIELDS_INIT                                      \
  {                                                                   \
    sizeof(tutti_device_fields), NULL, {0, 0}, {0, 0}, NULL, { 0, 0 } \
  }

/* "/job:ps/device:GPU:0", "/GPU:0" or "CPU:1". INVALID_ARGUMENT names the part that does not read.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_spec_parse(const char *text, tutti_device_spec **out_spec);

/* Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_spec_create(const tutti_device_fields *fields,
                                                 tutti_device_spec **out_spec);

/* `inner` where it says something, else `outer`: how nested device scopes combine.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_spec_merge(const tutti_device_spec *outer,
                                                const tutti_device_spec *inner,
                                                tutti_device_spec **out_spec);

/* Fills `out_fields` (whose struct_size is set); its texts live as long as `spec`.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_spec_get_fields(const tutti_device_spec *spec,
                                                     tutti_device_fields *out_fields);

/* The full form, "/job:ps/device:GPU:0"; NUL-terminated, borrowed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_device_spec_get_text(const tutti_device_spec *spec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_device_spec_equal(const tutti_device_spec *left,
                                          const tutti_device_spec *right);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_device_spec_retain(const tutti_device_spec *spec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_device_spec_release(const tutti_device_spec *spec);

/* The names of this process's devices of `device_type` ("CPU", "GPU"; NULL = all), one a line.
 * Logical CPUs are as many as the setting logical_cpu_devices says (1 by default); a strategy may
 * name more, up to CPU:1023. GPUs are those that the CUDA plugin finds; strategies take none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_list(tutti_runtime *runtime, const char *device_type,
                                          tutti_bytes **out_names);

/* What is known of the device `name` ("GPU:0"), as a JSON object: name, type and memory
 * (used_bytes and peak_bytes of the library's; of a CPU limit_bytes, of a GPU total_bytes and
 * free_bytes, null where it does not apply); of a GPU also device_name, compute_capability
 * [major, minor], multiprocessors, memory_bytes, l2_bytes, bus_id, uuid, integrated, driver_version
 * and kernels, whether the plugin has machine code for it. NOT_FOUND names the devices that there
 * are, and why there are no GPUs.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_describe(tutti_runtime *runtime, const char *name,
                                              tutti_bytes **out_json);

/* The plugins for devices, as a JSON list of objects: name ("cuda"), file, devices (how many),
 * version (null: it is not opened) and reason, why there are no devices (null: there are).
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_describe_plugins(tutti_runtime *runtime,
                                                      tutti_bytes **out_json);

TUTTI_END_DECLS

#endif /* TUTTI_DEVICE_H_ */
