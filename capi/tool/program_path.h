// Which file a program's name stands for, as execvp would find it, but asked before anything is
// started, so that a mistyped name is one clear message instead of one per worker.

#ifndef TUTTI_CAPI_TOOL_PROGRAM_PATH_H_
#define TUTTI_CAPI_TOOL_PROGRAM_PATH_H_

#include <string>

namespace tutti::tool {

// The shell's exit statuses.
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;

struct ProgramPath {
  int exit_status = 0;  // 0: found; else what to exit with
  std::string path;
  std::string error;
};

// A name without a slash is looked for in `search_path` ("/usr/bin:/bin").
ProgramPath FindProgram(const std::string& name, const std::string& search_path);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_PROGRAM_PATH_H_
