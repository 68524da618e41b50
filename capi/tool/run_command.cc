#include "capi/tool/run_command.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "capi/tool/job_supervision.h"
#include "capi/tool/program_path.h"
#include "capi/tool/run_options.h"
#include "capi/tool/slurm_task.h"

namespace tutti::tool {

int RunCommand(const std::vector<std::string>& words) {
  RunOptions options;
  if (const std::optional<int> status = ReadRunOptions(words, &options)) return *status;
  const char* search_path = getenv("PATH");
  const ProgramPath program =
      FindProgram(options.hosts.empty() ? options.program.front() : "ssh",
                  search_path != nullptr ? search_path : "/usr/bin:/bin");
  if (program.exit_status != 0) {
    fmt::print(stderr, "tutti run: {}\n", program.error);
    return program.exit_status;
  }
  if (IsSlurmTask(options)) return BecomeSlurmTask(options, program.path);
  return RunJob("tutti run", options, program.path);
}

}  // namespace tutti::tool
