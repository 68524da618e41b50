#include "core/cluster/process_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/cluster/process_facts.h"

namespace tutti {
namespace {

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434  // the same on all architectures
#endif

bool SharesPids(const WorkerInfo& a, const WorkerInfo& b) {
  return !a.boot_id.empty() && a.boot_id == b.boot_id && !a.pid_namespace.empty() &&
         a.pid_namespace == b.pid_namespace;
}

// Close-on-exec, as all pidfds are.
FileDescriptor OpenProcess(int64_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

}  // namespace

ProcessWatch::ProcessWatch(OnEnd on_end) : on_end_(std::move(on_end)) {}

ProcessWatch::~ProcessWatch() = default;

Result<std::unique_ptr<ProcessWatch>> ProcessWatch::Start(Environment& environment,
                                                          const std::vector<WorkerInfo>& workers,
                                                          const WorkerInfo& self, OnEnd on_end) {
  std::unique_ptr<ProcessWatch> watch(new ProcessWatch(std::move(on_end)));
  for (const WorkerInfo& info : workers) {
    if (info.worker == self.worker || info.pid <= 0 || info.pid == self.pid) continue;
    if (!SharesPids(info, self)) continue;
    FileDescriptor process = OpenProcess(info.pid);
    const bool ended = !process && errno == ESRCH;
    if (!process && !ended) continue;
    // Only now that the descriptor holds on to the process can nobody else take its number.
    const std::optional<int64_t> start_time = process ? ProcessStartTime(info.pid) : std::nullopt;
    if (start_time.has_value() && info.pid_start_time != 0 && *start_time != info.pid_start_time) {
      process.Reset();
    }
    watch->watched_.push_back({info.worker, std::move(process)});
  }
  watch->num_watched_ = watch->watched_.size();
  if (watch->watched_.empty()) return watch;
  watch->stop_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watch->stop_) return ErrnoStatus(errno, "process watch: eventfd");
  TUTTI_ASSIGN_OR_RETURN(watch->thread_, environment.StartThread(
                                             "tutti-watch", [raw = watch.get()] { raw->Work(); }));
  return watch;
}

void ProcessWatch::Work() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.clear();
    polled.push_back({stop_.get(), POLLIN, 0});
    for (size_t i = 0; i < watched_.size();) {
      if (watched_[i].process) {
        polled.push_back({watched_[i].process.get(), POLLIN, 0});
        ++i;
        continue;
      }
      const int64_t worker = watched_[i].worker;
      watched_.erase(watched_.begin() + static_cast<ptrdiff_t>(i));
      on_end_(worker, "its process has ended");
    }
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (size_t i = 0; i < watched_.size(); ++i) {
      if (polled[i + 1].revents != 0) watched_[i].process.Reset();
    }
  }
}

Status ProcessWatch::Stop(const CallOptions& options) {
  if (!thread_.joinable()) return OkStatus();
  const uint64_t one = 1;
  // The counter of an eventfd takes this at any time.
  (void)!::write(stop_.get(), &one, sizeof(one));
  return thread_.Join(options);
}

}  // namespace tutti
