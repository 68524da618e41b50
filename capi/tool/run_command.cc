#include "capi/tool/run_command.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "capi/tool/console.h"
#include "capi/tool/guard.h"
#include "capi/tool/job.h"
#include "capi/tool/machine_cores.h"
#include "capi/tool/port_reservation.h"
#include "capi/tool/program_path.h"
#include "capi/tool/run_options.h"
#include "capi/tool/signal_inlet.h"
#include "capi/tool/worker_environment.h"

namespace tutti::tool {
namespace {

// Two pipes, a pidfd and a port per worker, and a few more.
void AllowOpenFiles(int workers, const rlimit& before) {
  const rlim_t wanted = static_cast<rlim_t>(workers) * 4 + 64;
  if (before.rlim_cur >= wanted) return;
  rlimit raised = before;
  raised.rlim_cur = std::min(wanted, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &raised);
}

// Starts the job, and again while it fails and may.
int Supervise(const RunOptions& options, const std::string& path, SignalInlet* signals) {
  Console console;
  const Environment base(environ);
  const MachineCores cores = ReadMachineCores();
  rlimit open_files = {};
  getrlimit(RLIMIT_NOFILE, &open_files);
  AllowOpenFiles(options.workers, open_files);
  std::optional<TimePoint> deadline;
  if (options.timeout) deadline = Clock::now() + *options.timeout;

  for (int restart = 0;; ++restart) {
    JobFacts facts;
    PortReservation reservation;
    std::string error;
    facts.secret = MakeJobSecret();
    if (facts.secret.empty()) error = "cannot make a job secret: getrandom fails";
    if (error.empty()) PortReservation::Make(options.workers, &reservation, &error);
    if (!error.empty()) {
      console.Say(error);
      console.Flush();
      return 1;
    }
    facts.ports = reservation.ports();
    facts.replicas = options.replicas;
    facts.restart = restart;
    facts.usable_cores = cores.usable;
    std::vector<WorkerCommand> commands;
    for (int i = 0; i < options.workers; ++i) {
      commands.push_back(
          {path, options.program, WorkerEnvironment(base, facts, i).variables(), open_files});
    }
    Job job(options, deadline, signals, &console);
    const JobOutcome outcome = job.Run(commands);
    if (!outcome.may_start_again || restart == options.max_restarts) return outcome.exit_status;
    console.Say(fmt::format("starting again ({} of {})", restart + 1, options.max_restarts));
  }
}

}  // namespace

int RunCommand(const std::vector<std::string>& words) {
  RunOptions options;
  if (const std::optional<int> status = ReadRunOptions(words, &options)) return *status;
  const char* search_path = getenv("PATH");
  const ProgramPath program =
      FindProgram(options.program.front(), search_path != nullptr ? search_path : "/usr/bin:/bin");
  if (program.exit_status != 0) {
    fmt::print(stderr, "tutti run: {}\n", program.error);
    return program.exit_status;
  }
  SignalInlet signals;
  return RunGuarded(&signals, [&] { return Supervise(options, program.path, &signals); });
}

}  // namespace tutti::tool
