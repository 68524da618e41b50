// ThreadPool: the real Executor. A thread starts when a task comes and no started thread is idle.
// Timers are kept in a sorted map; whichever thread is idle waits for the earliest.

#ifndef TUTTI_CORE_BASE_THREAD_POOL_H_
#define TUTTI_CORE_BASE_THREAD_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/executor.h"
#include "core/base/status.h"
#include "core/base/thread.h"

namespace tutti {

class Log;

class ThreadPool final : public Executor {
 public:
  // An exception of a task ends that task, and goes to `log`, which outlives the threads.
  ThreadPool(int max_threads, Log* log);

  bool Post(Task&& task) override;
  uint64_t PostAfter(int64_t delay_ns, Task&& task) override;
  bool CancelTimer(uint64_t timer) override;

  // Refuses new tasks, drops timers, runs what is queued, joins. Can be called again after it
  // failed.
  Status Stop(const CallOptions& options);
  bool HasThreads() const;

 private:
  ~ThreadPool() override;
  bool StartThreadIfNeeded();
  void Work();

  const size_t max_threads_;
  Log* const log_;
  const uint64_t fork_generation_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<Task> queue_;
  std::map<std::pair<int64_t, uint64_t>, Task> timers_;  // by due time, then id
  std::map<uint64_t, int64_t> due_;                      // timer id -> due time
  uint64_t next_timer_ = 1;
  size_t idle_ = 0;
  std::vector<Thread> threads_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_THREAD_POOL_H_
