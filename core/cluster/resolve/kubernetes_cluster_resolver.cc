#include "core/cluster/resolve/kubernetes_cluster_resolver.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/resolve/host_list.h"
#include "core/cluster/resolve/strict_json.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr char kWho[] = "KubernetesClusterResolver";
constexpr char kDefaultJob[] = "worker";
constexpr char kDefaultLabel[] = "job-name=tensorflow";
constexpr int64_t kLastTcpPort = 65'535;
constexpr size_t kMostAccountBytes = 64 << 10;
constexpr size_t kMostPods = 100'000;
constexpr int kPodsOfPage = 500;

const char* VariableOfPod(const char* name) { return std::getenv(name); }

// The text at {"a": {"b": "text"}}; empty where it is not.
std::string TextAt(const Json& object, const char* outer, const char* inner) {
  const auto found = object.find(outer);
  if (found == object.end() || !found->is_object()) return "";
  const auto text = found->find(inner);
  return text == found->end() || !text->is_string() ? std::string() : text->get<std::string>();
}

}  // namespace

Result<std::map<std::string, std::vector<std::string>>> KubernetesClusterResolver::ParseLabels(
    std::string_view json, std::string_view what) {
  std::map<std::string, std::vector<std::string>> labels;
  if (Trim(json).empty()) return labels;
  const Result<Json> read = ParseStrictJson(json);
  const auto wrong = [&] {
    return InvalidArgument("{} is {}; expected {{\"worker\": [\"job-name=a\", ...]}}", what,
                           Quote(json));
  };
  if (!read.ok() || !read->is_object()) return wrong();
  for (const auto& [job, selectors] : read->items()) {
    if (!selectors.is_array()) return wrong();
    std::vector<std::string>& own = labels[job];
    for (const Json& selector : selectors) {
      if (!selector.is_string()) return wrong();
      own.push_back(selector.get<std::string>());
    }
  }
  return labels;
}

Result<Ref<KubernetesClusterResolver>> KubernetesClusterResolver::Create(Options options) {
  if (options.port < 1 || options.port > kLastTcpPort) {
    return InvalidArgument("{}: tf_server_port is {}; expected 1 to {}", kWho, options.port,
                           kLastTcpPort);
  }
  if (options.timeout_ms < 1) {
    return InvalidArgument("{}: the timeout is {} ms; expected 1 or more", kWho,
                           options.timeout_ms);
  }
  if (options.job_labels.empty()) options.job_labels[kDefaultJob] = {kDefaultLabel};
  if (options.variables == nullptr) options.variables = &VariableOfPod;
  return MakeRef<KubernetesClusterResolver>(std::move(options));
}

KubernetesClusterResolver::KubernetesClusterResolver(Options options)
    : options_(std::move(options)) {}

KubernetesClusterResolver::~KubernetesClusterResolver() = default;

Result<std::string> KubernetesClusterResolver::Variable(const char* name) const {
  const char* text = options_.variables(name);
  if (text != nullptr && !Trim(text).empty()) return std::string(Trim(text));
  return FailedPrecondition("{}: the variable {} is not set: this process is in no pod of "
                            "Kubernetes; use another resolver",
                            kWho, name)
      .With("variable", name);
}

Result<std::string> KubernetesClusterResolver::ReadAccount(const char* file) const {
  const std::string path = options_.account_folder + "/" + file;
  std::ifstream stream(path, std::ios::binary);
  std::string text(kMostAccountBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, stream.gcount())));
  if (!Trim(text).empty()) return std::string(Trim(text));
  return FailedPrecondition("{}: the file {} of the pod's service account is missing or empty; the "
                            "pod needs an account (serviceAccountName) with its token mounted",
                            kWho, Quote(path))
      .With("file", path);
}

