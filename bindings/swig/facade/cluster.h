// Who takes part in a job of several processes: cluster specs, resolvers, this process's seat.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_CLUSTER_H_
#define TUTTI_BINDINGS_SWIG_FACADE_CLUSTER_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

namespace tutti_facade {

// ---- resolvers

inline tutti_cluster_resolver_options ResolverOptions(const char *task_type,
                                                      tutti_optional_int64 task_id,
                                                      const char *rpc_layer,
                                                      const char *environment) {
  tutti_cluster_resolver_options options = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
  options.task_type = task_type;
  options.task_id = task_id;
  options.rpc_layer = rpc_layer;
  options.environment = environment;
  return options;
}

inline tutti_status *cluster_resolver_simple(const tutti_cluster_spec *spec, const char *master,
                                             const char *task_type, tutti_optional_int64 task_id,
                                             const char *environment,
                                             tutti_optional_int64 num_accelerators,
                                             const char *rpc_layer,
                                             tutti_cluster_resolver **out_resolver) {
  tutti_cluster_resolver_options options =
      ResolverOptions(task_type, task_id, rpc_layer, environment);
  options.master = master;
  options.num_accelerators = num_accelerators;
  return tutti_cluster_resolver_create_simple(spec, &options, out_resolver);
}
inline tutti_status *cluster_resolver_tf_config(const char *task_type,
                                                tutti_optional_int64 task_id,
                                                const char *rpc_layer, const char *environment,
                                                tutti_cluster_resolver **out_resolver) {
  const tutti_cluster_resolver_options options =
      ResolverOptions(task_type, task_id, rpc_layer, environment);
  return tutti_cluster_resolver_create_tf_config(&options, out_resolver);
}
inline tutti_status *cluster_resolver_slurm(
    const char *jobs, const char *tasks_per_node, tutti_optional_int64 port_base,
    tutti_optional_int64 gpus_per_node, tutti_optional_int64 gpus_per_task,
    tutti_tristate auto_set_gpu, const char *rpc_layer, const char *task_type,
    tutti_optional_int64 task_id, tutti_cluster_resolver **out_resolver) {
  tutti_slurm_resolver_options options = TUTTI_SLURM_RESOLVER_OPTIONS_INIT;
  options.jobs = jobs;
  options.tasks_per_node = tasks_per_node;
  options.port_base = port_base;
  options.gpus_per_node = gpus_per_node;
  options.gpus_per_task = gpus_per_task;
  options.auto_set_gpu = auto_set_gpu;
  options.rpc_layer = rpc_layer;
  options.task_type = task_type;
  options.task_id = task_id;
  return tutti_cluster_resolver_create_slurm(&options, out_resolver);
}
inline tutti_status *cluster_resolver_union(size_t count,
                                            const tutti_cluster_resolver *const *resolvers,
                                            const char *task_type, tutti_optional_int64 task_id,
                                            const char *rpc_layer,
                                            tutti_cluster_resolver **out_resolver) {
  const tutti_cluster_resolver_options options =
      ResolverOptions(task_type, task_id, rpc_layer, nullptr);
  return tutti_cluster_resolver_create_union(count, resolvers, &options, out_resolver);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_CLUSTER_H_
