#include "core/cluster/resolve/cluster_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ClusterSpec Read(const char* json) {
  const Result<ClusterSpec> spec = ClusterSpec::FromJson(json);
  EXPECT_TRUE(spec.ok()) << spec.status().ToString();
  return spec.ok() ? *spec : ClusterSpec();
}

// The message of a failure, which must be INVALID_ARGUMENT.
template <typename T>
std::string Refusal(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

TEST(ClusterSpec, ReadsListsAndObjects) {
  const ClusterSpec spec = Read(R"({"chief": ["a:1"], "worker": ["b:2", "c:3"],
                                    "ps": {"7": "d:4", "2": "e:5"}, "evaluator": []})");
  EXPECT_THAT(spec.jobs(), ElementsAre("chief", "evaluator", "ps", "worker"));
  EXPECT_EQ(*spec.num_tasks("worker"), 2);
  EXPECT_EQ(*spec.num_tasks("ps"), 2);
  EXPECT_EQ(*spec.num_tasks("evaluator"), 0);
  EXPECT_THAT(*spec.task_indices("ps"), ElementsAre(2, 7));
  EXPECT_EQ(*spec.task_address("worker", 1), "c:3");
  EXPECT_THAT(*spec.job_tasks("ps"), ElementsAre("", "", "e:5", "", "", "", "", "d:4"));
  EXPECT_THAT(*spec.job_tasks("evaluator"), ElementsAre());
  EXPECT_EQ(spec.ListTasks(), "chief:0, ps:2, ps:7, worker:0, worker:1");
}

TEST(ClusterSpec, WritesWhatItReads) {
  for (const char* json : {R"({})", R"({"worker": ["a:1", "b:2"]})",
                           R"({"a\"b": [], "ps": {"2": "e:5", "7": "d:4"}})"}) {
    EXPECT_EQ(Read(json).ToJson(), json);
  }
}

TEST(ClusterSpec, EqualityIsThatOfTheTasks) {
  EXPECT_EQ(Read(R"({"worker": ["a:1", "b:2"]})"), Read(R"({"worker": {"1": "b:2", "0": "a:1"}})"));
  EXPECT_FALSE(Read(R"({"worker": ["a:1"]})") == Read(R"({"worker": ["a:2"]})"));
  EXPECT_FALSE(Read(R"({"worker": ["a:1"]})") == Read(R"({"worker": ["a:1"], "ps": []})"));
}

TEST(ClusterSpec, GrowsByTasks) {
  ClusterSpec spec;
  EXPECT_TRUE(spec.empty());
  EXPECT_TRUE(spec.AddTask("worker", 1, "a:1").ok());
  EXPECT_TRUE(spec.AddTask("worker", 1, "a:1").ok());
  EXPECT_THAT(std::string(spec.AddTask("worker", 1, "b:1").message()),
              HasSubstr("worker:1 is there with the address \"a:1\" already"));
  EXPECT_THAT(std::string(spec.AddTask("worker", -1, "a:1").message()),
              HasSubstr("the task index -1; indices are 0 to 1000000"));
  EXPECT_FALSE(spec.AddTask("worker", 1'000'001, "a:1").ok());
  EXPECT_FALSE(spec.AddTask("", 0, "a:1").ok());
  EXPECT_FALSE(spec.AddTask("worker", 0, "").ok());
  EXPECT_EQ(spec.ToJson(), R"({"worker": {"1": "a:1"}})");
}

TEST(ClusterSpec, SaysWhatIsThereWhenAskedForSomethingElse) {
  const ClusterSpec spec = Read(R"({"chief": ["a:1"], "worker": ["b:2", "c:3"]})");
  EXPECT_THAT(Refusal(spec.num_tasks("workers")),
              HasSubstr("no job \"workers\" in the cluster; its jobs are chief, worker"));
  EXPECT_THAT(Refusal(spec.task_address("worker", 2)),
              HasSubstr("no task worker:2 in the cluster; its tasks are chief:0, worker:0, "
                        "worker:1"));
  EXPECT_THAT(Refusal(ClusterSpec().task_indices("worker")), HasSubstr("the cluster is empty"));
}

