/* What a device plugin and the library are to each other: two tables of C functions.
 *
 * A plugin is a shared library (libtutti_cuda.so) that the library finds beside itself and opens
 * with RTLD_NOW | RTLD_LOCAL, once; it is never unloaded. The library looks up two functions:
 *
 *   uint32_t tutti_plugin_abi_version(void);
 *   tutti_status *tutti_plugin_open(const tutti_plugin_host *host,
 *                                   const tutti_plugin_api **out_api, tutti_plugin **out_plugin);
 *
 * Conventions:
 *  1. The major number (abi_version >> 16) must be equal on both sides. Within a major number
 *     tables and structs only grow at their end, and what one side does not know stands behind the
 *     struct_size of the other: whoever reads a table compares first.
 *  2. A function that can fail returns NULL or a tutti_status, which its caller owns. The plugin
 *     makes statuses through the host's table. Nothing throws.
 *  3. Every function may be called by any thread. What is done on a stream is done in the order of
 *     the calls on that stream, later than the call returns; errors of such work are returned by a
 *     later call, on any stream of the device.
 *  4. Devices are numbered from 0. A stream and an event belong to one device; memory of a device
 *     is an address that only work on streams may touch. Element types are TUTTI_DTYPE_* and
 *     reductions TUTTI_REDUCE_*.
 *  5. Sizes are in bytes unless a name says otherwise.
 * Since: 0.1. */
#ifndef TUTTI_PLUGIN_H_
#define TUTTI_PLUGIN_H_

#include <tutti/abi.h>

#define TUTTI_PLUGIN_ABI_VERSION ((uint32_t)(1 << 16 | 0))

TUTTI_BEGIN_DECLS

typedef struct tutti_plugin tutti_plugin;
typedef struct tutti_plugin_stream tutti_plugin_stream;
typedef struct tutti_plugin_event tutti_plugin_event;

/* The device whose account pinned host memory is charged to. */
enum { TUTTI_PLUGIN_HOST_MEMORY = -1 };

/* What the library gives to a plugin. It outlives the plugin. */
typedef struct tutti_plugin_host {
  size_t struct_size;
  uint32_t abi_version; /* TUTTI_PLUGIN_ABI_VERSION of the library */
  void *context;        /* the first argument of all functions here */
  /* A status of a TUTTI_* code other than TUTTI_OK. Never NULL. */
  tutti_status *(*make_status)(void *context, int32_t code, const char *message);
  /* Gives up a status that is not returned to the library. */
  void (*release_status)(void *context, tutti_status *status);
  /* A line of the log; levels are those of the log: 1 debug, 2 information, 3 warning, 4 error. */
  void (*log)(void *context, int32_t level, const char *message);
  /* Asks the account of a device (or of TUTTI_PLUGIN_HOST_MEMORY) for memory: a status when that is
   * over its limit, and nothing is counted then. What was reserved is given back once. */
  tutti_status *(*reserve_memory)(void *context, int32_t device, uint64_t bytes);
  void (*unreserve_memory)(void *context, int32_t device, uint64_t bytes);
} tutti_plugin_host;

/* Ends a wait: asked again and again while something is waited for. A status other than NULL is
 * what the wait returns. NULL in place of the struct: until it is done. */
typedef struct tutti_plugin_wait {
  size_t struct_size;
  tutti_status *(*stop)(void *user_data);
  void *user_data;
} tutti_plugin_wait;

typedef struct tutti_plugin_device_properties {
  size_t struct_size;
  char name[256];        /* "NVIDIA H100 80GB HBM3" */
  char bus_id[32];       /* of the PCI bus, "0000:1b:00.0" */
  uint8_t uuid[16];
  int32_t compute_major; /* the compute capability */
  int32_t compute_minor;
  int32_t multiprocessors;
  int32_t integrated; /* 1: it shares the host's memory */
  int64_t memory_bytes;
  int64_t l2_bytes;
  int32_t driver_version; /* 13000 is 13.0 */
  int32_t has_kernels;    /* 1: the plugin has machine code for this device */
} tutti_plugin_device_properties;

