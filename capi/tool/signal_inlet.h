// SignalInlet: the signals that the command passes on, taken from a descriptor instead of by
// handlers, so that one loop waits for everything.

#ifndef TUTTI_CAPI_TOOL_SIGNAL_INLET_H_
#define TUTTI_CAPI_TOOL_SIGNAL_INLET_H_

#include <signal.h>

#include <optional>
#include <string>

#include "capi/tool/owned_fd.h"

namespace tutti::tool {

class SignalInlet {
 public:
  // Blocks the signals from here on, and ignores SIGPIPE. One that was ignored when we started
  // stays ignored (nohup, a shell's background jobs).
  SignalInlet();

  // In a forked child: a descriptor of its own.
  void Renew();
  int fd() const { return fd_.get(); }
  // The next one that has arrived; SIGCHLD too.
  std::optional<int> Next();

  // In a child before exec: everything as it was when we started.
  void RestoreForExec() const;

  // What the kernel sends to a process of ours whose parent died (PR_SET_PDEATHSIG).
  static int ParentDiedSignal() { return SIGRTMIN + 3; }
  // Whether somebody wants the job to end.
  static bool EndsJob(int signal) { return signal == SIGINT || signal == SIGTERM; }

 private:
  sigset_t blocked_;
  sigset_t mask_before_;
  struct sigaction pipe_before_;
  OwnedFd fd_;
};

// "SIGKILL"; "signal 64" for one without a name.
std::string SignalName(int signal);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_SIGNAL_INLET_H_
