#include "capi/tool/job.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "capi/tool/descendants.h"

namespace tutti::tool {
namespace {

constexpr Clock::duration kGraceAfterTerm = std::chrono::seconds(1);
constexpr Clock::duration kGraceOfLeftovers = std::chrono::milliseconds(500);
constexpr Clock::duration kUnkillable = std::chrono::seconds(5);
constexpr Clock::duration kTick = std::chrono::milliseconds(20);

}  // namespace

Job::Job(const RunOptions& options, std::optional<TimePoint> deadline, SignalInlet* signals,
         Console* console)
    : options_(options),
      deadline_(deadline),
      signals_(signals),
      console_(console),
      deaths_(epoll_create1(EPOLL_CLOEXEC)) {}

JobOutcome Job::Run(const std::vector<WorkerCommand>& commands) {
  if (const std::optional<SpawnFailure> failure = Start(commands)) {
    KillAllChildren();
    console_->Say(failure->error);
    console_->Flush();
    return {failure->exit_status, false};
  }
  while (num_running_ > 0) {
    Turn(NextWake());
    OnTime();
  }
  EndLeftovers();
  const JobOutcome outcome = Conclude();
  DrainOutput();
  return outcome;
}

std::optional<SpawnFailure> Job::Start(const std::vector<WorkerCommand>& commands) {
  workers_.resize(commands.size());
  for (size_t i = 0; i < commands.size(); ++i) {
    WorkerProcess& process = workers_[i].process;
    if (auto failure = WorkerProcess::Start(commands[i], *signals_, &process)) return failure;
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (epoll_ctl(deaths_.get(), EPOLL_CTL_ADD, process.pidfd(), &event) != 0) {
      return SpawnFailure{1, fmt::format("cannot watch a worker: {}", std::strerror(errno))};
    }
    const std::string prefix = options_.prefix ? fmt::format("[worker {}] ", i) : "";
    streams_.emplace_back(std::move(process.standard_output()), prefix, console_->out());
    streams_.emplace_back(std::move(process.standard_error()), prefix, console_->err());
    ++num_running_;
  }
  return std::nullopt;
}

std::optional<TimePoint> Job::NextWake() const {
  if (stage_ == Stage::kRunning) return deadline_;
  return next_stage_at_;
}

void Job::Turn(std::optional<TimePoint> wake) {
  polled_.clear();
  polled_.push_back({signals_->fd(), POLLIN, 0});
  polled_.push_back({deaths_.get(), POLLIN, 0});
  for (OutputSink* sink : {console_->out(), console_->err()}) {
    if (!sink->empty()) polled_.push_back({sink->fd(), POLLOUT, 0});
  }
  for (const Stream& stream : streams_) {
    if (!stream.sink->full()) polled_.push_back({stream.fd.get(), POLLIN, 0});
  }
  int timeout_ms = -1;
  if (wake) {
    const auto left = std::chrono::ceil<Milliseconds>(*wake - Clock::now()).count();
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 3600 * 1000));
  }
  if (poll(polled_.data(), polled_.size(), timeout_ms) < 0 && errno != EINTR) {
    hurried_ = true;  // out of memory or of descriptors: nothing can be waited for any more
    return Kill();
  }
  ReadStreams(false);
  console_->Flush();
  OnDeaths();
  while (const std::optional<int> signal = signals_->Next()) OnSignal(*signal);
}

void Job::ReadStreams(bool to_the_end) {
  char bytes[64 << 10];
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    bool open = !stream->sink->closed();
    while (open && !stream->sink->full()) {
      const ssize_t count = read(stream->fd.get(), bytes, sizeof(bytes));
      if (count > 0) {
        stream->lines.Feed({bytes, static_cast<size_t>(count)}, stream->sink);
        if (!to_the_end) break;  // the others' turn
      } else if (count == 0 || errno != EINTR) {
        // With no process left, whoever still holds the other end is none of the job's.
        open = count < 0 && errno == EAGAIN && !to_the_end;
        break;
      }
    }
    if (!open) {
      stream->lines.Finish(stream->sink);
      stream = streams_.erase(stream);
    } else {
      ++stream;
    }
  }
}

