// Cluster resolvers through the C interface.
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using ClusterSpec = Handle<tutti_cluster_spec, tutti_cluster_spec_release>;
using Resolver = Handle<tutti_cluster_resolver, tutti_cluster_resolver_release>;

ClusterSpec SpecOfJson(const std::string &json) {
  ClusterSpec spec;
  EXPECT_OK(tutti_cluster_spec_create(json.c_str(), &spec));
  return spec;
}

TEST(ResolverTest, AUnionHasTheJobsOfAll) {
  tutti_cluster_resolver_options options = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
  options.task_type = "worker";
  options.task_id = {1, 0};
  Resolver workers, servers, both;
  ASSERT_OK(tutti_cluster_resolver_create_simple(SpecOfJson(R"({"worker": ["a:1"]})"), &options,
                                                 &workers));
  ASSERT_OK(
      tutti_cluster_resolver_create_simple(SpecOfJson(R"({"ps": ["p:1"]})"), nullptr, &servers));
  const tutti_cluster_resolver *parts[] = {workers, servers};
  ASSERT_OK(tutti_cluster_resolver_create_union(2, parts, nullptr, &both));
  ClusterSpec spec;
  ASSERT_OK(tutti_cluster_resolver_read_cluster_spec(both, &spec));
  EXPECT_STREQ(tutti_cluster_spec_get_task_address(spec, "ps", 0), "p:1");
  EXPECT_STREQ(tutti_cluster_spec_get_task_address(spec, "worker", 0), "a:1");
  tutti_optional_int64 id;
  ASSERT_OK(tutti_cluster_resolver_read_task_id(both, &id));
  EXPECT_EQ(id.present, 1);
  Resolver refused;
  EXPECT_FAILS(tutti_cluster_resolver_create_union(0, parts, nullptr, &refused),
               TUTTI_INVALID_ARGUMENT, "at least one");
  parts[1] = nullptr;
  EXPECT_FAILS(tutti_cluster_resolver_create_union(2, parts, nullptr, &refused),
               TUTTI_INVALID_ARGUMENT, "resolvers");
  options.environment = "google";
  EXPECT_FAILS(tutti_cluster_resolver_create_union(1, parts, &options, &refused),
               TUTTI_INVALID_ARGUMENT, "first resolver");
}

TEST(ResolverTest, ServicesAreAskedAtEachQuestion) {
  tutti_kubernetes_resolver_options pods = TUTTI_KUBERNETES_RESOLVER_OPTIONS_INIT;
  pods.job_labels = R"({"worker": ["job-name=a"]})";
  pods.account_folder = "/nonexistent";
  pods.task_type = "worker";
  Resolver resolver, refused;
  ASSERT_OK(tutti_cluster_resolver_create_kubernetes(&pods, &resolver));
  ClusterSpec spec;
  EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(resolver, &spec),
               TUTTI_FAILED_PRECONDITION, "KubernetesClusterResolver");
  pods.job_labels = "worker";
  EXPECT_FAILS(tutti_cluster_resolver_create_kubernetes(&pods, &refused), TUTTI_INVALID_ARGUMENT,
               "job_labels is");
  pods = TUTTI_KUBERNETES_RESOLVER_OPTIONS_INIT;
  pods.timeout_ns = -1;
  EXPECT_FAILS(tutti_cluster_resolver_create_kubernetes(&pods, &refused), TUTTI_INVALID_ARGUMENT,
               "timeout_ns is -1");
  tutti_gce_resolver_options instances = TUTTI_GCE_RESOLVER_OPTIONS_INIT;
  instances.task_id = {1, 3};
  Resolver group;
  ASSERT_OK(tutti_cluster_resolver_create_gce("group", &instances, &group));
  tutti_optional_int64 id;
  ASSERT_OK(tutti_cluster_resolver_read_task_id(group, &id));
  EXPECT_EQ(id.value, 3);
  EXPECT_FAILS(tutti_cluster_resolver_create_gce("", &instances, &refused),
               TUTTI_INVALID_ARGUMENT, "instance_group is empty");
}

