#include "core/cluster/control/control_strand.h"

#include <iterator>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/exception.h"
#include "core/base/fork.h"
#include "core/base/run_task.h"

namespace tutti {

ControlStrand::ControlStrand(Clock& clock, Log* log)
    : clock_(clock), log_(log), fork_generation_(ForkGeneration()) {}

bool ControlStrand::Post(Task&& task) {
  if (ForkGeneration() != fork_generation_) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (door_closed_) return false;
  queue_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

uint64_t ControlStrand::PostAfter(int64_t delay_ns, Task&& task) {
  if (ForkGeneration() != fork_generation_) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  return door_closed_ ? 0 : AddTimer(delay_ns, std::move(task), Whose::kUsers);
}

uint64_t ControlStrand::AddTimer(int64_t delay_ns, Task&& task, Whose whose) {
  const int64_t due_ns = Deadline::After(clock_, delay_ns).time_ns();
  const uint64_t timer = next_timer_++;
  timers_.emplace(TimerKey(due_ns, timer), Timer{std::move(task), whose});
  due_.emplace(timer, due_ns);
  wake_.notify_one();
  return timer;
}

bool ControlStrand::CancelTimer(uint64_t timer) {
  if (ForkGeneration() != fork_generation_) return false;
  Task cancelled;  // destroyed after the lock is released
  std::lock_guard<std::mutex> lock(mutex_);
  const auto due = due_.find(timer);
  if (due == due_.end()) return false;
  const auto entry = timers_.find({due->second, timer});
  cancelled = std::move(entry->second.task);
  timers_.erase(entry);
  due_.erase(due);
  return true;
}

void ControlStrand::PostEvent(Task task) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return;
  queue_.push_back(std::move(task));
  wake_.notify_one();
}

uint64_t ControlStrand::PostEventAfter(int64_t delay_ns, Task task) {
  std::lock_guard<std::mutex> lock(mutex_);
  return stopped_ ? 0 : AddTimer(delay_ns, std::move(task), Whose::kNetworks);
}

bool ControlStrand::CloseDoor() {
  std::vector<Task> dropped;  // destroyed after the lock is released
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto timer = timers_.begin(); timer != timers_.end();) {
    const auto next = std::next(timer);
    if (timer->second.whose == Whose::kUsers) {
      dropped.push_back(std::move(timer->second.task));
      due_.erase(timer->first.second);
      timers_.erase(timer);
    }
    timer = next;
  }
  return !std::exchange(door_closed_, true);
}

void ControlStrand::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
}

bool ControlStrand::IsCurrent() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return thread_ == std::this_thread::get_id();
}

// A timer that is due goes before the queue, but not twice in a row: timers without a delay that
// start themselves anew must not keep messages waiting.
bool ControlStrand::TakeNext(Task* task) {
  const bool due = !timers_.empty() && timers_.begin()->first.first <= clock_.NowNs();
  if (due && (!timer_ran_last_ || queue_.empty())) {
    const auto first = timers_.begin();
    *task = std::move(first->second.task);
    due_.erase(first->first.second);
    timers_.erase(first);
    timer_ran_last_ = true;
    return true;
  }
  timer_ran_last_ = false;
  if (queue_.empty()) return false;
  *task = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void ControlStrand::RunOne(Task* task) {
  const Status status = RunTask(task, "control", log_);
  if (status.ok() || !on_exception_) return;
  (void)CatchExceptions("control", [&] {
    on_exception_(status);
    return OkStatus();
  });
}

void ControlStrand::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  thread_ = std::this_thread::get_id();
  while (!stopped_) {
    Task task;
    if (TakeNext(&task)) {
      lock.unlock();
      RunOne(&task);
      lock.lock();
    } else {
      const int64_t until_ns = timers_.empty() ? kNeverNs : timers_.begin()->first.first;
      // A real clock's wait does not fail.
      [[maybe_unused]] const Status status = clock_.Wait(lock, wake_, until_ns);
    }
  }
  std::deque<Task> queue;
  std::map<TimerKey, Timer> timers;
  queue.swap(queue_);
  timers.swap(timers_);
  due_.clear();
  lock.unlock();
}

}  // namespace tutti
