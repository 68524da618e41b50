#include "capi/tool/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "capi/tool/owned_fd.h"

namespace tutti::tool {
namespace {

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string Failure(const char* what, const std::string& path, int error) {
  return fmt::format("cannot {} {}: {}", what, path, std::strerror(error));
}

}  // namespace

std::string ReadTextFile(const std::string& path, std::string* contents) {
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Failure("read", path, errno);
  contents->clear();
  char bytes[64 << 10];
  while (true) {
    const ssize_t count = read(file.get(), bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failure("read", path, errno);
    if (count == 0) return "";
    contents->append(bytes, static_cast<size_t>(count));
  }
}

std::string WriteTextFile(const std::string& path, const std::string& contents) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  OwnedFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return Failure("write", path, errno);
  int error = 0;
  for (size_t done = 0; done < contents.size() && error == 0;) {
    const ssize_t count = write(file.get(), contents.data() + done, contents.size() - done);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  file.Reset();
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return "";
  unlink(temporary.c_str());
  return Failure("write", path, error);
}

std::string CheckCanWriteTextFile(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return Failure("write", path, EISDIR);
  }
  if (access(DirectoryOf(path).c_str(), W_OK | X_OK) != 0) return Failure("write", path, errno);
  return "";
}

}  // namespace tutti::tool
