// Who takes part in a job of several processes: cluster specs, resolvers, this process's seat.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_CLUSTER_H_
#define TUTTI_BINDINGS_SWIG_FACADE_CLUSTER_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

#include "callback.h"

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
                                             const char *accelerators,
                                             const char *rpc_layer,
                                             tutti_cluster_resolver **out_resolver) {
  tutti_cluster_resolver_options options =
      ResolverOptions(task_type, task_id, rpc_layer, environment);
  options.master = master;
  options.accelerators = accelerators;
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
// `element_fn` gets four texts; cluster.h says which.
inline tutti_status *cluster_resolver_own(tutti_runtime *runtime, const char *name,
                                          tutti_host_handle element_fn,
                                          tutti_cluster_resolver **out_resolver) {
  return tutti_cluster_resolver_create_own(
      runtime, name, StoreHost(element_fn, TUTTI_HOST_ELEMENT), out_resolver);
}
inline tutti_status *cluster_resolver_changed(const tutti_cluster_resolver *resolver,
                                              const char *task_type, tutti_optional_int64 task_id,
                                              const char *rpc_layer,
                                              tutti_cluster_resolver **out_resolver) {
  const tutti_cluster_resolver_options options =
      ResolverOptions(task_type, task_id, rpc_layer, nullptr);
  return tutti_cluster_resolver_create_changed(resolver, &options, out_resolver);
}
inline tutti_kubernetes_resolver_options KubernetesOptions(
    const char *job_labels, tutti_optional_int64 port, const char *rpc_layer, const char *task_type,
    tutti_optional_int64 task_id, tutti_tristate host_ip, const char *account_folder,
    const char *name_space, int64_t timeout_ns) {
  tutti_kubernetes_resolver_options options = TUTTI_KUBERNETES_RESOLVER_OPTIONS_INIT;
  options.job_labels = job_labels;
  options.port = port;
  options.rpc_layer = rpc_layer;
  options.task_type = task_type;
  options.task_id = task_id;
  options.host_ip = host_ip;
  options.account_folder = account_folder;
  options.name_space = name_space;
  options.timeout_ns = timeout_ns;
  return options;
}
inline tutti_status *cluster_resolver_kubernetes(
    const char *job_labels, tutti_optional_int64 port, const char *rpc_layer, const char *task_type,
    tutti_optional_int64 task_id, tutti_tristate host_ip, const char *account_folder,
    const char *name_space, int64_t timeout_ns, tutti_cluster_resolver **out_resolver) {
  const tutti_kubernetes_resolver_options options =
      KubernetesOptions(job_labels, port, rpc_layer, task_type, task_id, host_ip, account_folder,
                        name_space, timeout_ns);
  return tutti_cluster_resolver_create_kubernetes(&options, out_resolver);
}
// `element_fn` gets ("list_pods", label selector, page).
inline tutti_status *cluster_resolver_kubernetes_client(
    tutti_runtime *runtime, tutti_host_handle element_fn, const char *job_labels,
    tutti_optional_int64 port, const char *rpc_layer, const char *task_type,
    tutti_optional_int64 task_id, tutti_tristate host_ip, int64_t timeout_ns,
    tutti_cluster_resolver **out_resolver) {
  const tutti_kubernetes_resolver_options options =
      KubernetesOptions(job_labels, port, rpc_layer, task_type, task_id, host_ip, nullptr, nullptr,
                        timeout_ns);
  return tutti_cluster_resolver_create_kubernetes_with_client(
      runtime, StoreHost(element_fn, TUTTI_HOST_ELEMENT), &options, out_resolver);
}
inline tutti_gce_resolver_options GceOptions(
    const char *project, const char *zone, tutti_optional_int64 port, const char *task_type,
    tutti_optional_int64 task_id, const char *rpc_layer, const char *token, const char *endpoint,
    const char *ca_file, int64_t timeout_ns) {
  tutti_gce_resolver_options options = TUTTI_GCE_RESOLVER_OPTIONS_INIT;
  options.project = project;
  options.zone = zone;
  options.port = port;
  options.task_type = task_type;
  options.task_id = task_id;
  options.rpc_layer = rpc_layer;
  options.token = token;
  options.endpoint = endpoint;
  options.ca_file = ca_file;
  options.timeout_ns = timeout_ns;
  return options;
}
inline tutti_status *cluster_resolver_gce(
    const char *instance_group, const char *project, const char *zone, tutti_optional_int64 port,
    const char *task_type, tutti_optional_int64 task_id, const char *rpc_layer, const char *token,
    const char *endpoint, const char *ca_file, int64_t timeout_ns,
    tutti_cluster_resolver **out_resolver) {
  const tutti_gce_resolver_options options =
      GceOptions(project, zone, port, task_type, task_id, rpc_layer, token, endpoint, ca_file,
                 timeout_ns);
  return tutti_cluster_resolver_create_gce(instance_group, &options, out_resolver);
}
// `element_fn` gets the questions to the service where there is one of the program's, and
// ("token",) where it has credentials.
inline tutti_status *cluster_resolver_gce_service(
    tutti_runtime *runtime, const char *instance_group, tutti_host_handle element_fn,
    bool has_service, bool has_credentials, const char *project, const char *zone,
    tutti_optional_int64 port, const char *task_type, tutti_optional_int64 task_id,
    const char *rpc_layer, const char *endpoint, const char *ca_file, int64_t timeout_ns,
    tutti_cluster_resolver **out_resolver) {
  const tutti_gce_resolver_options options =
      GceOptions(project, zone, port, task_type, task_id, rpc_layer, nullptr, endpoint, ca_file,
                 timeout_ns);
  const tutti_callback none{nullptr, nullptr, nullptr};
  return tutti_cluster_resolver_create_gce_with_service(
      runtime, instance_group, has_service ? StoreHost(element_fn, TUTTI_HOST_ELEMENT) : none,
      has_credentials ? StoreHost(element_fn, TUTTI_HOST_ELEMENT) : none, &options, out_resolver);
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
