/* The runtime: threads, memory accounts, configuration, logging. Root constructors take one; NULL
 * is the process's default runtime, which starts at first use. Several may live in one process.
 *
 * Life and death. After shutdown every call on the runtime's objects is FAILED_PRECONDITION but
 * `_release`, and `_close`, which finds them closed; tensors, values, specs and statuses are data
 * and stay readable. The default runtime can then be started again. A process that exits without
 * shutdown joins nothing. In a child made by fork() every call but `_release` fails: start a fresh
 * process instead. */
#ifndef TUTTI_RUNTIME_H_
#define TUTTI_RUNTIME_H_

#include <tutti/call.h>

TUTTI_BEGIN_DECLS

typedef int32_t tutti_log_level;
enum {
  TUTTI_LOG_DEBUG = 1,
  TUTTI_LOG_INFO = 2,
  TUTTI_LOG_WARNING = 3,
  TUTTI_LOG_ERROR = 4,
  TUTTI_LOG_OFF = 5
};

/* Receives one line without a line end. A notification; called by one thread at a time. */
typedef void (*tutti_log_fn)(tutti_log_level level, tutti_string_view line, void *user_data);

typedef struct tutti_runtime_options {
  size_t struct_size;
  /* Settings that beat the environment variables; `count` keys and values as text, see
   * tutti_runtime_set. */
  size_t setting_count;
  const char *const *setting_keys;
  const char *const *setting_values;
} tutti_runtime_options;
#define TUTTI_RUNTIME_OPTIONS_INIT \
  { sizeof(tutti_runtime_options), 0, NULL, NULL }

/* Starts a runtime of its own, beside the default one. An unknown setting is INVALID_ARGUMENT and
 * names the known ones.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_create(const tutti_runtime_options *options,
                                             tutti_runtime **out_runtime);

/* The process's default runtime, started if it is not running, with a reference for the caller.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_get_or_start_default(tutti_runtime **out_runtime);

/* Closes every iterator, strategy and communicator of the runtime, runs the outstanding `destroy`
 * callbacks and joins all its threads. NULL is the default runtime; if that is not running nothing
 * happens. Calling it again is fine. Errors: DEADLINE_EXCEEDED when a callback of the host does not
 * return in time (the rest is shut down all the same).
 * Context: host. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_shutdown(tutti_runtime *runtime,
                                               const tutti_call_options *call);

/* For a process that goes because of an error of its own, before it shuts down: tells the workers
 * of its job why (tutti_cluster_fail). NULL is the default runtime, if it is running. Nothing
 * happens without a job.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_runtime_fail(tutti_runtime *runtime, const char *message);

/* Shuts the default runtime down for good: what would start it again is FAILED_PRECONDITION from
 * now on, also when this fails. For the end of a process whose threads may go on: those of Python
 * that are daemons, and Java's, whose packages call this at exit. Runtimes that are created have
 * their own life. Errors as of tutti_runtime_shutdown.
 * Context: host. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_end_default(const tutti_call_options *call);

/* 1 while the runtime can be used.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_runtime_is_running(const tutti_runtime *runtime);

/* Changes a setting of a running runtime by its name; the value is text ("3", "2.5", "true",
 * "info", "500ms"). Keys (variable TUTTI_<KEY> in upper case): log_level, compute_threads,
 * memory_limit, default_timeout, flight_recorder_dir; replicas, join_timeout, silence_limit,
 * transport, elastic (0 or 1), reproducible (0 or 1), soft_device_placement (0 or 1: 1 places on
 * CPU:0 what cannot be placed where it is said) and collective_table (the path of a file of rows,
 * or "rows:" and rows with semicolons between: tutti_runtime_describe_collectives) for what is made
 * afterwards. Unknown key or bad value: INVALID_ARGUMENT; logical_cpu_devices, which is
 * fixed at start: FAILED_PRECONDITION.
 *
 * reproducible: 1 makes every fold go in the order of the ranks, element by element, so that at a
 * given number of ranks sums of floats have the same bits however the ranks are spread over hosts,
 * whatever the transport, the algorithm and the packing. If one worker wants it, all do. The ranks
 * of a strategy are then its replicas, worker by worker: 1 worker of 4, 2 of 2 and 4 of 1 give the
 * same bits. (Otherwise the replicas of a worker fold among themselves first.) Where workers have
 * several replicas that costs about as many times the bytes between workers.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_set(tutti_runtime *runtime, const char *key,
                                          const char *value);

/* The effective value as text.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_read_setting(tutti_runtime *runtime, const char *key,
                                                   tutti_bytes **out_value);

/* All settings as a JSON object {key: {"value": ..., "source":
 * "argument"|"variable"|"file"|"default"}}.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_describe(tutti_runtime *runtime, tutti_bytes **out_json);

/* Which algorithm a collective takes: a row a line, the first that fits a call holds, in the form
 * that the setting collective_table reads. Columns: collective; where (in_process, shared_memory,
 * tcp, mixed, and hosts: several, of which some have several ranks); ranks ("any", "4", "2-4",
 * "2-"); up to how many bytes ("any", "32KiB", "64KiB/ranks", "64KiB/peers"); algorithm; chunk,
 * where there is one to choose. In a group of several processes the table of worker 0 holds.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_describe_collectives(tutti_runtime *runtime,
                                                           tutti_bytes **out_text);

/* The seed behind every dataset operation that was given none; present = 0 goes back to random
 * seeds.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_set_random_seed(tutti_runtime *runtime,
                                                      tutti_optional_int64 seed);

/* Sends the log lines to `log` instead of stderr; NULL goes back. Returns when the former sink is
 * no longer running, after which its `user_data` may go.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_set_log_sink(tutti_runtime *runtime, tutti_log_fn log,
                                                   void *user_data);

/* The flight recorder's last records as JSON.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_runtime_dump_recorder(tutti_runtime *runtime, tutti_bytes **out_json);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_runtime_retain(const tutti_runtime *runtime);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_runtime_release(const tutti_runtime *runtime);

TUTTI_END_DECLS

#endif /* TUTTI_RUNTIME_H_ */