// A program's answers by question. Its callbacks are destroyed on a thread of the runtime, some
// time after their last use: the script stays until then.
struct Script {
  std::map<std::string, std::string> answers;
  std::vector<std::string> asked;

  ~Script() { AwaitDestroyed(); }

  tutti_callback callback() {
    const std::lock_guard lock(mutex_);
    ++num_in_use_;
    return {&Answer, this, [](void *script) { static_cast<Script *>(script)->Destroy(); }};
  }

  void AwaitDestroyed() {
    std::unique_lock lock(mutex_);
    destroyed_.wait(lock, [&] { return num_in_use_ == 0; });
  }

  static tutti_status *Answer(tutti_context *, const tutti_value *in, tutti_value **out,
                              void *user_data) {
    auto *script = static_cast<Script *>(user_data);
    std::string question;
    for (size_t i = 0; i < tutti_value_get_leaf_count(in); ++i) {
      const tutti_string_view word = tutti_value_get_leaf_string(in, i);
      question += (i == 0 ? "" : " ") + std::string(word.data, word.size);
    }
    script->asked.push_back(question);
    const auto found = script->answers.find(question);
    if (found == script->answers.end()) return nullptr;
    if (found->second == "fail") return tutti_status_create(TUTTI_UNAVAILABLE, "no scheduler");
    return tutti_value_create_string({found->second.data(), found->second.size()}, out);
  }

 private:
  void Destroy() {
    const std::lock_guard lock(mutex_);
    EXPECT_GT(num_in_use_--, 0) << "destroyed once more than given";
    destroyed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable destroyed_;
  int num_in_use_ = 0;  // guarded by mutex_
};

std::string TextOf(tutti_bytes *bytes) {
  const std::string text(tutti_bytes_get_view(bytes).data);
  tutti_bytes_release(bytes);
  return text;
}

TEST(ResolverTest, AProgramMayAnswerForItself) {
  Script script;
  script.answers = {{"cluster_spec   ", R"({"worker": ["a:1", "b:2"]})"},
                    {"task_type   ", "worker"},
                    {"task_id   ", "1"},
                    {"num_accelerators worker 0 ", R"({"GPU": 2, "TPU": 8})"}};
  {
    Resolver resolver, changed;
    ASSERT_OK(tutti_cluster_resolver_create_own(nullptr, "Mine", script.callback(), &resolver));
    ClusterSpec spec;
    ASSERT_OK(tutti_cluster_resolver_ask_cluster_spec(resolver, nullptr, &spec));
    EXPECT_STREQ(tutti_cluster_spec_get_task_address(spec, "worker", 1), "b:2");
    tutti_bytes *text = nullptr;
    ASSERT_OK(tutti_cluster_resolver_read_master(resolver, nullptr, {0, 0}, "grpc", &text));
    EXPECT_EQ(TextOf(text), "grpc://b:2");
    ASSERT_OK(tutti_cluster_resolver_read_accelerators(resolver, "worker", {1, 0}, &text));
    EXPECT_EQ(TextOf(text), R"({"GPU":2,"TPU":8})");
    tutti_cluster_resolver_options options = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
    options.task_id = {1, 0};
    ASSERT_OK(tutti_cluster_resolver_create_changed(resolver, &options, &changed));
    ASSERT_OK(tutti_cluster_resolver_read_master(changed, nullptr, {0, 0}, nullptr, &text));
    EXPECT_EQ(TextOf(text), "a:1");
    options.master = "x";
    Resolver refused;
    EXPECT_FAILS(tutti_cluster_resolver_create_changed(resolver, &options, &refused),
                 TUTTI_INVALID_ARGUMENT, "can be changed");
    script.answers["task_id   "] = "first";
    tutti_optional_int64 id;
    EXPECT_FAILS(tutti_cluster_resolver_read_task_id(resolver, &id), TUTTI_INVALID_ARGUMENT,
                 "Mine: task_id is \"first\"");
    script.answers["cluster_spec   "] = "fail";
    ClusterSpec none;
    EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(resolver, &none), TUTTI_UNAVAILABLE,
                 "no scheduler");
    script.answers["cluster_spec   "] = "{";
    EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(resolver, &none),
                 TUTTI_INVALID_ARGUMENT, "Mine: cluster_spec");
    EXPECT_FAILS(tutti_cluster_resolver_create_own(nullptr, "Mine", {nullptr, nullptr, nullptr},
                                                   &refused),
                 TUTTI_INVALID_ARGUMENT, "answer");
  }
}

