#include "core/cluster/resolve/cluster_spec.h"

#include <map>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/resolve/strict_json.h"
#include "core/cluster/sockets/local_address.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kExpected =
    "expected {\"worker\": [\"host:port\", ...]} or {\"worker\": {\"0\": \"host:port\", ...}}";

Status AddList(ClusterSpec* spec, const std::string& job, const Json& tasks) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!tasks[i].is_string()) {
      return InvalidArgument("the address of {}:{} is {} of the type {}; {}", job, i,
                             tasks[i].dump(), tasks[i].type_name(), kExpected);
    }
    TUTTI_RETURN_IF_ERROR(
        spec->AddTask(job, static_cast<int64_t>(i), tasks[i].get<std::string>()));
  }
  return OkStatus();
}

Status AddObject(ClusterSpec* spec, const std::string& job, const Json& tasks) {
  for (const auto& [key, address] : tasks.items()) {
    const std::optional<int64_t> index = ParseInt64(key);
    if (!index) {
      return InvalidArgument("the job {} has the task index {}, which is no whole number; {}",
                             Quote(job), Quote(key), kExpected);
    }
    if (!address.is_string()) {
      return InvalidArgument("the address of {}:{} is {} of the type {}; {}", job, *index,
                             address.dump(), address.type_name(), kExpected);
    }
    TUTTI_RETURN_IF_ERROR(spec->AddTask(job, *index, address.get<std::string>()));
  }
  return OkStatus();
}

Result<ClusterSpec> Parse(std::string_view json) {
  Result<Json> parsed = ParseStrictJson(json);
  if (!parsed.ok()) {
    return InvalidArgument("{}; {}", parsed.status().message(), kExpected);
  }
  const Json& cluster = *parsed;
  if (!cluster.is_object()) {
    return InvalidArgument("it is {} of the type {}; {}", cluster.dump(), cluster.type_name(),
                           kExpected);
  }
  ClusterSpec spec;
  for (const auto& [job, tasks] : cluster.items()) {
    TUTTI_RETURN_IF_ERROR(spec.AddJob(job));
    if (tasks.is_array()) {
      TUTTI_RETURN_IF_ERROR(AddList(&spec, job, tasks));
    } else if (tasks.is_object()) {
      TUTTI_RETURN_IF_ERROR(AddObject(&spec, job, tasks));
    } else {
      return InvalidArgument("the tasks of the job {} are {} of the type {}; {}", Quote(job),
                             tasks.dump(), tasks.type_name(), kExpected);
    }
  }
  return spec;
}

// The tasks of the job `type`, appended to the order.
void Append(const ClusterSpec& cluster, const std::string& type, WorkerOrder* order) {
  const Result<std::vector<int64_t>> indices = cluster.task_indices(type);
  if (!indices.ok()) return;
  for (const int64_t index : *indices) {
    order->tasks.push_back(Format("{}:{}", type, index));
    order->addresses.push_back(*cluster.task_address(type, index));
  }
}

Status CheckAddresses(const WorkerOrder& order) {
  std::map<HostPort, std::string, decltype([](const HostPort& a, const HostPort& b) {
             return std::pair(a.host, a.port) < std::pair(b.host, b.port);
           })>
      users;
  for (size_t i = 0; i < order.tasks.size(); ++i) {
    Result<HostPort> address = SplitHostPort(order.addresses[i]);
    if (!address.ok()) {
      return address.status().WithPrefix(Format("the cluster's task {}", order.tasks[i]));
    }
    if (address->port == 0) {
      return InvalidArgument("the cluster's task {} has the address {} with port 0; give it a port "
                             "that the others can connect to",
                             order.tasks[i], Quote(order.addresses[i]));
    }
    const auto [user, is_first] = users.emplace(*std::move(address), order.tasks[i]);
    if (!is_first) {
      return InvalidArgument("the tasks {} and {} of the cluster have the same address {}; each "
                             "needs a port of its own",
                             user->second, order.tasks[i], Quote(order.addresses[i]));
    }
  }
  return OkStatus();
}

}  // namespace

Result<ClusterSpec> ClusterSpec::FromJson(std::string_view json, std::string_view what) {
  Result<ClusterSpec> spec = Parse(json);
  if (!spec.ok()) return spec.status().WithPrefix(what);
  return spec;
}

Status ClusterSpec::AddJob(const std::string& job) {
  if (job.empty()) return InvalidArgument("a job of a cluster needs a name");
  jobs_.try_emplace(job);
  return OkStatus();
}

