#include "core/cluster/resolve/slurm_cluster_resolver.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cluster/resolve/host_list.h"

extern char** environ;

namespace tutti {
namespace {

constexpr int64_t kLastPort = 65'535;
constexpr auto kMostTimeOfSmi = std::chrono::seconds(20);
constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";

const char* VariableOfProcess(const char* name) { return std::getenv(name); }

Result<std::string> Required(SlurmClusterResolver::Variables variables, const char* name) {
  const char* text = variables(name);
  if (text != nullptr && !Trim(text).empty()) return std::string(Trim(text));
  if (variables("SLURM_JOB_ID") != nullptr) {
    return FailedPrecondition("SlurmClusterResolver: the variable {} is not set; this process is "
                              "in Slurm's job {} and in no step of it: start it with srun",
                              name, variables("SLURM_JOB_ID"))
        .With("variable", name);
  }
  return FailedPrecondition("SlurmClusterResolver: the variable {} is not set: this process was "
                            "not started by Slurm; start it with srun, or use another resolver",
                            name)
      .With("variable", name);
}

Result<int64_t> RequiredNumber(SlurmClusterResolver::Variables variables, const char* name) {
  TUTTI_ASSIGN_OR_RETURN(const std::string text, Required(variables, name));
  const std::optional<int64_t> number = ParseInt64(text);
  if (!number || *number < 0) {
    return FailedPrecondition("SlurmClusterResolver: {} is {}; expected a whole number of 0 or "
                              "more",
                              name, Quote(text))
        .With("variable", name);
  }
  return *number;
}

// The lines of nvidia-smi's list that name a GPU; 0 where there is no such program, or it fails.
int64_t CountListedGpus() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 0;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  char program[] = "nvidia-smi";
  char list[] = "--list-gpus";
  char* const arguments[] = {program, list, nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, program, &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string said;
  const auto end = std::chrono::steady_clock::now() + kMostTimeOfSmi;
  bool is_done = false;
  while (failed == 0 && !is_done) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd waited{ends[0], POLLIN, 0};
    if (left.count() <= 0) break;
    const int ready = ::poll(&waited, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char bytes[4096];
    const ssize_t got = ::read(ends[0], bytes, sizeof(bytes));
    is_done = got <= 0;
    if (got > 0) said.append(bytes, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  if (failed != 0) return 0;
  if (!is_done) ::kill(child, SIGKILL);
  int outcome = 0;
  while (::waitpid(child, &outcome, 0) < 0 && errno == EINTR) {
  }
  if (!is_done || outcome != 0) return 0;
  const std::vector<std::string> lines = Split(said, '\n');
  return std::count_if(lines.begin(), lines.end(),
                       [](const std::string& line) { return line.starts_with("GPU "); });
}

// The node of a task, by its number, and the task's number there.
struct Place {
  size_t node = 0;
  int64_t local = 0;
};

// Node by node, or one to each node in turn as long as it takes some.
std::vector<Place> DealTasks(const std::vector<int64_t>& tasks, bool in_turn) {
  std::vector<Place> places;
  if (!in_turn) {
    for (size_t node = 0; node < tasks.size(); ++node) {
      for (int64_t local = 0; local < tasks[node]; ++local) places.push_back({node, local});
    }
    return places;
  }
  const int64_t most = tasks.empty() ? 0 : *std::max_element(tasks.begin(), tasks.end());
  for (int64_t local = 0; local < most; ++local) {
    for (size_t node = 0; node < tasks.size(); ++node) {
      if (local < tasks[node]) places.push_back({node, local});
    }
  }
  return places;
}

// What this process has put into CUDA_VISIBLE_DEVICES, and what was there before: a second look
// splits what was there, and not the part.
struct Visible {
  std::mutex mutex;
  std::optional<std::string> before;
  std::string set;
};
Visible& VisibleOfProcess() {
  static auto* const visible = new Visible();
  return *visible;
}

Status CheckNumber(std::string_view option, const std::optional<int64_t>& number, int64_t least) {
  if (!number || *number >= least) return OkStatus();
  return InvalidArgument("SlurmClusterResolver: {} is {}; expected {} or more", option, *number,
                         least);
}

}  // namespace

// What the environment says, and where this process is in it.
struct SlurmClusterResolver::Step {
  std::vector<std::string> nodes;
  std::vector<int64_t> tasks;  // on each node
  std::vector<Place> places;   // of each of Slurm's tasks
  int64_t rank = 0;            // of this process
  std::vector<std::pair<std::string, int64_t>> jobs;
};

Result<std::vector<std::pair<std::string, int64_t>>> SlurmClusterResolver::ParseCounts(
    std::string_view text, std::string_view what) {
  std::vector<std::pair<std::string, int64_t>> jobs;
  if (Trim(text).empty()) return jobs;
  for (const std::string& part : Split(text, ',')) {
    const std::string_view entry = Trim(part);
    const size_t colon = entry.rfind(':');
    const std::optional<int64_t> count =
        colon == std::string_view::npos ? std::nullopt : ParseInt64(Trim(entry.substr(colon + 1)));
    if (!count || *count < 0 || Trim(entry.substr(0, colon)).empty()) {
      return InvalidArgument("{} is {}: {} does not read; expected name:number, several divided by "
                             "commas",
                             what, Quote(text), Quote(entry));
    }
    jobs.emplace_back(std::string(Trim(entry.substr(0, colon))), *count);
  }
  return jobs;
}

Result<Ref<SlurmClusterResolver>> SlurmClusterResolver::Create(Options options) {
  std::set<std::string> names;
  for (const auto& [job, tasks] : options.jobs) {
    TUTTI_RETURN_IF_ERROR(CheckNumber(Format("the number of tasks of the job {}", Quote(job)),
                                      tasks, 0));
    if (!names.insert(job).second) {
      return InvalidArgument("SlurmClusterResolver: the job {} comes twice among the jobs",
                             Quote(job));
    }
  }
  TUTTI_RETURN_IF_ERROR(CheckNumber("port_base", options.port_base, 1));
  if (options.port_base > kLastPort) {
    return InvalidArgument("SlurmClusterResolver: port_base is {}; expected 1 to {}",
                           options.port_base, kLastPort);
  }
  TUTTI_RETURN_IF_ERROR(CheckNumber("gpus_per_node", options.gpus_per_node, 0));
  TUTTI_RETURN_IF_ERROR(CheckNumber("gpus_per_task", options.gpus_per_task, 0));
  TUTTI_RETURN_IF_ERROR(CheckNumber("tasks_per_node", options.tasks_per_node, 1));
  for (const auto& [node, tasks] : options.tasks_of_node) {
    TUTTI_RETURN_IF_ERROR(CheckNumber(Format("tasks_per_node of {}", Quote(node)), tasks, 0));
  }
  TUTTI_RETURN_IF_ERROR(CheckNumber("task_id", options.task_id, 0));
  return MakeRef<SlurmClusterResolver>(std::move(options));
}

SlurmClusterResolver::SlurmClusterResolver(Options options)
    : options_([&options] {
        if (options.variables == nullptr) options.variables = &VariableOfProcess;
        return std::move(options);
      }()) {}

SlurmClusterResolver::~SlurmClusterResolver() = default;

Result<std::vector<int64_t>> SlurmClusterResolver::TasksOfNodes(
    const std::vector<std::string>& nodes) const {
  if (options_.tasks_per_node) return std::vector<int64_t>(nodes.size(), *options_.tasks_per_node);
  if (options_.tasks_of_node.empty()) {
    constexpr char kName[] = "SLURM_STEP_TASKS_PER_NODE";
    TUTTI_ASSIGN_OR_RETURN(const std::string text, Required(options_.variables, kName));
    TUTTI_ASSIGN_OR_RETURN(std::vector<int64_t> tasks, ExpandTaskCounts(text, kName));
    if (tasks.size() == nodes.size()) return tasks;
    return FailedPrecondition("SlurmClusterResolver: SLURM_STEP_NODELIST names {} nodes and {} = "
                              "{} tells of {}",
                              nodes.size(), kName, Quote(text), tasks.size());
  }
  std::vector<int64_t> tasks;
  for (const std::string& node : nodes) {
    const auto found = options_.tasks_of_node.find(node);
    if (found == options_.tasks_of_node.end()) {
      return FailedPrecondition("SlurmClusterResolver: tasks_per_node does not tell of the node "
                                "{}, which SLURM_STEP_NODELIST names ({})",
                                Quote(node), Join(nodes, ", "));
    }
    tasks.push_back(found->second);
  }
  return tasks;
}

Result<SlurmClusterResolver::Step> SlurmClusterResolver::ReadStep() const {
  Step step;
  const Variables variables = options_.variables;
  TUTTI_ASSIGN_OR_RETURN(const std::string nodes, Required(variables, "SLURM_STEP_NODELIST"));
  TUTTI_ASSIGN_OR_RETURN(step.nodes, ExpandHostList(nodes, "SLURM_STEP_NODELIST"));
  TUTTI_ASSIGN_OR_RETURN(step.tasks, TasksOfNodes(step.nodes));
  TUTTI_ASSIGN_OR_RETURN(step.rank, RequiredNumber(variables, "SLURM_PROCID"));
  TUTTI_ASSIGN_OR_RETURN(const int64_t assigned, RequiredNumber(variables, "SLURM_STEP_NUM_TASKS"));
  // By what the caller says of nodes tasks are dealt that Slurm may number otherwise.
  const bool by_slurm = !options_.tasks_per_node && options_.tasks_of_node.empty();
  const char* dealt = variables("SLURM_DISTRIBUTION");  // "cyclic", or "cyclic:block"
  const std::string_view distribution =
      by_slurm && dealt != nullptr ? std::string_view(dealt) : std::string_view("block");
  int64_t all = 0;
  for (const int64_t tasks : step.tasks) all += tasks;
  if (all > ClusterSpec::kMaxTaskIndex) {
    return InvalidArgument("SlurmClusterResolver: the {} nodes {} take {} tasks together; at most "
                           "{} are possible",
                           step.nodes.size(), Quote(nodes.substr(0, 64)), all,
                           ClusterSpec::kMaxTaskIndex);
  }
  step.places = DealTasks(step.tasks, distribution.starts_with("cyclic"));
  const auto places = static_cast<int64_t>(step.places.size());
  step.jobs = options_.jobs;
  if (step.jobs.empty()) step.jobs.emplace_back("worker", assigned);
  int64_t wanted = 0;
  for (const auto& job : step.jobs) wanted += job.second;
  if (wanted > assigned) {
    return FailedPrecondition("SlurmClusterResolver: the jobs have {} tasks together, and Slurm "
                              "has started {} (SLURM_STEP_NUM_TASKS)",
                              wanted, assigned);
  }
  if (wanted > places) {
    return FailedPrecondition("SlurmClusterResolver: the jobs have {} tasks together, and the {} "
                              "nodes {} take {} by their tasks per node",
                              wanted, step.nodes.size(), nodes, places);
  }
  if (step.rank >= places) return step;
  const Place place = step.places[static_cast<size_t>(step.rank)];
  bool is_elsewhere = step.nodes.size() > 1 && (distribution.starts_with("plane") ||
                                                distribution.starts_with("arbitrary"));
  for (const auto& [name, number] :
       {std::pair<const char*, int64_t>("SLURM_NODEID", static_cast<int64_t>(place.node)),
        std::pair<const char*, int64_t>("SLURM_LOCALID", place.local)}) {
    const char* said = variables(name);
    const std::optional<int64_t> own = said == nullptr ? std::nullopt : ParseInt64(Trim(said));
    is_elsewhere = is_elsewhere || (by_slurm && own && *own != number);
  }
  if (!is_elsewhere) return step;
  return FailedPrecondition("SlurmClusterResolver: task {} of {} on {} is not where it would be if "
                            "tasks were dealt to nodes in blocks or in turn (SLURM_DISTRIBUTION is "
                            "{}): start them with srun --distribution=block",
                            step.rank, variables("SLURM_STEP_TASKS_PER_NODE"), nodes,
                            dealt == nullptr ? "not set" : Quote(dealt));
}

std::optional<std::pair<std::string, int64_t>> SlurmClusterResolver::TaskOf(const Step& step,
                                                                            int64_t rank) const {
  for (const auto& [job, tasks] : step.jobs) {
    if (rank < tasks) return std::pair(job, rank);
    rank -= tasks;
  }
  return std::nullopt;
}

std::optional<int64_t> SlurmClusterResolver::GpusBySlurm() const {
  if (options_.gpus_per_task || options_.gpus_per_node) return std::nullopt;
  const char* text = options_.variables("SLURM_GPUS_PER_TASK");
  if (text == nullptr) return std::nullopt;
  const std::string_view said = Trim(text);  // "2", or with the type "a100:2"
  const std::optional<int64_t> number = ParseInt64(said.substr(said.rfind(':') + 1));
  return number && *number >= 0 ? number : std::nullopt;
}

Result<int64_t> SlurmClusterResolver::GpusOfTask(int64_t most_tasks) const {
  if (options_.gpus_per_task == 0) return 0;
  if (const std::optional<int64_t> given = GpusBySlurm()) return *given;
  const int64_t on_node = options_.gpus_per_node
                              ? *options_.gpus_per_node
                              : (options_.count_gpus != nullptr ? options_.count_gpus
                                                                : &CountListedGpus)();
  const int64_t of_task =
      options_.gpus_per_task.value_or(on_node / std::max<int64_t>(1, most_tasks));
  if (of_task * most_tasks > on_node) {
    return FailedPrecondition("SlurmClusterResolver: {} tasks on one node with {} GPUs each, and a "
                              "node has {} GPUs",
                              most_tasks, of_task, on_node);
  }
  return of_task;
}

Status SlurmClusterResolver::SetVisibleDevices(const Step& step) const {
  if (GpusBySlurm()) return OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const int64_t gpus,
                         GpusOfTask(*std::max_element(step.tasks.begin(), step.tasks.end())));
  if (gpus == 0) return OkStatus();
  Visible& visible = VisibleOfProcess();
  std::lock_guard lock(visible.mutex);
  const char* there = options_.variables(kVisibleDevices);
  std::optional<std::string> whole;
  if (there != nullptr) whole = there;
  if (whole && *whole == visible.set && !visible.set.empty()) whole = visible.before;
  std::vector<std::string> own;
  if (step.rank >= static_cast<int64_t>(step.places.size())) return OkStatus();
  const int64_t local = step.places[static_cast<size_t>(step.rank)].local;
  const int64_t first = local * gpus;
  if (whole) {
    const std::vector<std::string> all = Split(*whole, ',');
    if (first + gpus > static_cast<int64_t>(all.size())) {
      return FailedPrecondition("SlurmClusterResolver: {} is {}, and task {} of this node needs "
                                "the {} GPUs from the one numbered {} on; say gpus_per_task or "
                                "auto_set_gpu=false where Slurm gives each task its own",
                                kVisibleDevices, Quote(*whole), local, gpus, first);
    }
    own.assign(all.begin() + first, all.begin() + first + gpus);
  } else {
    for (int64_t i = 0; i < gpus; ++i) own.push_back(std::to_string(first + i));
  }
  const std::string devices = Join(own, ",");
  visible.before = whole;
  visible.set = devices;
  if (options_.set_visible != nullptr) {
    options_.set_visible(devices);
  } else if (::setenv(kVisibleDevices, devices.c_str(), 1) != 0) {
    return ResourceExhausted("SlurmClusterResolver: {} cannot be set", kVisibleDevices);
  }
  return OkStatus();
}

Result<ClusterSpec> SlurmClusterResolver::cluster_spec() const {
  TUTTI_ASSIGN_OR_RETURN(const Step step, ReadStep());
  ClusterSpec spec;
  for (const auto& job : step.jobs) TUTTI_RETURN_IF_ERROR(spec.AddJob(job.first));
  for (size_t rank = 0; rank < step.places.size(); ++rank) {
    const auto task = TaskOf(step, static_cast<int64_t>(rank));
    if (!task) break;
    const Place place = step.places[rank];
    const int64_t port = options_.port_base + place.local;
    if (port > kLastPort) {
      return FailedPrecondition("SlurmClusterResolver: task {} of the node {} would listen at port "
                                "{}; the last one is {}: a smaller port_base than {} is needed",
                                place.local, step.nodes[place.node], port, kLastPort,
                                options_.port_base);
    }
    TUTTI_RETURN_IF_ERROR(spec.AddTask(task->first, task->second,
                                       Format("{}:{}", step.nodes[place.node], port)));
  }
  if (options_.auto_set_gpu) TUTTI_RETURN_IF_ERROR(SetVisibleDevices(step));
  return spec;
}

Result<std::optional<std::string>> SlurmClusterResolver::task_type() const {
  if (options_.task_type) return options_.task_type;
  TUTTI_ASSIGN_OR_RETURN(const Step step, ReadStep());
  const auto task = TaskOf(step, step.rank);
  return task ? std::optional<std::string>(task->first) : std::nullopt;
}

Result<std::optional<int64_t>> SlurmClusterResolver::task_id() const {
  if (options_.task_id) return options_.task_id;
  TUTTI_ASSIGN_OR_RETURN(const Step step, ReadStep());
  const auto task = TaskOf(step, step.rank);
  return task ? std::optional<int64_t>(task->second) : std::nullopt;
}

Result<std::string> SlurmClusterResolver::master(
    const std::optional<std::string>& task_type, std::optional<int64_t> task_id,
    const std::optional<std::string>& rpc_layer) const {
  TUTTI_ASSIGN_OR_RETURN(const ClusterSpec cluster, cluster_spec());
  TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> own_type, this->task_type());
  TUTTI_ASSIGN_OR_RETURN(const std::optional<int64_t> own_id, this->task_id());
  const std::optional<std::string>& type = task_type ? task_type : own_type;
  const std::optional<int64_t>& id = task_id ? task_id : own_id;
  if (!type || !id) return std::string();
  TUTTI_ASSIGN_OR_RETURN(const std::string address, cluster.task_address(*type, *id));
  return FormatMaster(address, rpc_layer.value_or(options_.rpc_layer));
}

Result<AcceleratorCounts> SlurmClusterResolver::num_accelerators(
    const std::optional<std::string>&, std::optional<int64_t>) const {
  TUTTI_ASSIGN_OR_RETURN(const Step step, ReadStep());
  TUTTI_ASSIGN_OR_RETURN(const int64_t gpus,
                         GpusOfTask(*std::max_element(step.tasks.begin(), step.tasks.end())));
  AcceleratorCounts counts;
  if (gpus > 0) counts["GPU"] = gpus;
  return counts;
}

Result<Ref<ClusterResolver>> SlurmClusterResolver::Changed(
    const ResolverChange& change) const {
  TUTTI_ASSIGN_OR_RETURN(auto changed, Create(change.On(options_)));
  return Ref<ClusterResolver>(std::move(changed));
}

}  // namespace tutti