TEST(ClusterSpec, SaysWhereJsonIsWrong) {
  const struct {
    const char* json;
    const char* message;
  } cases[] = {
      {"", "parse error at line 1, column 1"},
      {"{\"worker\": [\"a:1\",]}", "parse error at line 1, column 19"},
      {"{\n\"worker\" 3}", "parse error at line 2, column 10"},
      {"[]", "it is [] of the type array; expected {\"worker\""},
      {"{\"worker\": \"a:1\"}", "the tasks of the job \"worker\" are \"a:1\" of the type string"},
      {"{\"worker\": [\"a:1\", 2]}", "the address of worker:1 is 2 of the type number"},
      {"{\"worker\": {\"x\": \"a:1\"}}", "the task index \"x\", which is no whole number"},
      {"{\"worker\": {\"-1\": \"a:1\"}}", "the task index -1; indices are 0 to"},
      {"{\"worker\": {\"0\": null}}", "the address of worker:0 is null of the type null"},
      {"{\"worker\": [\"\"]}", "worker:0 has an empty address"},
      {"{\"worker\": [], \"worker\": []}", "the key \"worker\" is there twice"},
      {"{\"ps\": {\"0\": \"a:1\", \"0\": \"b:1\"}}", "the key \"0\" is there twice"},
      {"{\"worker\": [\"\xff:1\"]}", "parse error at line 1"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Refusal(ClusterSpec::FromJson(c.json, "the file x")),
                AllOf(::testing::StartsWith("the file x: "), HasSubstr(c.message)))
        << c.json;
  }
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(Refusal(ClusterSpec::FromJson(deep)), HasSubstr("64 levels"));
}

TEST(ClusterSpec, TheSameKeyInDifferentObjectsIsNoDuplicate) {
  Read(R"({"a": {"0": "x:1"}, "b": {"0": "y:1"}})");
}

TEST(OrderWorkers, PutsTheChiefFirst) {
  const ClusterSpec spec = Read(R"({"worker": ["b:2", "c:3"], "chief": ["a:1"], "ps": ["p:1"],
                                    "evaluator": ["e:1"]})");
  const WorkerOrder order = *OrderWorkers(spec, "worker", 1);
  EXPECT_THAT(order.tasks, ElementsAre("chief:0", "worker:0", "worker:1"));
  EXPECT_THAT(order.addresses, ElementsAre("a:1", "b:2", "c:3"));
  EXPECT_EQ(order.worker, 2);
  EXPECT_FALSE(order.is_chief);
  EXPECT_TRUE(OrderWorkers(spec, "chief", 0)->is_chief);
  EXPECT_EQ(OrderWorkers(spec, "chief", 0)->worker, 0);
}

TEST(OrderWorkers, WorkerZeroIsTheChiefWhereThereIsNone) {
  const ClusterSpec spec = Read(R"({"worker": {"3": "b:2", "12": "c:3"}})");
  EXPECT_TRUE(OrderWorkers(spec, "worker", 3)->is_chief);
  EXPECT_EQ(OrderWorkers(spec, "worker", 12)->worker, 1);
  EXPECT_THAT(OrderWorkers(spec, "worker", 12)->tasks, ElementsAre("worker:3", "worker:12"));
}

TEST(OrderWorkers, AnEvaluatorIsAlone) {
  const ClusterSpec spec = Read(R"({"worker": ["b:2"], "evaluator": ["e:1"]})");
  const WorkerOrder order = *OrderWorkers(spec, "evaluator", 0);
  EXPECT_THAT(order.tasks, ElementsAre("evaluator:0"));
  EXPECT_TRUE(order.is_chief);
}

TEST(OrderWorkers, SaysWhatDoesNotFit) {
  const struct {
    const char* json;
    const char* type;
    int64_t id;
    const char* message;
  } cases[] = {
      {R"({"worker": ["a:1"]})", "worker", 1,
       "no task worker:1 in the cluster; its tasks are worker:0"},
      {R"({"worker": ["a:1"]})", "master", 0,
       "no job \"master\" in the cluster; its jobs are worker"},
      {R"({"worker": ["a:1"], "ps": ["b:1"]})", "ps", 0, "ps:0 takes no part in a job of workers"},
      {R"({"chief": ["a:1", "b:1"]})", "chief", 0, "2 tasks of the type \"chief\"; at most one"},
      {R"({"worker": ["a:1"], "evaluator": ["b:1", "c:1"]})", "worker", 0,
       "2 tasks of the type \"evaluator\""},
      {R"({"worker": ["a:1", "b"]})", "worker", 0,
       "the cluster's task worker:1: address \"b\" has no port"},
      {R"({"worker": ["a:1", "b:0"]})", "worker", 0,
       "worker:1 has the address \"b:0\" with port 0"},
      {R"({"chief": ["a:1"], "worker": ["a:1"]})", "chief", 0,
       "the tasks chief:0 and worker:0 of the cluster have the same address \"a:1\""},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Refusal(OrderWorkers(Read(c.json), c.type, c.id)), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace tutti
