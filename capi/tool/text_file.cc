#include "capi/tool/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

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

// The path that symbolic links lead to, which need not exist.
std::string FollowLinks(std::string path) {
  constexpr int kMostLinks = 40;  // as the kernel
  for (int i = 0; i < kMostLinks; ++i) {
    char target[PATH_MAX];
    const ssize_t size = readlink(path.c_str(), target, sizeof(target));
    if (size <= 0) break;
    const std::string next(target, static_cast<size_t>(size));
    path = next[0] == '/' ? next : DirectoryOf(path) + "/" + next;
  }
  return path;
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Where what goes to a path is to be written.
struct Destination {
  std::string path;
  // It exists and is no file of a directory that another could take the place of: a device, a FIFO,
  // a socket, what standard output is connected to.
  bool in_place = false;
  bool is_fifo = false;
  int own_descriptor = -1;  // which is it already
};

Destination FindDestination(const std::string& path) {
  const std::string followed = FollowLinks(path);
  struct stat info = {}, behind_links = {};
  if (stat(path.c_str(), &info) != 0) return {followed, errno != ENOENT};  // as open will say
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own = {};
    if (fstat(descriptor, &own) != 0 || !IsSame(info, own)) continue;
    return {path, true, false, descriptor};
  }
  // The links in /proc/self/fd lead to what has no path, or another one by now.
  const bool has_path = stat(followed.c_str(), &behind_links) == 0 && IsSame(info, behind_links);
  if (has_path && S_ISREG(info.st_mode)) return {followed};
  return {path, true, S_ISFIFO(info.st_mode)};
}

// All of it, also into what would block; the error, or 0.
int WriteAll(int file, const std::string& contents) {
  for (size_t done = 0; done < contents.size();) {
    const ssize_t count = write(file, contents.data() + done, contents.size() - done);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      pollfd writable = {file, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// A reader that goes away is an error like others, to be said, and not the end of the process.
class SigpipeIgnored {
 public:
  SigpipeIgnored() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~SigpipeIgnored() { sigaction(SIGPIPE, &before_, nullptr); }
  SigpipeIgnored(const SigpipeIgnored&) = delete;
  SigpipeIgnored& operator=(const SigpipeIgnored&) = delete;

 private:
  struct sigaction before_ = {};
};

std::string WriteInPlace(const Destination& destination, const std::string& contents) {
  const SigpipeIgnored sigpipe_ignored;
  if (destination.own_descriptor >= 0) {
    std::fflush(nullptr);  // what was said before comes before it
    const int error = WriteAll(destination.own_descriptor, contents);
    return error == 0 ? "" : Failure("write", destination.path, error);
  }
  // A FIFO's reader may be about to open it; waiting for one without an end would look like work.
  constexpr auto kPatience = std::chrono::seconds(3);
  const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const OwnedFd file(open(destination.path.c_str(),
                            O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (file.valid()) {
      const int error = WriteAll(file.get(), contents);
      return error == 0 ? "" : Failure("write", destination.path, error);
    }
    if (errno != ENXIO || !destination.is_fifo) return Failure("write", destination.path, errno);
    if (std::chrono::steady_clock::now() >= give_up_at) {
      return fmt::format("cannot write {}: nobody has opened this FIFO for reading; start its "
                         "reader first", destination.path);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

std::string ReadTextFile(const std::string& path, std::string* contents) {
  // Opening a FIFO, or reading from a device, may wait for ever.
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.valid()) return Failure("read", path, errno);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return Failure("read", path, errno);
  if (S_ISDIR(info.st_mode)) return Failure("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return fmt::format("cannot read {}: it is {}, and a regular file is needed; copy what it gives "
                       "into one",
                       path, S_ISFIFO(info.st_mode) ? "a FIFO" : "a device or a socket");
  }
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
  const Destination destination = FindDestination(path);
  if (destination.in_place) return WriteInPlace(destination, contents);
  const std::string temporary = fmt::format("{}.{}.tmp", destination.path, getpid());
  OwnedFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return Failure("write", path, errno);
  int error = WriteAll(file.get(), contents);
  file.Reset();
  if (error == 0 && std::rename(temporary.c_str(), destination.path.c_str()) != 0) error = errno;
  if (error == 0) return "";
  unlink(temporary.c_str());
  return Failure("write", path, error);
}

std::string CheckCanWriteTextFile(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return Failure("write", path, EISDIR);
  }
  const Destination destination = FindDestination(path);
  if (destination.own_descriptor >= 0) return "";
  const bool can = destination.in_place
                       ? access(destination.path.c_str(), W_OK) == 0
                       : access(DirectoryOf(destination.path).c_str(), W_OK | X_OK) == 0;
  return can ? "" : Failure("write", path, errno);
}

}  // namespace tutti::tool
