#include "core/cluster/resolve/slurm_cluster_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/resolve/host_list.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The environment of the test that is running, and what was put into CUDA_VISIBLE_DEVICES.
std::map<std::string, std::string, std::less<>>& Step() {
  static std::map<std::string, std::string, std::less<>> step;
  return step;
}
const char* VariableOfStep(const char* name) {
  const auto found = Step().find(name);
  return found == Step().end() ? nullptr : found->second.c_str();
}
void SetVisibleOfStep(const std::string& devices) { Step()["CUDA_VISIBLE_DEVICES"] = devices; }

class SlurmClusterResolverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Step() = {{"SLURM_JOB_ID", "7"},
              {"SLURM_STEP_NODELIST", "n[1-2]"},
              {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
              {"SLURM_STEP_NUM_TASKS", "4"},
              {"SLURM_PROCID", "3"}};
  }

  static Ref<SlurmClusterResolver> Resolver(SlurmClusterResolver::Options options = {}) {
    options.variables = &VariableOfStep;
    options.set_visible = &SetVisibleOfStep;
    if (options.count_gpus == nullptr) options.count_gpus = [] { return int64_t{0}; };
    return SlurmClusterResolver::Create(std::move(options)).value();
  }
  static std::string Json(const Ref<SlurmClusterResolver>& resolver) {
    const Result<ClusterSpec> spec = resolver->cluster_spec();
    return spec.ok() ? spec->ToJson() : std::string(spec.status().message());
  }
};

TEST(HostList, ExpandsWhatSlurmWrites) {
  EXPECT_THAT(ExpandHostList("login", "list").value(), ElementsAre("login"));
  EXPECT_THAT(ExpandHostList("n[1-3,7]", "list").value(), ElementsAre("n1", "n2", "n3", "n7"));
  EXPECT_THAT(ExpandHostList("n[08-11]", "list").value(), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(ExpandHostList("r[1-2]n[0-1]-ib,x", "list").value(),
              ElementsAre("r1n0-ib", "r1n1-ib", "r2n0-ib", "r2n1-ib", "x"));
  EXPECT_THAT(ExpandHostList(" n10,n9 ", "list").value(), ElementsAre("n10", "n9"));
  EXPECT_THAT(ExpandTaskCounts("2(x3),1", "counts").value(), ElementsAre(2, 2, 2, 1));
}

TEST(HostList, NamesAreSortedByTheirNumbers) {
  std::vector<std::string> names = {"n10", "n9", "n09", "m", "n", "n9-b2", "n9-b10", "n1"};
  std::sort(names.begin(), names.end(), ComesBefore);
  EXPECT_THAT(names, ElementsAre("m", "n", "n1", "n09", "n9", "n9-b2", "n9-b10", "n10"));
}

TEST(HostList, SaysWhereItIsWrong) {
  const std::pair<const char*, const char*> hosts[] = {
      {"", "expected the name of a host at position 0, found the end"},
      {"n[1-", "expected a number at position 4, found the end"},
      {"n[1,x]", "expected a number at position 4"},
      {"n[3-1]", "the range \"3-1\" ends before it begins"},
      {"a,,b", "expected the name of a host at position 2"},
      {"n1]", "expected a comma, or the end at position 2"},
      {"n[0-999999999]", "more than 65536 hosts"},
      {"n[0-999][0-999]", "more than 65536 hosts"},
      {"n[1-9999999999999999999]", "expected a number at position 4"},
  };
  for (const auto& [text, said] : hosts) {
    const auto list = ExpandHostList(text, "NODES");
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_EQ(list.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(list.status().message()), HasSubstr(said));
    EXPECT_THAT(std::string(list.status().message()), HasSubstr("NODES"));
  }
  for (const char* text : {"", "0", "2(x", "2(3)", "2(x3", "2(x99999999)", "1,", "70000"}) {
    EXPECT_FALSE(ExpandTaskCounts(text, "COUNTS").ok()) << text;
  }
}

TEST_F(SlurmClusterResolverTest, EveryTaskIsAWorkerWhereNothingElseIsSaid) {
  const auto resolver = Resolver();
  EXPECT_EQ(Json(resolver),
            R"({"worker": ["n1:8888", "n1:8889", "n2:8888", "n2:8889"]})");
  EXPECT_EQ(**resolver->task_type(), "worker");
  EXPECT_EQ(**resolver->task_id(), 3);
  EXPECT_EQ(*resolver->master({}, {}, {}), "grpc://n2:8889");
  EXPECT_EQ(*resolver->master("worker", 0, ""), "n1:8888");
  EXPECT_TRUE(resolver->num_accelerators({}, {})->empty());
  EXPECT_EQ(OrderWorkers(*resolver)->worker, 3);
}

TEST_F(SlurmClusterResolverTest, JobsTakeTheTasksInTheirOrderAndNodesKeepTheirs) {
  Step()["SLURM_STEP_NODELIST"] = "n10,n9";
  SlurmClusterResolver::Options options;
  options.jobs = {{"ps", 1}, {"worker", 2}};
  options.port_base = 9000;
  const auto resolver = Resolver(options);
  EXPECT_EQ(Json(resolver),
            R"({"ps": ["n10:9000"], "worker": ["n10:9001", "n9:9000"]})");
  EXPECT_FALSE(resolver->task_type()->has_value());
  Step()["SLURM_PROCID"] = "2";
  EXPECT_EQ(**resolver->task_type(), "worker");
  EXPECT_EQ(**resolver->task_id(), 1);
}

TEST_F(SlurmClusterResolverTest, TasksAreDealtInTurnWhereSlurmDoes) {
  Step()["SLURM_STEP_TASKS_PER_NODE"] = "1,3";
  Step()["SLURM_DISTRIBUTION"] = "cyclic:block";
  Step()["SLURM_NODEID"] = "1";
  Step()["SLURM_LOCALID"] = "2";
  EXPECT_EQ(Json(Resolver()), R"({"worker": ["n1:8888", "n2:8888", "n2:8889", "n2:8890"]})");
  for (const char* other : {"plane", "arbitrary"}) {
    Step()["SLURM_DISTRIBUTION"] = other;
    EXPECT_THAT(Json(Resolver()), HasSubstr("srun --distribution=block"));
  }
}

TEST_F(SlurmClusterResolverTest, GpusAreSplitThroughThoseThatAreVisible) {
  SlurmClusterResolver::Options options;
  options.count_gpus = [] { return int64_t{5}; };
  const auto resolver = Resolver(options);
  Step()["CUDA_VISIBLE_DEVICES"] = "4,5,6,7,9";
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(resolver->cluster_spec().ok());
    EXPECT_EQ(Step()["CUDA_VISIBLE_DEVICES"], "6,7");
    EXPECT_EQ(resolver->num_accelerators({}, {})->at("GPU"), 2);
  }
  Step().erase("CUDA_VISIBLE_DEVICES");
  ASSERT_TRUE(resolver->cluster_spec().ok());
  EXPECT_EQ(Step()["CUDA_VISIBLE_DEVICES"], "2,3");

  Step()["CUDA_VISIBLE_DEVICES"] = "1";
  EXPECT_THAT(Json(resolver), HasSubstr("needs the 2 GPUs from the one numbered 2 on"));
  Step()["SLURM_GPUS_PER_TASK"] = "a100:1";
  EXPECT_THAT(Json(resolver), HasSubstr("worker"));
  EXPECT_EQ(Step()["CUDA_VISIBLE_DEVICES"], "1");
  EXPECT_EQ(resolver->num_accelerators({}, {})->at("GPU"), 1);
}