Result<std::string> KubernetesClusterResolver::AskForPods(const std::string& url,
                                                          HttpDeadline deadline) const {
  std::string before;
  while (true) {
    HttpRequest request;
    request.url = url;
    request.ca_file = options_.account_folder + "/ca.crt";
    TUTTI_ASSIGN_OR_RETURN(const std::string token, ReadAccount("token"));
    request.headers = {"Authorization: Bearer " + token};
    request.secrets = {token};
    Result<std::string> answer = AskService(request, deadline, kWho);
    if (answer.ok() || answer.status().code() != StatusCode::kUnauthenticated) return answer;
    // It may have been replaced between the reading and the asking.
    TUTTI_ASSIGN_OR_RETURN(const std::string now, ReadAccount("token"));
    if (now == token || now == before) return answer;
    before = token;
  }
}

Result<std::string> KubernetesClusterResolver::PodsUrl(const std::string& label) const {
  TUTTI_ASSIGN_OR_RETURN(std::string host, Variable("KUBERNETES_SERVICE_HOST"));
  const char* given = options_.variables("KUBERNETES_SERVICE_PORT_HTTPS");
  TUTTI_ASSIGN_OR_RETURN(const std::string port, Variable(given != nullptr && *given != '\0'
                                                              ? "KUBERNETES_SERVICE_PORT_HTTPS"
                                                              : "KUBERNETES_SERVICE_PORT"));
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  std::string name_space = options_.name_space;
  if (name_space.empty()) {
    TUTTI_ASSIGN_OR_RETURN(name_space, ReadAccount("namespace"));
  }
  return Format("https://{}:{}/api/v1/namespaces/{}/pods?limit={}&labelSelector={}", host, port,
                EscapeUrl(name_space), kPodsOfPage, EscapeUrl(label));
}

Result<std::vector<KubernetesClusterResolver::Pod>> KubernetesClusterResolver::ListPods(
    const std::string& label, HttpDeadline deadline) const {
  std::string url;
  if (!options_.client) {
    TUTTI_ASSIGN_OR_RETURN(url, PodsUrl(label));
  }
  const char* who = options_.client ? "the client" : "the API server";
  std::vector<Pod> pods;
  std::string page;
  do {
    TUTTI_ASSIGN_OR_RETURN(
        const std::string text,
        options_.client
            ? options_.client({"list_pods", label, page})
            : AskForPods(page.empty() ? url : url + "&continue=" + EscapeUrl(page), deadline));
    if (std::chrono::steady_clock::now() >= deadline) {
      return DeadlineExceeded("{}: {} has listed {} pods and has more, and the time is over", kWho,
                              who, pods.size());
    }
    const Json list = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto items = list.is_object() ? list.find("items") : list.end();
    if (!list.is_object() || items == list.end() || !items->is_array()) {
      return DataLoss("{}: the answer of {} is no list of pods", kWho, who);
    }
    for (const Json& item : *items) {
      const std::string name = item.is_object() ? TextAt(item, "metadata", "name") : "";
      const std::string phase = item.is_object() ? TextAt(item, "status", "phase") : "";
      const std::string address =
          item.is_object() ? TextAt(item, "status", options_.host_ip ? "hostIP" : "podIP") : "";
      if (name.empty()) return DataLoss("{}: {} lists a pod without a name", kWho, who);
      if (phase != "Running") {
        return FailedPrecondition("{}: the pod {} is not running: its phase is {}; ask again when "
                                  "all pods of {} run",
                                  kWho, Quote(name), Quote(phase), Quote(label))
            .With("pod", name);
      }
      if (address.empty()) {
        return FailedPrecondition("{}: the pod {} has no address yet", kWho, Quote(name))
            .With("pod", name);
      }
      pods.push_back({name, address});
    }
    page = TextAt(list, "metadata", "continue");
    if (pods.size() > kMostPods) {
      return ResourceExhausted("{}: {} has more than {} pods", kWho, Quote(label), kMostPods);
    }
  } while (!page.empty());
  std::sort(pods.begin(), pods.end(),
            [](const Pod& a, const Pod& b) { return ComesBefore(a.name, b.name); });
  return pods;
}