TEST(ResolverTest, AClientOfTheProgramIsAskedInsteadOfTheService) {
  Script pods;
  pods.answers = {
      {"list_pods job-name=a ", R"({"metadata": {"continue": "2"}, "items": [{"metadata": {"name":
          "a-10"}, "status": {"phase": "Running", "podIP": "10.0.0.2"}}]})"},
      {"list_pods job-name=a 2", R"({"items": [{"metadata": {"name": "a-9"},
          "status": {"phase": "Running", "podIP": "10.0.0.1"}}]})"}};
  tutti_kubernetes_resolver_options options = TUTTI_KUBERNETES_RESOLVER_OPTIONS_INIT;
  options.job_labels = R"({"worker": ["job-name=a"]})";
  Resolver resolver;
  ASSERT_OK(tutti_cluster_resolver_create_kubernetes_with_client(nullptr, pods.callback(), &options,
                                                                 &resolver));
  ClusterSpec spec, none;
  ASSERT_OK(tutti_cluster_resolver_read_cluster_spec(resolver, &spec));
  EXPECT_STREQ(tutti_cluster_spec_get_task_address(spec, "worker", 0), "10.0.0.1:8470");
  EXPECT_STREQ(tutti_cluster_spec_get_task_address(spec, "worker", 1), "10.0.0.2:8470");
  pods.answers["list_pods job-name=a "] = "no JSON";
  EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(resolver, &none), TUTTI_DATA_LOSS,
               "the client is no list of pods");
  options.job_labels = "3";
  Script unused;
  Resolver refused;
  EXPECT_FAILS(tutti_cluster_resolver_create_kubernetes_with_client(nullptr, unused.callback(),
                                                                    &options, &refused),
               TUTTI_INVALID_ARGUMENT, "job_labels is");
  unused.AwaitDestroyed();  // what is refused is given back

  Script service;
  service.answers = {
      {"list_instances p z g ", R"({"items": [{"instance": "https://x/instances/vm-1"}]})"},
      {"get_instance p z vm-1", R"({"networkInterfaces": [{"networkIP": "10.0.0.7"}]})"}};
  tutti_gce_resolver_options place = TUTTI_GCE_RESOLVER_OPTIONS_INIT;
  place.project = "p";
  place.zone = "z";
  Resolver group;
  ASSERT_OK(tutti_cluster_resolver_create_gce_with_service(
      nullptr, "g", service.callback(), {nullptr, nullptr, nullptr}, &place, &group));
  ClusterSpec instances;
  ASSERT_OK(tutti_cluster_resolver_read_cluster_spec(group, &instances));
  EXPECT_STREQ(tutti_cluster_spec_get_task_address(instances, "worker", 0), "10.0.0.7:8470");
  service.answers["list_instances p z g "] = R"({"items": 3})";
  EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(group, &none), TUTTI_DATA_LOSS,
               "no list of instances");
  Script credentials;  // which give no token
  Resolver without;
  ASSERT_OK(tutti_cluster_resolver_create_gce_with_service(
      nullptr, "g", {nullptr, nullptr, nullptr}, credentials.callback(), &place, &without));
  EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(without, &none), TUTTI_UNAUTHENTICATED,
               "the credentials give no token");
}