Status ClusterSpec::AddTask(const std::string& job, int64_t index, const std::string& address) {
  if (index < 0 || index > kMaxTaskIndex) {
    return InvalidArgument("the job {} has the task index {}; indices are 0 to {}", Quote(job),
                           index, kMaxTaskIndex);
  }
  if (address.empty()) {
    return InvalidArgument("the task {}:{} has an empty address; {}", job, index, kExpected);
  }
  TUTTI_RETURN_IF_ERROR(AddJob(job));
  const auto [place, is_new] = jobs_.find(job)->second.try_emplace(index, address);
  if (!is_new && place->second != address) {
    return InvalidArgument("the task {}:{} is there with the address {} already, and cannot have "
                           "{} as well",
                           job, index, Quote(place->second), Quote(address));
  }
  return OkStatus();
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [name, job] : jobs_) names.push_back(name);
  return names;
}

bool ClusterSpec::HasJob(std::string_view job) const { return jobs_.contains(job); }

Result<const ClusterSpec::Job*> ClusterSpec::FindJob(std::string_view job) const {
  const auto found = jobs_.find(job);
  if (found != jobs_.end()) return &found->second;
  if (jobs_.empty()) return InvalidArgument("there is no job {}: the cluster is empty", Quote(job));
  return InvalidArgument("there is no job {} in the cluster; its jobs are {}", Quote(job),
                         Join(jobs(), ", "));
}

Result<int64_t> ClusterSpec::num_tasks(std::string_view job) const {
  TUTTI_ASSIGN_OR_RETURN(const Job* found, FindJob(job));
  return static_cast<int64_t>(found->size());
}

Result<std::vector<int64_t>> ClusterSpec::task_indices(std::string_view job) const {
  TUTTI_ASSIGN_OR_RETURN(const Job* found, FindJob(job));
  std::vector<int64_t> indices;
  for (const auto& [index, address] : *found) indices.push_back(index);
  return indices;
}

Result<std::string> ClusterSpec::task_address(std::string_view job, int64_t index) const {
  TUTTI_ASSIGN_OR_RETURN(const Job* found, FindJob(job));
  const auto task = found->find(index);
  if (task == found->end()) {
    return InvalidArgument("there is no task {}:{} in the cluster; its tasks are {}", job, index,
                           ListTasks());
  }
  return task->second;
}

Result<std::vector<std::string>> ClusterSpec::job_tasks(std::string_view job) const {
  TUTTI_ASSIGN_OR_RETURN(const Job* found, FindJob(job));
  std::vector<std::string> tasks;
  if (!found->empty()) tasks.resize(static_cast<size_t>(found->rbegin()->first) + 1);
  for (const auto& [index, address] : *found) tasks[static_cast<size_t>(index)] = address;
  return tasks;
}

std::string ClusterSpec::ToJson() const {
  std::vector<std::string> parts;
  for (const auto& [name, job] : jobs_) {
    const bool dense = job.empty() || job.rbegin()->first + 1 == static_cast<int64_t>(job.size());
    std::vector<std::string> tasks;
    for (const auto& [index, address] : job) {
      tasks.push_back(dense ? JsonQuote(address) : Format("\"{}\": {}", index, JsonQuote(address)));
    }
    parts.push_back(Format("{}: {}{}{}", JsonQuote(name), dense ? "[" : "{", Join(tasks, ", "),
                           dense ? "]" : "}"));
  }
  return "{" + Join(parts, ", ") + "}";
}

std::string ClusterSpec::ListTasks() const {
  std::vector<std::string> tasks;
  for (const auto& [name, job] : jobs_) {
    for (const auto& [index, address] : job) tasks.push_back(Format("{}:{}", name, index));
  }
  return tasks.empty() ? "none" : Join(tasks, ", ");
}

Result<WorkerOrder> OrderWorkers(const ClusterSpec& cluster, std::string_view task_type,
                                 int64_t task_id) {
  TUTTI_RETURN_IF_ERROR(cluster.task_address(task_type, task_id).status().WithPrefix(
      "this process's task"));
  for (const char* single : {"chief", "evaluator"}) {
    const Result<int64_t> count = cluster.num_tasks(single);
    if (count.ok() && *count > 1) {
      return InvalidArgument("the cluster has {} tasks of the type {}; at most one is possible",
                             *count, Quote(single));
    }
  }
  WorkerOrder order;
  if (task_type == "evaluator") {
    Append(cluster, "evaluator", &order);
  } else {
    Append(cluster, "chief", &order);
    Append(cluster, "worker", &order);
  }
  TUTTI_RETURN_IF_ERROR(CheckAddresses(order));
  const std::string own = Format("{}:{}", task_type, task_id);
  for (size_t i = 0; i < order.tasks.size(); ++i) {
    if (order.tasks[i] != own) continue;
    order.worker = static_cast<int64_t>(i);
    order.is_chief = i == 0;
    return order;
  }
  return InvalidArgument("this process's task {} takes no part in a job of workers: only chief, "
                         "worker and evaluator tasks do; start the training program in those",
                         own);
}

}  // namespace tutti
