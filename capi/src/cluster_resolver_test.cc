// Cluster resolvers through the C interface.
#include <stdlib.h>

#include <string>
#include <utility>

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
