// Cluster specs, and the resolvers that find them.
#include "capi/src/cluster_resolver.h"

#include <tutti/cluster.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/resolve/cluster_resolver.h"
#include "core/cluster/resolve/cluster_spec.h"
#include "core/cluster/resolve/gce_cluster_resolver.h"
#include "core/cluster/resolve/http_client.h"
#include "core/cluster/resolve/kubernetes_cluster_resolver.h"
#include "core/cluster/resolve/own_cluster_resolver.h"
#include "core/cluster/resolve/simple_cluster_resolver.h"
#include "core/cluster/resolve/slurm_cluster_resolver.h"
#include "core/cluster/resolve/tf_config_cluster_resolver.h"
#include "core/cluster/resolve/union_cluster_resolver.h"
#include "core/device/device.h"
#include "core/function/context.h"
#include "core/function/function.h"
#include "core/tensor/value.h"

using namespace tutti;
using namespace tutti::capi;

namespace tutti::capi {

// What tutti_cluster_spec is: the spec, and its parts as getters lend them.
class ClusterSpecHandle final : public RefCounted {
 public:
  using Tasks = std::vector<std::pair<int64_t, std::string>>;

  static Result<Ref<ClusterSpecHandle>> Create(ClusterSpec spec) {
    std::vector<std::pair<std::string, Tasks>> jobs;
    for (const std::string &job : spec.jobs()) {
      TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, spec.task_indices(job));
      Tasks tasks;
      for (const int64_t index : indices) {
        TUTTI_ASSIGN_OR_RETURN(std::string address, spec.task_address(job, index));
        tasks.emplace_back(index, std::move(address));
      }
      jobs.emplace_back(job, std::move(tasks));
    }
    return MakeRef<ClusterSpecHandle>(std::move(spec), std::move(jobs));
  }
  ClusterSpecHandle(ClusterSpec spec, std::vector<std::pair<std::string, Tasks>> jobs)
      : spec_(std::move(spec)), jobs_(std::move(jobs)) {}

  const ClusterSpec &spec() const { return spec_; }
  const std::vector<std::pair<std::string, Tasks>> &jobs() const { return jobs_; }
  // Null for an unknown job.
  const Tasks *Find(std::string_view job) const {
    for (const auto &[name, tasks] : jobs_) {
      if (name == job) return &tasks;
    }
    return nullptr;
  }

 private:
  const ClusterSpec spec_;
  const std::vector<std::pair<std::string, Tasks>> jobs_;
};

Ref<ClusterResolver> ResolverOrTfConfig(const tutti_cluster_resolver *resolver) {
  if (resolver == nullptr) {
    return MakeRef<TFConfigClusterResolver>(TFConfigClusterResolver::Options());
  }
  return Ref<ClusterResolver>::Retain(const_cast<ClusterResolver *>(FromHandle(resolver)));
}

}  // namespace tutti::capi

