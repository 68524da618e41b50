/* How long a call may wait, and how somebody else ends the wait. */
#ifndef TUTTI_CALL_H_
#define TUTTI_CALL_H_

#include <tutti/abi.h>

TUTTI_BEGIN_DECLS

/* Never give up. */
#define TUTTI_TIMEOUT_NONE INT64_MAX
/* Already expired: the call succeeds only if it need not wait. */
#define TUTTI_TIMEOUT_EXPIRED INT64_MIN

/* How ranks move a collective's bytes. RING: from neighbour to neighbour, where they are linked by
 * byte streams and the operation has such an algorithm. NCCL: NVIDIA's library. SHARED_MEMORY and
 * TCP are chosen when a strategy is made, where they go before the setting transport; all workers
 * ask for the same. */
typedef int32_t tutti_communication;
enum {
  TUTTI_COMMUNICATION_AUTO = 1,
  TUTTI_COMMUNICATION_RING = 2,
  TUTTI_COMMUNICATION_NCCL = 3,
  TUTTI_COMMUNICATION_SHARED_MEMORY = 4,
  TUTTI_COMMUNICATION_TCP = 5
};

/* Hints for one collective, the same on all ranks, which compare them (INVALID_ARGUMENT on all of
 * them that names both sides); results do not depend on them. */
typedef struct tutti_communication_options {
  size_t struct_size;
  /* Many tensors are reduced in calls of at most so many bytes each; 0 = as the strategy says, else
   * in one call. Negative: INVALID_ARGUMENT. */
  int64_t bytes_per_pack;
  /* 0 and AUTO = as the strategy says, else as the table of algorithms does. What cannot be as it
   * is asked goes as AUTO, with a warning that says why, one for each communicator. */
  tutti_communication implementation;
} tutti_communication_options;
#define TUTTI_COMMUNICATION_OPTIONS_INIT \
  { sizeof(tutti_communication_options), 0, 0 }

/* Options of one blocking call. NULL where one is taken means TUTTI_CALL_OPTIONS_INIT. */
struct tutti_call_options {
  size_t struct_size;
  /* Nanoseconds from now, > 0; 0 = unset (the runtime's default_timeout setting); or one of the two
   * constants. Other negative numbers are INVALID_ARGUMENT. Past it the call fails with
   * DEADLINE_EXCEEDED. */
  int64_t timeout;
  /* Borrowed for the call; NULL = cannot be cancelled. Once cancelled the call fails with
   * CANCELLED. */
  tutti_cancellation *cancellation;
  /* Of a collective: all those of communicators but transfers, all_reduce and all_gather of
   * contexts, reduce and gather of strategies. Borrowed while the function runs, not longer where
   * the call goes on; NULL = no hints. */
  const tutti_communication_options *communication;
  /* Of a communicator's collectives and transfers: a stream of the GPU that the tensors of the call
   * lie on (<tutti/stream.h>). The call comes behind what has been given to it before, and what is
   * given to it afterwards comes behind the results: after the call, or after its future is done.
   * INVALID_ARGUMENT for another device's, and without a tensor on a GPU; other calls take no
   * notice of it. Borrowed while the function runs, not longer where the call goes on; NULL = the
   * order is that of the streams that the tensors belong to. */
  tutti_stream *stream;
};
#define TUTTI_CALL_OPTIONS_INIT \
  { sizeof(tutti_call_options), 0, NULL, NULL, NULL }

/* Asked about every 50 ms by a thread that waits; non-zero ends the wait with CANCELLED. Runs on
 * the waiting thread with no lock of the library held. A notification. */
typedef int32_t (*tutti_poll_fn)(void *user_data);

/* A switch that ends every wait it was given to, once and for good.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cancellation_create(tutti_cancellation **out_cancellation);

/* A cancellation that waiters also ask: a binding uses it to look for a pending Ctrl-C. `user_data`
 * must outlive the cancellation.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cancellation_create_polled(tutti_poll_fn poll, void *user_data,
                                                         tutti_cancellation **out_cancellation);

/* Wakes every waiter; the first message stands, later calls change nothing. `message` may be NULL.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cancellation_cancel(tutti_cancellation *cancellation, const char *message);

/* 1 after tutti_cancellation_cancel, else 0.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_cancellation_is_cancelled(const tutti_cancellation *cancellation);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cancellation_retain(const tutti_cancellation *cancellation);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cancellation_release(const tutti_cancellation *cancellation);

TUTTI_END_DECLS

#endif /* TUTTI_CALL_H_ */
