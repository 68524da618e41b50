#include "capi/tool/run_options.h"

#include <fmt/format.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "capi/tool/command_line.h"

namespace tutti::tool {
namespace {

constexpr const char* kRunUsage = "tutti run [OPTIONS] -- PROGRAM [ARGUMENTS]";
constexpr const char* kRunFooter = R"(
Each worker gets TF_CONFIG with its place among 127.0.0.1 ports that are its own for as long as the
job lives, TUTTI_REPLICAS, TUTTI_RESTART (0 at first) and TUTTI_JOB_SECRET, new at each start. If
they are unset it also gets TUTTI_COMPUTE_THREADS, OMP_NUM_THREADS and its likes, so that the
replicas of all workers share the usable cores, and PYTHONUNBUFFERED=1. Its stdin is /dev/null.

When a worker fails the others are told to end, and the job ends with the first failure's status:
its exit code, or 128 + the signal. With --elastic, which sets TUTTI_ELASTIC=1, they go on, and
another process takes its place, as long as there are restarts left; worker 0 cannot be spared, and
when it has ended nobody is waited for who came late. Other statuses: 2 these words are wrong, 124
the time limit is over, 126 and 127 the program cannot be executed or is not there. Nothing that a
worker has started outlives the job.

A job of several machines is this command on each of them, with the same --nodes, --coordinator and
secret, and a --node-rank of its own, or --hosts, for which ssh starts it on each. Worker 0 listens
at the coordinator's address, all others connect to it. In a pod of an Indexed Job of Kubernetes the
rank is its JOB_COMPLETION_INDEX, and the coordinator the first pod's name, port 29500, where a
headless Service is the pods' subdomain. A job secret is a file that all machines have: openssl rand
-hex 32 > FILE; chmod 600 FILE.

Under Slurm, srun starts the processes, and this command in each of them becomes the program, with a
TF_CONFIG of Slurm's tasks; TUTTI_JOB_SECRET_FILE names a file that all nodes see.

  tutti run --workers 2 --replicas 2 -- python3 train.py --epochs 3
  srun --nodes 2 tutti run -- python3 train.py --epochs 3
  tutti run --nodes 2 --node-rank 0 --coordinator a:29500 --secret-file F -- python3 train.py
  tutti run --hosts a,b --secret-file F -- python3 train.py)";

std::string CheckDuration(const std::string& text) {
  if (ParseDuration(text)) return "";
  return fmt::format("\"{}\" is no duration; expected one like 500ms, 30s, 5min or 2h", text);
}

constexpr int kMaxNodes = 1024;
constexpr const char* kDefaultPort = "29500";  // as of torchrun

bool HasText(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0';
}

// The index that Kubernetes gives a pod of an Indexed Job.
std::optional<int> CompletionIndex() {
  const char* text = getenv("JOB_COMPLETION_INDEX");
  int index = 0;
  if (text == nullptr) return std::nullopt;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, index);
  if (error != std::errc() || stop != end) return std::nullopt;
  return index;
}

// This machine's name, with its domain where /etc/hosts or a name server knows one: a pod's is
// digits-1.digits.default.svc.cluster.local where a service names it.
std::string FullName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  addrinfo hints = {};
  hints.ai_flags = AI_CANONNAME;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name, nullptr, &hints, &found) != 0) return name;
  std::string full = found->ai_canonname != nullptr ? found->ai_canonname : name;
  freeaddrinfo(found);
  return full;
}

// Where the first pod of the Indexed Job listens that has the pod `full` at place `index`; "" where
// the name is not one of such a pod with a service.
std::string CoordinatorOf(const std::string& full, int index) {
  const std::string end = fmt::format("-{}", index);
  const size_t dot = full.find('.');
  if (dot == std::string::npos || dot <= end.size() || dot + 1 == full.size() ||
      full.compare(dot - end.size(), end.size(), end) != 0) {
    return "";
  }
  return fmt::format("{}-0{}:{}", full.substr(0, dot - end.size()), full.substr(dot), kDefaultPort);
}

bool IsAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0) return false;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && stop == end && port >= 1 && port <= 65'535;
}

