#include "core/cluster/resolve/cluster_resolver.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/resolve/strict_json.h"

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

Result<AcceleratorCounts> ParseAccelerators(std::string_view json, std::string_view what) {
  AcceleratorCounts counts;
  if (Trim(json).empty()) return counts;
  const Result<nlohmann::json> read = ParseStrictJson(json);
  const auto wrong = [&] {
    return InvalidArgument("{} is {}; expected numbers by types of devices, {{\"GPU\": 2}}", what,
                           Quote(json));
  };
  if (!read.ok() || !read->is_object()) return wrong();
  for (const auto& [type, count] : read->items()) {
    if (type.empty() || !count.is_number_integer() || count.get<int64_t>() < 0) return wrong();
    counts[type] = count.get<int64_t>();
  }
  return counts;
}

std::string AcceleratorsToJson(const AcceleratorCounts& counts) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [type, count] : counts) json[type] = count;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string FormatMaster(const std::string& address, const std::string& rpc_layer) {
  if (address.empty() || rpc_layer.empty()) return address;
  return rpc_layer + "://" + address;
}

}  // namespace tutti
