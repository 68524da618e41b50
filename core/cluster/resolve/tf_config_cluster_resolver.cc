#include "core/cluster/resolve/tf_config_cluster_resolver.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/resolve/strict_json.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kExpectedConfig =
    "expected {\"cluster\": {\"worker\": [\"host:port\", ...]}, \"task\": {\"type\": \"worker\", "
    "\"index\": 0}}";

const char* OwnVariable(const char* name) { return std::getenv(name); }

// The whole of TF_CONFIG; an empty object where it is not set.
Result<Json> ReadConfig(TFConfigClusterResolver::Variables variables) {
  const char* text = (variables != nullptr ? variables : &OwnVariable)("TF_CONFIG");
  if (text == nullptr || Trim(text).empty()) return Json::object();
  Result<Json> config = ParseStrictJson(text);
  if (!config.ok()) {
    return InvalidArgument("TF_CONFIG: {}; {}", config.status().message(), kExpectedConfig);
  }
  if (!config->is_object()) {
    return InvalidArgument("TF_CONFIG is {} of the type {}; {}", config->dump(),
                           config->type_name(), kExpectedConfig);
  }
  return config;
}

// The member, or null where it is not there or null.
const Json* FieldOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status WrongType(const char* what, const Json& found, const char* expected) {
  return InvalidArgument("TF_CONFIG: {} is {} of the type {}, and must be {}; {}", what,
                         found.dump(), found.type_name(), expected, kExpectedConfig);
}

Result<std::optional<std::string>> TextMember(const Json& object, const char* key,
                                              const char* what) {
  const Json* value = FieldOf(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return WrongType(what, *value, "a text");
  return std::optional<std::string>(value->get<std::string>());
}

// The object "task", empty where there is none.
Result<Json> ReadTask(TFConfigClusterResolver::Variables variables) {
  TUTTI_ASSIGN_OR_RETURN(const Json config, ReadConfig(variables));
  const Json* task = FieldOf(config, "task");
  if (task == nullptr) return Json::object();
  if (!task->is_object()) return WrongType("task", *task, "an object with type and index");
  return *task;
}

Result<int64_t> ReadIndex(const Json& index) {
  std::optional<int64_t> value;
  if (index.is_number_integer() && !(index.is_number_unsigned() &&
                                     index.get<uint64_t>() > uint64_t{INT64_MAX})) {
    value = index.get<int64_t>();
  } else if (index.is_string()) {
    value = ParseInt64(Trim(index.get<std::string>()));
  }
  if (!value) return WrongType("task index", index, "a whole number");
  if (*value < 0) {
    return InvalidArgument("TF_CONFIG: the task index is {}; indices start at 0", *value);
  }
  return *value;
}

}  // namespace

TFConfigClusterResolver::TFConfigClusterResolver(Options options) : options_(std::move(options)) {}

TFConfigClusterResolver::~TFConfigClusterResolver() = default;

Result<ClusterSpec> TFConfigClusterResolver::cluster_spec() const {
  TUTTI_ASSIGN_OR_RETURN(const Json config, ReadConfig(options_.variables));
  const Json* cluster = FieldOf(config, "cluster");
  if (cluster == nullptr) return ClusterSpec();
  TUTTI_ASSIGN_OR_RETURN(ClusterSpec spec,
                         ClusterSpec::FromJson(cluster->dump(), "TF_CONFIG: cluster"));
  for (const char* single : {"chief", "evaluator"}) {
    const Result<int64_t> count = spec.num_tasks(single);
    if (count.ok() && *count > 1) {
      return InvalidArgument("TF_CONFIG: the cluster has {} tasks of the type {}; at most one is "
                             "possible",
                             *count, Quote(single));
    }
  }
  return spec;
}

Result<std::optional<std::string>> TFConfigClusterResolver::task_type() const {
  if (options_.task_type) return options_.task_type;
  TUTTI_ASSIGN_OR_RETURN(const Json task, ReadTask(options_.variables));
  return TextMember(task, "type", "task type");
}

Result<std::optional<int64_t>> TFConfigClusterResolver::task_id() const {
  if (options_.task_id) return options_.task_id;
  TUTTI_ASSIGN_OR_RETURN(const Json task, ReadTask(options_.variables));
  const Json* index = FieldOf(task, "index");
  if (index == nullptr) return std::optional<int64_t>();
  TUTTI_ASSIGN_OR_RETURN(const int64_t value, ReadIndex(*index));
  return std::optional<int64_t>(value);
}

Result<std::string> TFConfigClusterResolver::rpc_layer() const {
  if (options_.rpc_layer) return *options_.rpc_layer;
  TUTTI_ASSIGN_OR_RETURN(const Json config, ReadConfig(options_.variables));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> layer,
                         TextMember(config, "rpc_layer", "rpc_layer"));
  return layer.value_or("grpc");
}

Result<std::string> TFConfigClusterResolver::environment() const {
  if (options_.environment) return *options_.environment;
  TUTTI_ASSIGN_OR_RETURN(const Json config, ReadConfig(options_.variables));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> environment,
                         TextMember(config, "environment", "environment"));
  return environment.value_or("");
}

Result<std::string> TFConfigClusterResolver::master(
    const std::optional<std::string>& task_type, std::optional<int64_t> task_id,
    const std::optional<std::string>& rpc_layer) const {
  TUTTI_ASSIGN_OR_RETURN(const Json config, ReadConfig(options_.variables));
  TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> session_master,
                         TextMember(config, "session_master", "session_master"));
  if (session_master) return *session_master;
  TUTTI_ASSIGN_OR_RETURN(const ClusterSpec cluster, cluster_spec());
  const std::vector<std::string> jobs = cluster.jobs();
  if (jobs.empty() || (jobs.size() == 1 && *cluster.num_tasks(jobs.front()) <= 1)) {
    return std::string();
  }
  TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> own_type, this->task_type());
  TUTTI_ASSIGN_OR_RETURN(const std::optional<int64_t> own_id, this->task_id());
  const std::optional<std::string>& type = task_type ? task_type : own_type;
  const std::optional<int64_t>& id = task_id ? task_id : own_id;
  if (!type || !id) {
    return FailedPrecondition("TF_CONFIG says of no task that it is this process's (\"task\" is "
                              "missing): give the task's type and index");
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string address, cluster.task_address(*type, *id));
  TUTTI_ASSIGN_OR_RETURN(const std::string own_layer, this->rpc_layer());
  return FormatMaster(address, rpc_layer.value_or(own_layer));
}

Result<AcceleratorCounts> TFConfigClusterResolver::num_accelerators(
    const std::optional<std::string>&, std::optional<int64_t>) const {
  return options_.num_accelerators;
}

Result<Ref<ClusterResolver>> TFConfigClusterResolver::Changed(
    const ResolverChange& change) const {
  return Ref<ClusterResolver>(MakeRef<TFConfigClusterResolver>(change.On(options_)));
}

}  // namespace tutti