namespace {

const char kGpu[] = "GPU";

const ClusterSpecHandle::Tasks *TasksOf(const tutti_cluster_spec *spec, const char *job) {
  return spec == nullptr || job == nullptr ? nullptr : FromHandle(spec)->Find(job);
}

std::optional<std::string> OptionalText(const char *text) {
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

Result<AcceleratorCounts> ReadAccelerators(Call call, const tutti_optional_int64 &count,
                                           const char *by_type) {
  AcceleratorCounts counts;
  if (by_type != nullptr) {
    if (count.present != 0) {
      return InvalidArgument("{}: the options num_accelerators and accelerators are both set; "
                             "expected one of them",
                             call.function);
    }
    return ParseAccelerators(by_type, Format("{}: the option accelerators", call.function));
  }
  if (count.present == 0) return counts;
  if (count.value < 0) {
    return InvalidArgument("{}: the option num_accelerators is {}; expected 0 or more",
                           call.function, count.value);
  }
  counts[kGpu] = count.value;
  return counts;
}

Result<std::optional<int64_t>> ReadTaskId(Call call, const tutti_optional_int64 &id) {
  const std::optional<int64_t> read = ReadOptional(id);
  if (read.value_or(0) < 0) {
    return InvalidArgument("{}: task_id is {}; expected 0 or more", call.function, *read);
  }
  return read;
}

Result<int64_t> ReadMilliseconds(Call call, int64_t timeout_ns, int64_t otherwise) {
  if (timeout_ns < 0) {
    return InvalidArgument("{}: timeout_ns is {}; expected 0 or more", call.function, timeout_ns);
  }
  constexpr int64_t kNanosecondsOfMillisecond = 1'000'000;
  return timeout_ns == 0 ? otherwise : std::max<int64_t>(1, timeout_ns / kNanosecondsOfMillisecond);
}

// The text that a function of the program gave; none is empty.
Result<std::string> TextOfAnswer(const Value &answer, const std::string &asked) {
  if (answer.is_leaf()) {
    const Leaf &leaf = answer.leaf();
    if (leaf.is_none()) return std::string();
    if (leaf.kind() == LeafKind::kString) return leaf.string();
    const Tensor *tensor = answer.AsTensor();
    if (tensor != nullptr && tensor->dtype() == DType::kBytes && tensor->num_elements() == 1) {
      return std::string(tensor->item<BytesView>().text());
    }
  }
  return InvalidArgument("the answer to \"{}\" is {}; expected a text or nothing", asked,
                         answer.ToString());
}

// A function of the program's that is asked with texts, of a resolver.
Result<Answerer> TakeAnswerer(Call call, GivenCallback &given, const char *parameter,
                              const Ref<Runtime> &root) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Function> function,
                         given.Take(call, parameter, &root->callback_executor()));
  return Answerer([function, root](const std::vector<std::string> &words) -> Result<std::string> {
    std::vector<Ref<Value>> texts;
    for (const std::string &word : words) texts.push_back(Value::OfString(word));
    Context context(*root);
    Ref<Value> answer;
    TUTTI_RETURN_IF_ERROR(function->Call(context, *Value::Tuple(texts), &answer));
    return TextOfAnswer(*answer, words.front());
  });
}

Result<KubernetesClusterResolver::Options> ReadKubernetes(
    Call call, const tutti_kubernetes_resolver_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  KubernetesClusterResolver::Options read;
  TUTTI_ASSIGN_OR_RETURN(read.job_labels,
                         KubernetesClusterResolver::ParseLabels(
                             TextOr(set.job_labels, ""), Format("{}: job_labels", call.function)));
  read.port = ReadOptional(set.port).value_or(read.port);
  read.rpc_layer = std::string(TextOr(set.rpc_layer, read.rpc_layer));
  read.task_type = OptionalText(set.task_type);
  TUTTI_ASSIGN_OR_RETURN(read.task_id, ReadTaskId(call, set.task_id));
  TUTTI_ASSIGN_OR_RETURN(read.host_ip, ReadTristate(call, set.host_ip, false, "host_ip"));
  read.account_folder = std::string(TextOr(set.account_folder, read.account_folder));
  read.name_space = std::string(TextOr(set.name_space, ""));
  TUTTI_ASSIGN_OR_RETURN(read.timeout_ms,
                         ReadMilliseconds(call, set.timeout_ns, read.timeout_ms));
  return read;
}

Result<GceClusterResolver::Options> ReadGce(Call call, const char *instance_group,
                                            const tutti_gce_resolver_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  GceClusterResolver::Options read;
  read.instance_group = instance_group;
  read.project = std::string(TextOr(set.project, ""));
  read.zone = std::string(TextOr(set.zone, ""));
  read.port = ReadOptional(set.port).value_or(read.port);
  read.task_type = std::string(TextOr(set.task_type, read.task_type));
  TUTTI_ASSIGN_OR_RETURN(const auto id, ReadTaskId(call, set.task_id));
  read.task_id = id.value_or(0);
  read.rpc_layer = std::string(TextOr(set.rpc_layer, read.rpc_layer));
  read.token = std::string(TextOr(set.token, ""));
  read.endpoint = std::string(TextOr(set.endpoint, read.endpoint));
  read.ca_file = std::string(TextOr(set.ca_file, ""));
  TUTTI_ASSIGN_OR_RETURN(read.timeout_ms,
                         ReadMilliseconds(call, set.timeout_ns, read.timeout_ms));
  return read;
}