TEST_F(SlurmClusterResolverTest, SaysWhatLacksOrIsTooMuch) {
  const auto refused = [](SlurmClusterResolver::Options options) {
    const Result<ClusterSpec> spec = Resolver(std::move(options))->cluster_spec();
    EXPECT_EQ(spec.status().code(), StatusCode::kFailedPrecondition);
    return std::string(spec.status().message());
  };
  SlurmClusterResolver::Options options;
  options.jobs = {{"worker", 5}};
  EXPECT_THAT(refused(options), HasSubstr("5 tasks together, and Slurm has started 4"));
  options = {};
  options.gpus_per_node = 4;
  options.gpus_per_task = 3;
  EXPECT_THAT(refused(options),
              HasSubstr("2 tasks on one node with 3 GPUs each, and a node has 4"));
  options = {};
  options.tasks_of_node = {{"n1", 4}};
  EXPECT_THAT(refused(options), HasSubstr("does not tell of the node \"n2\""));
  options = {};
  options.port_base = 65'535;
  EXPECT_THAT(refused(options), HasSubstr("would listen at port 65536"));
  Step()["SLURM_LOCALID"] = "0";
  EXPECT_THAT(refused({}), HasSubstr("srun --distribution=block"));
  Step()["SLURM_STEP_TASKS_PER_NODE"] = "4";
  EXPECT_THAT(refused({}), HasSubstr("names 2 nodes and SLURM_STEP_TASKS_PER_NODE = \"4\""));
  Step()["SLURM_STEP_NODELIST"] = "n[1-60000]";
  Step()["SLURM_STEP_TASKS_PER_NODE"] = "60000(x60000)";
  EXPECT_THAT(Json(Resolver()), HasSubstr("at most 1000000 are possible"));
  Step()["SLURM_STEP_NODELIST"] = "n[1-2]";
  Step().erase("SLURM_PROCID");
  Step()["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
  EXPECT_THAT(refused({}), HasSubstr("SLURM_PROCID is not set; this process is in Slurm's job 7"));
  Step().clear();
  EXPECT_THAT(refused({}), HasSubstr("was not started by Slurm"));
}

TEST_F(SlurmClusterResolverTest, OptionsThatAreWrongAreRefused) {
  SlurmClusterResolver::Options options;
  options.port_base = 0;
  EXPECT_FALSE(SlurmClusterResolver::Create(options).ok());
  options = {};
  options.jobs = {{"worker", 1}, {"worker", 2}};
  EXPECT_FALSE(SlurmClusterResolver::Create(options).ok());
  options = {};
  options.gpus_per_task = -1;
  EXPECT_FALSE(SlurmClusterResolver::Create(options).ok());
  for (const char* text : {"worker", "worker:x", ":3", "worker:-1", "worker:1,,"}) {
    EXPECT_FALSE(SlurmClusterResolver::ParseCounts(text, "jobs").ok()) << text;
  }
  EXPECT_EQ(SlurmClusterResolver::ParseCounts(" ps : 1, worker:3", "jobs")->size(), 2u);
}

}  // namespace
}  // namespace tutti
