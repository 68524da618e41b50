/* Clusters: who takes part in a job of several processes, and this process's seat in it.
 *
 * A *cluster spec* lists the tasks of each job ("chief", "worker", "ps", "evaluator") with their
 * addresses. A *cluster resolver* finds the spec, and which task this process is: given as it is,
 * read from TF_CONFIG, asked of a service, or as the program answers. A *cluster* is the seat
 * itself: joining it is a rendezvous of the chief and all workers (chief first, then worker 0, 1,
 * ...), which watch each other from then on. The first of them listens at its address, all others
 * connect to it; every connection proves the job secret (TUTTI_JOB_SECRET_FILE, TUTTI_JOB_SECRET;
 * on loopback a file of the user's own). */
#ifndef TUTTI_CLUSTER_H_
#define TUTTI_CLUSTER_H_

#include <tutti/call.h>
#include <tutti/function.h>

TUTTI_BEGIN_DECLS

/* ---- Cluster specs: immutable ---- */

/* From JSON: {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"], "ps": {"1": "10.0.0.3:2222"}}; a job is
 * a list, or an object from index to address. INVALID_ARGUMENT says where the text is wrong.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_spec_create(const char *json, tutti_cluster_spec **out_spec);

/* The same JSON, jobs by name.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_spec_to_json(const tutti_cluster_spec *spec,
                                                   tutti_bytes **out_json);

/* How many jobs there are.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_cluster_spec_get_job_count(const tutti_cluster_spec *spec);

/* The name of a job, by number, in the order of the names; NULL past the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_cluster_spec_get_job(const tutti_cluster_spec *spec, size_t i);

/* How many tasks a job has; 0 for an unknown one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_cluster_spec_get_task_count(const tutti_cluster_spec *spec, const char *job);

/* The index of the i-th task of a job, indices growing; -1 past the last one.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_cluster_spec_get_task_index(const tutti_cluster_spec *spec, const char *job,
                                                    size_t i);

/* The address of a task; NULL when there is no such task.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const char *tutti_cluster_spec_get_task_address(const tutti_cluster_spec *spec,
                                                          const char *job, int64_t index);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cluster_spec_retain(const tutti_cluster_spec *spec);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cluster_spec_release(const tutti_cluster_spec *spec);

/* ---- Resolvers ---- */

typedef struct tutti_cluster_resolver_options {
  size_t struct_size;
  const char *task_type;                 /* beats what the resolver finds */
  tutti_optional_int64 task_id;          /* the same */
  const char *rpc_layer;                 /* the same; "grpc" */
  const char *environment;               /* the same; "", "google": for the reference's callers */
  const char *master;                    /* of a simple resolver */
  tutti_optional_int64 num_accelerators; /* GPUs of this task; default: of a simple resolver none,
                                            else what the machine has */
  const char *accelerators;              /* the same by types of devices, as JSON: {"GPU": 2} */
} tutti_cluster_resolver_options;
#define TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT \
  { sizeof(tutti_cluster_resolver_options), NULL, {0, 0}, NULL, NULL, NULL, {0, 0}, NULL }

/* Says what it was given.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_simple(
    const tutti_cluster_spec *spec, const tutti_cluster_resolver_options *options,
    tutti_cluster_resolver **out_resolver);

/* Reads the variable TF_CONFIG, anew at each question: {"cluster": {...}, "task": {"type":
 * "worker", "index": 1}}, the index a number or text. No variable: an empty cluster.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_tf_config(
    const tutti_cluster_resolver_options *options, tutti_cluster_resolver **out_resolver);

typedef struct tutti_slurm_resolver_options {
  size_t struct_size;
  const char *jobs;                    /* "ps:1, worker:3", in the order of Slurm's tasks; default:
                                          every task is a worker */
  const char *tasks_per_node;          /* "2", or "n1:2, n2:1"; default: as Slurm says */
  tutti_optional_int64 port_base;      /* the first port on each node; default 8888 */
  tutti_optional_int64 gpus_per_node;  /* default: those that nvidia-smi lists, else 0 */
  tutti_optional_int64 gpus_per_task;  /* default: those of a node by its tasks */
  tutti_tristate auto_set_gpu;         /* default true: CUDA_VISIBLE_DEVICES is set */
  const char *rpc_layer;               /* default "grpc" */
  const char *task_type;               /* beats what Slurm says */
  tutti_optional_int64 task_id;        /* the same */
} tutti_slurm_resolver_options;
#define TUTTI_SLURM_RESOLVER_OPTIONS_INIT                                                   \
  {                                                                                         \
    sizeof(tutti_slurm_resolver_options), NULL, NULL, {0, 0}, {0, 0}, {0, 0}, 0, NULL,      \
        NULL, {0, 0}                                                                        \
  }

