#include "core/cluster/resolve/cluster_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/resolve/simple_cluster_resolver.h"
#include "core/cluster/resolve/tf_config_cluster_resolver.h"
#include "core/cluster/resolve/union_cluster_resolver.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// TF_CONFIG of the test that is running; null: not set.
const char* config = nullptr;
const char* FakeVariable(const char* name) {
  return std::string_view(name) == "TF_CONFIG" ? config : nullptr;
}

Ref<TFConfigClusterResolver> Resolver(TFConfigClusterResolver::Options options = {}) {
  options.variables = &FakeVariable;
  return MakeRef<TFConfigClusterResolver>(options);
}

template <typename T>
std::string Refusal(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

constexpr const char* kConfig = R"({
    "cluster": {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"],
                "ps": ["10.0.0.4:2222"]},
    "task": {"type": "worker", "index": 1}})";

TEST(TFConfigClusterResolver, ReadsClusterAndTask) {
  config = kConfig;
  const auto resolver = Resolver();
  EXPECT_EQ(*resolver->cluster_spec()->num_tasks("worker"), 2);
  EXPECT_EQ(**resolver->task_type(), "worker");
  EXPECT_EQ(**resolver->task_id(), 1);
  EXPECT_EQ(*resolver->rpc_layer(), "grpc");
  EXPECT_EQ(*resolver->environment(), "");
  EXPECT_EQ(*resolver->master({}, {}, {}), "grpc://10.0.0.3:2222");
  EXPECT_EQ(*resolver->master("ps", 0, ""), "10.0.0.4:2222");
  EXPECT_TRUE(resolver->num_accelerators({}, {})->empty());
  const WorkerOrder order = *OrderWorkers(*resolver);
  EXPECT_THAT(order.tasks, ElementsAre("chief:0", "worker:0", "worker:1"));
  EXPECT_EQ(order.worker, 2);
}

TEST(TFConfigClusterResolver, WithoutTheVariableThisProcessIsAlone) {
  for (const char* text : {static_cast<const char*>(nullptr), "", " \n", "{}"}) {
    config = text;
    const auto resolver = Resolver();
    EXPECT_TRUE(resolver->cluster_spec()->empty());
    EXPECT_FALSE(resolver->task_type()->has_value());
    EXPECT_FALSE(resolver->task_id()->has_value());
    EXPECT_EQ(*resolver->master({}, {}, {}), "");
    EXPECT_EQ(OrderWorkers(*resolver)->num_workers(), 0);
  }
}

TEST(TFConfigClusterResolver, ReadsAnewAtEachAccess) {
  config = kConfig;
  const auto resolver = Resolver();
  EXPECT_EQ(**resolver->task_id(), 1);
  config = R"({"task": {"type": "chief", "index": "7"}, "rpc_layer": "http",
               "environment": "google", "session_master": "somewhere"})";
  EXPECT_EQ(**resolver->task_type(), "chief");
  EXPECT_EQ(**resolver->task_id(), 7);
  EXPECT_EQ(*resolver->rpc_layer(), "http");
  EXPECT_EQ(*resolver->environment(), "google");
  EXPECT_EQ(*resolver->master({}, {}, {}), "somewhere");
}

TEST(TFConfigClusterResolver, ReadsTheProcessesOwnVariable) {
  setenv("TF_CONFIG", kConfig, 1);
  const auto resolver = MakeRef<TFConfigClusterResolver>(TFConfigClusterResolver::Options());
  EXPECT_EQ(**resolver->task_id(), 1);
  unsetenv("TF_CONFIG");
  EXPECT_FALSE(resolver->task_id()->has_value());
}

