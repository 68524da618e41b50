#include "core/cluster/resolve/gce_cluster_resolver.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/resolve/host_list.h"

namespace tutti {
namespace {

using GceJson = nlohmann::json;

constexpr char kGceWho[] = "GCEClusterResolver";
constexpr int64_t kLastPortOfInstance = 65'535;
constexpr size_t kMostInstances = 100'000;

const char* VariableOfInstance(const char* name) { return std::getenv(name); }

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string TextOf(const GceJson& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

}  // namespace

Result<Ref<GceClusterResolver>> GceClusterResolver::Create(Options options) {
  if (Trim(options.instance_group).empty()) {
    return InvalidArgument("{}: instance_group is empty; expected the name of a group", kGceWho);
  }
  if (options.port < 1 || options.port > kLastPortOfInstance) {
    return InvalidArgument("{}: port is {}; expected 1 to {}", kGceWho, options.port,
                           kLastPortOfInstance);
  }
  if (options.task_id < 0) {
    return InvalidArgument("{}: task_id is {}; expected 0 or more", kGceWho, options.task_id);
  }
  if (options.timeout_ms < 1) {
    return InvalidArgument("{}: the timeout is {} ms; expected 1 or more", kGceWho,
                           options.timeout_ms);
  }
  if (options.variables == nullptr) options.variables = &VariableOfInstance;
  return MakeRef<GceClusterResolver>(std::move(options));
}

GceClusterResolver::GceClusterResolver(Options options) : options_(std::move(options)) {}

GceClusterResolver::~GceClusterResolver() = default;

Result<std::string> GceClusterResolver::AskMetadata(const char* path, HttpDeadline deadline) const {
  const char* host = options_.variables("GCE_METADATA_HOST");
  HttpRequest request;
  request.url = Format("http://{}/computeMetadata/v1/{}",
                       host == nullptr || *host == '\0' ? "metadata.google.internal" : host, path);
  request.headers = {"Metadata-Flavor: Google"};
  request.no_proxy = true;
  Result<std::string> answer = AskService(request, deadline, kGceWho);
  if (answer.ok()) return answer;
  return answer.status().WithPrefix(
      "the metadata server, which only instances of Google Compute Engine reach (elsewhere give "
      "project, zone and token)");
}

Result<std::string> GceClusterResolver::Token(HttpDeadline deadline) const {
  if (options_.credentials) {
    TUTTI_ASSIGN_OR_RETURN(const std::string given, options_.credentials({"token"}));
    if (!Trim(given).empty()) return std::string(Trim(given));
    return Unauthenticated("{}: the credentials give no token", kGceWho);
  }
  if (!options_.token.empty()) return options_.token;
  TUTTI_ASSIGN_OR_RETURN(const std::string answer,
                         AskMetadata("instance/service-accounts/default/token", deadline));
  const std::string token =
      TextOf(GceJson::parse(answer, nullptr, /*allow_exceptions=*/false), "access_token");
  if (!token.empty()) return token;
  return DataLoss("{}: the metadata server's answer has no access_token", kGceWho);
}

Result<ClusterSpec> GceClusterResolver::cluster_spec() const {
  const HttpDeadline deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.timeout_ms);
  std::string project = options_.project;
  if (project.empty() && !options_.service) {
    TUTTI_ASSIGN_OR_RETURN(project, AskMetadata("project/project-id", deadline));
  }
  std::string zone = options_.zone;
  if (zone.empty() && !options_.service) {
    TUTTI_ASSIGN_OR_RETURN(zone, AskMetadata("instance/zone", deadline));
    zone = LastPart(zone);  // "projects/123/zones/us-west1-a"
  }
  const std::string place = Format("{}/compute/v1/projects/{}/zones/{}", options_.endpoint,
                                   EscapeUrl(Trim(project)), EscapeUrl(Trim(zone)));
  const auto ask = [&](const std::string& path, bool post,
                       const std::vector<std::string>& question) -> Result<GceJson> {
    if (options_.service) {
      TUTTI_ASSIGN_OR_RETURN(const std::string text, options_.service(question));
      GceJson answer = GceJson::parse(text, nullptr, /*allow_exceptions=*/false);
      if (!answer.is_object()) return DataLoss("{}: the answer of the service to {} is no JSON "
                                               "object",
                                               kGceWho, question.front());
      if (std::chrono::steady_clock::now() < deadline) return answer;
      return DeadlineExceeded("{}: the service has not answered in time", kGceWho);
    }
    HttpRequest request;
    request.url = place + path;
    request.post = post;
    if (post) request.body = R"({"instanceState":"RUNNING"})";
    request.ca_file = options_.ca_file;
    TUTTI_ASSIGN_OR_RETURN(const std::string token, Token(deadline));
    request.headers = {"Authorization: Bearer " + token};
    request.secrets = {token};
    TUTTI_ASSIGN_OR_RETURN(const std::string text, AskService(request, deadline, kGceWho));
    GceJson answer = GceJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object()) return DataLoss("{}: the service's answer is no JSON object", kGceWho);
    return answer;
  };

