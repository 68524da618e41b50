// The sentence that a failed job ends with: who was the first to die and of what, and what became
// of the others.

#ifndef TUTTI_CAPI_TOOL_FAILURE_REPORT_H_
#define TUTTI_CAPI_TOOL_FAILURE_REPORT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "capi/tool/duration.h"
#include "capi/tool/worker_process.h"

namespace tutti::tool {

struct WorkerStory {
  int worker = 0;
  pid_t pid = 0;
  Clock::duration lifetime = {};
  ProcessEnd end;
  bool asked_to_end = false;  // the command sent it SIGTERM
  bool killed = false;        // the command sent it SIGKILL
  std::string error;          // what it said last of an error; "" when nothing
  const char* noun = "worker";  // or "node", of machines
};

// Whose failure the job's is, in a list in the order of deaths: the first that failed of itself,
// for one that had lost a peer may die before that peer; else the first that failed. Null when all
// succeeded.
const WorkerStory* FirstFailure(const std::vector<WorkerStory>& in_order_of_death);

// "worker 1 (pid 4711) was killed by SIGKILL (9) after 12.3 s; workers 0 and 2 then exited with 1",
// or "worker 1 (pid 4711) exited with 1 after 12.3 s: ValueError: no rows; worker 0 had exited with
// 1 before, for want of a peer".
// At least one has failed.
std::string DescribeFailure(const std::vector<WorkerStory>& in_order_of_death);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_FAILURE_REPORT_H_
