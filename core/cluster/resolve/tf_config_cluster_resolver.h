// TFConfigClusterResolver: reads the variable TF_CONFIG, anew at each access.
//
//   {"cluster": {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222"]},
//    "task": {"type": "worker", "index": 0}, "rpc_layer": "grpc"}
//
// Without the variable the cluster is empty and there is no task. The index may be a text.
// Constructor arguments override. At most one chief and one evaluator; `ps` tasks may be there.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_TF_CONFIG_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_TF_CONFIG_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/cluster/resolve/cluster_resolver.h"

namespace tutti {

class TFConfigClusterResolver final : public ClusterResolver {
 public:
  // Null for a variable that is not set. It may be called at any time from any thread.
  using Variables = const char* (*)(const char* name);

  struct Options {
    std::optional<std::string> task_type;
    std::optional<int64_t> task_id;
    std::optional<std::string> rpc_layer;  // TF_CONFIG's, else "grpc"
    std::optional<std::string> environment;
    AcceleratorCounts num_accelerators;
    Variables variables = nullptr;  // null: the process's own
  };
  explicit TFConfigClusterResolver(Options options);

  std::string name() const override { return "TFConfigClusterResolver"; }
  Result<ClusterSpec> cluster_spec() const override;
  Result<std::optional<std::string>> task_type() const override;
  Result<std::optional<int64_t>> task_id() const override;
  Result<std::string> rpc_layer() const override;
  // TF_CONFIG's "session_master" where there is one; empty for a cluster of at most one task.
  Result<std::string> master(const std::optional<std::string>& task_type,
                             std::optional<int64_t> task_id,
                             const std::optional<std::string>& rpc_layer) const override;
  Result<AcceleratorCounts> num_accelerators(const std::optional<std::string>& task_type,
                                             std::optional<int64_t> task_id) const override;
  Result<std::string> environment() const override;
  Result<Ref<ClusterResolver>> Changed(const ResolverChange& change) const override;

 private:
  ~TFConfigClusterResolver() override;

  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_TF_CONFIG_CLUSTER_RESOLVER_H_
