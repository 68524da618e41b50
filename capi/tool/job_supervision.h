// A whole job, guarded: a place for each worker, their start, new starts after failures, their end.

#ifndef TUTTI_CAPI_TOOL_JOB_SUPERVISION_H_
#define TUTTI_CAPI_TOOL_JOB_SUPERVISION_H_

#include <string>

#include "capi/tool/run_options.h"

namespace tutti::tool {

// Runs the program at `path` (options.program are its words) as the workers of a job, and returns
// the status to exit with. `command` is what messages begin with: "tutti run". The calling process
// has one thread.
int RunJob(const std::string& command, const RunOptions& options, const std::string& path);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_JOB_SUPERVISION_H_
