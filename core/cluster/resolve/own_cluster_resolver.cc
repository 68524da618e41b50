#include "core/cluster/resolve/own_cluster_resolver.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {

OwnClusterResolver::OwnClusterResolver(Options options) : options_(std::move(options)) {}

OwnClusterResolver::~OwnClusterResolver() = default;

Result<std::string> OwnClusterResolver::Ask(const char* what,
                                            const std::optional<std::string>& task_type,
                                            std::optional<int64_t> task_id,
                                            const std::optional<std::string>& rpc_layer) const {
  return options_.answer({what, task_type.value_or(""), task_id ? std::to_string(*task_id) : "",
                          rpc_layer.value_or("")});
}

Result<ClusterSpec> OwnClusterResolver::cluster_spec() const {
  TUTTI_ASSIGN_OR_RETURN(const std::string json, Ask("cluster_spec"));
  if (Trim(json).empty()) return ClusterSpec();
  return ClusterSpec::FromJson(json, Format("{}: cluster_spec", name()));
}

Result<std::optional<std::string>> OwnClusterResolver::task_type() const {
  if (options_.task_type) return options_.task_type;
  TUTTI_ASSIGN_OR_RETURN(std::string type, Ask("task_type"));
  return type.empty() ? std::nullopt : std::optional<std::string>(std::move(type));
}

Result<std::optional<int64_t>> OwnClusterResolver::task_id() const {
  if (options_.task_id) return options_.task_id;
  TUTTI_ASSIGN_OR_RETURN(const std::string text, Ask("task_id"));
  if (Trim(text).empty()) return std::optional<int64_t>();
  const std::optional<int64_t> id = ParseInt64(Trim(text));
  if (id && *id >= 0) return id;
  return InvalidArgument("{}: task_id is {}; expected a number from 0 up", name(), Quote(text));
}

Result<std::string> OwnClusterResolver::rpc_layer() const {
  if (options_.rpc_layer) return *options_.rpc_layer;
  return Ask("rpc_layer");
}

Result<std::string> OwnClusterResolver::master(const std::optional<std::string>& task_type,
                                               std::optional<int64_t> task_id,
                                               const std::optional<std::string>& rpc_layer) const {
  const std::optional<std::string>& asked_type = task_type ? task_type : options_.task_type;
  const std::optional<int64_t> asked_id = task_id ? task_id : options_.task_id;
  const std::optional<std::string>& asked_layer = rpc_layer ? rpc_layer : options_.rpc_layer;
  TUTTI_ASSIGN_OR_RETURN(std::string own, Ask("master", asked_type, asked_id, asked_layer));
  if (!own.empty()) return own;
  TUTTI_ASSIGN_OR_RETURN(const auto type, asked_type
                                              ? Result<std::optional<std::string>>(asked_type)
                                              : this->task_type());
  TUTTI_ASSIGN_OR_RETURN(const auto id, asked_id ? Result<std::optional<int64_t>>(asked_id)
                                                 : this->task_id());
  if (!type || !id) return std::string();
  TUTTI_ASSIGN_OR_RETURN(const ClusterSpec cluster, cluster_spec());
  if (cluster.empty()) return std::string();
  TUTTI_ASSIGN_OR_RETURN(const std::string address, cluster.task_address(*type, *id));
  TUTTI_ASSIGN_OR_RETURN(const std::string layer,
                         asked_layer ? Result<std::string>(*asked_layer) : this->rpc_layer());
  return FormatMaster(address, layer);
}

Result<AcceleratorCounts> OwnClusterResolver::num_accelerators(
    const std::optional<std::string>& task_type, std::optional<int64_t> task_id) const {
  TUTTI_ASSIGN_OR_RETURN(const std::string json, Ask("num_accelerators", task_type, task_id));
  return ParseAccelerators(json, Format("{}: num_accelerators", name()));
}

Result<std::string> OwnClusterResolver::environment() const { return Ask("environment"); }

Result<Ref<ClusterResolver>> OwnClusterResolver::Changed(const ResolverChange& change) const {
  return Ref<ClusterResolver>(MakeRef<OwnClusterResolver>(change.On(options_)));
}

}  // namespace tutti
