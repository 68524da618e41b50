// Job: one start of all workers, from the first process to the last.
//
// One thread, one poll: over the workers' output, our own, the signals, and the deaths. Deaths come
// from pidfds in an epoll set of their own, because epoll hands out what became ready in the order
// in which it did: it is the order of deaths, which SIGCHLD and wait do not keep.
//
//   running --a worker fails--> lingering --grace--> terminating --1 s--> killed
//      |                            |                     ^
//      +-- SIGINT, SIGTERM, time limit -------------------+    a second SIGINT: killed at once
//
// Of an elastic job a worker that fails, but for worker 0, is replaced as long as there are
// restarts left, and the job runs on. When worker 0 has ended well, those who came in somebody's
// place may have come too late: they linger, too, and what becomes of them is no failure.
//
// Lingering: the other workers see for themselves that one is gone and say so before they end. When
// no worker runs, what they left behind is ended: SIGTERM, half a second (in which Python's
// resource tracker removes its shared memory), SIGKILL.
//
// On a terminal a passing line says what is waited for: workers that have not printed anything for
// a second or longer, and those that are to end. What anybody prints takes its place.

#ifndef TUTTI_CAPI_TOOL_JOB_H_
#define TUTTI_CAPI_TOOL_JOB_H_

#include <poll.h>

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "capi/tool/console.h"
#include "capi/tool/duration.h"
#include "capi/tool/error_tail.h"
#include "capi/tool/failure_report.h"
#include "capi/tool/line_output.h"
#include "capi/tool/run_options.h"
#include "capi/tool/signal_inlet.h"
#include "capi/tool/worker_log.h"
#include "capi/tool/worker_process.h"

namespace tutti::tool {

struct JobOutcome {
  int exit_status = 0;
  // Something failed that another start may mend: not the user's wish, not the time limit.
  bool may_start_again = false;
};

class Job {
 public:
  Job(const RunOptions& options, std::optional<TimePoint> deadline, SignalInlet* signals,
      Console* console);

  // The command of a worker, of the `restart`-th start.
  using CommandOf = std::function<WorkerCommand(int index, int restart)>;
  // Starts all workers, and returns when no process of the job is left. *restart counts those of
  // single workers.
  JobOutcome Run(const CommandOf& command_of, int* restart);

 private:
  enum class Stage { kRunning, kLingering, kTerminating, kKilled };

  struct Stream {
    Stream(OwnedFd opened, const std::string& prefix, LineCutter::Listener listener,
           OutputSink* to)
        : fd(std::move(opened)), lines(prefix, std::move(listener)), sink(to) {}
    OwnedFd fd;
    LineCutter lines;
    OutputSink* sink;
    TimePoint pass_on_at = {};  // what waits for the end of its line
  };

  struct Worker {
    WorkerProcess process;
    bool asked_to_end = false;
    bool killed = false;
    bool came_later = false;  // in the place of one that failed
    std::shared_ptr<ErrorTail> errors;
  };

  std::optional<SpawnFailure> Start(size_t index);
  // Waits until something happens, `wake` at the latest, and deals with it.
  void Turn(std::optional<TimePoint> wake);
  std::optional<TimePoint> NextWake() const;
  void OnTime();
  void ShowWait();
  void OnSignal(int signal);
  // What whoever started us says of signals.
  void ReadInput();
  void OnDeaths();
  // Of a worker that has failed. False: the job fails with it.
  bool Replace(size_t index, const WorkerStory& story);
  bool LeaderIsDone() const;
  void ReadStreams(bool to_the_end);
  // What has waited too long for the end of its line.
  void PassOnPartialLines();
  void ReapAdopted();
  // With what the worker has said of an error so far.
  WorkerStory WithError(const WorkerStory& story) const;

  void SignalWorkers(int signal);
  void Terminate(Clock::duration grace);
  void Kill();
  void EndLeftovers();
  void DrainOutput();
  JobOutcome Conclude();

  const RunOptions& options_;
  const std::optional<TimePoint> deadline_;
  SignalInlet* const signals_;
  Console* const console_;

  const CommandOf* command_of_ = nullptr;  // while Run runs, as is:
  int* restart_ = nullptr;
  OwnedFd deaths_;  // epoll over the pidfds
  std::vector<Worker> workers_;
  std::list<Stream> streams_;
  size_t num_running_ = 0;
  bool input_open_;
  std::string input_;  // the begin of a line
  std::vector<WorkerStory> stories_;  // in the order of deaths

  Stage stage_ = Stage::kRunning;
  std::optional<TimePoint> next_stage_at_;
  const TimePoint begin_ = Clock::now();
  std::optional<TimePoint> show_at_;  // when the passing line is another one
  std::string shown_;                 // that line
  bool heard_ = false;                // a worker has printed something
  std::optional<int> end_signal_;  // the first SIGINT or SIGTERM
  bool hurried_ = false;           // a second one, or our parent died: no more waiting
  bool ended_by_user_ = false;
  bool timed_out_ = false;
  std::vector<pollfd> polled_;     // kept for its memory
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_JOB_H_
