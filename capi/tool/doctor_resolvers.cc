// `tutti doctor`, the resolvers: what each of them would answer here, or why it cannot.

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <string>
#include <utility>
#include <vector>

#include "capi/tool/c_handles.h"
#include "capi/tool/doctor_checks.h"

namespace tutti::tool {
namespace {

// Longer than a service of this network takes that is there.
constexpr int64_t kPatienceNs = 5'000'000'000;

struct ResolverAnswer {
  std::string cluster;  // JSON
  std::string task_type;
  tutti_optional_int64 task_id = {0, 0};
};

CStatus AskResolver(const CClusterResolver& resolver, ResolverAnswer* answer) {
  CClusterSpec spec;
  CBytes json, type;
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_cluster_resolver_read_cluster_spec(resolver.get(), Out(&spec)));
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_cluster_spec_to_json(spec.get(), Out(&json)));
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_cluster_resolver_read_task_type(resolver.get(), Out(&type)));
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_cluster_resolver_read_task_id(resolver.get(), &answer->task_id));
  answer->cluster = TextOf(json);
  answer->task_type = type ? TextOf(type) : "";
  return nullptr;
}

class ResolverNotes {
 public:
  explicit ResolverNotes(const ResolverQuestions& questions) : questions_(questions) {}

  // Who is asked next.
  void Begin(const std::string& name) const {
    if (questions_.before_each) questions_.before_each(name);
  }
  // `made` is of the call that made the resolver.
  void Note(const std::string& name, CStatus made, const CClusterResolver& resolver) {
    ResolverAnswer answer;
    if (!made) made = AskResolver(resolver, &answer);
    if (made) return Refuse(name, tutti_status_get_message(made.get()));
    const Json cluster = Json::parse(answer.cluster, nullptr, /*allow_exceptions=*/false);
    if (cluster.empty()) return Refuse(name, "it knows of no cluster");
    Json facts = {{"cluster", cluster}, {"task", nullptr}};
    std::string task = "no task of it";
    if (answer.task_id.present != 0) {
      facts["task"] = {{"type", answer.task_type}, {"index", answer.task_id.value}};
      task = fmt::format("{} {}", answer.task_type, answer.task_id.value);
    }
    facts_[name] = std::move(facts);
    lines_.push_back(fmt::format("{}: this is {} of {}", name, task, answer.cluster));
  }
  // It gives no answer, for which `why` is the reason.
  void Refuse(const std::string& name, std::string why) {
    if (why.rfind(name + ": ", 0) == 0) why.erase(0, name.size() + 2);
    facts_[name] = {{"reason", why}};
    lines_.push_back(fmt::format("{}: none: {}", name, why));
  }
  void MoveTo(DoctorReport* report) {
    report->Add("resolvers", std::move(facts_), std::move(lines_));
  }

 private:
  const ResolverQuestions& questions_;
  Json facts_ = Json::object();
  std::vector<std::string> lines_;
};

}  // namespace

void CheckResolvers(const ResolverQuestions& questions, DoctorReport* report) {
  ResolverNotes notes(questions);
  CClusterResolver resolver;
  notes.Begin("TFConfigClusterResolver");
  CStatus made(tutti_cluster_resolver_create_tf_config(nullptr, Out(&resolver)));
  notes.Note("TFConfigClusterResolver", std::move(made), resolver);

  notes.Begin("SlurmClusterResolver");
  tutti_slurm_resolver_options slurm = TUTTI_SLURM_RESOLVER_OPTIONS_INIT;
  slurm.auto_set_gpu = TUTTI_FALSE;
  made.reset(tutti_cluster_resolver_create_slurm(&slurm, Out(&resolver)));
  notes.Note("SlurmClusterResolver", std::move(made), resolver);

  notes.Begin("KubernetesClusterResolver");
  const std::string labels = Json{{"worker", {questions.pod_label}}}.dump();
  tutti_kubernetes_resolver_options pods = TUTTI_KUBERNETES_RESOLVER_OPTIONS_INIT;
  pods.job_labels = labels.c_str();
  pods.timeout_ns = kPatienceNs;
  made.reset(tutti_cluster_resolver_create_kubernetes(&pods, Out(&resolver)));
  notes.Note("KubernetesClusterResolver", std::move(made), resolver);

  notes.Begin("GCEClusterResolver");
  if (questions.gce_group.empty()) {
    notes.Refuse("GCEClusterResolver",
                 "it is asked for a group of instances: tutti doctor --gce-group NAME");
  } else {
    tutti_gce_resolver_options group = TUTTI_GCE_RESOLVER_OPTIONS_INIT;
    group.timeout_ns = kPatienceNs;
    made.reset(
        tutti_cluster_resolver_create_gce(questions.gce_group.c_str(), &group, Out(&resolver)));
    notes.Note("GCEClusterResolver", std::move(made), resolver);
  }
  notes.MoveTo(report);
}

}  // namespace tutti::tool
