#include "capi/tool/job.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <utility>

#include "capi/tool/descendants.h"

namespace tutti::tool {
namespace {

constexpr Clock::duration kGraceAfterTerm = std::chrono::seconds(1);
constexpr Clock::duration kGraceOfLeftovers = std::chrono::milliseconds(500);
constexpr Clock::duration kJobUnkillable = std::chrono::seconds(5);
constexpr Clock::duration kTick = std::chrono::milliseconds(20);
// Between passing lines that tell the time.
constexpr Clock::duration kShowEach = std::chrono::seconds(1);
// How long the begin of a line waits for its end before people see it.
constexpr Clock::duration kLineWait = std::chrono::milliseconds(200);

}  // namespace

Job::Job(const RunOptions& options, std::optional<TimePoint> deadline, SignalInlet* signals,
         Console* console)
    : options_(options),
      deadline_(deadline),
      signals_(signals),
      console_(console),
      deaths_(epoll_create1(EPOLL_CLOEXEC)),
      input_open_(options.follows_input) {}

JobOutcome Job::Run(const CommandOf& command_of, int* restart) {
  command_of_ = &command_of;
  restart_ = restart;
  workers_.resize(options_.hosts.empty() ? static_cast<size_t>(options_.workers)
                                         : options_.hosts.size());
  for (size_t i = 0; i < workers_.size(); ++i) {
    const std::optional<SpawnFailure> failure = Start(i);
    if (!failure) continue;
    KillAllChildren();
    console_->Say(failure->error);
    console_->Flush();
    return {failure->exit_status, false};
  }
  if (options_.shows_waits) show_at_ = begin_ + kShowEach;
  while (num_running_ > 0) {
    Turn(NextWake());
    OnTime();
    if (options_.shows_waits) ShowWait();
  }
  console_->ShowPassing("");
  EndLeftovers();
  const JobOutcome outcome = Conclude();
  DrainOutput();
  return outcome;
}

std::optional<SpawnFailure> Job::Start(size_t index) {
  WorkerProcess& process = workers_[index].process;
  const WorkerCommand command = (*command_of_)(static_cast<int>(index), *restart_);
  if (auto failure = WorkerProcess::Start(command, *signals_, &process)) return failure;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = index;
  if (epoll_ctl(deaths_.get(), EPOLL_CTL_ADD, process.pidfd(), &event) != 0) {
    return SpawnFailure{1, fmt::format("cannot watch a worker: {}", std::strerror(errno))};
  }
  const int number = options_.first_worker() + static_cast<int>(index);
  // What runs on other hosts has its own prefixes.
  const std::string prefix =
      options_.prefix && options_.hosts.empty() ? fmt::format("[worker {}] ", number) : "";
  const auto errors = std::make_shared<ErrorTail>();
  workers_[index].errors = errors;
  LineCutter::Listener said, complained = [errors](std::string_view text) { errors->Add(text); };
  if (!options_.log_folder.empty() && options_.hosts.empty()) {
    const auto log = std::make_shared<WorkerLog>();
    std::string error = log->Open(options_.log_folder, number, *restart_);
    if (!error.empty()) console_->Say(error);
    said = [log](std::string_view text) { log->Write(text); };
    complained = [log, errors](std::string_view text) {
      log->Write(text);
      errors->Add(text);
    };
  }
  streams_.emplace_back(std::move(process.standard_output()), prefix, said, console_->out());
  streams_.emplace_back(std::move(process.standard_error()), prefix, complained, console_->err());
  ++num_running_;
  return std::nullopt;
}

bool Job::LeaderIsDone() const {
  const WorkerProcess& leader = workers_[0].process;
  return !leader.running() && !leader.end()->failed();
}

bool Job::Replace(size_t index, const WorkerStory& story) {
  if (!options_.elastic || index == 0 || stage_ != Stage::kRunning) return false;
  // A SIGHUP or SIGQUIT that the user sent has reached the others, too.
  if (ended_by_user_) return false;
  if (!workers_[0].process.running() || *restart_ == options_.max_restarts) return false;
  ++*restart_;
  // What it said last comes before what is said about it.
  ReadStreams(false);
  console_->Say(fmt::format("{}; starting another in its place ({} of {})",
                            DescribeFailure({WithError(story)}), *restart_,
                            options_.max_restarts));
  Worker former = std::exchange(workers_[index], Worker());
  const std::optional<SpawnFailure> failure = Start(index);
  if (!failure) {
    workers_[index].came_later = true;
    return true;
  }
  workers_[index] = std::move(former);
  console_->Say(failure->error);
  return false;
}

std::optional<TimePoint> Job::NextWake() const {
  const std::optional<TimePoint> next = stage_ == Stage::kRunning ? deadline_ : next_stage_at_;
  return next && show_at_ ? std::min(*next, *show_at_) : (next ? next : show_at_);
}

void Job::ShowWait() {
  const TimePoint now = Clock::now();
  std::string text;
  if (stage_ != Stage::kRunning) {
    show_at_.reset();
    if (num_running_ > 0) {
      text = fmt::format("waiting for {} of {} {} to end", num_running_, workers_.size(),
                         options_.hosts.empty() ? "workers" : "machines");
    }
  } else if (heard_) {
    show_at_.reset();
  } else {
    if (now < *show_at_) return;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(now - begin_);
    show_at_ = begin_ + seconds + kShowEach;
    text = fmt::format("{} of {} {} run; no output for {} s", num_running_, workers_.size(),
                       options_.hosts.empty() ? "workers" : "machines", seconds.count());
  }
  if (text != shown_ && console_->ShowPassing(text)) shown_ = text;
}

void Job::Turn(std::optional<TimePoint> wake) {
  for (const Stream& stream : streams_) {
    if (!stream.lines.has_partial() || stream.sink->full()) continue;
    wake = wake ? std::min(*wake, stream.pass_on_at) : stream.pass_on_at;
  }
  polled_.clear();
  polled_.push_back({signals_->fd(), POLLIN, 0});
  polled_.push_back({deaths_.get(), POLLIN, 0});
  if (input_open_) polled_.push_back({STDIN_FILENO, POLLIN, 0});
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
  PassOnPartialLines();
  console_->Flush();
  OnDeaths();
  ReadInput();
  while (const std::optional<int> signal = signals_->Next()) OnSignal(*signal);
}

void Job::ReadStreams(bool to_the_end) {
  char bytes[64 << 10];
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    bool open = !stream->sink->closed();
    while (open && !stream->sink->full()) {
      const ssize_t count = read(stream->fd.get(), bytes, sizeof(bytes));
      if (count > 0) {
        heard_ = true;
        stream->lines.Feed({bytes, static_cast<size_t>(count)}, stream->sink);
        stream->pass_on_at = Clock::now() + kLineWait;
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

void Job::PassOnPartialLines() {
  const TimePoint now = Clock::now();
  for (Stream& stream : streams_) {
    if (!stream.lines.has_partial() || stream.sink->full() || now < stream.pass_on_at) continue;
    stream.lines.PassOn(stream.sink);
  }
}

WorkerStory Job::WithError(const WorkerStory& story) const {
  WorkerStory told = story;
  told.error = workers_[static_cast<size_t>(story.worker)].errors->LastError();
  told.worker += options_.first_worker();
  if (!options_.hosts.empty()) told.noun = "node";
  return told;
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
    const WorkerStory story{static_cast<int>(index), worker.process.pid(),
                            worker.process.lifetime(), *worker.process.end(),
                            worker.asked_to_end, worker.killed, ""};
    if (story.end.failed() && Replace(index, story)) continue;
    if (story.end.failed() && worker.came_later && LeaderIsDone()) {
      console_->Say(DescribeFailure({WithError(story)}) +
                    ", too late for the job: worker 0 had ended");
      continue;
    }
    stories_.push_back(story);
    if (story.end.failed() && stage_ == Stage::kRunning) {
      stage_ = Stage::kLingering;
      next_stage_at_ = Clock::now() + options_.grace_after_failure;
    }
  }
  if (stage_ == Stage::kRunning && num_running_ > 0 && LeaderIsDone() &&
      std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
        return worker.came_later || !worker.process.running();
      })) {
    stage_ = Stage::kLingering;
    next_stage_at_ = Clock::now() + options_.grace_after_failure;
  }
  if (count > 0) ReapAdopted();
}

void Job::ReadInput() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (!input_open_ || poll(&input, 1, 0) <= 0) return;
  char bytes[256];
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {  // whoever started us is gone
    input_open_ = false;
    hurried_ = ended_by_user_ = true;
    return Kill();
  }
  input_.append(bytes, static_cast<size_t>(count));
  for (size_t end; (end = input_.find('\n')) != std::string::npos; input_.erase(0, end + 1)) {
    int signal = 0;
    std::from_chars(input_.data(), input_.data() + end, signal);
    if (signal > 0 && signal < SIGRTMIN && signal != SIGCHLD) OnSignal(signal);
  }
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
  const TimePoint give_up_at = kill_at + kJobUnkillable;
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
  for (WorkerStory& story : stories_) story = WithError(story);
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
