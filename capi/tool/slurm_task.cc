#include "capi/tool/slurm_task.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "capi/tool/c_handles.h"
#include "capi/tool/worker_environment.h"

extern char** environ;

namespace tutti::tool {
namespace {

constexpr int kExitNoTask = 1;
constexpr int kExitNotExecuted = 126;

// An empty variable is none.
bool IsSet(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0';
}

// This process's TF_CONFIG.
CStatus ReadTfConfig(std::string* config) {
  CClusterResolver resolver;
  CClusterSpec spec;
  CBytes cluster, type;
  tutti_optional_int64 id{};
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_cluster_resolver_create_slurm(nullptr, Out(&resolver)));
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_cluster_resolver_read_cluster_spec(resolver.get(), Out(&spec)));
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_cluster_spec_to_json(spec.get(), Out(&cluster)));
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_cluster_resolver_read_task_type(resolver.get(), Out(&type)));
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_cluster_resolver_read_task_id(resolver.get(), &id));
  const nlohmann::json task = {{"type", TextOf(type)}, {"index", id.value}};
  *config = nlohmann::json{{"cluster", nlohmann::json::parse(TextOf(cluster))}, {"task", task}}
                .dump();
  return nullptr;
}

}  // namespace

bool IsSlurmTask(const RunOptions& options) {
  const char* tasks = getenv("SLURM_STEP_NUM_TASKS");
  return tasks != nullptr && std::atoi(tasks) > 1 && getenv("SLURM_PROCID") != nullptr &&
         !IsSet("TF_CONFIG") && !options.workers_given;
}

int BecomeSlurmTask(const RunOptions& options, const std::string& path) {
  if (options.elastic || options.max_restarts > 0 || options.timeout ||
      !options.log_folder.empty()) {
    fmt::print(stderr,
               "tutti run: this is task {} of Slurm's step; restarts, time limits and logs are "
               "srun's there (--time, --output): leave out --elastic, --max-restarts, --timeout "
               "and --log-dir, or say --workers N to start workers on this machine alone\n",
               getenv("SLURM_PROCID"));
    return kExitUsage;
  }
  if (!IsSet("TUTTI_JOB_SECRET_FILE") && !IsSet("TUTTI_JOB_SECRET")) {
    fmt::print(stderr,
               "tutti run: this is task {} of Slurm's step, and the job has no secret, which tells "
               "its processes from strangers; before srun, in a folder that all nodes see: openssl "
               "rand -hex 32 > FILE; chmod 600 FILE; export TUTTI_JOB_SECRET_FILE=FILE\n",
               getenv("SLURM_PROCID"));
    return kExitUsage;
  }
  std::string config;
  if (const CStatus failed = ReadTfConfig(&config)) {
    fmt::print(stderr, "tutti run: {}\n", tutti_status_get_message(failed.get()));
    return kExitNoTask;
  }
  // The resolver may have set CUDA_VISIBLE_DEVICES.
  Environment environment(environ);
  environment.Set("TF_CONFIG", config);
  if (options.replicas) environment.Set("TUTTI_REPLICAS", std::to_string(*options.replicas));
  environment.SetIfUnset("PYTHONUNBUFFERED", "1");
  std::vector<char*> arguments, variables;
  for (const std::string& word : options.program) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  for (const std::string& variable : environment.variables()) {
    variables.push_back(const_cast<char*>(variable.c_str()));
  }
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  execve(path.c_str(), arguments.data(), variables.data());
  fmt::print(stderr, "tutti run: cannot execute {}: {}\n", path, std::strerror(errno));
  return kExitNotExecuted;
}

}  // namespace tutti::tool