TEST(TFConfigClusterResolver, ArgumentsOverrideAlsoWithZero) {
  config = kConfig;
  TFConfigClusterResolver::Options options;
  options.task_type = "chief";
  options.task_id = 0;
  options.rpc_layer = "";
  options.environment = "somewhere";
  options.num_accelerators = {{"GPU", 2}};
  const auto resolver = Resolver(options);
  EXPECT_EQ(**resolver->task_type(), "chief");
  EXPECT_EQ(**resolver->task_id(), 0);
  EXPECT_EQ(*resolver->master({}, {}, {}), "10.0.0.1:2222");
  EXPECT_EQ(*resolver->environment(), "somewhere");
  EXPECT_EQ(resolver->num_accelerators({}, {})->at("GPU"), 2);
  EXPECT_TRUE(OrderWorkers(*resolver)->is_chief);
}

TEST(TFConfigClusterResolver, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"{\"cluster\": ", "TF_CONFIG: no JSON: parse error at line 1, column 13"},
      {"nonsense", "TF_CONFIG: no JSON: parse error at line 1, column 2"},
      {"[]", "TF_CONFIG is [] of the type array; expected {\"cluster\""},
      {R"({"cluster": 3})", "TF_CONFIG: cluster: it is 3 of the type number"},
      {R"({"cluster": {"worker": 3}})", "the tasks of the job \"worker\" are 3"},
      {R"({"cluster": {"worker": ["a:1"]}, "cluster": {}})", "the key \"cluster\" is there twice"},
      {R"({"cluster": {"chief": ["a:1", "b:1"]}})", "2 tasks of the type \"chief\"; at most one"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": 3})", "TF_CONFIG: task is 3 of the type number"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": 3}})",
       "TF_CONFIG: task type is 3 of the type number, and must be a text"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1.5}})",
       "TF_CONFIG: task index is 1.5 of the type number, and must be a whole number"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "one"}})",
       "TF_CONFIG: task index is \"one\" of the type string"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", 
           "index": 18446744073709551615}})",
       "must be a whole number"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}})",
       "TF_CONFIG: the task index is -1; indices start at 0"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 4}})",
       "no task worker:4 in the cluster; its tasks are worker:0"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "boss", "index": 0}})",
       "no job \"boss\" in the cluster; its jobs are worker"},
      {R"({"cluster": {"worker": ["a:1"]}})",
       "TFConfigClusterResolver gives a cluster (worker:0) and no task type"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}})", "and no task index"},
  };
  for (const auto& c : cases) {
    config = c.text;
    EXPECT_THAT(Refusal(OrderWorkers(*Resolver())), HasSubstr(c.message)) << c.text;
  }
}

TEST(TFConfigClusterResolver, MasterNeedsATask) {
  config = R"({"cluster": {"worker": ["a:1", "b:1"]}})";
  const Result<std::string> master = Resolver()->master({}, {}, {});
  EXPECT_EQ(master.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*Resolver()->master("worker", 1, {}), "grpc://b:1");
  // Alone there is no need for one.
  config = R"({"cluster": {"worker": ["a:1"]}})";
  EXPECT_EQ(*Resolver()->master({}, {}, {}), "");
}

TEST(SimpleClusterResolver, SaysWhatItWasTold) {
  SimpleClusterResolver::Options options;
  options.cluster_spec = *ClusterSpec::FromJson(R"({"worker": ["a:1", "b:1"]})");
  options.master = "somewhere";
  options.task_type = "worker";
  options.task_id = 1;
  options.num_accelerators = {{"GPU", 8}};
  options.rpc_layer = "grpc";
  const auto resolver = MakeRef<SimpleClusterResolver>(options);
  EXPECT_EQ(*resolver->cluster_spec(), options.cluster_spec);
  EXPECT_EQ(*resolver->master({}, {}, {}), "grpc://somewhere");
  EXPECT_EQ(*resolver->master("worker", 0, {}), "grpc://a:1");
  EXPECT_EQ(*resolver->master("worker", 0, "http"), "http://a:1");
  EXPECT_THAT(Refusal(resolver->master("worker", 9, {})), HasSubstr("no task worker:9"));
  EXPECT_EQ(resolver->num_accelerators("worker", 0)->at("GPU"), 8);
  EXPECT_EQ(OrderWorkers(*resolver)->worker, 1);
  EXPECT_EQ(*resolver->environment(), "");
}

