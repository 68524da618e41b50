#include "core/cluster/resolve/simple_cluster_resolver.h"

#include <utility>

namespace tutti {

SimpleClusterResolver::SimpleClusterResolver(Options options) : options_(std::move(options)) {}

SimpleClusterResolver::~SimpleClusterResolver() = default;

Result<std::string> SimpleClusterResolver::master(
    const std::optional<std::string>& task_type, std::optional<int64_t> task_id,
    const std::optional<std::string>& rpc_layer) const {
  const std::string& layer = rpc_layer ? *rpc_layer : options_.rpc_layer;
  if (!task_type || !task_id) return FormatMaster(options_.master, layer);
  TUTTI_ASSIGN_OR_RETURN(const std::string address,
                         options_.cluster_spec.task_address(*task_type, *task_id));
  return FormatMaster(address, layer);
}

Result<AcceleratorCounts> SimpleClusterResolver::num_accelerators(
    const std::optional<std::string>&, std::optional<int64_t>) const {
  return options_.num_accelerators;
}

Result<Ref<ClusterResolver>> SimpleClusterResolver::Changed(
    const ResolverChange& change) const {
  return Ref<ClusterResolver>(MakeRef<SimpleClusterResolver>(change.On(options_)));
}

}  // namespace tutti
