// WorkerProcess: one worker from its start to its end.

#ifndef TUTTI_CAPI_TOOL_WORKER_PROCESS_H_
#define TUTTI_CAPI_TOOL_WORKER_PROCESS_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "capi/tool/duration.h"
#include "capi/tool/owned_fd.h"
#include "capi/tool/signal_inlet.h"

namespace tutti::tool {

// How a process ended.
struct ProcessEnd {
  bool by_signal = false;
  int value = 0;  // the exit code or the signal
  bool dumped_core = false;

  bool failed() const { return by_signal || value != 0; }
  int exit_status() const { return by_signal ? 128 + value : value; }
};

struct WorkerCommand {
  std::string path;
  std::vector<std::string> arguments;    // with the program's name
  std::vector<std::string> environment;  // "NAME=value"
  rlimit open_files = {};                // the limit that the worker gets
  // Its stdin is a pipe by which it is told of signals, a number a line, instead of getting them.
  bool told_by_input = false;
};

struct SpawnFailure {
  int exit_status = 1;
  std::string error;
};

class WorkerProcess {
 public:
  // Starts a process in a group of its own, with /dev/null as stdin (but for
  // one that is told by its input) and pipes as stdout and stderr.
  // It dies when this process dies. Returns when the program runs, or says why it does not.
  static std::optional<SpawnFailure> Start(const WorkerCommand& command,
                                           const SignalInlet& signals, WorkerProcess* worker);

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable when the process has ended
  OwnedFd& standard_output() { return standard_output_; }
  OwnedFd& standard_error() { return standard_error_; }
  bool running() const { return !end_; }
  const std::optional<ProcessEnd>& end() const { return end_; }
  Clock::duration lifetime() const { return ended_ - started_; }

  // To the worker and all of its process group. Only while it runs: later the number may be another
  // process's.
  void Signal(int signal) const;
  // Takes the end of a process whose pidfd is readable.
  void Reap();

 private:
  pid_t pid_ = 0;
  OwnedFd pidfd_, standard_output_, standard_error_;
  OwnedFd standard_input_;  // of one that is told by it
  TimePoint started_, ended_;
  std::optional<ProcessEnd> end_;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_WORKER_PROCESS_H_
