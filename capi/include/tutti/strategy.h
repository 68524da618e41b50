/* Strategies: the same step on several replicas, with variables and reductions that keep them in
 * lockstep.
 *
 * Replicas of one process run concurrently: replica 0 on the thread that calls run, the others on
 * threads of the strategy. What a strategy is given or gives is a value; a leaf that differs
 * between replicas is *distributed* (PerReplica). */
#ifndef TUTTI_STRATEGY_H_
#define TUTTI_STRATEGY_H_

#include <tutti/call.h>
#include <tutti/cluster.h>
#include <tutti/communicator.h>
#include <tutti/context.h>

TUTTI_BEGIN_DECLS

/* How a Mirrored strategy reduces: as the library chooses, or as
 * tutti_reducer_create_reduction_to_one_device with nothing else. */
typedef int32_t tutti_cross_device_ops;
enum { TUTTI_CROSS_DEVICE_AUTO = 1, TUTTI_CROSS_DEVICE_REDUCTION_TO_ONE_DEVICE = 2 };

typedef struct tutti_strategy_options {
  size_t struct_size;
  const char *name;
  tutti_cross_device_ops cross_device_ops; /* default auto */
  tutti_reducer *reducer; /* how it reduces, instead of cross_device_ops: reduce, reduce_to, what
                             replicas write into variables, their all_reduce of SUM and MEAN;
                             retained; NULL: none */
} tutti_strategy_options;
#define TUTTI_STRATEGY_OPTIONS_INIT \
  { sizeof(tutti_strategy_options), NULL, 0, NULL }

/* The strategy outside every scope: one replica, nothing distributed.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_default(tutti_runtime *runtime,
                                                      tutti_strategy **out_strategy);

/* Everything on one device.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_one_device(tutti_runtime *runtime, const char *device,
                                                         const tutti_strategy_options *options,
                                                         const tutti_call_options *call,
                                                         tutti_strategy **out_strategy);

/* One replica per device ("GPU:0", "GPU:1"; "CPU:0", "CPU:1": logical devices). No device: all
 * GPUs, else the CPU. GPUs beside CPUs are a warning: what they do together goes through the host.
 * GPUs fold by NCCL where they have it, each brings a tensor and each gets the result: integers,
 * sums and means of two, and, unless the setting reproducible is 1, sums of floats in NCCL's order;
 * else by kernels, in the order of the replicas. A device twice or unknown is INVALID_ARGUMENT.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_mirrored(tutti_runtime *runtime, size_t count,
                                                       const char *const *devices,
                                                       const tutti_strategy_options *options,
                                                       const tutti_call_options *call,
                                                       tutti_strategy **out_strategy);

typedef struct tutti_multi_worker_options {
  size_t struct_size;
  const char *name;
  const tutti_cluster_resolver *resolver; /* default: TF_CONFIG */
  size_t device_count;                    /* 0: as many replicas as the setting replicas says, else
                                             all GPUs, else the CPU */
  const char *const *devices;
  tutti_communication implementation; /* default auto */
  int64_t bytes_per_pack; /* tensors of one reduction travel in packs of at most so many bytes, the
                             same on all workers; default 0: as large as it goes. Both hold for
                             calls whose own communication options say nothing else */
} tutti_multi_worker_options;
#define TUTTI_MULTI_WORKER_OPTIONS_INIT \
  { sizeof(tutti_multi_worker_options), NULL, NULL, 0, NULL, 0, 0 }

/* The replicas of several processes: chief and workers of the resolver's cluster, each with equally
 * many devices. Without a cluster this process is alone. Every worker makes the same calls on its
 * strategy in the same order: this one, creating variables, distributing datasets, run, reduce,
 * gather. Replicas are numbered through all workers. Errors: as tutti_cluster_join; when a worker
 * dies, whatever waits for it fails with UNAVAILABLE that names it (details "rank", "worker").
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_multi_worker_mirrored(
    tutti_runtime *runtime, const tutti_multi_worker_options *options,
    const tutti_call_options *call, tutti_strategy **out_strategy);

/* The replicas of the ranks of `communicator`, each with as many as the setting replicas says, else
 * all its GPUs, else the CPU: a MultiWorkerMirrored strategy whose workers are the ranks, all of
 * which call this. It lasts as long as the communicator's epoch: of an elastic job the next one is
 * made over what tutti_communicator_shrink or _grow gives. What it needs it splits from the
 * communicator, of which nothing else may be under way meanwhile. INVALID_ARGUMENT on all where a
 * rank has another number of replicas.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_for_communicator(tutti_communicator *communicator,
                                                               const char *name,
                                                               const tutti_call_options *call,
                                                               tutti_strategy **out_strategy);

/* This process's place among the strategy's workers, 0 where there is one only.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_strategy_get_worker(const tutti_strategy *strategy);

/* The workers, this one included.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_strategy_get_worker_count(const tutti_strategy *strategy);

/* The resolver of a MultiWorkerMirrored strategy, with one worker, too: that which was given, else
 * the one that reads TF_CONFIG; NULL for other strategies. Borrowed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_cluster_resolver *tutti_strategy_get_cluster_resolver(
    const tutti_strategy *strategy);

/* All replicas of all workers.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_strategy_get_num_replicas_in_sync(const tutti_strategy *strategy);

/* The replicas of this process.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_strategy_get_local_replica_count(const tutti_strategy *strategy);

/* The device of a local replica, "/device:CPU:0"; NULL past the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_strategy_get_worker_device(const tutti_strategy *strategy,
                                                       size_t replica);

/* "MirroredStrategy" and so on; static.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_strategy_get_type_name(const tutti_strategy *strategy);

/* Runs `fn` once per local replica, concurrently. `args` may be NULL; replica i sees component i of
 * every distributed leaf and the value itself of every other. Results are merged leaf by leaf: the
 * identical object, none and equal strings stay one value, tensors become distributed. Returns when
 * no replica is running any more. The first error of a replica stops the others (their collectives
 * fail with ABORTED) and is returned, with "replica" among its details. The call's timeout is
 * looked at when a replica enters a collective and when all have returned, and ends what they wait
 * for: a run that took longer is DEADLINE_EXCEEDED, whether or not a replica had to wait.
 * FAILED_PRECONDITION while another run of this strategy is running.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_run(tutti_strategy *strategy, tutti_fn fn, void *user_data,
                                           const tutti_value *args, const tutti_call_options *call,
                                           tutti_value **out_value);

/* How a step is compiled. Nothing is compiled here: replicas run functions of the program, for
 * which both have no effect. */
