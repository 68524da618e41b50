/* Distributed datasets: each step gives every replica its part of a global batch.
 *
 * tutti_strategy_distribute_dataset cuts every batch of b rows into slices of ceil(b / replicas)
 * rows, trailing slices empty, never across batches (TUTTI_REBATCH_EVEN: slices of static, nearly
 * equal sizes, across batches). Several workers share the data by the option
 * experimental_distribute.auto_shard_policy: by files, by slices, or not at all. When replicas run
 * out at different steps, those without data get batches of 0 rows, until none has data.
 *
 * The leaves of a batch are distributed, or, where this process has one replica, its plain leaves.
 * A batch tells tutti_strategy_run how many rows the step has over all replicas: it, its leaves and
 * its tensors, in whatever value they are passed on, but nothing that is made of their elements. */
#ifndef TUTTI_DISTRIBUTED_H_
#define TUTTI_DISTRIBUTED_H_

#include <tutti/iterator.h>
#include <tutti/strategy.h>

TUTTI_BEGIN_DECLS

/* How a batch is cut over replicas. */
typedef int32_t tutti_rebatch;
enum { TUTTI_REBATCH_CEIL = 1, TUTTI_REBATCH_EVEN = 2 };

/* How many input pipelines there are: one for each worker, or one for each replica. PER_REPLICA is
 * for tutti_strategy_distribute_datasets_from_function of a Mirrored strategy, and UNIMPLEMENTED
 * elsewhere. */
typedef int32_t tutti_input_replication;
enum { TUTTI_INPUT_PER_WORKER = 1, TUTTI_INPUT_PER_REPLICA = 2 };

/* A thread makes elements before they are asked for, from the first next on: the one that each
 * replica gets next, on its device with prefetch_to_device, else on the host, which for a CPU is
 * the same memory; and with prefetch_to_device the slices of one more step, behind the cutting of
 * batches. A dataset that is placed on its device makes none ahead. */
typedef struct tutti_input_options {
  size_t struct_size;
  tutti_rebatch rebatch;             /* default CEIL */
  tutti_tristate prefetch_to_device; /* default true, false with place_dataset_on_device */
  tutti_input_replication replication_mode; /* default PER_WORKER */
  tutti_tristate place_dataset_on_device;   /* default false; true needs PER_REPLICA, and no
                                               prefetch_to_device, else it is INVALID_ARGUMENT */
} tutti_input_options;
#define TUTTI_INPUT_OPTIONS_INIT \
  { sizeof(tutti_input_options), 0, 0, 0, 0 }

