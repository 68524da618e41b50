/* What went wrong: a canonical code, a message for people, typed details for programs, causes.
 *
 * A status is immutable once it is visible to anybody else. The message names who, what was
 * expected, what was found and the next step; programs read the details ("rank", "op", "sequence",
 * "file", "offset", "index", "timeout_ns" ...). */
#ifndef TUTTI_STATUS_H_
#define TUTTI_STATUS_H_

#include <tutti/abi.h>

TUTTI_BEGIN_DECLS

/* Canonical codes, numbered as gRPC and abseil number them. */
typedef int32_t tutti_code;
enum {
  TUTTI_OK = 0,
  TUTTI_CANCELLED = 1,
  TUTTI_UNKNOWN = 2,
  TUTTI_INVALID_ARGUMENT = 3,
  TUTTI_DEADLINE_EXCEEDED = 4,
  TUTTI_NOT_FOUND = 5,
  TUTTI_ALREADY_EXISTS = 6,
  TUTTI_PERMISSION_DENIED = 7,
  TUTTI_RESOURCE_EXHAUSTED = 8,
  TUTTI_FAILED_PRECONDITION = 9,
  TUTTI_ABORTED = 10,
  TUTTI_OUT_OF_RANGE = 11,
  TUTTI_UNIMPLEMENTED = 12,
  TUTTI_INTERNAL = 13,
  TUTTI_UNAVAILABLE = 14,
  TUTTI_DATA_LOSS = 15,
  TUTTI_UNAUTHENTICATED = 16
};

typedef int32_t tutti_detail_kind;
enum { TUTTI_DETAIL_INT64 = 1, TUTTI_DETAIL_DOUBLE = 2, TUTTI_DETAIL_STRING = 3 };

/* One typed detail as tutti_status_get_detail shows it; the field that `kind` names is set. */
typedef struct tutti_detail {
  size_t struct_size;
  const char *key;
  tutti_detail_kind kind;
  int64_t int64_value;
  double double_value;
  tutti_string_view string_value;
} tutti_detail;
#define TUTTI_DETAIL_INIT                              \
  {                                                    \
    sizeof(tutti_detail), NULL, 0, 0, 0.0, { NULL, 0 } \
  }

/* Makes a status, for a callback that fails. `code` TUTTI_OK or an unknown code becomes
 * TUTTI_UNKNOWN. Never NULL: when memory is short it is the static out-of-memory status.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_status_create(tutti_code code, const char *message);

/* Makes a status that carries an object of the host (an exception, say) through the library. Only
 * the binding that knows `tag` (an address of its own) unwraps it. `destroy` runs once,
 * after the last reference is gone: on the default runtime's callback thread, or on the releasing
 * thread while that runtime is not running.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_status_create_with_host_object(tutti_code code, const char *message,
                                                             const void *tag, void *object,
                                                             tutti_destroy_fn destroy);

/* Adds a detail to a status that only the caller holds (made by one of the two functions above and
 * shown to nobody); on any other it is FAILED_PRECONDITION.
 * Context: any. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_status_add_int64(tutti_status *status, const char *key,
                                               int64_t value);

/* As tutti_status_add_int64.
 * Context: any. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_status_add_string(tutti_status *status, const char *key,
                                                const char *value);

/* TUTTI_OK for NULL.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_code tutti_status_get_code(const tutti_status *status);

/* The message without the code, NUL-terminated; "" for NULL.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_status_get_message(const tutti_status *status);

/* "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number that is no code; static.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_code_get_name(tutti_code code);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_status_get_detail_count(const tutti_status *status);

/* Fills `out_detail` (whose struct_size is set) with detail `index`. OUT_OF_RANGE past the last
 * one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_status_get_detail(const tutti_status *status, size_t index,
                                                tutti_detail *out_detail);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_status_get_cause_count(const tutti_status *status);

/* Cause `index`, borrowed; NULL past the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_status *tutti_status_get_cause(const tutti_status *status, size_t index);

/* The host object of this status or of its causes, first found, that was made with `tag`; NULL if
 * there is none.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void *tutti_status_get_host_object(const tutti_status *status, const void *tag);

/* Writes what went wrong to standard error, in one line for the status and one for each of its
 * causes, releases it, and gives its code: 0, and no line, for NULL. `what`, which may be NULL,
 * says what was tried:
 *   if (tutti_status_report(tutti_dataset_batch(&dataset, 32, NULL), "batch")) return 1;
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_code tutti_status_report(tutti_status *status, const char *what);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_status_retain(const tutti_status *status);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_status_release(const tutti_status *status);

TUTTI_END_DECLS

#endif /* TUTTI_STATUS_H_ */