  std::vector<std::string> names;
  const std::string group = EscapeUrl(options_.instance_group);
  std::string page;
  do {
    TUTTI_ASSIGN_OR_RETURN(
        const GceJson list,
        ask(Format("/instanceGroups/{}/listInstances{}", group,
                   page.empty() ? std::string() : "?pageToken=" + EscapeUrl(page)),
            true, {"list_instances", project, zone, options_.instance_group, page}));
    // An empty group has no items.
    const auto items = list.find("items");
    if (items != list.end() && !items->is_array()) {
      return DataLoss("{}: the service's answer is no list of instances", kGceWho);
    }
    for (const GceJson& item : items == list.end() ? GceJson::array() : *items) {
      const std::string name = LastPart(TextOf(item, "instance"));
      if (name.empty()) {
        return DataLoss("{}: the service lists an instance without a name", kGceWho);
      }
      names.push_back(name);
    }
    page = TextOf(list, "nextPageToken");
    if (names.size() > kMostInstances) {
      return ResourceExhausted("{}: the group {} has more than {} instances", kGceWho,
                               Quote(options_.instance_group), kMostInstances);
    }
  } while (!page.empty());
  std::sort(names.begin(), names.end(), ComesBefore);

  ClusterSpec spec;
  TUTTI_RETURN_IF_ERROR(spec.AddJob(options_.task_type));
  for (size_t i = 0; i < names.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(const GceJson instance, ask("/instances/" + EscapeUrl(names[i]), false,
                                                       {"get_instance", project, zone, names[i]}));
    const auto interfaces = instance.find("networkInterfaces");
    const std::string address =
        interfaces == instance.end() || !interfaces->is_array() || interfaces->empty()
            ? std::string()
            : TextOf(interfaces->front(), "networkIP");
    if (address.empty()) {
      return DataLoss("{}: the instance {} has no networkIP", kGceWho, Quote(names[i]));
    }
    TUTTI_RETURN_IF_ERROR(spec.AddTask(options_.task_type, static_cast<int64_t>(i),
                                       Format("{}:{}", address, options_.port)));
  }
  return spec;
}

Result<std::string> GceClusterResolver::master(
    const std::optional<std::string>& task_type, std::optional<int64_t> task_id,
    const std::optional<std::string>& rpc_layer) const {
  TUTTI_ASSIGN_OR_RETURN(const ClusterSpec cluster, cluster_spec());
  TUTTI_ASSIGN_OR_RETURN(const std::string address,
                         cluster.task_address(task_type.value_or(options_.task_type),
                                              task_id.value_or(options_.task_id)));
  return FormatMaster(address, rpc_layer.value_or(options_.rpc_layer));
}

Result<Ref<ClusterResolver>> GceClusterResolver::Changed(
    const ResolverChange& change) const {
  TUTTI_ASSIGN_OR_RETURN(auto changed, Create(change.On(options_)));
  return Ref<ClusterResolver>(std::move(changed));
}

}  // namespace tutti
