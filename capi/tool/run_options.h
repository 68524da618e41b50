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
  std::string log_folder;  // where each worker's output goes, too; "": nowhere
  std::vector<std::string> program;  // with its arguments
};

// Reads the words after `tutti run`. Returns the status to exit with when there is nothing to run:
// help was asked for and is printed, or something is wrong and stderr says what.
std::optional<int> ReadRunOptions(const std::vector<std::string>& words, RunOptions* options);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_RUN_OPTIONS_H_