// What is wrong with what was said of several machines; "": nothing. Fills in what follows.
std::string ReadNodes(bool rank_given, bool nodes_given, RunOptions* options) {
  if (!options->hosts.empty()) {
    if (nodes_given || rank_given) {
      return "--hosts says which machines there are: leave out --nodes and --node-rank";
    }
    for (const std::string& host : options->hosts) {
      if (host.empty() || host[0] == '-' || host.find_first_of(" \t\n") != std::string::npos) {
        return fmt::format("--hosts: \"{}\" is no name of a host; expected a,b", host);
      }
    }
    if (options->hosts.size() > static_cast<size_t>(kMaxNodes)) {
      return fmt::format("--hosts names {} machines; at most {} are possible",
                         options->hosts.size(), kMaxNodes);
    }
    options->nodes = static_cast<int>(options->hosts.size());
    if (options->coordinator.empty()) {
      const std::string& first = options->hosts[0];
      options->coordinator = fmt::format("{}:{}", first.substr(first.rfind('@') + 1), kDefaultPort);
    }
    if (options->secret_file.empty()) {
      return "--hosts needs --secret-file FILE, which all of them have: openssl rand -hex 32 > "
             "FILE; chmod 600 FILE";
    }
  } else if (!nodes_given && !rank_given && options->coordinator.empty()) {
    return options->secret_file.empty() ? ""
                                        : "--secret-file is of jobs of several machines: --nodes, "
                                          "--node-rank and --coordinator say which";
  } else {
    const std::optional<int> index = CompletionIndex();
    if (index && !nodes_given) {
      return "a job of several machines needs --nodes N; in a pod of an Indexed Job of Kubernetes "
             "N is what the manifest says in spec.completions";
    }
    if (options->coordinator.empty() && index && options->nodes > 1) {
      const std::string name = FullName();
      options->coordinator = CoordinatorOf(name, *index);
      if (options->coordinator.empty()) {
        return fmt::format(
            "this pod is \"{}\", which does not say how the others reach the first one; expected "
            "JOB-{}.SERVICE. In the manifest, add a Service with clusterIP: None that selects the "
            "pods, and its name as subdomain in the Job's spec.template.spec; or say --coordinator "
            "HOST:PORT",
            name, *index);
      }
    }
    if (options->coordinator.empty()) {
      return "a job of several machines needs --coordinator HOST:PORT, the address at which all "
             "reach the machine with --node-rank 0";
    }
    if (!rank_given && options->nodes > 1) {
      if (!index) {
        return "a job of several machines needs --node-rank N, from 0, another on each (under "
               "Kubernetes JOB_COMPLETION_INDEX says it, in an Indexed Job)";
      }
      options->node_rank = *index;
    }
    if (options->node_rank < 0 || options->node_rank >= options->nodes) {
      return fmt::format("the rank of this machine is {}, and --nodes says {}; expected 0 to {}",
                         options->node_rank, options->nodes, options->nodes - 1);
    }
    if (options->secret_file.empty() && !HasText("TUTTI_JOB_SECRET_FILE") &&
        !HasText("TUTTI_JOB_SECRET")) {
      return "a job of several machines needs a secret, which tells its processes from strangers: "
             "openssl rand -hex 32 > FILE; chmod 600 FILE; give all of them the file, and say "
             "--secret-file FILE (under Kubernetes a Secret that is mounted)";
    }
    if (!options->secret_file.empty() && access(options->secret_file.c_str(), R_OK) != 0) {
      return fmt::format("the job's secret {} cannot be read: {}; all machines need the same file",
                         options->secret_file, std::strerror(errno));
    }
  }
  if (!IsAddress(options->coordinator)) {
    return fmt::format("--coordinator is \"{}\"; expected HOST:PORT", options->coordinator);
  }
  if (options->elastic || options->max_restarts > 0) {
    return "a job of several machines is not restarted: leave out --elastic and --max-restarts";
  }
  return "";
}

}  // namespace

