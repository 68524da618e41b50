// ControlStrand: the queue and the timers of a real control network; one thread works them off, one
// at a time, in order.

#ifndef TUTTI_CORE_CLUSTER_CONTROL_CONTROL_STRAND_H_
#define TUTTI_CORE_CLUSTER_CONTROL_CONTROL_STRAND_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/task.h"

namespace tutti {

class Log;

class ControlStrand {
 public:
  // What a task throws, as for lack of memory, ends that task, and goes to `log`, which outlives
  // the strand, and to whom OnException names.
  ControlStrand(Clock& clock, Log* log);
  ControlStrand(const ControlStrand&) = delete;
  ControlStrand& operator=(const ControlStrand&) = delete;

  // For users. False (0) once the door is closed, and in a forked child; the task is still in
  // `task` then.
  bool Post(Task&& task);
  uint64_t PostAfter(int64_t delay_ns, Task&& task);
  // True when the task had not started; it will not run.
  bool CancelTimer(uint64_t timer);

  // For the network's own events, which come until the end; after Stop they are dropped.
  void PostEvent(Task task);
  uint64_t PostEventAfter(int64_t delay_ns, Task task);
  // No task and no timer of users is taken any more, and none of their timers that wait runs: what
  // they would use is about to go. True for the first call.
  bool CloseDoor();

  // Before Run. `told` is called on the strand, behind a task that has thrown.
  void OnException(std::function<void(const Status&)> told) { on_exception_ = std::move(told); }
  // Works until Stop. What is left then is destroyed unrun.
  void Run();
  // From the strand.
  void Stop();
  bool IsCurrent() const;

 private:
  using TimerKey = std::pair<int64_t, uint64_t>;  // due, id

  enum class Whose { kUsers, kNetworks };
  struct Timer {
    Task task;
    Whose whose;
  };

  uint64_t AddTimer(int64_t delay_ns, Task&& task, Whose whose);
  bool TakeNext(Task* task);

  void RunOne(Task* task);

  Clock& clock_;
  Log* const log_;
  std::function<void(const Status&)> on_exception_;
  const uint64_t fork_generation_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::thread::id thread_;
  std::deque<Task> queue_;
  std::map<TimerKey, Timer> timers_;
  std::unordered_map<uint64_t, int64_t> due_;  // of the timers by their ids
  uint64_t next_timer_ = 1;
  bool timer_ran_last_ = false;
  bool door_closed_ = false;
  bool stopped_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_CONTROL_CONTROL_STRAND_H_
