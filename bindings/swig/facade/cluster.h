// Who takes part in a job of several processes: cluster specs, resolvers, this process's seat.
#ifndef TUTTI_BINDINGS_SWIG_FACADE_CLUSTER_H_
#define TUTTI_BINDINGS_SWIG_FACADE_CLUSTER_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

namespace tutti_facade {

// ---- specs

inline tutti_status *cluster_spec_create(const char *json, tutti_cluster_spec **out_spec) {
  return tutti_cluster_spec_create(json, out_spec);
}
inline tutti_status *cluster_spec_json(const tutti_cluster_spec *spec, tutti_bytes **out_text) {
  return tutti_cluster_spec_to_json(spec, out_text);
}
inline int64_t cluster_spec_job_count(const tutti_cluster_spec *spec) {
  return static_cast<int64_t>(tutti_cluster_spec_get_job_count(spec));
}
inline const char *cluster_spec_job(const tutti_cluster_spec *spec, size_t i) {
  return tutti_cluster_spec_get_job(spec, i);
}
inline int64_t cluster_spec_task_count(const tutti_cluster_spec *spec, const char *job) {
  return static_cast<int64_t>(tutti_cluster_spec_get_task_count(spec, job));
}
inline int64_t cluster_spec_task_index(const tutti_cluster_spec *spec, const char *job, size_t i) {
  return tutti_cluster_spec_get_task_index(spec, job, i);
}
inline const char *cluster_spec_task_address(const tutti_cluster_spec *spec, const char *job,
                                             int64_t index) {
  return tutti_cluster_spec_get_task_address(spec, job, index);
}

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
inline tutti_status *cluster_resolver_cluster_spec(const tutti_cluster_resolver *resolver,
                                                   tutti_cluster_spec **out_spec) {
  return tutti_cluster_resolver_read_cluster_spec(resolver, out_spec);
}
inline tutti_status *cluster_resolver_task_type(const tutti_cluster_resolver *resolver,
                                                tutti_bytes **out_text) {
  return tutti_cluster_resolver_read_task_type(resolver, out_text);
}
inline tutti_status *cluster_resolver_task_id(const tutti_cluster_resolver *resolver,
                                              tutti_optional_int64 *out_number) {
  return tutti_cluster_resolver_read_task_id(resolver, out_number);
}
inline tutti_status *cluster_resolver_rpc_layer(const tutti_cluster_resolver *resolver,
                                                tutti_bytes **out_text) {
  return tutti_cluster_resolver_read_rpc_layer(resolver, out_text);
}
inline tutti_status *cluster_resolver_master(const tutti_cluster_resolver *resolver,
                                             const char *task_type, tutti_optional_int64 task_id,
                                             const char *rpc_layer, tutti_bytes **out_text) {
  return tutti_cluster_resolver_read_master(resolver, task_type, task_id, rpc_layer, out_text);
}
inline tutti_status *cluster_resolver_num_accelerators(const tutti_cluster_resolver *resolver,
                                                       int64_t *out_count) {
  return tutti_cluster_resolver_read_num_accelerators(resolver, out_count);
}
inline tutti_status *cluster_resolver_environment(const tutti_cluster_resolver *resolver,
                                                  tutti_bytes **out_text) {
  return tutti_cluster_resolver_read_environment(resolver, out_text);
}

// ---- this process's seat

inline tutti_status *cluster_join(tutti_runtime *runtime, const tutti_cluster_resolver *resolver,
                                  int64_t num_replicas, const tutti_call_options *call,
                                  tutti_cluster **out_cluster) {
  tutti_cluster_options options = TUTTI_CLUSTER_OPTIONS_INIT;
  options.num_replicas = num_replicas;
  return tutti_cluster_join(runtime, resolver, &options, call, out_cluster);
}
inline int64_t cluster_worker(const tutti_cluster *cluster) {
  return tutti_cluster_get_worker(cluster);
}
inline int64_t cluster_worker_count(const tutti_cluster *cluster) {
  return tutti_cluster_get_worker_count(cluster);
}
inline tutti_status *cluster_describe_worker(const tutti_cluster *cluster, int64_t worker,
                                             tutti_bytes **out_text) {
  return tutti_cluster_describe_worker(cluster, worker, out_text);
}
inline tutti_status *cluster_check(const tutti_cluster *cluster) {
  return tutti_cluster_check(cluster);
}
inline void cluster_abort(tutti_cluster *cluster, const char *message) {
  tutti_cluster_abort(cluster, message);
}
// `leaving`: a timeout only where the host's cancellation stays on the thread (Java's interrupts).
// Who is asked to stop still has to leave, and no function of the user's is waited for here.
inline tutti_status *cluster_close(tutti_cluster *cluster, const tutti_call_options *leaving) {
  return tutti_cluster_close(cluster, leaving);
}

}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_SWIG_FACADE_CLUSTER_H_
