#include "core/cluster/resolve/cluster_resolver.h"

#include "core/base/error.h"

namespace tutti {

Result<WorkerOrder> OrderWorkers(const ClusterResolver& resolver) {
  TUTTI_ASSIGN_OR_RETURN(const ClusterSpec cluster, resolver.cluster_spec());
  if (cluster.empty()) return WorkerOrder();
  TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> type, resolver.task_type());
  TUTTI_ASSIGN_OR_RETURN(const std::optional<int64_t> id, resolver.task_id());
  if (!type || !id) {
    return InvalidArgument("{} gives a cluster ({}) and no task {}: say which of them this process "
                           "is",
                           resolver.name(), cluster.ListTasks(), type ? "index" : "type");
  }
  Result<WorkerOrder> order = OrderWorkers(cluster, *type, *id);
  if (!order.ok()) return order.status().WithPrefix(resolver.name());
  return order;
}

std::string FormatMaster(const std::string& address, const std::string& rpc_layer) {
  if (address.empty() || rpc_layer.empty()) return address;
  return rpc_layer + "://" + address;
}

}  // namespace tutti