/* Cuts the batches of `dataset`, whose elements must be batches: every leaf a tensor of rank >= 1
 * (INVALID_ARGUMENT tells to call batch first).
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_distribute_dataset(tutti_strategy *strategy,
                                                          const tutti_dataset *dataset,
                                                          const tutti_input_options *options,
                                                          const tutti_call_options *call,
                                                          tutti_distributed_dataset **out_dataset);

/* One dataset per input pipeline, made by `fn` (stored; called in cross-replica context when this
 * function runs), whose `in` is the dict {"input_pipeline_id", "num_input_pipelines",
 * "num_replicas_in_sync"} of int64 scalars and whose result is a dataset. Its elements go to the
 * replicas one each, in turn, or, with PER_REPLICA, to the one whose pipeline it is; nothing is
 * rebatched or sharded. Elements need not be batches: a replica without data gets batches of 0
 * rows, and zeros for tensors of rank 0.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_strategy_distribute_datasets_from_function(
    tutti_strategy *strategy, tutti_callback fn, const tutti_input_options *options,
    const tutti_call_options *call, tutti_distributed_dataset **out_dataset);

/* The spec of a step: distributed leaves with the spec of each replica's part (see
 * tutti_spec_create_per_replica), or, where this process has one replica, its plain leaves. The
 * first dimension is unknown where a partial batch can occur. Borrowed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_spec *tutti_distributed_dataset_get_element_spec(
    const tutti_distributed_dataset *dataset);

/* Steps, TUTTI_CARDINALITY_INFINITE or _UNKNOWN.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t
tutti_distributed_dataset_get_cardinality(const tutti_distributed_dataset *dataset);

/* How batches are cut and shared between the workers, and why, as text for people.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_dataset_explain(const tutti_distributed_dataset *dataset,
                                                          tutti_bytes **out_text);

/* The plan of this worker's part with what the iterator that was made last has done, as "text",
 * "json" or "svg": what tutti_dataset_explain_as tells of a dataset. Text begins with how batches
 * are cut and shared. INVALID_ARGUMENT for another format.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_dataset_explain_as(
    const tutti_distributed_dataset *dataset, const char *format, tutti_bytes **out_text);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_distributed_dataset_retain(const tutti_distributed_dataset *dataset);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_distributed_dataset_release(const tutti_distributed_dataset *dataset);

/* Starts at the first step.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_iterator_create(
    const tutti_distributed_dataset *dataset, const tutti_call_options *call,
    tutti_distributed_iterator **out_iterator);

/* The next step's batch, its leaves distributed, or plain where this process has one replica;
 * *out_value = NULL at the end.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_iterator_next(tutti_distributed_iterator *iterator,
                                                        const tutti_call_options *call,
                                                        tutti_value **out_value);

/* As next, as an optional leaf; empty at the end.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_iterator_next_optional(
    tutti_distributed_iterator *iterator, const tutti_call_options *call,
    tutti_value **out_optional);

/* Borrowed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_spec *tutti_distributed_iterator_get_element_spec(
    const tutti_distributed_iterator *iterator);

/* The position as bytes.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_iterator_save(tutti_distributed_iterator *iterator,
                                                        const tutti_call_options *call,
                                                        tutti_bytes **out_state);

/* The position of all workers, the same bytes on each; all call it behind the same step. Any number
 * of workers goes on from it, with every element that is left once: what the workers had left is
 * dealt to those that go on, in turn where several workers share it. FAILED_PRECONDITION where that
 * cannot be promised: for data that all workers read whole (policy OFF), elements that a function
 * of the program's generates, an order that is not deterministic, TUTTI_INPUT_PER_REPLICA, and
 * where the workers are not behind the same step.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_iterator_save_joint(tutti_distributed_iterator *iterator,
                                                              const tutti_call_options *call,
                                                              tutti_bytes **out_state);

/* Goes to a saved position, of an equal dataset and of this release's versions as for an iterator
 * (tutti_iterator_restore). A joint one of another number of workers or replicas is restored by all
 * workers together, from a dataset that is distributed with the same policy and options; steps may
 * have fewer rows then than the spec says, as the workers run out at different ones. More workers
 * than files go on under the policy FILE with the option experimental_distribute.share_files.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_iterator_restore(tutti_distributed_iterator *iterator,
                                                           const void *state, size_t size,
                                                           const tutti_call_options *call);

/* What this worker's pipelines have done so far, as tutti_iterator_explain has it of an iterator: a
 * row of the run is a step, and the consumer is who asks for steps. Where that one waits and the
 * pipelines are in time, the bottleneck is the other workers, or what lies between. As "json" it is
 * what tutti_dataset_gather_report adds up over all ranks. A restore begins anew. It may be asked
 * while another thread iterates, and when the iterator is closed. INVALID_ARGUMENT for another
 * format.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_iterator_explain(
    const tutti_distributed_iterator *iterator, const char *format, tutti_bytes **out_text);

/* Stops and joins its threads.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_distributed_iterator_close(tutti_distributed_iterator *iterator,
                                                         const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_distributed_iterator_retain(const tutti_distributed_iterator *iterator);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_distributed_iterator_release(const tutti_distributed_iterator *iterator);

TUTTI_END_DECLS

#endif /* TUTTI_DISTRIBUTED_H_ */
