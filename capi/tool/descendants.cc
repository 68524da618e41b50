#include "capi/tool/descendants.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "capi/tool/duration.h"
#include "capi/tool/machine_cores.h"

namespace tutti::tool {
namespace {

constexpr Clock::duration kUnkillable = std::chrono::seconds(5);

// Of all processes by their /proc/PID/stat: "PID (name) STATE PPID ...", where a name may hold
// anything.
std::vector<pid_t> ChildrenByStat(pid_t parent) {
  std::vector<pid_t> children;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return children;
  while (const dirent* entry = readdir(folder)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    const auto stat = ReadKernelFile(fmt::format("/proc/{}/stat", pid));
    const char* fields = stat ? std::strrchr(stat->c_str(), ')') : nullptr;
    if (fields == nullptr || std::strlen(fields) < 5) continue;
    if (std::atoi(fields + 4) == parent) children.push_back(pid);
  }
  closedir(folder);
  return children;
}

}  // namespace

std::vector<pid_t> ChildrenOfThisProcess() {
  const pid_t self = getpid();  // this process has one thread, whose id this is
  const auto list = ReadKernelFile(fmt::format("/proc/{}/task/{}/children", self, self));
  if (!list) return ChildrenByStat(self);  // a kernel without CONFIG_PROC_CHILDREN
  std::vector<pid_t> children;
  for (const char* text = list->c_str(); *text != '\0';) {
    char* end = nullptr;
    const long pid = std::strtol(text, &end, 10);
    if (end == text) break;
    children.push_back(static_cast<pid_t>(pid));
    text = end;
  }
  return children;
}

bool ReapEndedChildren() {
  while (true) {
    const pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid == 0) return true;
    if (pid < 0 && errno != EINTR) return false;
  }
}

bool KillAllChildren() {
  const TimePoint give_up = Clock::now() + kUnkillable;
  while (ReapEndedChildren()) {
    for (pid_t child : ChildrenOfThisProcess()) kill(child, SIGKILL);
    if (Clock::now() > give_up) return false;
    // One that dies sends SIGCHLD, which is blocked here and may be pending already.
    sigset_t child_died;
    sigemptyset(&child_died);
    sigaddset(&child_died, SIGCHLD);
    const timespec a_moment = {0, 20'000'000};
    sigtimedwait(&child_died, nullptr, &a_moment);
  }
  return true;
}

}  // namespace tutti::tool