Result<std::map<std::string, std::vector<KubernetesClusterResolver::Pod>>>
KubernetesClusterResolver::ListJobs() const {
  const HttpDeadline deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.timeout_ms);
  std::map<std::string, std::vector<Pod>> jobs;
  for (const auto& [job, labels] : options_.job_labels) {
    std::vector<Pod>& own = jobs[job];
    for (const std::string& label : labels) {
      TUTTI_ASSIGN_OR_RETURN(std::vector<Pod> pods, ListPods(label, deadline));
      own.insert(own.end(), pods.begin(), pods.end());
    }
  }
  return jobs;
}

Result<ClusterSpec> KubernetesClusterResolver::cluster_spec() const {
  TUTTI_ASSIGN_OR_RETURN(const auto jobs, ListJobs());
  ClusterSpec spec;
  for (const auto& [job, pods] : jobs) {
    TUTTI_RETURN_IF_ERROR(spec.AddJob(job));
    for (size_t i = 0; i < pods.size(); ++i) {
      const std::string& address = pods[i].address;
      const bool is_v6 = address.find(':') != std::string::npos;
      TUTTI_RETURN_IF_ERROR(
          spec.AddTask(job, static_cast<int64_t>(i),
                       is_v6 ? Format("[{}]:{}", address, options_.port)
                             : Format("{}:{}", address, options_.port)));
    }
  }
  return spec;
}

Result<std::optional<std::pair<std::string, int64_t>>> KubernetesClusterResolver::FindTask()
    const {
  const char* own = options_.variables("HOSTNAME");
  if (own == nullptr) return std::optional<std::pair<std::string, int64_t>>();
  TUTTI_ASSIGN_OR_RETURN(const auto jobs, ListJobs());
  for (const auto& [job, pods] : jobs) {
    for (size_t i = 0; i < pods.size(); ++i) {
      if (pods[i].name == own) {
        return std::optional<std::pair<std::string, int64_t>>({job, static_cast<int64_t>(i)});
      }
    }
  }
  return std::optional<std::pair<std::string, int64_t>>();
}

Result<std::optional<std::string>> KubernetesClusterResolver::task_type() const {
  if (options_.task_type) return options_.task_type;
  TUTTI_ASSIGN_OR_RETURN(const auto task, FindTask());
  return task ? std::optional<std::string>(task->first) : std::nullopt;
}

Result<std::optional<int64_t>> KubernetesClusterResolver::task_id() const {
  if (options_.task_id) return options_.task_id;
  TUTTI_ASSIGN_OR_RETURN(const auto task, FindTask());
  return task ? std::optional<int64_t>(task->second) : std::nullopt;
}

Result<std::string> KubernetesClusterResolver::master(
    const std::optional<std::string>& task_type, std::optional<int64_t> task_id,
    const std::optional<std::string>& rpc_layer) const {
  TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> own_type,
                         task_type ? Result<std::optional<std::string>>(task_type)
                                   : this->task_type());
  TUTTI_ASSIGN_OR_RETURN(const std::optional<int64_t> own_id,
                         task_id ? Result<std::optional<int64_t>>(task_id) : this->task_id());
  if (!own_type || !own_id) return std::string();
  TUTTI_ASSIGN_OR_RETURN(const ClusterSpec cluster, cluster_spec());
  TUTTI_ASSIGN_OR_RETURN(const std::string address, cluster.task_address(*own_type, *own_id));
  return FormatMaster(address, rpc_layer.value_or(options_.rpc_layer));
}

Result<Ref<ClusterResolver>> KubernetesClusterResolver::Changed(
    const ResolverChange& change) const {
  TUTTI_ASSIGN_OR_RETURN(auto changed, Create(change.On(options_)));
  return Ref<ClusterResolver>(std::move(changed));
}

}  // namespace tutti
