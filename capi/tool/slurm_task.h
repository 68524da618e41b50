// `srun tutti run -- PROGRAM`: Slurm has started this process on each node, and the command becomes
// the program, which gets its place among Slurm's tasks.

#ifndef TUTTI_CAPI_TOOL_SLURM_TASK_H_
#define TUTTI_CAPI_TOOL_SLURM_TASK_H_

#include <string>

#include "capi/tool/run_options.h"

namespace tutti::tool {

// Whether this process is one of several tasks of a step, and nobody has said which cluster it
// belongs to (TF_CONFIG) or how many workers it shall start.
bool IsSlurmTask(const RunOptions& options);

// Becomes the program at `path`, with TF_CONFIG as Slurm's variables say. Returns only where that
// fails, with the status to exit with; stderr says why.
int BecomeSlurmTask(const RunOptions& options, const std::string& path);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_SLURM_TASK_H_
