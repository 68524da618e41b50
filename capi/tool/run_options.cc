#include "capi/tool/run_options.h"

#include <fmt/format.h>

#include <algorithm>

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

Under Slurm, srun starts the processes, and this command in each of them becomes the program, with a
TF_CONFIG of Slurm's tasks; TUTTI_JOB_SECRET_FILE names a file that all nodes see.

  tutti run --workers 2 --replicas 2 -- python3 train.py --epochs 3
  srun --nodes 2 tutti run -- python3 train.py --epochs 3)";

std::string CheckDuration(const std::string& text) {
  if (ParseDuration(text)) return "";
  return fmt::format("\"{}\" is no duration; expected one like 500ms, 30s, 5min or 2h", text);
}

}  // namespace

std::optional<int> ReadRunOptions(const std::vector<std::string>& words, RunOptions* options) {
  // The program's own options must not be read as ours.
  const auto separator = std::find(words.begin(), words.end(), "--");
  const std::vector<std::string> own(words.begin(), separator);

  CLI::App app("Runs a program as several workers of one job on this machine.", "tutti run");
  app.footer(kRunFooter + 1);  // without its first line end
  std::string timeout, grace;
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
  app.add_flag("--no-prefix", no_prefix, "Leave out the \"[worker 1] \" before each line");
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
  return std::nullopt;
}

}  // namespace tutti::tool