TEST(ResolverTest, AcceleratorsAreCountedByTheirTypes) {
  tutti_cluster_resolver_options options = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
  options.accelerators = R"({"GPU": 4, "TPU": 1})";
  Resolver resolver, refused;
  const ClusterSpec spec = SpecOfJson(R"({"worker": ["a:1"]})");
  ASSERT_OK(tutti_cluster_resolver_create_simple(spec, &options, &resolver));
  tutti_bytes *text = nullptr;
  ASSERT_OK(tutti_cluster_resolver_read_accelerators(resolver, nullptr, {0, 0}, &text));
  EXPECT_EQ(TextOf(text), R"({"GPU":4,"TPU":1})");
  int64_t gpus = 0;
  ASSERT_OK(tutti_cluster_resolver_read_num_accelerators(resolver, &gpus));
  EXPECT_EQ(gpus, 4);
  EXPECT_FAILS(tutti_cluster_resolver_read_accelerators(resolver, nullptr, {1, -1}, &text),
               TUTTI_INVALID_ARGUMENT, "task_id is -1");
  for (const char *wrong : {"2", R"({"GPU": -1})", R"({"GPU": "2"})", "{"}) {
    options.accelerators = wrong;
    EXPECT_FAILS(tutti_cluster_resolver_create_simple(spec, &options, &refused),
                 TUTTI_INVALID_ARGUMENT, "the option accelerators is");
  }
  options.num_accelerators = {1, 2};
  EXPECT_FAILS(tutti_cluster_resolver_create_simple(spec, &options, &refused),
               TUTTI_INVALID_ARGUMENT, "are both set");
}

TEST(ResolverTest, WhoAsksMayGiveUp) {
  Script script;
  script.answers = {{"cluster_spec   ", R"({"worker": ["a:1"]})"}};
  Resolver resolver;
  ASSERT_OK(tutti_cluster_resolver_create_own(nullptr, nullptr, script.callback(), &resolver));
  tutti_cancellation *cancellation = nullptr;
  ASSERT_OK(tutti_cancellation_create(&cancellation));
  tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
  call.cancellation = cancellation;
  ClusterSpec spec;
  ASSERT_OK(tutti_cluster_resolver_ask_cluster_spec(resolver, &call, &spec));
  tutti_gce_resolver_options place = TUTTI_GCE_RESOLVER_OPTIONS_INIT;
  place.project = place.zone = place.token = "x";
  place.endpoint = "https://127.0.0.1:1";
  Resolver group;
  ASSERT_OK(tutti_cluster_resolver_create_gce("g", &place, &group));
  tutti_cancellation_cancel(cancellation, "no longer wanted");
  ClusterSpec none;
  EXPECT_FAILS(tutti_cluster_resolver_ask_cluster_spec(group, &call, &none), TUTTI_CANCELLED,
               "no longer wanted");
  tutti_cancellation_release(cancellation);
}

