#include "capi/tool/signal_inlet.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/signalfd.h>

namespace tutti::tool {

SignalInlet::SignalInlet() {
  sigemptyset(&blocked_);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaddset(&blocked_, signal);
  }
  sigaddset(&blocked_, SIGCHLD);
  sigaddset(&blocked_, ParentDiedSignal());

  // The supervisor is in a process group of its own and yet writes to the terminal.
  sigset_t blocked = blocked_;
  sigaddset(&blocked, SIGTTOU);
  sigprocmask(SIG_BLOCK, &blocked, &mask_before_);

  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &pipe_before_);
  action.sa_handler = SIG_DFL;  // an inherited SIG_IGN would reap our children behind our back
  sigaction(SIGCHLD, &action, nullptr);
  Renew();
}

void SignalInlet::Renew() { fd_.Reset(signalfd(-1, &blocked_, SFD_CLOEXEC | SFD_NONBLOCK)); }

std::optional<int> SignalInlet::Next() {
  signalfd_siginfo info = {};
  if (read(fd_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

void SignalInlet::RestoreForExec() const {
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace tutti::tool
