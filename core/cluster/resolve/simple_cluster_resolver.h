// SimpleClusterResolver: says what its constructor was told.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_SIMPLE_CLUSTER_RESOLVER_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_SIMPLE_CLUSTER_RESOLVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/cluster/resolve/cluster_resolver.h"

namespace tutti {

class SimpleClusterResolver final : public ClusterResolver {
 public:
  struct Options {
    ClusterSpec cluster_spec;
    std::string master;
    std::optional<std::string> task_type;
    std::optional<int64_t> task_id;
    std::string environment;
    AcceleratorCounts num_accelerators;
    std::string rpc_layer;
  };
  explicit SimpleClusterResolver(Options options);

  std::string name() const override { return "SimpleClusterResolver"; }
  Result<ClusterSpec> cluster_spec() const override { return options_.cluster_spec; }
  Result<std::optional<std::string>> task_type() const override { return options_.task_type; }
  Result<std::optional<int64_t>> task_id() const override { return options_.task_id; }
  Result<std::string> rpc_layer() const override { return options_.rpc_layer; }
  // Of the task when both type and id are given, else the constructor's `master`.
  Result<std::string> master(const std::optional<std::string>& task_type,
                             std::optional<int64_t> task_id,
                             const std::optional<std::string>& rpc_layer) const override;
  Result<AcceleratorCounts> num_accelerators(const std::optional<std::string>& task_type,
                                             std::optional<int64_t> task_id) const override;
  // It detects nothing.
  bool counts_devices() const override { return false; }
  Result<std::string> environment() const override { return options_.environment; }
  Result<Ref<ClusterResolver>> Changed(const ResolverChange& change) const override;

 private:
  ~SimpleClusterResolver() override;

  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_SIMPLE_CLUSTER_RESOLVER_H_