typedef struct tutti_plugin_memory_info {
  size_t struct_size;
  int64_t total_bytes;
  int64_t free_bytes; /* of the whole device; -1 where nobody has used it in this process */
  int64_t used_bytes; /* allocated through the plugin */
  int64_t peak_bytes; /* the most that used_bytes has been */
} tutti_plugin_memory_info;

/* One of the tensors that pack and unpack take: `bytes` at `memory` stand at `offset` of the
 * packed memory. */
typedef struct tutti_plugin_piece {
  void *memory;
  uint64_t bytes;
  uint64_t offset;
} tutti_plugin_piece;

enum {
  TUTTI_PLUGIN_HOST_TO_DEVICE = 1,
  TUTTI_PLUGIN_DEVICE_TO_HOST = 2,
  TUTTI_PLUGIN_DEVICE_TO_DEVICE = 3
};

/* The most dimensions that copy_strided takes, and the most inputs that reduce takes. */
enum { TUTTI_PLUGIN_MAX_RANK = 16, TUTTI_PLUGIN_MAX_INPUTS = 256 };

/* What reduce takes in place of a TUTTI_REDUCE_*: inputs[0][i] - inputs[1][i] - ..., of numbers. A
 * plugin that has no kernel for it says INVALID_ARGUMENT. */
enum { TUTTI_PLUGIN_DIFFERENCE = 64 };

/* ---- Communicators: collective operations between devices, by NCCL ---- */

typedef struct tutti_plugin_communicator tutti_plugin_communicator;

enum {
  TUTTI_PLUGIN_COMMUNICATOR_ID_BYTES = 128,
  TUTTI_PLUGIN_NO_COLOR = -1 /* split: this rank is in none of the new communicators */
};

/* What an NCCL has beyond what all have; the version that brought it. */
enum {
  TUTTI_PLUGIN_CAN_ALLOCATE = 1,         /* 2.19: memory that is registered at once */
  TUTTI_PLUGIN_CAN_REGISTER = 2,         /* 2.19 */
  TUTTI_PLUGIN_CAN_SHRINK = 4,           /* 2.27 */
  TUTTI_PLUGIN_CAN_REGISTER_WINDOW = 8,  /* 2.27 */
  TUTTI_PLUGIN_CAN_REVOKE = 16,          /* 2.28 */
  TUTTI_PLUGIN_CAN_GROW = 32,            /* 2.29 */
  TUTTI_PLUGIN_CAN_SHARE_DEVICES = 64,   /* 2.30: several ranks on one device */
  TUTTI_PLUGIN_CAN_ENCRYPT = 128         /* 2.32 */
};

/* The NCCL that there is. */
typedef struct tutti_plugin_communicator_library {
  size_t struct_size;
  int32_t version;       /* 23007 is 2.30.7 */
  uint32_t capabilities; /* TUTTI_PLUGIN_CAN_* */
  char file[512];        /* where it was found; cut where it is longer */
  char origin[64];       /* "the process", "TUTTI_NCCL_LIBRARY", "the system" */
} tutti_plugin_communicator_library;

/* What holds for all communicators of a process. */
typedef struct tutti_plugin_communicator_settings {
  size_t struct_size;
  const char *network_interface; /* the job's, "eth0"; NULL: NCCL chooses */
  int32_t share_devices;         /* 1: several ranks may be on one device, where NCCL can do that */
  const char *encryption_key;    /* 32 characters or more; NULL: what is sent can be read */
} tutti_plugin_communicator_settings;

typedef struct tutti_plugin_communicator_config {
  size_t struct_size;
  int32_t device;
  int32_t rank;
  int32_t num_ranks;
  uint8_t id[128]; /* TUTTI_PLUGIN_COMMUNICATOR_ID_BYTES */
  int32_t min_blocks; /* of a kernel of NCCL's; 0: NCCL chooses */
  int32_t max_blocks;
} tutti_plugin_communicator_config;