/* Reads what srun tells each task of a step, anew at each question: SLURM_STEP_NODELIST,
 * SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NUM_TASKS, SLURM_PROCID. Tasks are dealt to nodes in
 * blocks; the i-th of a node listens at port_base + i. Reading the cluster puts this task's part of
 * the node's GPUs, out of those that CUDA_VISIBLE_DEVICES names, into that variable; no other
 * thread may use the environment meanwhile. What it is asked fails with FAILED_PRECONDITION where
 * Slurm has not started this process, or started fewer tasks or has fewer GPUs than are asked for.
 * INVALID_ARGUMENT for options that do not read.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_slurm(
    const tutti_slurm_resolver_options *options, tutti_cluster_resolver **out_resolver);

typedef struct tutti_kubernetes_resolver_options {
  size_t struct_size;
  const char *job_labels;       /* of each job the label selectors of its pods, as JSON: {"worker":
                                   ["job-name=a", "job-name=b"]}; default: worker has
                                   "job-name=tensorflow" */
  tutti_optional_int64 port;    /* of each task; default 8470 */
  const char *rpc_layer;        /* default "grpc" */
  const char *task_type;        /* default: that of the pod with this machine's name */
  tutti_optional_int64 task_id; /* the same */
  tutti_tristate host_ip;       /* default false: true takes the addresses of the pods' nodes */
  const char *account_folder;   /* of the service account: token, ca.crt, namespace; default: where
                                   Kubernetes mounts it */
  const char *name_space;       /* default: the account's */
  int64_t timeout_ns;           /* of a question with all its pages; 0: 30 s */
} tutti_kubernetes_resolver_options;
#define TUTTI_KUBERNETES_RESOLVER_OPTIONS_INIT                                              \
  {                                                                                         \
    sizeof(tutti_kubernetes_resolver_options), NULL, {0, 0}, NULL, NULL, {0, 0}, 0, NULL,   \
        NULL, 0                                                                             \
  }

/* Asks the API server for the running pods of each job, in the natural order of their names, anew
 * at each question, as the pod's service account, which needs the right to list pods. What it is
 * asked fails with FAILED_PRECONDITION outside of a pod and naming a pod that does not run,
 * UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND, RESOURCE_EXHAUSTED or UNAVAILABLE as the server
 * says, DEADLINE_EXCEEDED. Redirects are not followed. The token is in no message.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_kubernetes(
    const tutti_kubernetes_resolver_options *options, tutti_cluster_resolver **out_resolver);

typedef struct tutti_gce_resolver_options {
  size_t struct_size;
  const char *project;          /* default: this instance's */
  const char *zone;             /* the same */
  tutti_optional_int64 port;    /* of each task; default 8470 */
  const char *task_type;        /* of all instances; default "worker" */
  tutti_optional_int64 task_id; /* of this one; default 0 */
  const char *rpc_layer;        /* default "grpc" */
  const char *token;            /* default: of this instance's account */
  const char *endpoint;         /* default "https://compute.googleapis.com" */
  const char *ca_file;          /* certificates of the endpoint; default: the system's */
  int64_t timeout_ns;           /* of a question with all its pages; 0: 30 s */
} tutti_gce_resolver_options;
#define TUTTI_GCE_RESOLVER_OPTIONS_INIT                                                     \
  {                                                                                         \
    sizeof(tutti_gce_resolver_options), NULL, NULL, {0, 0}, NULL, {0, 0}, NULL, NULL, NULL, \
        NULL, 0                                                                             \
  }

