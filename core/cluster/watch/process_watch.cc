#include "core/cluster/watch/process_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/round_guard.h"
#include "core/cluster/watch/process_facts.h"

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

ProcessWatch::ProcessWatch(Environment& environment, const WorkerInfo& self, OnEnd on_end)
    : environment_(environment), self_(self), on_end_(std::move(on_end)) {}

ProcessWatch::~ProcessWatch() = default;

Result<std::unique_ptr<ProcessWatch>> ProcessWatch::Start(Environment& environment,
                                                          const std::vector<WorkerInfo>& workers,
                                                          const WorkerInfo& self, OnEnd on_end,
                                                          const std::vector<uint64_t>& arrivals) {
  std::unique_ptr<ProcessWatch> watch(new ProcessWatch(environment, self, std::move(on_end)));
  for (size_t i = 0; i < workers.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(watch->Add(workers[i], i < arrivals.size() ? arrivals[i] : 0));
  }
  return watch;
}

Status ProcessWatch::Add(const WorkerInfo& info, uint64_t arrival) {
  if (info.worker == self_.worker || info.pid <= 0 || info.pid == self_.pid) return OkStatus();
  if (!SharesPids(info, self_)) return OkStatus();
  FileDescriptor process = OpenProcess(info.pid);
  const bool ended = !process && errno == ESRCH;
  if (!process && !ended) return OkStatus();
  // Only now that the descriptor holds on to the process can nobody else take its number.
  const std::optional<int64_t> start_time = process ? ProcessStartTime(info.pid) : std::nullopt;
  if (start_time.has_value() && info.pid_start_time != 0 && *start_time != info.pid_start_time) {
    process.Reset();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return OkStatus();
  if (!thread_.joinable()) {
    if (!wake_) wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) return ErrnoStatus(errno, "process watch: eventfd");
    TUTTI_ASSIGN_OR_RETURN(thread_,
                           environment_.StartThread("tutti-watch", [this] { Work(); }));
  }
  watched_.push_back({{info.worker, arrival}, std::move(process)});
  ++num_watched_;
  Wake();
  return OkStatus();
}

size_t ProcessWatch::num_watched() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return num_watched_;
}

void ProcessWatch::Wake() {
  const uint64_t one = 1;
  // The counter of an eventfd takes this at any time.
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void ProcessWatch::Work() {
  RoundGuard guard("process watch", environment_);
  for (bool last = false; !last;) {
    if (guard.Run([&] { last = Round(); })) continue;
    // It cannot be told any more, for lack of memory, and somebody waits for this thread.
    std::lock_guard<std::mutex> lock(mutex_);
    last = stopping_;
  }
}

// Whether it was the last one. What a round that threw owes comes with the next.
bool ProcessWatch::Round() {
  TellEnded();
  std::unique_lock<std::mutex> lock(mutex_);
  bool last = stopping_;  // what has ended by then is told
  bool waits = !last;
  polled_.assign(1, {wake_.get(), POLLIN, 0});
  for (const Watched& watched : watched_) {
    polled_.push_back({watched.process.get(), POLLIN, 0});
    if (!watched.process) waits = false;
  }
  ended_.reserve(polled_.size());
  lock.unlock();
  const bool failed =
      ::poll(polled_.data(), polled_.size(), waits ? -1 : 0) < 0 && errno != EINTR;
  uint64_t count = 0;
  if (polled_[0].revents != 0) (void)!::read(wake_.get(), &count, sizeof(count));
  lock.lock();
  if (failed) last = true;
  // More may have been added behind those that were polled.
  for (size_t i = 1, at = 0; i < polled_.size(); ++i) {
    if (watched_[at].process && (failed || polled_[i].revents == 0)) {
      ++at;
      continue;
    }
    ended_.push_back(watched_[at].member);
    watched_.erase(watched_.begin() + static_cast<ptrdiff_t>(at));
  }
  lock.unlock();
  TellEnded();
  return last;
}

void ProcessWatch::TellEnded() {
  while (!ended_.empty()) {
    on_end_(ended_.front(), "its process has ended");
    ended_.erase(ended_.begin());
  }
}

Status ProcessWatch::Stop(const CallOptions& options) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    if (!thread_.joinable()) return OkStatus();
    Wake();
  }
  return thread_.Join(options);
}

}  // namespace tutti