// What the resolver says, else this machine's GPUs where it leaves them to be counted.
Result<AcceleratorCounts> CountAccelerators(Call call, const ClusterResolver &resolver,
                                            const std::optional<std::string> &task_type,
                                            std::optional<int64_t> task_id) {
  TUTTI_ASSIGN_OR_RETURN(AcceleratorCounts counts, resolver.num_accelerators(task_type, task_id));
  if (!counts.empty() || !resolver.counts_devices()) return counts;
  TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, nullptr));
  const size_t gpus = root->devices().ListDevices(DeviceType::kGpu).size();
  if (gpus > 0) counts[kGpu] = static_cast<int64_t>(gpus);
  return counts;
}

}  // namespace

// ---- Cluster specs

tutti_status *tutti_cluster_spec_create(const char *json, tutti_cluster_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, json, out_spec);
    TUTTI_ASSIGN_OR_RETURN(ClusterSpec spec, ClusterSpec::FromJson(json));
    TUTTI_ASSIGN_OR_RETURN(auto handle, ClusterSpecHandle::Create(std::move(spec)));
    *out_spec = Give(std::move(handle));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_spec_to_json(const tutti_cluster_spec *spec, tutti_bytes **out_json) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, spec, out_json);
    *out_json = GiveBytes(FromHandle(spec)->spec().ToJson());
    return OkStatus();
  });
}

size_t tutti_cluster_spec_get_job_count(const tutti_cluster_spec *spec) {
  return spec == nullptr ? 0 : FromHandle(spec)->jobs().size();
}

const char *tutti_cluster_spec_get_job(const tutti_cluster_spec *spec, size_t i) {
  if (i >= tutti_cluster_spec_get_job_count(spec)) return nullptr;
  return FromHandle(spec)->jobs()[i].first.c_str();
}

size_t tutti_cluster_spec_get_task_count(const tutti_cluster_spec *spec, const char *job) {
  const ClusterSpecHandle::Tasks *tasks = TasksOf(spec, job);
  return tasks == nullptr ? 0 : tasks->size();
}

int64_t tutti_cluster_spec_get_task_index(const tutti_cluster_spec *spec, const char *job,
                                          size_t i) {
  if (i >= tutti_cluster_spec_get_task_count(spec, job)) return -1;
  return (*TasksOf(spec, job))[i].first;
}

const char *tutti_cluster_spec_get_task_address(const tutti_cluster_spec *spec, const char *job,
                                                int64_t index) {
  const ClusterSpecHandle::Tasks *tasks = TasksOf(spec, job);
  if (tasks == nullptr) return nullptr;
  for (const auto &[task, address] : *tasks) {
    if (task == index) return address.c_str();
  }
  return nullptr;
}

void tutti_cluster_spec_retain(const tutti_cluster_spec *spec) { RetainHandle(spec); }
void tutti_cluster_spec_release(const tutti_cluster_spec *spec) { ReleaseHandle(spec); }

// ---- Resolvers

