// What `tutti run` was asked for.

#ifndef TUTTI_CAPI_TOOL_RUN_OPTIONS_H_
#define TUTTI_CAPI_TOOL_RUN_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "capi/tool/duration.h"

namespace tutti::tool {

inline constexpr int kExitUsage = 2;

struct RunOptions {
  static constexpr int kMaxWorkers = 256;
  static constexpr int kMaxReplicas = 1024;

  int workers = 1;
  bool workers_given = false;
  std::optional<int> replicas;          // per worker
  std::optional<Milliseconds> timeout;  // of all starts together
  int max_restarts = 0;
  bool elastic = false;  // a restart replaces the worker that failed, and the others go on
  // How long workers have to end by themselves after one of them failed, and after SIGINT or
  // SIGTERM.
  Milliseconds grace_after_failure = std::chrono::seconds(2);
  Milliseconds grace_after_signal = std::chrono::seconds(5);
  bool prefix = true;
  bool shows_waits = false;  // a line on stderr, a terminal, while nobody else says anything
  std::string log_folder;  // where each worker's output goes, too; "": nowhere

  // Of a job of several machines, on each of which this command runs.
  int nodes = 1;
  int node_rank = 0;
  std::string coordinator;  // "host:port", of worker 0; "": this machine alone
  std::string secret_file;  // "": TUTTI_JOB_SECRET_FILE or TUTTI_JOB_SECRET says
  std::vector<std::string> hosts;  // on which ssh starts this command; none: here
  bool follows_input = false;      // signals come by stdin, whose end is the end of the job

  int first_worker() const { return node_rank * workers; }
  bool spans_nodes() const { return !coordinator.empty() && hosts.empty(); }

  std::vector<std::string> program;  // with its arguments
};

// Reads the words after `tutti run`. Returns the status to exit with when there is nothing to run:
// help was asked for and is printed, or something is wrong and stderr says what.
std::optional<int> ReadRunOptions(const std::vector<std::string>& words, RunOptions* options);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_RUN_OPTIONS_H_