/* Asks Google Compute Engine for the running instances of a group, in the natural order of their
 * names, anew at each question. On an instance project, zone and token are the metadata server's.
 * Errors as of a Kubernetes resolver.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_gce(const char *instance_group,
                                                          const tutti_gce_resolver_options *options,
                                                          tutti_cluster_resolver **out_resolver);

/* `count` resolvers as one, each asked anew at each question: the jobs of all of them; whatever
 * else it is asked, `options` (task_type, task_id and rpc_layer only) answer, else the first one.
 * Lists of one job are joined in order; where one of them has gaps all keep their indices, and a
 * task that comes twice is NOT_FOUND with the detail "job" when the cluster is read.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_union(
    size_t count, const tutti_cluster_resolver *const *resolvers,
    const tutti_cluster_resolver_options *options, tutti_cluster_resolver **out_resolver);

/* A resolver of the program's own, which `answer` speaks for, anew at each question; `name` is for
 * messages. `in` is a tuple of four texts: what is asked, and a task's type, its id and an RPC
 * layer, empty where they are not given. *out is a text (a string or one byte string), none or
 * empty where there is nothing to say. It is asked for "cluster_spec" (as JSON), "task_type",
 * "task_id", "rpc_layer", "environment", "master" (default: the task's address in the cluster) and
 * "num_accelerators" (as JSON, {"GPU": 2}; default: what the machine has). What it fails with is
 * what the question fails with; INVALID_ARGUMENT for an answer that cannot be read. `answer` is
 * called as a function of a dataset, on the thread that asks, several at a time. runtime NULL: the
 * default one, which is held while the resolver lives.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_own(tutti_runtime *runtime, const char *name,
                                                          tutti_callback answer,
                                                          tutti_cluster_resolver **out_resolver);

/* As tutti_cluster_resolver_create_kubernetes, and `client` is asked instead of the API server: for
 * ("list_pods", label selector, page) it gives the JSON of a PodList; `page` is what its
 * metadata.continue said, empty for the first. `client` is called as the function of
 * tutti_cluster_resolver_create_own.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_kubernetes_with_client(
    tutti_runtime *runtime, tutti_callback client, const tutti_kubernetes_resolver_options *options,
    tutti_cluster_resolver **out_resolver);

/* As tutti_cluster_resolver_create_gce with functions of the program's, called as
 * tutti_cluster_resolver_create_own says; one without fn is none. `service` is asked instead of
 * Compute Engine: for ("list_instances", project, zone, group, page) it gives the JSON of the
 * instances, with "items" and "nextPageToken" as Compute Engine's, for ("get_instance", project,
 * zone, name) that of one. `credentials` is asked ("token",) for the token of each request, instead
 * of the option token; there are none to a `service`.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_gce_with_service(
    tutti_runtime *runtime, const char *instance_group, tutti_callback service,
    tutti_callback credentials, const tutti_gce_resolver_options *options,
    tutti_cluster_resolver **out_resolver);

/* The same resolver, whose task_type, task_id and rpc_layer are those of `options`, where they are
 * set; the other options may not be. `resolver` stays as it is.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_create_changed(
    const tutti_cluster_resolver *resolver, const tutti_cluster_resolver_options *options,
    tutti_cluster_resolver **out_resolver);

/* As tutti_cluster_resolver_read_cluster_spec, and the wait for a service ends with the call: with
 * its timeout, and within a second of its cancellation. The resolver's own timeout holds, too.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_ask_cluster_spec(
    const tutti_cluster_resolver *resolver, const tutti_call_options *call,
    tutti_cluster_spec **out_spec);

/* The tasks of the cluster. INVALID_ARGUMENT for a TF_CONFIG that is wrong, saying where.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_read_cluster_spec(
    const tutti_cluster_resolver *resolver, tutti_cluster_spec **out_spec);

/* "worker" and so on; *out_type = NULL when it is not known.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_read_task_type(
    const tutti_cluster_resolver *resolver, tutti_bytes **out_type);

/* Not present when it is not known.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_read_task_id(const tutti_cluster_resolver *resolver,
                                                            tutti_optional_int64 *out_id);

/* *out_layer = NULL when there is none.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_read_rpc_layer(
    const tutti_cluster_resolver *resolver, tutti_bytes **out_layer);

/* The address to connect to, "grpc://10.0.0.1:2222", of a task or, without one, of the master;
 * empty for an empty cluster. NULL and absent arguments: the resolver's own.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_read_master(const tutti_cluster_resolver *resolver,
                                                           const char *task_type,
                                                           tutti_optional_int64 task_id,
                                                           const char *rpc_layer,
                                                           tutti_bytes **out_master);

/* GPUs of this task. Those of this machine where the resolver does not say, but for a simple one,
 * which has what it was given.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_read_num_accelerators(
    const tutti_cluster_resolver *resolver, int64_t *out_count);

/* Accelerators of a task by types of devices, as JSON, {"GPU": 2}; {} for none. task_type NULL and
 * an absent task_id: this task. Otherwise as tutti_cluster_resolver_read_num_accelerators.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_read_accelerators(
    const tutti_cluster_resolver *resolver, const char *task_type, tutti_optional_int64 task_id,
    tutti_bytes **out_json);

/* "" by default.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_resolver_read_environment(
    const tutti_cluster_resolver *resolver, tutti_bytes **out_environment);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cluster_resolver_retain(const tutti_cluster_resolver *resolver);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cluster_resolver_release(const tutti_cluster_resolver *resolver);

/* ---- This process's seat ---- */