typedef struct tutti_run_options {
  size_t struct_size;
  tutti_tristate enable_dynamic_batch_size;  /* default true; of TPUs: batches may be partial */
  tutti_tristate bucketizing_dynamic_shape;  /* default false; of TPUs: shapes are padded to few */
  /* Where the default strategy runs the function, as of tutti_device_place, whose errors are those
   * of the run; NULL, and under other strategies: on the strategy's devices. */
  const char *device;
} tutti_run_options;
#define TUTTI_RUN_OPTIONS_INIT \
  { sizeof(tutti_run_options), 0, 0, NULL }

/* tutti_strategy_run with options, which are checked: INVALID_ARGUMENT for a number that is neither
 * unset nor true nor false. NULL: the defaults.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_run_with_options(
    tutti_strategy *strategy, tutti_fn fn, void *user_data, const tutti_value *args,
    const tutti_run_options *options, const tutti_call_options *call, tutti_value **out_value);

/* Reduces every leaf of `value` over all replicas; the result is on the host of each worker. `axis`
 * NULL: across replicas only, equal shapes. Otherwise also along *axis inside each replica, MEAN
 * over all elements of all replicas. A leaf that is not distributed: MEAN gives it back, SUM is
 * INVALID_ARGUMENT with several replicas. Only SUM and MEAN.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_reduce(tutti_strategy *strategy, tutti_reduce_op op,
                                              const tutti_value *value, const int64_t *axis,
                                              const tutti_call_options *call,
                                              tutti_value **out_value);

/* Joins every distributed leaf along `axis`, in replica order: rank >= 1, equal sizes on all other
 * axes.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_gather(tutti_strategy *strategy, const tutti_value *value,
                                              int64_t axis, const tutti_call_options *call,
                                              tutti_value **out_value);

/* A tuple of the values of this process's replicas, in order; of a value that is not distributed a
 * tuple of one.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_local_results(tutti_strategy *strategy,
                                                     const tutti_value *value,
                                                     tutti_value **out_tuple);

/* A distributed value made by calling `fn` once per local replica, in order, in cross-replica
 * context, where `in` is the dict
 * {"num_replicas_in_sync", "replica_id_in_sync_group"} of int64 scalars.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_values(tutti_strategy *strategy, tutti_fn fn,
                                                     void *user_data,
                                                     const tutti_call_options *call,
                                                     tutti_value **out_value);

/* A distributed value from `count` values of one structure, one per local replica.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_per_replica(tutti_strategy *strategy, size_t count,
                                                          const tutti_value *const *components,
                                                          tutti_value **out_value);

/* The cluster that the strategy's workers sit in; NULL for a strategy of this process alone.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_get_cluster(const tutti_strategy *strategy,
                                                   tutti_cluster **out_cluster);

/* A communicator of the strategy's workers, for calls of the program's own between its runs: a rank
 * per worker, whatever its replicas. All strategies of a job give the same one, until its epoch has
 * ended or it was closed; then every worker asks again, and the next is formed. Of a strategy of
 * this process alone it has one rank, and is another one each time.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_communicator(tutti_strategy *strategy,
                                                    const tutti_call_options *call,
                                                    tutti_communicator **out_communicator);

/* A distributed value that has `value` as each of its components, one per local replica; its
 * distribution is TUTTI_DISTRIBUTION_MIRRORED. INVALID_ARGUMENT for a value with distributed leaves
 * or variables.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_create_mirrored_value(tutti_strategy *strategy,
                                                             const tutti_value *value,
                                                             tutti_value **out_value);

/* Stops and joins the replica threads; later calls are FAILED_PRECONDITION.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_close(tutti_strategy *strategy,
                                             const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_strategy_retain(const tutti_strategy *strategy);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_strategy_release(const tutti_strategy *strategy);

TUTTI_END_DECLS

#endif /* TUTTI_STRATEGY_H_ */
