#include "capi/tool/worker_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace tutti::tool {

std::string WorkerLog::Open(const std::string& folder, int index, int restart) {
  const std::string path = fmt::format("{}/worker-{}.log", folder, index);
  const int how = restart == 0 ? O_TRUNC : 0;
  fd_.Reset(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | how, 0666));
  if (!fd_.valid()) return fmt::format("cannot write {}: {}", path, std::strerror(errno));
  if (restart > 0) Write(fmt::format("--- start {} ---\n", restart + 1));
  return "";
}

void WorkerLog::Write(std::string_view text) {
  while (fd_.valid() && !text.empty()) {
    const ssize_t count = write(fd_.get(), text.data(), text.size());
    if (count > 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      fd_.Reset();
    }
  }
}

std::string MakeLogFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  return error ? fmt::format("cannot make the folder {}: {}", folder, error.message()) : "";
}

}  // namespace tutti::tool