void Job::OnDeaths() {
  epoll_event events[64];
  const int count = epoll_wait(deaths_.get(), events, std::size(events), 0);
  for (int i = 0; i < count; ++i) {
    const size_t index = events[i].data.u64;
    Worker& worker = workers_[index];
    worker.process.Reap();
    if (worker.process.running()) continue;
    --num_running_;
    stories_.push_back({static_cast<int>(index), worker.process.pid(), worker.process.lifetime(),
                        *worker.process.end(), worker.asked_to_end, worker.killed});
    if (worker.process.end()->failed() && stage_ == Stage::kRunning) {
      stage_ = Stage::kLingering;
      next_stage_at_ = Clock::now() + options_.grace_after_failure;
    }
  }
  if (count > 0) ReapAdopted();
}

void Job::ReapAdopted() {
  while (true) {
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // A worker waits for its turn in the order of deaths; OnDeaths calls us again.
    for (const Worker& worker : workers_) {
      if (worker.process.pid() == info.si_pid && worker.process.running()) return;
    }
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void Job::OnSignal(int signal) {
  if (signal == SIGCHLD) return ReapAdopted();
  if (signal == SignalInlet::ParentDiedSignal()) {
    hurried_ = ended_by_user_ = true;
    return Kill();
  }
  ended_by_user_ |= SignalInlet::EndsJob(signal) || signal == SIGHUP || signal == SIGQUIT;
  // With no worker left, what is being waited for are leftovers and a slow reader of our output.
  if (SignalInlet::EndsJob(signal) && (num_running_ == 0 || (signal == SIGINT && end_signal_))) {
    hurried_ = true;
    return Kill();
  }
  SignalWorkers(signal);
  if (!SignalInlet::EndsJob(signal) || end_signal_) return;
  end_signal_ = signal;
  if (stage_ >= Stage::kTerminating) return;
  stage_ = Stage::kTerminating;
  next_stage_at_ = Clock::now() + options_.grace_after_signal;
  console_->Say(fmt::format("{}: the workers have {} to end{}", SignalName(signal),
                            FormatDuration(options_.grace_after_signal),
                            signal == SIGINT ? "; a second one kills them" : ""));
}

void Job::OnTime() {
  const TimePoint now = Clock::now();
  if (stage_ == Stage::kRunning) {
    if (!deadline_ || now < *deadline_) return;
    timed_out_ = true;
    Terminate(kGraceAfterTerm);
  } else if (next_stage_at_ && now >= *next_stage_at_) {
    if (stage_ == Stage::kLingering) {
      Terminate(kGraceAfterTerm);
    } else {
      Kill();
    }
  }
}

void Job::SignalWorkers(int signal) {
  for (Worker& worker : workers_) worker.process.Signal(signal);
}

void Job::Terminate(Clock::duration grace) {
  for (Worker& worker : workers_) worker.asked_to_end |= worker.process.running();
  SignalWorkers(SIGTERM);
  stage_ = Stage::kTerminating;
  next_stage_at_ = Clock::now() + grace;
}

void Job::Kill() {
  for (Worker& worker : workers_) worker.killed |= worker.process.running();
  SignalWorkers(SIGKILL);
  stage_ = Stage::kKilled;
  next_stage_at_.reset();
}

void Job::EndLeftovers() {
  const TimePoint kill_at = Clock::now() + kGraceOfLeftovers;
  const TimePoint give_up_at = kill_at + kUnkillable;
  std::set<pid_t> asked;
  while (ReapEndedChildren()) {
    const TimePoint now = Clock::now();
    const std::vector<pid_t> left = ChildrenOfThisProcess();
    if (now > give_up_at) {
      console_->Say(fmt::format("{} processes that the workers left behind cannot be killed: {}",
                                left.size(), fmt::join(left, ", ")));
      return;
    }
    for (pid_t pid : left) {
      if (hurried_ || now >= kill_at) {
        kill(pid, SIGKILL);
      } else if (asked.insert(pid).second) {
        kill(pid, SIGTERM);
        kill(pid, SIGCONT);
      }
    }
    Turn(now + kTick);
  }
}

void Job::DrainOutput() {
  while (true) {
    ReadStreams(true);
    console_->Flush();
    if ((streams_.empty() && console_->empty()) || hurried_) return;
    Turn(std::nullopt);
  }
}

JobOutcome Job::Conclude() {
  // What the workers said last comes before what is said about them.
  ReadStreams(true);
  const WorkerStory* first = FirstFailure(stories_);
  if (timed_out_) {
    console_->Say(fmt::format("the time limit of {} is over{}", FormatDuration(*options_.timeout),
                              first != nullptr ? "; " + DescribeFailure(stories_) : ""));
    return {124, false};
  }
  if (first == nullptr) return {0, false};
  console_->Say(DescribeFailure(stories_));
  return {first->end.exit_status(), !ended_by_user_};
}

}  // namespace tutti::tool
