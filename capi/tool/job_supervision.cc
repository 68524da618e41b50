#include "capi/tool/job_supervision.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "capi/tool/console.h"
#include "capi/tool/guard.h"
#include "capi/tool/host_command.h"
#include "capi/tool/job.h"
#include "capi/tool/machine_cores.h"
#include "capi/tool/port_reservation.h"
#include "capi/tool/signal_inlet.h"
#include "capi/tool/worker_environment.h"
#include "capi/tool/worker_log.h"

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

// Worker 0 listens at the first address; the others only have a name of their own there, which is
// of loopback where the first one is.
std::vector<std::string> AddressesOfNodes(const RunOptions& options) {
  const std::string& first = options.coordinator;
  const int port = std::stoi(first.substr(first.rfind(':') + 1));
  const bool loopback = first.starts_with("127.") || first.starts_with("localhost:") ||
                        first.starts_with("[::1]:");
  std::vector<std::string> addresses = {first};
  for (int i = 1; i < options.nodes * options.workers; ++i) {
    addresses.push_back(loopback
                            ? fmt::format("127.0.0.1:{}", 1 + (port + i - 1) % 65'535)
                            : fmt::format("node-{}:{}", i / options.workers,
                                          1 + i % options.workers));
  }
  return addresses;
}

// Starts the job, and again while it fails and may.
int Supervise(const std::string& command, const RunOptions& options, const std::string& path,
              SignalInlet* signals) {
  Console console(command);
  if (!options.log_folder.empty()) {
    if (const std::string error = MakeLogFolder(options.log_folder); !error.empty()) {
      console.Say(error);
      console.Flush();
      return 1;
    }
  }
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
    if (options.spans_nodes()) {
      facts.addresses = AddressesOfNodes(options);
      facts.secret_file = options.secret_file;
    } else if (options.hosts.empty()) {
      facts.secret = MakeJobSecret();
      if (facts.secret.empty()) error = "cannot make a job secret: getrandom fails";
      if (error.empty()) PortReservation::Make(options.workers, &reservation, &error);
      for (const int port : reservation.ports()) {
        facts.addresses.push_back(fmt::format("127.0.0.1:{}", port));
      }
    }
    if (!error.empty()) {
      console.Say(error);
      console.Flush();
      return 1;
    }
    facts.workers_here = options.workers;
    facts.replicas = options.replicas;
    facts.restart = restart;
    facts.elastic = options.elastic;
    facts.usable_cores = cores.usable;
    const auto command_of = [&](int index, int number) {
      facts.restart = number;
      if (!options.hosts.empty()) return CommandOfHost(options, path, base, index, open_files);
      return WorkerCommand{
          path, options.program,
          WorkerEnvironment(base, facts, options.first_worker() + index).variables(), open_files,
          false};
    };
    Job job(options, deadline, signals, &console);
    const JobOutcome outcome = job.Run(command_of, &restart);
    if (!outcome.may_start_again || restart == options.max_restarts) return outcome.exit_status;
    console.Say(fmt::format("starting again ({} of {})", restart + 1, options.max_restarts));
  }
}

}  // namespace

int RunJob(const std::string& command, const RunOptions& options, const std::string& path) {
  SignalInlet signals;
  return RunGuarded(command, &signals, [&] { return Supervise(command, options, path, &signals); });
}

}  // namespace tutti::tool