typedef struct tutti_cluster_options {
  size_t struct_size;
  int64_t num_replicas; /* of this worker, equal on all; default: the setting replicas, else 1 */
} tutti_cluster_options;
#define TUTTI_CLUSTER_OPTIONS_INIT \
  { sizeof(tutti_cluster_options), 0 }

/* Waits for the chief and all workers of the resolver's cluster (NULL: TF_CONFIG), as long as the
 * call's timeout or else the setting join_timeout allows. A runtime has one seat in a cluster:
 * joining the same one again gives the same object, another one is FAILED_PRECONDITION.
 * Errors: INVALID_ARGUMENT for a resolver that is wrong or empty, an unknown task, an address
 * without a port or one that comes twice, and, on every worker, for workers that do not fit
 * together (versions, replicas, specs); UNAVAILABLE when the first worker cannot be reached, or its
 * port is in use; UNAUTHENTICATED for another job secret; DEADLINE_EXCEEDED names who has not come.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_join(tutti_runtime *runtime,
                                           const tutti_cluster_resolver *resolver,
                                           const tutti_cluster_options *options,
                                           const tutti_call_options *call,
                                           tutti_cluster **out_cluster);

/* This process's place among the workers, from 0.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_cluster_get_worker(const tutti_cluster *cluster);

/* How many workers there are.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API int64_t tutti_cluster_get_worker_count(const tutti_cluster *cluster);

/* "worker 1 (pid 4711)", with its host where that is another one.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_describe_worker(const tutti_cluster *cluster, int64_t worker,
                                                      tutti_bytes **out_text);

/* NULL while the job goes on; else what ended it: UNAVAILABLE with the details "rank" and "worker"
 * for a worker that died or fell silent, or what an abort said.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_check(const tutti_cluster *cluster);

/* Ends the job on all workers with ABORTED and `message`; the first reason stays. It is told to the
 * others in the background: calls that are under way may still succeed.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cluster_abort(tutti_cluster *cluster, const char *message);

/* For a worker that goes because of an error of its own, before it closes: the job ends as by
 * tutti_cluster_abort, so that the others hear why. Nothing happens in an elastic job, which goes
 * on without it, nor when the job has ended before. Waits for the worker that the others listen
 * to, some seconds at most.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cluster_fail(tutti_cluster *cluster, const char *message);

/* Says goodbye to the others and stops the seat's threads. What still needs this worker fails with
 * UNAVAILABLE that says it has left. Shutdown of the runtime does the same.
 * Context: cross-replica. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_cluster_close(tutti_cluster *cluster, const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cluster_retain(const tutti_cluster *cluster);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_cluster_release(const tutti_cluster *cluster);

TUTTI_END_DECLS

#endif /* TUTTI_CLUSTER_H_ */
