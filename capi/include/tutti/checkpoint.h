/* Checkpoints: named objects of a strategy that are saved and restored together, in files that
 * other programs can read (safetensors).
 *
 * A checkpoint is named by a prefix, "run/ckpt-7": <prefix>.safetensors holds the variables,
 * <prefix>.worker-<i>-of-<n>.safetensors where worker i stands in its data, and <prefix>.json,
 * which is written last, makes it exist. A program killed at any point leaves the old checkpoint or
 * the new one. With several workers every worker makes the same calls in the same order and with
 * the same names, and the directory is one that all of them see; a failure of one fails the call on
 * all. Objects may be added in any order, another one on each worker: they are saved and restored
 * in that of their names as UTF-8 bytes. A restore that fails leaves every object as it was, on all
 * workers. */
#ifndef TUTTI_CHECKPOINT_H_
#define TUTTI_CHECKPOINT_H_

#include <tutti/communicator.h>
#include <tutti/distributed.h>
#include <tutti/variable.h>

TUTTI_BEGIN_DECLS

/* A checkpoint without objects. With a strategy of this process alone, in a process that has joined
 * a cluster of several workers or that TF_CONFIG says to be one of several, saving and writing are
 * FAILED_PRECONDITION: the workers would overwrite each other's files.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_create(tutti_strategy *strategy,
                                                tutti_checkpoint **out_checkpoint);

/* One that the ranks of `communicator` save and restore together, without a strategy: rank i stands
 * where worker i is said here. Its calls are calls of the communicator, of which nothing else may
 * be under way.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_create_for_communicator(
    tutti_communicator *communicator, tutti_checkpoint **out_checkpoint);

/* Worker 0 saves its value under `name`; all workers restore it.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_add_variable(tutti_checkpoint *checkpoint,
                                                      const char *name, tutti_variable *variable);

/* The position of all workers, from which any number of workers goes on
 * (tutti_distributed_iterator_save_joint). Where there can be no such position a warning says so,
 * and each worker saves and restores its own.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_add_distributed_iterator(
    tutti_checkpoint *checkpoint, const char *name, tutti_distributed_iterator *iterator);

/* Each worker saves and restores its own position.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_add_iterator(tutti_checkpoint *checkpoint,
                                                      const char *name, tutti_iterator *iterator);

/* What the tensor holds when it is saved, equal on all workers; a restore writes into its memory.
 * INVALID_ARGUMENT for a read-only tensor and for byte strings.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_add_tensor(tutti_checkpoint *checkpoint, const char *name,
                                                    tutti_tensor *tensor);

/* Writes the files of `prefix`, in a directory that exists, durably. A checkpoint of that prefix is
 * replaced, all at once.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_save(tutti_checkpoint *checkpoint, const char *prefix,
                                              int64_t step, const tutti_call_options *call);

/* Gives every object what the checkpoint holds under its name; other names are passed over.
 * NOT_FOUND when there is no such checkpoint or no value for an object, INVALID_ARGUMENT for
 * another dtype or shape, DATA_LOSS naming a file that is missing, cut off or changed. `out_step`,
 * which may be NULL, is the step that was given to save.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_restore(tutti_checkpoint *checkpoint, const char *prefix,
                                                 const tutti_call_options *call,
                                                 int64_t *out_step);

/* One safetensors file at `path` and nothing else. FAILED_PRECONDITION with several workers and
 * iterators among the objects.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_write(tutti_checkpoint *checkpoint, const char *path,
                                               const tutti_call_options *call);

/* From a safetensors file, ours or another program's; as restore, but without a checksum.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_read(tutti_checkpoint *checkpoint, const char *path,
                                              const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_checkpoint_retain(const tutti_checkpoint *checkpoint);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_checkpoint_release(const tutti_checkpoint *checkpoint);

/* The checkpoints of one directory, of which the last few stay. */
enum { TUTTI_KEEP_ALL = -1 };

typedef struct tutti_checkpoint_manager_options {
  size_t struct_size;
  int64_t max_to_keep; /* default 5; or TUTTI_KEEP_ALL */
  const char *name;    /* default "ckpt": prefixes are <directory>/<name>-<step> */
} tutti_checkpoint_manager_options;
#define TUTTI_CHECKPOINT_MANAGER_OPTIONS_INIT \
  { sizeof(tutti_checkpoint_manager_options), 0, NULL }

/* Touches nothing on the disk; the directory is made by the first save.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_manager_create(
    tutti_checkpoint *checkpoint, const char *directory,
    const tutti_checkpoint_manager_options *options, tutti_checkpoint_manager **out_manager);

/* Saves as <directory>/<name>-<step>, then removes the oldest beyond max_to_keep. First it removes
 * what killed programs have left half written: one program at a time saves into a directory.
 * `out_prefix` may be NULL.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_manager_save(tutti_checkpoint_manager *manager,
                                                      int64_t step, const tutti_call_options *call,
                                                      tutti_bytes **out_prefix);

/* Restores the checkpoint that was saved last; one that is damaged is an error that names the file,
 * never passed over. *out_step = -1, with success, when there is none.
 * Context: cross-replica. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_manager_restore_latest(tutti_checkpoint_manager *manager,
                                                                const tutti_call_options *call,
                                                                int64_t *out_step);

/* The prefix of the checkpoint that was saved last; *out_prefix = NULL when there is none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_manager_latest(const tutti_checkpoint_manager *manager,
                                                        tutti_bytes **out_prefix);

/* The prefixes of all checkpoints that are there, a list of strings, the one saved last at its end.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_checkpoint_manager_list(const tutti_checkpoint_manager *manager,
                                                      tutti_value **out_prefixes);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_checkpoint_manager_retain(const tutti_checkpoint_manager *manager);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_checkpoint_manager_release(const tutti_checkpoint_manager *manager);

TUTTI_END_DECLS

#endif /* TUTTI_CHECKPOINT_H_ */
