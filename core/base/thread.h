// Thread: a named thread with all asynchronous signals blocked, joined by its owner.
//
// Only the signals that a fault of the thread itself raises (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
// SIGTRAP, SIGSYS) stay open: hosts like the JVM handle them. The name is cut to the kernel's 15
// characters.

#ifndef TUTTI_CORE_BASE_THREAD_H_
#define TUTTI_CORE_BASE_THREAD_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/base/task.h"

namespace tutti {

class Thread {
 public:
  Thread() noexcept;
  Thread(Thread&&) noexcept;
  Thread& operator=(Thread&&) noexcept;
  // The thread must have been joined (or have been left behind by a fork): joining is a decision,
  // never a side effect.
  ~Thread();

  // RESOURCE_EXHAUSTED when the system gives no thread.
  static Result<Thread> Start(std::string_view name, Task task);

  bool joinable() const noexcept { return state_ != nullptr; }
  // Waits for the end. FAILED_PRECONDITION on the thread itself; after DEADLINE_EXCEEDED it can be
  // called again. OK at once when there is nothing to join, and in a forked child, where the thread
  // does not exist.
  Status Join(const CallOptions& options);
  bool IsCurrent() const noexcept;
  // Gives the thread up without joining, for a process that exits.
  void Abandon() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_THREAD_H_