std::optional<int> ReadRunOptions(const std::vector<std::string>& words, RunOptions* options) {
  // The program's own options must not be read as ours.
  const auto separator = std::find(words.begin(), words.end(), "--");
  const std::vector<std::string> own(words.begin(), separator);

  CLI::App app("Runs a program as several workers of one job on this machine.", "tutti run");
  app.footer(kRunFooter + 1);  // without its first line end
  std::string timeout, grace, progress;
  bool no_prefix = false;
  std::vector<std::string> stray;
  const CLI::Option* workers =
      app.add_option("--workers", options->workers, "How many processes (default 1)")
          ->type_name("N")
          ->check(CLI::Range(1, RunOptions::kMaxWorkers));
  app.add_option("--replicas", options->replicas, "How many replicas each of them has (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, RunOptions::kMaxReplicas));
  app.add_option("--timeout", timeout, "End the job after this time: 90s, 5min, 2h")
      ->type_name("TIME")
      ->check(CheckDuration);
  app.add_option("--max-restarts", options->max_restarts,
                 "After a failure start the job again, at most so often (default 0)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--elastic", options->elastic,
               "Restart the worker that failed, and let the others go on");
  app.add_option("--grace", grace,
                 "How long workers have to end after one failed (default 2s), after SIGINT or "
                 "SIGTERM (default 5s)")
      ->type_name("TIME")
      ->check(CheckDuration);
  app.add_option("--log-dir", options->log_folder,
                 "Also write what each worker prints into DIR/worker-N.log")
      ->type_name("DIR");
  const CLI::Option* nodes =
      app.add_option("--nodes", options->nodes, "Of a job of several machines: how many there are")
          ->type_name("N")
          ->check(CLI::Range(1, kMaxNodes));
  const CLI::Option* rank =
      app.add_option("--node-rank", options->node_rank, "Which of them this is, from 0")
          ->type_name("N")
          ->check(CLI::NonNegativeNumber);
  app.add_option("--coordinator", options->coordinator,
                 "Where all of them reach worker 0, on the machine of rank 0")
      ->type_name("HOST:PORT");
  app.add_option("--secret-file", options->secret_file,
                 "The job's secret, the same on all machines")
      ->type_name("FILE");
  app.add_option("--hosts", options->hosts, "Start the job on these machines, by ssh")
      ->type_name("HOST,...")
      ->delimiter(',');
  app.add_flag("--follow-input", options->follows_input)->group("");
  app.add_flag("--no-prefix", no_prefix, "Leave out the \"[worker 1] \" before each line");
  app.add_option("--progress", progress,
                 "A line on stderr while nothing is printed that says what is waited for: line or "
                 "off (default line on a terminal)")
      ->type_name("FORM")
      ->check(CLI::IsMember({"line", "off"}));
  app.add_option("stray", stray)->group("");
  if (const std::optional<int> status = ReadWords(app, kRunUsage, own)) return status;

  options->workers_given = workers->count() > 0;
  if (!stray.empty()) {
    fmt::print(stderr,
               "tutti run: found {} before \"--\"; the program and its arguments stand behind it: "
               "tutti run [OPTIONS] -- {}\n",
               stray.front(), fmt::join(stray, " "));
    return kExitUsage;
  }
  if (separator != words.end()) options->program.assign(separator + 1, words.end());
  if (options->program.empty()) {
    fmt::print(stderr,
               "tutti run: no program; expected tutti run [OPTIONS] -- PROGRAM [ARGUMENTS]\n");
    return kExitUsage;
  }
  if (const std::string wrong = ReadNodes(rank->count() > 0, nodes->count() > 0, options);
      !wrong.empty()) {
    fmt::print(stderr, "tutti run: {}\n", wrong);
    return kExitUsage;
  }
  if (options->elastic && options->max_restarts == 0) {
    fmt::print(stderr, "tutti run: --elastic restarts workers that fail; say how often: "
                       "--max-restarts N\n");
    return kExitUsage;
  }
  if (!timeout.empty()) options->timeout = *ParseDuration(timeout);
  if (!grace.empty()) {
    options->grace_after_failure = options->grace_after_signal = *ParseDuration(grace);
  }
  options->prefix = !no_prefix;
  options->shows_waits = progress.empty() ? isatty(STDERR_FILENO) != 0 : progress == "line";
  return std::nullopt;
}

}  // namespace tutti::tool