typedef struct tutti_plugin_communicator_info {
  size_t struct_size;
  int32_t device;
  int32_t rank;
  int32_t num_ranks;
  int32_t state; /* TUTTI_PLUGIN_COMMUNICATOR_* */
} tutti_plugin_communicator_info;

enum {
  TUTTI_PLUGIN_COMMUNICATOR_BEGUN = 0, /* await_ready has not returned yet */
  TUTTI_PLUGIN_COMMUNICATOR_READY = 1,
  TUTTI_PLUGIN_COMMUNICATOR_FAILED = 2,
  TUTTI_PLUGIN_COMMUNICATOR_REVOKED = 3,
  TUTTI_PLUGIN_COMMUNICATOR_FINALIZED = 4,
  TUTTI_PLUGIN_COMMUNICATOR_ABORTED = 5
};

/* Communicators never block inside NCCL: what takes longer is asked for again and again, and
 * `wait` (NULL: nothing) ends the asking. A communicator whose wait was ended is in an unknown
 * state: it can only be aborted.
 *
 * One thread at a time uses a communicator, but for abort, poll and info. Messages end with what
 * NCCL said last.
 * An error of NCCL is UNAVAILABLE when another rank has failed, INVALID_ARGUMENT when a call was
 * wrong, DATA_LOSS when the device is lost, else INTERNAL; the communicator has failed from then
 * on.
 *
 * Operations take addresses of the communicator's device and a stream of it (INVALID_ARGUMENT for
 * another's). They return when they stand on the stream. The result stands in the order of NCCL's
 * folds, which are not the CPU's. `in` may be `out`. UNIMPLEMENTED for what NCCL does not have:
 *   - reductions of TUTTI_DTYPE_INT16 and UINT16, and of BOOL other than MIN and MAX; MIN, MAX and
 *     PROD of complex numbers; MEAN of integers; TUTTI_REDUCE_BAND, BOR and BXOR
 *   - TUTTI_DTYPE_BYTES everywhere. What only moves takes all other dtypes. */
