#include "capi/tool/guard.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "capi/tool/descendants.h"

namespace tutti::tool {
namespace {

// The wait status of `supervisor` once it has ended. Reaps whatever else comes to us.
std::optional<int> EndOf(pid_t supervisor) {
  while (true) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid == supervisor) return status;
    if (pid <= 0) return std::nullopt;
  }
}

int WaitFor(pid_t supervisor, SignalInlet* signals) {
  while (true) {
    pollfd inlet = {signals->fd(), POLLIN, 0};
    poll(&inlet, 1, -1);
    while (const std::optional<int> signal = signals->Next()) {
      if (*signal != SIGCHLD) {
        kill(supervisor, *signal);
      } else if (const std::optional<int> status = EndOf(supervisor)) {
        return *status;
      }
    }
  }
}

}  // namespace

int RunGuarded(const std::string& command, SignalInlet* signals,
               const std::function<int()>& supervise) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t guard = getpid();
  const pid_t supervisor = fork();
  if (supervisor < 0) {
    fmt::print(stderr, "{}: cannot start a process: {}\n", command, std::strerror(errno));
    return 1;
  }
  if (supervisor == 0) {
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SignalInlet::ParentDiedSignal());
    if (getppid() != guard) _exit(1);  // it died before the line above
    signals->Renew();
    const int status = supervise();
    std::fflush(nullptr);
    _exit(status);
  }
  const int status = WaitFor(supervisor, signals);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  KillAllChildren();
  fmt::print(stderr,
             "{}: the process that supervised the job was killed by {}; the job was ended\n",
             command, SignalName(WTERMSIG(status)));
  return 128 + WTERMSIG(status);
}

}  // namespace tutti::tool
