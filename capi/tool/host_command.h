// `tutti run --hosts a,b`: the command by which ssh starts `tutti run` on one of the hosts.

#ifndef TUTTI_CAPI_TOOL_HOST_COMMAND_H_
#define TUTTI_CAPI_TOOL_HOST_COMMAND_H_

#include <string>

#include "capi/tool/run_options.h"
#include "capi/tool/worker_environment.h"
#include "capi/tool/worker_process.h"

namespace tutti::tool {

// `ssh` is the path of that program. On the host the command is at the path that it has here, and
// runs in the folder with this one's name; of the environment nothing goes along.
WorkerCommand CommandOfHost(const RunOptions& options, const std::string& ssh,
                            const Environment& environment, int node, const rlimit& open_files);

// As a shell takes it for one word.
std::string QuoteForShell(const std::string& word);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_HOST_COMMAND_H_
