/* The ground of the C interface: versions, visibility, the small frozen structs, byte buffers.
 * See <tutti/tutti.h> for the conventions. */
#ifndef TUTTI_ABI_H_
#define TUTTI_ABI_H_

#include <stddef.h>
#include <stdint.h>

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#ifdef __cplusplus
#define TUTTI_BEGIN_DECLS extern "C" {
#define TUTTI_END_DECLS }
#else
#define TUTTI_BEGIN_DECLS
#define TUTTI_END_DECLS
#endif

TUTTI_BEGIN_DECLS

typedef struct tutti_bucket_plan tutti_bucket_plan;
typedef struct tutti_bytes tutti_bytes;
typedef struct tutti_call_options tutti_call_options;
typedef struct tutti_cancellation tutti_cancellation;
typedef struct tutti_checkpoint tutti_checkpoint;
typedef struct tutti_checkpoint_manager tutti_checkpoint_manager;
typedef struct tutti_cluster tutti_cluster;
typedef struct tutti_cluster_resolver tutti_cluster_resolver;
typedef struct tutti_cluster_spec tutti_cluster_spec;
typedef struct tutti_communicator tutti_communicator;
typedef struct tutti_context tutti_context;
typedef struct tutti_data_options tutti_data_options;
typedef struct tutti_dataset tutti_dataset;
typedef struct tutti_device_spec tutti_device_spec;
typedef struct tutti_distributed_dataset tutti_distributed_dataset;
typedef struct tutti_distributed_iterator tutti_distributed_iterator;
typedef struct tutti_event tutti_event;
typedef struct tutti_expression tutti_expression;
typedef struct tutti_function tutti_function;
typedef struct tutti_future tutti_future;
typedef struct tutti_iterator tutti_iterator;
typedef struct tutti_reducer tutti_reducer;
typedef struct tutti_runtime tutti_runtime;
typedef struct tutti_spec tutti_spec;
typedef struct tutti_stats_aggregator tutti_stats_aggregator;
typedef struct tutti_status tutti_status;
typedef struct tutti_strategy tutti_strategy;
typedef struct tutti_stream tutti_stream;
typedef struct tutti_tensor tutti_tensor;
typedef struct tutti_tf_record_writer tutti_tf_record_writer;
typedef struct tutti_treespec tutti_treespec;
typedef struct tutti_value tutti_value;
typedef struct tutti_variable tutti_variable;

/* Bytes that somebody else owns; not NUL-terminated unless said so. Frozen. It is also the element
 * of a tensor of dtype TUTTI_DTYPE_BYTES. */
typedef struct tutti_string_view {
  const char *data;
  size_t size;
} tutti_string_view;

/* A number that may be absent and whose 0 means something. Frozen. */
typedef struct tutti_optional_int64 {
  int64_t present; /* 0 or 1 */
  int64_t value;
} tutti_optional_int64;

/* A boolean option that knows whether it was set. */
typedef int32_t tutti_tristate;
enum { TUTTI_UNSET = 0, TUTTI_TRUE = 1, TUTTI_FALSE = 2 };

/* Ends the life of `user_data`. Runs exactly once. A notification: it may call only `Context: any`
 * functions. */
typedef void (*tutti_destroy_fn)(void *user_data);

/* The version of the library that is loaded, as (major << 16) | (minor << 8) | patch; compare with
 * the header's TUTTI_VERSION_*.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API uint32_t tutti_api_version(void);

/* The version as text, "0.1.0"; static.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_api_version_string(void);

/* The contents of a byte buffer; valid as long as the buffer. A NUL that is not counted follows the
 * last byte, so text may be printed with %s. NULL gives {"", 0}.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_string_view tutti_bytes_get_view(const tutti_bytes *bytes);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_bytes_retain(const tutti_bytes *bytes);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_bytes_release(const tutti_bytes *bytes);

TUTTI_END_DECLS

#endif /* TUTTI_ABI_H_ */
