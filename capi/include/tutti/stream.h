/* Streams and events: the order of work on a GPU. What is given to a stream is done in the order of
 * the calls, later than they return; an error of such work is returned by a later call.
 *
 * The library does a device's work on a stream of that device's own, tutti_device_get_stream,
 * unless it is told another one. Handles are CUDA's (cudaStream_t, CUstream), as numbers, so that
 * other
 * libraries of the process can wait for the library's work, and it for theirs. */
#ifndef TUTTI_STREAM_H_
#define TUTTI_STREAM_H_

#include <tutti/abi.h>

TUTTI_BEGIN_DECLS

/* A new stream of the GPU `device` ("GPU:0"). INVALID_ARGUMENT for a CPU, NOT_FOUND names the
 * devices that there are.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_stream_create(tutti_runtime *runtime, const char *device,
                                            tutti_stream **out_stream);

/* A stream of another library's on the same device, by its handle: 1 is the default stream, 2 the
 * default stream of the calling thread; 0 says nothing and is INVALID_ARGUMENT, as is a stream of
 * another device. It stays its owner's, who must not destroy it before the last release.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_stream_wrap(tutti_runtime *runtime, const char *device,
                                          int64_t handle, tutti_stream **out_stream);

/* The stream on which the library works on a device by itself.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_get_stream(tutti_runtime *runtime, const char *device,
                                                tutti_stream **out_stream);

/* The same of the device that CUDA numbers so, as DLPack does; NOT_FOUND for one that is none of
 * this runtime's. What a producer of DLPack's has to be given as its stream.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_device_find_stream(tutti_runtime *runtime, int64_t cuda_device,
                                                 tutti_stream **out_stream);

/* CUDA's handle of the stream; 1 and 2 of wrapped ones that are such.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_stream_get_handle(const tutti_stream *stream);

/* "GPU:0"; borrowed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_stream_get_device(const tutti_stream *stream);

/* Waits until all that has been given to the stream is done. An error of that work is DATA_LOSS;
 * after DEADLINE_EXCEEDED and CANCELLED the work goes on.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_stream_synchronize(tutti_stream *stream,
                                                 const tutti_call_options *call);

/* What is given to `stream` later runs after the event, also after one of another device. The
 * caller does not wait.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_stream_wait_event(tutti_stream *stream, const tutti_event *event);

/* What is given to `stream` later runs after all that has been given to `earlier`.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_stream_wait_stream(tutti_stream *stream,
                                                 const tutti_stream *earlier);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_stream_retain(const tutti_stream *stream);

/* What was given to the stream goes on.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_stream_release(const tutti_stream *stream);

typedef struct tutti_event_options {
  size_t struct_size;
  tutti_tristate timed; /* tutti_event_read_elapsed takes it; default false, which costs less */
} tutti_event_options;
#define TUTTI_EVENT_OPTIONS_INIT \
  { sizeof(tutti_event_options), 0 }

/* A point in the work of a stream of the GPU `device`; until it is recorded it counts as reached.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_event_create(tutti_runtime *runtime, const char *device,
                                           const tutti_event_options *options,
                                           tutti_event **out_event);

/* The event is reached when what has been given to `stream` is done. INVALID_ARGUMENT for a stream
 * of another device.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_event_record(tutti_event *event, const tutti_stream *stream);

/* Whether it is reached: 1 or 0.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_event_query(const tutti_event *event, int64_t *out_reached);

/* Waits until it is reached; errors as of tutti_stream_synchronize.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_event_synchronize(const tutti_event *event,
                                                const tutti_call_options *call);

/* Nanoseconds of the device between two timed events that were reached, of which `end` was recorded
 * later. INVALID_ARGUMENT for events that are not timed or not recorded.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_event_read_elapsed(const tutti_event *begin, const tutti_event *end,
                                                 int64_t *out_nanoseconds);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_event_retain(const tutti_event *event);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_event_release(const tutti_event *event);

TUTTI_END_DECLS

#endif /* TUTTI_STREAM_H_ */
