#include "core/base/thread_pool.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/fork.h"
#include "core/base/run_task.h"

namespace tutti {

ThreadPool::ThreadPool(int max_threads, Log* log)
    : max_threads_(static_cast<size_t>(std::max(1, max_threads))),
      log_(log),
      fork_generation_(ForkGeneration()) {}

ThreadPool::~ThreadPool() = default;

// With the lock held. False when there is no thread at all that could run a task.
bool ThreadPool::StartThreadIfNeeded() {
  if (idle_ > queue_.size() || threads_.size() >= max_threads_) return true;
  Result<Thread> thread = Thread::Start("tutti-pool", [this] { Work(); });
  if (!thread.ok()) return !threads_.empty();
  threads_.push_back(std::move(thread).value());
  return true;
}

bool ThreadPool::Post(Task&& task) {
  if (ForkGeneration() != fork_generation_) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_ || !StartThreadIfNeeded()) return false;
  queue_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

uint64_t ThreadPool::PostAfter(int64_t delay_ns, Task&& task) {
  if (ForkGeneration() != fork_generation_) return 0;
  const Deadline due = Deadline::After(RealClock(), delay_ns);
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_ || !StartThreadIfNeeded()) return 0;
  const uint64_t timer = next_timer_++;
  timers_.emplace(std::make_pair(due.time_ns(), timer), std::move(task));
  due_.emplace(timer, due.time_ns());
  wake_.notify_one();
  return timer;
}

bool ThreadPool::CancelTimer(uint64_t timer) {
  if (ForkGeneration() != fork_generation_) return false;
  Task cancelled;  // destroyed after the lock is released
  std::lock_guard<std::mutex> lock(mutex_);
  const auto due = due_.find(timer);
  if (due == due_.end()) return false;
  const auto entry = timers_.find({due->second, timer});
  cancelled = std::move(entry->second);
  timers_.erase(entry);
  due_.erase(due);
  return true;
}

void ThreadPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    const int64_t now = RealClock().NowNs();
    while (!timers_.empty() && timers_.begin()->first.first <= now) {
      const auto first = timers_.begin();
      due_.erase(first->first.second);
      queue_.push_back(std::move(first->second));
      timers_.erase(first);
    }
    if (!queue_.empty()) {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      // This thread may have been the only one that looked after the rest: pass it on, to a new
      // thread if all are busy. Without one the rest waits for the first that is done.
      if (!stopping_ && (!queue_.empty() || !timers_.empty())) {
        (void)StartThreadIfNeeded();
        wake_.notify_one();
      }
      lock.unlock();
      (void)RunTask(&task, "executor", log_);
      lock.lock();
      continue;
    }
    if (stopping_) return;
    ++idle_;
    const int64_t until = timers_.empty() ? kNeverNs : timers_.begin()->first.first;
    // The real clock's wait never fails.
    (void)RealClock().Wait(lock, wake_, until);
    --idle_;
  }
}

Status ThreadPool::Stop(const CallOptions& options) {
  std::map<std::pair<int64_t, uint64_t>, Task> dropped;  // destroyed without the lock
  std::vector<Thread> threads;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    dropped.swap(timers_);
    due_.clear();
    wake_.notify_all();
    threads.swap(threads_);
  }
  dropped.clear();
  Status first;
  std::vector<Thread> left;
  for (Thread& thread : threads) {
    Status status = thread.Join(options);
    if (status.ok()) continue;
    if (first.ok()) first = std::move(status).WithPrefix("the executor");
    left.push_back(std::move(thread));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  threads_ = std::move(left);
  return first;
}

bool ThreadPool::HasThreads() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return !threads_.empty();
}

}  // namespace tutti
