#include "capi/tool/program_path.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace tutti::tool {
namespace {

// Why `path` cannot be executed: 0, ENOENT, EACCES, EISDIR, ...
int ExecuteError(const std::string& path) {
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) return errno;
  if (S_ISDIR(about.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

ProgramPath NotExecutable(const std::string& path, int error) {
  const char* next = error == EACCES ? "; is it executable (chmod +x)?" : "";
  return {kExitCannotExecute, "",
          fmt::format("cannot execute {}: {}{}", path, std::strerror(error), next)};
}

}  // namespace

ProgramPath FindProgram(const std::string& name, const std::string& search_path) {
  if (name.empty()) return {kExitNotFound, "", "the program's name is empty"};
  if (name.find('/') != std::string::npos) {
    const int error = ExecuteError(name);
    if (error == 0) return {0, name, ""};
    if (error == ENOENT || error == ENOTDIR) {
      return {kExitNotFound, "", fmt::format("there is no program {}", name)};
    }
    return NotExecutable(name, error);
  }
  std::optional<ProgramPath> refused;
  for (size_t from = 0; from <= search_path.size();) {
    const size_t colon = std::min(search_path.find(':', from), search_path.size());
    // An empty entry is the current folder.
    const std::string path =
        fmt::format("{}/{}", colon > from ? search_path.substr(from, colon - from) : ".", name);
    const int error = ExecuteError(path);
    if (error == 0) return {0, path, ""};
    if (error == EACCES && !refused) refused = NotExecutable(path, error);
    from = colon + 1;
  }
  if (refused) return *refused;
  const char* next = access(name.c_str(), F_OK) == 0 ? "; the one in this folder is ./" : "";
  return {kExitNotFound, "",
          fmt::format("there is no program {} in PATH{}{}", name, next, *next ? name : "")};
}

}  // namespace tutti::tool
