/* Futures: a value or an error that comes later. A future is completed once; whether it is done and
 * how it ended are asked apart. */
#ifndef TUTTI_FUTURE_H_
#define TUTTI_FUTURE_H_

#include <tutti/call.h>
#include <tutti/value.h>

TUTTI_BEGIN_DECLS

/* Told once that a future is done, on the runtime's callback thread. Frozen. */
typedef struct tutti_notification {
  void (*fn)(void *user_data);
  void *user_data;
  tutti_destroy_fn destroy; /* may be NULL; runs once, after fn or instead of it */
} tutti_notification;

/* A future that the host completes.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_future_create(tutti_runtime *runtime, tutti_future **out_future);

/* Completes the future: with `error` (which is taken over) or, when that is NULL, with `value`
 * (retained; NULL = none). FAILED_PRECONDITION when it is done already.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_future_complete(tutti_future *future, tutti_status *error,
                                              const tutti_value *value);

/* 1 when it is done.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_future_is_done(const tutti_future *future);

/* Waits until it is done. The status is that of the waiting, not of the operation:
 * DEADLINE_EXCEEDED and CANCELLED leave the operation running.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_future_wait(const tutti_future *future,
                                          const tutti_call_options *call);

/* How a done future ended, with a reference to the value (NULL for none). FAILED_PRECONDITION while
 * it is not done.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_future_result(const tutti_future *future, tutti_value **out_value);

/* Calls `notification` when the future is done, at once if it is; `destroy` runs also when this
 * fails.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_future_on_ready(tutti_future *future,
                                              tutti_notification notification);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_future_retain(const tutti_future *future);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_future_release(const tutti_future *future);

TUTTI_END_DECLS

#endif /* TUTTI_FUTURE_H_ */
