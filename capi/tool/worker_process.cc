#include "capi/tool/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include "capi/tool/program_path.h"

namespace tutti::tool {
namespace {

struct Pipe {
  OwnedFd read_end, write_end;

  bool Open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return false;
    read_end.Reset(fds[0]);
    write_end.Reset(fds[1]);
    return true;
  }
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork and exec; returns errno when the program could not be started.
int BecomeWorker(const WorkerCommand& command, const SignalInlet& signals, pid_t parent,
                 int null_fd, int out_fd, int err_fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above; then nobody would tell us.
  if (getppid() != parent) _exit(kExitNotFound);
  if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0 ||
      dup2(err_fd, STDERR_FILENO) < 0) {
    return errno;
  }
  setrlimit(RLIMIT_NOFILE, &command.open_files);
  std::vector<char*> arguments = Pointers(command.arguments);
  const std::vector<char*> environment = Pointers(command.environment);
  signals.RestoreForExec();
  execve(command.path.c_str(), arguments.data(), environment.data());
  if (errno != ENOEXEC) return errno;
  // A script without a #! line is the shell's, as execvp has it.
  std::string shell = "/bin/sh", script = command.path;
  arguments[0] = script.data();
  arguments.insert(arguments.begin(), shell.data());
  execve(shell.c_str(), arguments.data(), environment.data());
  return errno;
}

SpawnFailure CannotExecute(const std::string& path, int error) {
  if (error == ENOENT) {
    return {kExitNotFound,
            fmt::format("cannot execute {}: the interpreter that its first line names, or its "
                        "loader, is not there",
                        path)};
  }
  return {kExitCannotExecute, fmt::format("cannot execute {}: {}", path, std::strerror(error))};
}

}  // namespace

std::optional<SpawnFailure> WorkerProcess::Start(const WorkerCommand& command,
                                                 const SignalInlet& signals,
                                                 WorkerProcess* worker) {
  Pipe in, out, err, failure;
  const OwnedFd null_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_fd.valid() || (command.told_by_input && !in.Open()) || !out.Open() || !err.Open() ||
      !failure.Open()) {
    return SpawnFailure{1, fmt::format("cannot open a worker's pipes: {}", std::strerror(errno))};
  }
  fcntl(out.read_end.get(), F_SETFL, O_NONBLOCK);
  fcntl(err.read_end.get(), F_SETFL, O_NONBLOCK);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return SpawnFailure{1, fmt::format("cannot start a process: {}", std::strerror(errno))};
  }
  if (pid == 0) {
    const int error =
        BecomeWorker(command, signals, parent,
                     command.told_by_input ? in.read_end.get() : null_fd.get(),
                     out.write_end.get(), err.write_end.get());
    // Close-on-exec: whoever reads the other end learns by its end that exec succeeded.
    [[maybe_unused]] const ssize_t count = write(failure.write_end.get(), &error, sizeof(error));
    _exit(kExitNotFound);
  }
  failure.write_end.Reset();
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(failure.read_end.get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  worker->pidfd_.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const int pidfd_error = errno;
  if (count == sizeof(error) || !worker->pidfd_.valid()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    if (count == sizeof(error)) return CannotExecute(command.path, error);
    return SpawnFailure{1, fmt::format("cannot watch a worker: pidfd_open: {}; Linux 5.3 has it",
                                       std::strerror(pidfd_error))};
  }
  worker->pid_ = pid;
  worker->standard_input_ = std::move(in.write_end);
  worker->started_ = Clock::now();
  worker->standard_output_ = std::move(out.read_end);
  worker->standard_error_ = std::move(err.read_end);
  return std::nullopt;
}

void WorkerProcess::Signal(int signal) const {
  if (!running()) return;
  if (standard_input_.valid() && signal != SIGKILL) {
    const std::string line = fmt::format("{}\n", signal);
    [[maybe_unused]] const ssize_t count =
        write(standard_input_.get(), line.data(), line.size());
    return;
  }
  kill(-pid_, signal);
  // A process that is stopped takes no signal but SIGKILL.
  if (signal == SIGTERM || signal == SIGINT) kill(-pid_, SIGCONT);
}

void WorkerProcess::Reap() {
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0) return;
  ended_ = Clock::now();
  end_ = ProcessEnd{info.si_code != CLD_EXITED, info.si_status, info.si_code == CLD_DUMPED};
  pidfd_.Reset();
  standard_input_.Reset();
}

}  // namespace tutti::tool