TEST(SimpleClusterResolver, WithoutATaskThereIsNoPlaceInTheOrder) {
  SimpleClusterResolver::Options options;
  options.cluster_spec = *ClusterSpec::FromJson(R"({"worker": ["a:1", "b:1"]})");
  const auto resolver = MakeRef<SimpleClusterResolver>(options);
  EXPECT_THAT(Refusal(OrderWorkers(*resolver)), HasSubstr("and no task type"));
  EXPECT_EQ(*resolver->master({}, {}, {}), "");
}

Ref<ClusterResolver> SimpleOf(const char* json) {
  SimpleClusterResolver::Options options;
  options.cluster_spec = ClusterSpec::FromJson(json).value();
  return MakeRef<SimpleClusterResolver>(std::move(options));
}
Result<std::string> UnionOf(std::vector<const char*> clusters) {
  std::vector<Ref<ClusterResolver>> parts;
  for (const char* json : clusters) parts.push_back(SimpleOf(json));
  TUTTI_ASSIGN_OR_RETURN(const auto joined, UnionClusterResolver::Create(std::move(parts), {}));
  TUTTI_ASSIGN_OR_RETURN(const ClusterSpec spec, joined->cluster_spec());
  return spec.ToJson();
}

TEST(UnionClusterResolver, JoinsListsAndKeepsIndicesWhereThereAreGaps) {
  EXPECT_EQ(UnionOf({R"({"worker": ["a:1"]})", R"({"ps": ["p:1"]})"}).value(),
            R"({"ps": ["p:1"], "worker": ["a:1"]})");
  EXPECT_EQ(UnionOf({R"({"worker": ["a:1"]})", R"({"worker": ["b:2", "c:3"]})"}).value(),
            R"({"worker": ["a:1", "b:2", "c:3"]})");
  EXPECT_EQ(UnionOf({R"({"worker": {"0": "a:1", "7": "b:2"}})", R"({"worker": {"3": "c:3"}})"})
                .value(),
            R"({"worker": {"0": "a:1", "3": "c:3", "7": "b:2"}})");
  const auto conflict =
      UnionOf({R"({"worker": {"0": "a:1", "7": "b:2"}})", R"({"worker": ["c:3"]})"});
  EXPECT_EQ(conflict.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(conflict.status().message()), HasSubstr("worker:0"));
  EXPECT_EQ(UnionOf({}).status().code(), StatusCode::kInvalidArgument);
}

TEST(UnionClusterResolver, TheFirstOneAnswersWhatItsOptionsDoNot) {
  SimpleClusterResolver::Options first;
  first.cluster_spec = ClusterSpec::FromJson(R"({"worker": ["a:1"]})").value();
  first.task_type = "worker";
  first.task_id = 0;
  first.rpc_layer = "grpc";
  first.master = "m:1";
  first.environment = "somewhere";
  first.num_accelerators = {{"GPU", 2}};
  const std::vector<Ref<ClusterResolver>> parts = {MakeRef<SimpleClusterResolver>(first),
                                                   SimpleOf(R"({"ps": ["p:1"]})")};
  const auto joined = UnionClusterResolver::Create(parts, {}).value();
  EXPECT_EQ(**joined->task_type(), "worker");
  EXPECT_EQ(**joined->task_id(), 0);
  EXPECT_EQ(*joined->rpc_layer(), "grpc");
  EXPECT_EQ(*joined->environment(), "somewhere");
  EXPECT_EQ(joined->num_accelerators({}, {})->at("GPU"), 2);
  EXPECT_EQ(*joined->master({}, {}, {}), "grpc://m:1");
  EXPECT_EQ(*joined->master("ps", 0, {}), "grpc://p:1");
  const auto other = UnionClusterResolver::Create(parts, {"ps", 3, "http"}).value();
  EXPECT_EQ(**other->task_type(), "ps");
  EXPECT_EQ(**other->task_id(), 3);
  EXPECT_EQ(*other->master({}, {}, {}), "http://m:1");
}

}  // namespace
}  // namespace tutti
