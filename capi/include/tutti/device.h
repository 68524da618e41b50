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
 * Logical CPUs are as many as tutti_device_set_logical says, else as the setting
 * logical_cpu_devices (1 by default), where a strategy may name more, up to CPU:1023. GPUs are
 * those that the CUDA plugin finds: tensors, variables and replicas of strategies can be there.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_list(tutti_runtime *runtime, const char *device_type,
                                          tutti_bytes **out_names);

/* The full name of the device on which what is made under the device description `name` lies:
 * "/job:localhost/replica:0/task:0/device:CPU:1". NOT_FOUND names the devices that there are,
 * UNIMPLEMENTED: the device is another task's, or cannot hold tensors. With the setting
 * soft_device_placement a device that is not there, or cannot hold tensors, is CPU:0.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_place(tutti_runtime *runtime, const char *name,
                                           tutti_bytes **out_text);

/* `input` as a tensor of the device where tutti_device_place says; between CPUs it is the same
 * memory, which is not copied, and to and from a GPU a copy.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_place_tensor(tutti_runtime *runtime, const char *name,
                                                  const tutti_tensor *input,
                                                  tutti_tensor **out_tensor);

/* The full name of the device on which a tensor lies.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_of_tensor(const tutti_tensor *tensor, tutti_bytes **out_text);

/* ---- physical devices, and what they are presented as
 *
 * Configuration holds until devices are used: before the first strategy, variable, placement or
 * list of devices; what would change later is FAILED_PRECONDITION. */

/* "/physical_device:CPU:0", "/physical_device:GPU:0", ... of a type (NULL = all), one a line.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_list_physical(tutti_runtime *runtime, const char *device_type,
                                                   tutti_bytes **out_names);

/* Presents a physical device as `count` logical ones, which are then all that there are; the limits
 * are bytes, 0 for none. INVALID_ARGUMENT for a limit of a CPU, whose logical devices share its
 * memory, and for limits that are together more than a GPU has; NOT_FOUND names the physical
 * devices. Those of a GPU are numbered on from those of the one before; they share its memory and
 * each has a stream of its own. Without this call a GPU is as many as the setting
 * logical_gpu_devices says, 1 by default.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_set_logical(tutti_runtime *runtime, const char *name,
                                                 size_t count, const int64_t *memory_limits);

/* As how many logical devices a physical one was set to be presented; present = 0: it was not set.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_read_logical(tutti_runtime *runtime, const char *name,
                                                  tutti_optional_int64 *out_number);

/* The limit in bytes, 0 for none, of one of the logical devices that a physical one was set to be.
 * OUT_OF_RANGE for one that it was not.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_read_logical_limit(tutti_runtime *runtime, const char *name,
                                                        int64_t index, int64_t *out_bytes);

/* Uses of a type (NULL = all) the physical devices `names` only. INVALID_ARGUMENT for none of the
 * CPUs: the host cannot be hidden.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_set_visible(tutti_runtime *runtime, const char *device_type,
                                                 size_t count, const char *const *names);

/* The physical devices of a type (NULL = all) that are used, one a line.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_list_visible(tutti_runtime *runtime, const char *device_type,
                                                  tutti_bytes **out_names);

/* What is known of the device `name` ("GPU:0"), as a JSON object: name, type and memory
 * (used_bytes, peak_bytes and limit_bytes of the library's; of a GPU total_bytes and free_bytes,
 * which its logical devices share; null where it does not apply); of a GPU also physical_device,
 * device_name, compute_capability [major, minor], multiprocessors, memory_bytes, l2_bytes, bus_id,
 * uuid, integrated, driver_version and kernels, whether the plugin has machine code for it.
 * NOT_FOUND names the devices that there are, and why there are no GPUs.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_describe(tutti_runtime *runtime, const char *name,
                                              tutti_bytes **out_json);

/* The bytes that the tensors of the device `name` ("GPU:0") take; of a CPU those of all tensors and
 * buffers of the runtime. NOT_FOUND names the devices that there are.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_read_used_bytes(tutti_runtime *runtime, const char *name,
                                                     int64_t *out_bytes);

/* The most that they have been, since the runtime began or tutti_device_reset_peak_bytes.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_read_peak_bytes(tutti_runtime *runtime, const char *name,
                                                     int64_t *out_bytes);

/* From now on the peak of a GPU is what is used now. INVALID_ARGUMENT for a CPU, whose peak is the
 * runtime's; else as above.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_reset_peak_bytes(tutti_runtime *runtime, const char *name);

/* The plugins for devices, as a JSON list of objects: name ("cuda"), file, devices (how many),
 * version (null: it is not opened) and reason, why there are no devices (null: there are); nccl, an
 * object of version, file and origin, who had it (null: there is none), and nccl_reason, why.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_describe_plugins(tutti_runtime *runtime,
                                                      tutti_bytes **out_json);

TUTTI_END_DECLS

#endif /* TUTTI_DEVICE_H_ */