// Answers each request on a port of loopback with what it has; until closed.
class CannedServer {
 public:
  CannedServer() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    EXPECT_EQ(::bind(fd_, generic, size), 0);
    EXPECT_EQ(::listen(fd_, 4), 0);
    EXPECT_EQ(::getsockname(fd_, generic, &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  ~CannedServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  const std::string &url() const { return url_; }
  void SetAnswer(const std::string &answer) {
    const std::lock_guard lock(mutex_);
    answer_ = answer;
  }

 private:
  void Serve() {
    for (int client; (client = ::accept(fd_, nullptr, nullptr)) >= 0; ::close(client)) {
      char request[4096];
      (void)!::read(client, request, sizeof(request));
      const std::lock_guard lock(mutex_);
      (void)!::write(client, answer_.data(), answer_.size());
    }
  }

  const int fd_;
  std::string url_;
  std::mutex mutex_;  // guards answer_
  std::string answer_;
  std::thread thread_;
};

TEST(ResolverTest, WhatAServiceRefusesHasItsCode) {
  CannedServer server;
  tutti_gce_resolver_options place = TUTTI_GCE_RESOLVER_OPTIONS_INIT;
  place.project = place.zone = "x";
  place.token = "a-token-that-nobody-may-see";
  place.endpoint = server.url().c_str();
  Resolver group;
  ASSERT_OK(tutti_cluster_resolver_create_gce("g", &place, &group));
  const struct {
    const char *head;
    tutti_code code;
    const char *said;
  } refusals[] = {
      {"401 Unauthorized", TUTTI_UNAUTHENTICATED, "does not take the token"},
      {"403 Forbidden", TUTTI_PERMISSION_DENIED, "does not allow it to this account"},
      {"404 Not Found", TUTTI_NOT_FOUND, "does not know that"},
      {"429 Too Many Requests\r\nRetry-After: 3600", TUTTI_RESOURCE_EXHAUSTED, "too often"},
      {"302 Found\r\nLocation: http://127.0.0.1:1/", TUTTI_FAILED_PRECONDITION, "not followed"},
      {"200 OK", TUTTI_DATA_LOSS, "no JSON object"}};
  for (const auto &refusal : refusals) {
    server.SetAnswer(std::string("HTTP/1.1 ") + refusal.head +
                     "\r\nConnection: close\r\nContent-Length: 27\r\n\r\n" + place.token);
    ClusterSpec spec;
    EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(group, &spec), refusal.code,
                 refusal.said);
    const std::unique_ptr<tutti_status, decltype(&tutti_status_release)> status(
        tutti_cluster_resolver_read_cluster_spec(group, &spec), &tutti_status_release);
    EXPECT_EQ(std::string(tutti_status_get_message(status.get())).find(place.token),
              std::string::npos);
  }
}

TEST(ResolverTest, SlurmIsAskedAtEachQuestion) {
  const std::pair<const char *, const char *> step[] = {{"SLURM_STEP_NODELIST", "n[1-2]"},
                                                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                                        {"SLURM_STEP_NUM_TASKS", "4"},
                                                        {"SLURM_PROCID", "3"}};
  tutti_slurm_resolver_options options = TUTTI_SLURM_RESOLVER_OPTIONS_INIT;
  options.jobs = "ps:1, worker:3";
  options.gpus_per_node = {1, 0};
  Resolver resolver;
  ASSERT_OK(tutti_cluster_resolver_create_slurm(&options, &resolver));
  ClusterSpec spec;
  EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(resolver, &spec),
               TUTTI_FAILED_PRECONDITION, "SLURM_STEP_NODELIST");
  for (const auto &[name, value] : step) ::setenv(name, value, 1);
  ASSERT_OK(tutti_cluster_resolver_read_cluster_spec(resolver, &spec));
  EXPECT_STREQ(tutti_cluster_spec_get_task_address(spec, "worker", 2), "n2:8889");
  ::setenv("SLURM_STEP_NODELIST", "n[0-999999999]", 1);
  ClusterSpec bomb;
  EXPECT_FAILS(tutti_cluster_resolver_read_cluster_spec(resolver, &bomb), TUTTI_INVALID_ARGUMENT,
               "more than 65536 hosts");
  for (const auto &entry : step) ::unsetenv(entry.first);

  Resolver refused;
  options.tasks_per_node = "n1:x";
  EXPECT_FAILS(tutti_cluster_resolver_create_slurm(&options, &refused), TUTTI_INVALID_ARGUMENT,
               "the option tasks_per_node is \"n1:x\"");
  options.tasks_per_node = "2";
  options.auto_set_gpu = 9;
  EXPECT_FAILS(tutti_cluster_resolver_create_slurm(&options, &refused), TUTTI_INVALID_ARGUMENT,
               "auto_set_gpu");
}

}  // namespace
}  // namespace tutti::capi_test