typedef struct tutti_plugin_communicator_api {
  size_t struct_size;

  /* The NCCL that is used: one that is in the process already, then the one that
   * TUTTI_NCCL_LIBRARY names, then libnccl.so.2. NOT_FOUND says where none was found,
   * FAILED_PRECONDITION which is too old and from which version on it would do. Needs no device. */
  tutti_status *(*library)(tutti_plugin *plugin, tutti_plugin_communicator_library *out_library);
  /* Before the first id and communicator of the process; later what differs from before is
   * FAILED_PRECONDITION. The user's own NCCL_SOCKET_IFNAME wins. A key is UNIMPLEMENTED where NCCL
   * cannot encrypt. */
  tutti_status *(*configure)(tutti_plugin *plugin,
                             const tutti_plugin_communicator_settings *settings);
  /* Names a communicator that is to be, in TUTTI_PLUGIN_COMMUNICATOR_ID_BYTES; one rank asks for
   * it and gives it to the others. NCCL listens from then on, on the network interface of the
   * settings: who connects first is believed. FAILED_PRECONDITION without a device. */
  tutti_status *(*get_unique_id)(tutti_plugin *plugin, uint8_t *out_id);

  /* Begins to make this rank's part; await_ready waits until all ranks have come. One thread may
   * begin several before it waits for the first. */
  tutti_status *(*create)(tutti_plugin *plugin, const tutti_plugin_communicator_config *config,
                          tutti_plugin_communicator **out_communicator);
  tutti_status *(*await_ready)(tutti_plugin_communicator *communicator,
                               const tutti_plugin_wait *wait);
  tutti_status *(*info)(tutti_plugin_communicator *communicator,
                        tutti_plugin_communicator_info *out_info);
  /* The asynchronous error: NULL while all is well, also while something is in progress. */
  tutti_status *(*poll)(tutti_plugin_communicator *communicator);

  /* Operations. Between group_start and group_end of a thread they are collected, and group_end
   * waits until all of them stand on their streams; it is called after an error, too. Otherwise
   * `wait` ends what NCCL has to prepare first. Counts are of elements of `dtype`: all_gather takes
   * `elements` of each rank and gives num_ranks times as many, reduce_scatter the reverse. */
  tutti_status *(*group_start)(tutti_plugin *plugin);
  tutti_status *(*group_end)(tutti_plugin *plugin, const tutti_plugin_wait *wait);
  tutti_status *(*all_reduce)(tutti_plugin_communicator *communicator, tutti_plugin_stream *stream,
                              int32_t op, int32_t dtype, const void *in, void *out,
                              uint64_t elements, const tutti_plugin_wait *wait);
  tutti_status *(*reduce)(tutti_plugin_communicator *communicator, tutti_plugin_stream *stream,
                          int32_t op, int32_t dtype, const void *in, void *out, uint64_t elements,
                          int32_t root, const tutti_plugin_wait *wait);
  tutti_status *(*broadcast)(tutti_plugin_communicator *communicator, tutti_plugin_stream *stream,
                             int32_t dtype, const void *in, void *out, uint64_t elements,
                             int32_t root, const tutti_plugin_wait *wait);
  tutti_status *(*all_gather)(tutti_plugin_communicator *communicator, tutti_plugin_stream *stream,
                              int32_t dtype, const void *in, void *out, uint64_t elements,
                              const tutti_plugin_wait *wait);
  tutti_status *(*reduce_scatter)(tutti_plugin_communicator *communicator,
                                  tutti_plugin_stream *stream, int32_t op, int32_t dtype,
                                  const void *in, void *out, uint64_t elements,
                                  const tutti_plugin_wait *wait);
  tutti_status *(*send)(tutti_plugin_communicator *communicator, tutti_plugin_stream *stream,
                        int32_t dtype, const void *in, uint64_t elements, int32_t peer,
                        const tutti_plugin_wait *wait);
  tutti_status *(*receive)(tutti_plugin_communicator *communicator, tutti_plugin_stream *stream,
                           int32_t dtype, void *out, uint64_t elements, int32_t peer,
                           const tutti_plugin_wait *wait);

  /* New communicators out of one, begun as by create. Ranks of one color go together, in the order
   * of their keys; NULL comes out for TUTTI_PLUGIN_NO_COLOR. shrink leaves out ranks, which do not
   * call it; `aborting`: 1 ends what is in flight first. grow has `num_ranks` ranks: those of the
   * old one call it, that one with the id that asked for it by grow_id, the others with NULL; those
   * that come call join with that id and their new rank. UNIMPLEMENTED where NCCL has it not. */
  tutti_status *(*split)(tutti_plugin_communicator *communicator, int32_t color, int32_t key,
                         tutti_plugin_communicator **out_communicator);
  tutti_status *(*shrink)(tutti_plugin_communicator *communicator, const int32_t *left_out,
                          int32_t num_left_out, int32_t aborting,
                          tutti_plugin_communicator **out_communicator);
  tutti_status *(*grow_id)(tutti_plugin_communicator *communicator, uint8_t *out_id);
  tutti_status *(*grow)(tutti_plugin_communicator *communicator, int32_t num_ranks,
                        const uint8_t *id, tutti_plugin_communicator **out_communicator);
  tutti_status *(*join)(tutti_plugin *plugin, const tutti_plugin_communicator_config *config,
                        tutti_plugin_communicator **out_communicator);

  /* Refuses new operations and ends those in flight, so that split, shrink and destroy can follow,
   * also of one that has failed.
   * UNIMPLEMENTED where NCCL has it not. */
  tutti_status *(*revoke)(tutti_plugin_communicator *communicator, const tutti_plugin_wait *wait);
  /* Waits until all operations are done on all ranks; then destroy ends nothing early. */
  tutti_status *(*finalize)(tutti_plugin_communicator *communicator,
                            const tutti_plugin_wait *wait);
  /* Ends what these communicators do at once, in one group on a thread of its own. When `wait` ends
   * it, the communicators and that thread are left alone for ever, which the log and the status
   * say; the handles are destroyed as always. */
  tutti_status *(*abort)(tutti_plugin *plugin, tutti_plugin_communicator *const *communicators,
                         uint64_t count, const tutti_plugin_wait *wait);
  /* Gives up the handle. What was neither finalized nor aborted is aborted first, within 10 s. */
  void (*destroy)(tutti_plugin_communicator *communicator);

  /* Memory that NCCL reaches faster. register_memory gives a handle for unregister_memory;
   * `window`: 1 registers it on all ranks together (CAN_REGISTER_WINDOW). allocate gives memory of
   * the device for release, charged to the device's account. */
  tutti_status *(*allocate)(tutti_plugin *plugin, int32_t device, uint64_t bytes,
                            void **out_memory);
  tutti_status *(*release)(tutti_plugin *plugin, int32_t device, void *memory);
  tutti_status *(*register_memory)(tutti_plugin_communicator *communicator, void *memory,
                                   uint64_t bytes, int32_t window, const tutti_plugin_wait *wait,
                                   void **out_registration);
  tutti_status *(*unregister_memory)(tutti_plugin_communicator *communicator, void *registration);

  /* Communicators of the process whose abort has hung. */
  int32_t (*num_quarantined)(tutti_plugin *plugin);
} tutti_plugin_communicator_api;

