// Executors run tasks: Executor on a pool of threads with timers, CallbackExecutor on one thread
// that is reserved for calling the host back (destroy, on_ready). Threads start with the first
// task.

#ifndef TUTTI_CORE_BASE_EXECUTOR_H_
#define TUTTI_CORE_BASE_EXECUTOR_H_

#include <cstdint>

#include "core/base/ref.h"
#include "core/base/task.h"

namespace tutti {

// For the runtime's own work: short tasks that do not block for long and do not call the host.
class Executor : public RefCounted {
 public:
  // False after shutdown and in a forked child: the task was not taken (it is still in `task`) and
  // will not run.
  virtual bool Post(Task&& task) = 0;
  // Runs the task after `delay_ns`; tasks that are due together may run in any order or at the same
  // time. Returns a timer's id, 0 where Post would return false.
  virtual uint64_t PostAfter(int64_t delay_ns, Task&& task) = 0;
  // True when the timer's task had not started; it will not run, and is destroyed before this
  // returns.
  virtual bool CancelTimer(uint64_t timer) = 0;
};

// Runs tasks one after the other, in the order of posting, each in the notification class.
class CallbackExecutor : public RefCounted {
 public:
  // False after shutdown and in a forked child: the caller runs the task itself (it is still in
  // `task`).
  virtual bool Post(Task&& task) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_EXECUTOR_H_