tutti_status *tutti_cluster_resolver_create_simple(const tutti_cluster_spec *spec,
                                                   const tutti_cluster_resolver_options *options,
                                                   tutti_cluster_resolver **out_resolver) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, spec, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    SimpleClusterResolver::Options read;
    read.cluster_spec = FromHandle(spec)->spec();
    read.master = TextOr(set.master, "");
    read.task_type = OptionalText(set.task_type);
    TUTTI_ASSIGN_OR_RETURN(read.task_id, ReadTaskId(call, set.task_id));
    read.environment = TextOr(set.environment, "");
    TUTTI_ASSIGN_OR_RETURN(read.num_accelerators, ReadAccelerators(call, set.num_accelerators,
                                                                    set.accelerators));
    read.rpc_layer = TextOr(set.rpc_layer, "");
    *out_resolver = Give(Ref<ClusterResolver>(MakeRef<SimpleClusterResolver>(std::move(read))));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_tf_config(const tutti_cluster_resolver_options *options,
                                                      tutti_cluster_resolver **out_resolver) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    if (set.master != nullptr) {
      return InvalidArgument("{}: the option master is for simple resolvers; TF_CONFIG says it",
                             call.function);
    }
    TFConfigClusterResolver::Options read;
    read.task_type = OptionalText(set.task_type);
    TUTTI_ASSIGN_OR_RETURN(read.task_id, ReadTaskId(call, set.task_id));
    read.rpc_layer = OptionalText(set.rpc_layer);
    read.environment = OptionalText(set.environment);
    TUTTI_ASSIGN_OR_RETURN(read.num_accelerators, ReadAccelerators(call, set.num_accelerators,
                                                                    set.accelerators));
    *out_resolver = Give(Ref<ClusterResolver>(MakeRef<TFConfigClusterResolver>(std::move(read))));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_slurm(const tutti_slurm_resolver_options *options,
                                                  tutti_cluster_resolver **out_resolver) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    SlurmClusterResolver::Options read;
    const auto named = [&](const char *option) {
      return Format("{}: the option {}", call.function, option);
    };
    TUTTI_ASSIGN_OR_RETURN(read.jobs, SlurmClusterResolver::ParseCounts(TextOr(set.jobs, ""),
                                                                        named("jobs")));
    const std::string_view tasks = TextOr(set.tasks_per_node, "");
    if (const auto number = ParseInt64(Trim(tasks))) {
      read.tasks_per_node = *number;
    } else {
      TUTTI_ASSIGN_OR_RETURN(const auto counts,
                             SlurmClusterResolver::ParseCounts(tasks, named("tasks_per_node")));
      read.tasks_of_node.insert(counts.begin(), counts.end());
    }
    read.port_base = ReadOptional(set.port_base).value_or(SlurmClusterResolver::kPortBase);
    read.gpus_per_node = ReadOptional(set.gpus_per_node);
    read.gpus_per_task = ReadOptional(set.gpus_per_task);
    TUTTI_ASSIGN_OR_RETURN(read.auto_set_gpu,
                           ReadTristate(call, set.auto_set_gpu, true, "auto_set_gpu"));
    read.rpc_layer = std::string(TextOr(set.rpc_layer, "grpc"));
    read.task_type = OptionalText(set.task_type);
    TUTTI_ASSIGN_OR_RETURN(read.task_id, ReadTaskId(call, set.task_id));
    TUTTI_ASSIGN_OR_RETURN(auto resolver, SlurmClusterResolver::Create(std::move(read)));
    *out_resolver = Give(Ref<ClusterResolver>(std::move(resolver)));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_kubernetes(
    const tutti_kubernetes_resolver_options *options, tutti_cluster_resolver **out_resolver) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadKubernetes(call, options));
    TUTTI_ASSIGN_OR_RETURN(auto resolver, KubernetesClusterResolver::Create(std::move(read)));
    *out_resolver = Give(Ref<ClusterResolver>(std::move(resolver)));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_kubernetes_with_client(
    tutti_runtime *runtime, tutti_callback client, const tutti_kubernetes_resolver_options *options,
    tutti_cluster_resolver **out_resolver) {
  GivenCallback given(client);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadKubernetes(call, options));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(read.client, TakeAnswerer(call, given, "client", root));
    TUTTI_ASSIGN_OR_RETURN(auto resolver, KubernetesClusterResolver::Create(std::move(read)));
    *out_resolver = Give(Ref<ClusterResolver>(std::move(resolver)));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_gce(const char *instance_group,
                                                const tutti_gce_resolver_options *options,
                                                tutti_cluster_resolver **out_resolver) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, instance_group, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadGce(call, instance_group, options));
    TUTTI_ASSIGN_OR_RETURN(auto resolver, GceClusterResolver::Create(std::move(read)));
    *out_resolver = Give(Ref<ClusterResolver>(std::move(resolver)));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_gce_with_service(
    tutti_runtime *runtime, const char *instance_group, tutti_callback service,
    tutti_callback credentials, const tutti_gce_resolver_options *options,
    tutti_cluster_resolver **out_resolver) {
  GivenCallback given_service(service), given_credentials(credentials);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, instance_group, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadGce(call, instance_group, options));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    if (service.fn != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(read.service, TakeAnswerer(call, given_service, "service", root));
    }
    if (credentials.fn != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(read.credentials,
                             TakeAnswerer(call, given_credentials, "credentials", root));
    }
    TUTTI_ASSIGN_OR_RETURN(auto resolver, GceClusterResolver::Create(std::move(read)));
    *out_resolver = Give(Ref<ClusterResolver>(std::move(resolver)));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_own(tutti_runtime *runtime, const char *name,
                                                tutti_callback answer,
                                                tutti_cluster_resolver **out_resolver) {
  GivenCallback given(answer);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    OwnClusterResolver::Options own;
    own.name = std::string(TextOr(name, own.name));
    TUTTI_ASSIGN_OR_RETURN(own.answer, TakeAnswerer(call, given, "answer", root));
    *out_resolver = Give(Ref<ClusterResolver>(MakeRef<OwnClusterResolver>(std::move(own))));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_changed(const tutti_cluster_resolver *resolver,
                                                    const tutti_cluster_resolver_options *options,
                                                    tutti_cluster_resolver **out_resolver) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_resolver);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    if (set.master != nullptr || set.environment != nullptr || set.accelerators != nullptr ||
        set.num_accelerators.present != 0) {
      return InvalidArgument("{}: the options task_type, task_id and rpc_layer can be changed; the "
                             "rest belongs to the making of a resolver",
                             call.function);
    }
    ResolverChange change{OptionalText(set.task_type), std::nullopt, OptionalText(set.rpc_layer)};
    TUTTI_ASSIGN_OR_RETURN(change.task_id, ReadTaskId(call, set.task_id));
    TUTTI_ASSIGN_OR_RETURN(auto changed, FromHandle(resolver)->Changed(change));
    *out_resolver = Give(std::move(changed));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_create_union(size_t count,
                                                  const tutti_cluster_resolver *const *resolvers,
                                                  const tutti_cluster_resolver_options *options,
                                                  tutti_cluster_resolver **out_resolver) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_resolver);
    TUTTI_REQUIRE_ARRAY(call, count, resolvers);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    if (set.master != nullptr || set.environment != nullptr || set.accelerators != nullptr ||
        set.num_accelerators.present != 0) {
      return InvalidArgument("{}: of a union the options task_type, task_id and rpc_layer can be "
                             "set; the rest is what its first resolver says",
                             call.function);
    }
    std::vector<Ref<ClusterResolver>> parts;
    for (size_t i = 0; i < count; ++i) {
      if (resolvers[i] == nullptr) {
        return NullArgument(call.function, "resolvers", 0).With("index", i);
      }
      parts.push_back(Ref<ClusterResolver>::Retain(
          const_cast<ClusterResolver *>(FromHandle(resolvers[i]))));
    }
    UnionClusterResolver::Options read;
    read.task_type = OptionalText(set.task_type);
    TUTTI_ASSIGN_OR_RETURN(read.task_id, ReadTaskId(call, set.task_id));
    read.rpc_layer = OptionalText(set.rpc_layer);
    TUTTI_ASSIGN_OR_RETURN(auto made,
                           UnionClusterResolver::Create(std::move(parts), std::move(read)));
    *out_resolver = Give(Ref<ClusterResolver>(std::move(made)));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_read_cluster_spec(const tutti_cluster_resolver *resolver,
                                                       tutti_cluster_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_spec);
    TUTTI_ASSIGN_OR_RETURN(ClusterSpec spec, FromHandle(resolver)->cluster_spec());
    TUTTI_ASSIGN_OR_RETURN(auto handle, ClusterSpecHandle::Create(std::move(spec)));
    *out_spec = Give(std::move(handle));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_ask_cluster_spec(const tutti_cluster_resolver *resolver,
                                                      const tutti_call_options *call_options,
                                                      tutti_cluster_spec **out_spec) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_spec);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, nullptr));
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait, ReadCall(call, *root, call_options));
    const AskingScope asking(wait, root->clock());
    TUTTI_ASSIGN_OR_RETURN(ClusterSpec spec, FromHandle(resolver)->cluster_spec());
    TUTTI_ASSIGN_OR_RETURN(auto handle, ClusterSpecHandle::Create(std::move(spec)));
    *out_spec = Give(std::move(handle));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_read_task_type(const tutti_cluster_resolver *resolver,
                                                    tutti_bytes **out_type) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_type);
    TUTTI_ASSIGN_OR_RETURN(auto type, FromHandle(resolver)->task_type());
    *out_type = type.has_value() ? GiveBytes(std::move(*type)) : nullptr;
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_read_task_id(const tutti_cluster_resolver *resolver,
                                                  tutti_optional_int64 *out_id) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_id);
    TUTTI_ASSIGN_OR_RETURN(const auto id, FromHandle(resolver)->task_id());
    *out_id = {id.has_value(), id.value_or(0)};
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_read_rpc_layer(const tutti_cluster_resolver *resolver,
                                                    tutti_bytes **out_layer) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_layer);
    TUTTI_ASSIGN_OR_RETURN(std::string layer, FromHandle(resolver)->rpc_layer());
    *out_layer = layer.empty() ? nullptr : GiveBytes(std::move(layer));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_read_environment(const tutti_cluster_resolver *resolver,
                                                      tutti_bytes **out_environment) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_environment);
    TUTTI_ASSIGN_OR_RETURN(std::string environment, FromHandle(resolver)->environment());
    *out_environment = GiveBytes(std::move(environment));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_read_master(const tutti_cluster_resolver *resolver,
                                                 const char *task_type,
                                                 tutti_optional_int64 task_id,
                                                 const char *rpc_layer, tutti_bytes **out_master) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_master);
    TUTTI_ASSIGN_OR_RETURN(const auto id, ReadTaskId(call, task_id));
    TUTTI_ASSIGN_OR_RETURN(
        std::string master,
        FromHandle(resolver)->master(OptionalText(task_type), id, OptionalText(rpc_layer)));
    *out_master = GiveBytes(std::move(master));
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_read_num_accelerators(const tutti_cluster_resolver *resolver,
                                                           int64_t *out_count) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_count);
    TUTTI_ASSIGN_OR_RETURN(
        const AcceleratorCounts counts,
        CountAccelerators(call, *FromHandle(resolver), std::nullopt, std::nullopt));
    const auto given = counts.find(kGpu);
    *out_count = given == counts.end() ? 0 : given->second;
    return OkStatus();
  });
}

tutti_status *tutti_cluster_resolver_read_accelerators(const tutti_cluster_resolver *resolver,
                                                       const char *task_type,
                                                       tutti_optional_int64 task_id,
                                                       tutti_bytes **out_json) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, resolver, out_json);
    TUTTI_ASSIGN_OR_RETURN(const auto id, ReadTaskId(call, task_id));
    TUTTI_ASSIGN_OR_RETURN(
        const AcceleratorCounts counts,
        CountAccelerators(call, *FromHandle(resolver), OptionalText(task_type), id));
    *out_json = GiveBytes(AcceleratorsToJson(counts));
    return OkStatus();
  });
}

void tutti_cluster_resolver_retain(const tutti_cluster_resolver *resolver) {
  RetainHandle(resolver);
}
void tutti_cluster_resolver_release(const tutti_cluster_resolver *resolver) {
  ReleaseHandle(resolver);
}
