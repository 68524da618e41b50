// SerialThread: one thread and a queue that it works off in order. It starts with the first item.
// Callback executor and reaper are made of it.

#ifndef TUTTI_CORE_BASE_SERIAL_THREAD_H_
#define TUTTI_CORE_BASE_SERIAL_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "core/base/call_options.h"
#include "core/base/executor.h"
#include "core/base/reaper.h"
#include "core/base/status.h"
#include "core/base/task.h"
#include "core/base/thread.h"

namespace tutti {

class Log;

class SerialThread {
 public:
  // An exception of a task ends that task, and goes to `log`, which outlives the thread.
  SerialThread(std::string name, Log* log);
  ~SerialThread();
  SerialThread(const SerialThread&) = delete;
  SerialThread& operator=(const SerialThread&) = delete;

  // False after Stop, in a forked child and when the system gives no thread; the task is still in
  // `task` then.
  bool Post(Task&& task);
  // Refuses new tasks, runs what is queued, joins. Can be called again after it failed.
  Status Stop(const CallOptions& options);
  bool HasThread() const;

 private:
  void Work();

  const std::string name_;
  Log* const log_;
  const uint64_t fork_generation_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  bool stopping_ = false;
  bool joining_ = false;
  std::deque<Task> queue_;
  Thread thread_;
};

// The real CallbackExecutor.
class QueueCallbackExecutor final : public CallbackExecutor {
 public:
  explicit QueueCallbackExecutor(Log* log);

  bool Post(Task&& task) override;
  Status Stop(const CallOptions& options);
  bool HasThread() const { return thread_.HasThread(); }

 private:
  ~QueueCallbackExecutor() override;

  SerialThread thread_;
};

// The real Reaper.
class ReaperThread final : public Reaper {
 public:
  explicit ReaperThread(Log* log);
  ~ReaperThread() override;

  void Take(Closable* object) noexcept override;
  Status AwaitTakenBefore(const Closable& self, const CallOptions& options) override;
  Status Stop(const CallOptions& options);
  bool HasThread() const { return thread_.HasThread(); }

 private:
  bool Post(Closable* object) noexcept;
  void CloseTaken(Closable* object) noexcept;

  SerialThread thread_;
  std::mutex mutex_;  // guards all below
  std::condition_variable closed_;
  std::deque<const Closable*> taken_;  // and not yet closed, in their order
  uint64_t num_closed_ = 0;
};

// Closes `object` and gives up the reference that the reaper owns. What cannot be closed is left
// alone, and logged.
void Reap(Closable* object) noexcept;

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_SERIAL_THREAD_H_