/* What a plugin gives to the library. */
typedef struct tutti_plugin_api {
  size_t struct_size;
  uint32_t abi_version;
  const char *name;    /* "cuda"; static */
  const char *version; /* of the plugin, "0.1.0"; static */

  /* How many devices there are, and why there is none: "" when there are some. The text lives as
   * long as the plugin. */
  int32_t (*device_count)(tutti_plugin *plugin);
  const char *(*why_no_device)(tutti_plugin *plugin);
  /* Fills what struct_size has room for. Neither of the two starts to use the device. */
  tutti_status *(*device_properties)(tutti_plugin *plugin, int32_t device,
                                     tutti_plugin_device_properties *out_properties);
  tutti_status *(*memory_info)(tutti_plugin *plugin, int32_t device,
                               tutti_plugin_memory_info *out_info);

  /* Memory of a device, aligned to 256; 0 bytes give NULL. RESOURCE_EXHAUSTED says what was asked
   * for, what is used and what is free. release_memory waits for all work of the device; work that
   * is given back on a stream is free when the stream's work before it is done. */
  tutti_status *(*allocate_memory)(tutti_plugin *plugin, int32_t device, uint64_t bytes,
                                   void **out_memory);
  tutti_status *(*release_memory)(tutti_plugin *plugin, int32_t device, void *memory);
  tutti_status *(*allocate_on_stream)(tutti_plugin_stream *stream, uint64_t bytes,
                                      void **out_memory);
  tutti_status *(*release_on_stream)(tutti_plugin_stream *stream, void *memory);
  /* Host memory from which, and to which, copies run while the host goes on. */
  tutti_status *(*allocate_pinned)(tutti_plugin *plugin, int32_t device, uint64_t bytes,
                                   void **out_memory);
  tutti_status *(*release_pinned)(tutti_plugin *plugin, int32_t device, void *memory);

  /* A stream of the plugin's own; or one of another library's on the same device, by its handle: 1
   * is the default stream, 2 the default stream of the calling thread, 0 is refused. destroy waits
   * for nothing: what was begun goes on. A wrapped stream stays its owner's. */
  tutti_status *(*create_stream)(tutti_plugin *plugin, int32_t device,
                                 tutti_plugin_stream **out_stream);
  tutti_status *(*wrap_stream)(tutti_plugin *plugin, int32_t device, uint64_t handle,
                               tutti_plugin_stream **out_stream);
  uint64_t (*stream_handle)(tutti_plugin_stream *stream);
  int32_t (*stream_device)(tutti_plugin_stream *stream);
  tutti_status *(*wait_for_stream)(tutti_plugin_stream *stream, const tutti_plugin_wait *wait);
  void (*destroy_stream)(tutti_plugin_stream *stream);

  /* A point in the work of a stream. `timed`: event_elapsed takes it. An event that was never
   * recorded counts as reached. */
  tutti_status *(*create_event)(tutti_plugin *plugin, int32_t device, int32_t timed,
                                tutti_plugin_event **out_event);
  tutti_status *(*record_event)(tutti_plugin_event *event, tutti_plugin_stream *stream);
  tutti_status *(*query_event)(tutti_plugin_event *event, int32_t *out_reached);
  tutti_status *(*wait_for_event)(tutti_plugin_event *event, const tutti_plugin_wait *wait);
  /* What comes later on the stream waits for the event, also one of another device. */
  tutti_status *(*stream_wait_event)(tutti_plugin_stream *stream, tutti_plugin_event *event);
  /* Milliseconds between two timed events that were reached. */
  tutti_status *(*event_elapsed)(tutti_plugin_event *begin, tutti_plugin_event *end,
                                 double *out_ms);
  void (*destroy_event)(tutti_plugin_event *event);

  /* Copies of one of the three directions. A copy from host memory that is not pinned has read it
   * when the call returns. DEVICE_TO_DEVICE takes addresses of two devices, too. */
  tutti_status *(*copy)(tutti_plugin_stream *stream, int32_t direction, void *destination,
                        const void *source, uint64_t bytes);
  tutti_status *(*fill)(tutti_plugin_stream *stream, void *memory, unsigned char byte,
                        uint64_t bytes);

  /* Kernels. FAILED_PRECONDITION where the plugin has no machine code for the device. */
  /* Gathers `count` pieces into `packed`; and scatters them from there. */
  tutti_status *(*pack)(tutti_plugin_stream *stream, const tutti_plugin_piece *pieces,
                        uint64_t count, void *packed);
  tutti_status *(*unpack)(tutti_plugin_stream *stream, const tutti_plugin_piece *pieces,
                          uint64_t count, const void *packed);
  /* out[i] = inputs[0][i] op inputs[1][i] op ..., in that order; float16 and bfloat16 are
   * accumulated in float32. `out` may be one of the inputs. At most TUTTI_PLUGIN_MAX_INPUTS. */
  tutti_status *(*reduce)(tutti_plugin_stream *stream, int32_t op, int32_t dtype,
                          const void *const *inputs, uint64_t count, uint64_t elements, void *out);
  /* out[i] = in[i] * factor; integers in double, truncated and saturated. */
  tutti_status *(*scale)(tutti_plugin_stream *stream, int32_t dtype, const void *in, double factor,
                         uint64_t elements, void *out);
  tutti_status *(*cast)(tutti_plugin_stream *stream, int32_t from, const void *in, int32_t to,
                        void *out, uint64_t elements);
  /* Elements of `item_bytes` (1, 2, 4, 8, 16) of an array of `rank` dimensions; strides count
   * elements and may be negative or 0 on the side of the source. */
  tutti_status *(*copy_strided)(tutti_plugin_stream *stream, uint64_t item_bytes, int32_t rank,
                                const int64_t *shape, const void *in, const int64_t *in_strides,
                                void *out, const int64_t *out_strides);
  /* Adds to device memory: out_counts[0] the NaNs, [1] the infinities among the elements; a complex
   * number counts as two. */
  tutti_status *(*check_numerics)(tutti_plugin_stream *stream, int32_t dtype, const void *in,
                                  uint64_t elements, uint64_t *out_counts);

  /* Ends the plugin, when all that was made with it is gone; for tests. */
  void (*close)(tutti_plugin *plugin);

  /* NULL: the plugin has no communicators. */
  const tutti_plugin_communicator_api *communicators;

  /* Whether kernels of `device` can work on memory of `peer` where it lies: 1, and from then on
   * they may, or 0 where the machine has no way between the two; copies go between all devices. It
   * is memory that this table allocates, or that other libraries allocate the ordinary way. */
  tutti_status *(*reach_peer)(tutti_plugin *plugin, int32_t device, int32_t peer,
                              int32_t *out_reaches);
} tutti_plugin_api;

TUTTI_END_DECLS

#endif /* TUTTI_PLUGIN_H_ */
