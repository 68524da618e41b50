#include "core/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <cassert>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/wait.h"

namespace tutti {

struct Thread::State {
  pthread_t id{};
  std::string name;
  std::string end_of_it;  // for messages; made while there is memory
  Task task;
  uint64_t fork_generation = ForkGeneration();

  std::mutex mutex;  // guards finished
  std::condition_variable end;
  bool finished = false;
};

Thread::Thread() noexcept = default;
Thread::Thread(Thread&&) noexcept = default;

Thread& Thread::operator=(Thread&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Thread::~Thread() {
  assert((state_ == nullptr || state_->fork_generation != ForkGeneration()) &&
         "a thread was neither joined nor abandoned");
}

Result<Thread> Thread::Start(std::string_view name, Task task) {
  auto state = std::make_shared<State>();
  state->name = std::string(name.substr(0, 15));
  state->end_of_it = Format("the end of thread {}", state->name);
  state->task = std::move(task);
  auto argument = std::make_unique<std::shared_ptr<State>>(state);

  sigset_t blocked;
  sigset_t previous;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&blocked, fault);
  }
  // A new thread inherits the mask.
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  auto run = [](void* raw) -> void* {
    std::unique_ptr<std::shared_ptr<State>> handle(static_cast<std::shared_ptr<State>*>(raw));
    State& self = **handle;
    pthread_setname_np(pthread_self(), self.name.c_str());
    // Also when the host's code ends the thread (pthread_exit): nobody waits for it in vain.
    const struct End {
      State& self;
      ~End() {
        std::lock_guard<std::mutex> lock(self.mutex);
        self.finished = true;
        self.end.notify_all();
      }
    } end{self};
    self.task();
    self.task = Task();  // what it captured ends on its own thread
    return nullptr;
  };
  const int error = pthread_create(&state->id, nullptr, run, argument.get());
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (error != 0) {
    return ResourceExhausted("the system gives no thread for {}: {}; raise the limit (ulimit -u, "
                             "cgroup pids.max) or use fewer threads",
                             name, ErrnoStatus(error, "pthread_create").message());
  }
  (void)argument.release();  // the thread's
  Thread thread;
  thread.state_ = std::move(state);
  return thread;
}

Status Thread::Join(const CallOptions& options) {
  if (state_ == nullptr) return OkStatus();
  if (state_->fork_generation != ForkGeneration()) {
    state_.reset();
    return OkStatus();
  }
  if (IsCurrent()) return FailedPrecondition("thread {} cannot wait for itself", state_->name);
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    TUTTI_RETURN_IF_ERROR(WaitUntil(
        lock, state_->end, RealClock(), options, [&] { return state_->finished; },
        state_->end_of_it));
  }
  pthread_join(state_->id, nullptr);
  state_.reset();
  return OkStatus();
}

bool Thread::IsCurrent() const noexcept {
  return state_ != nullptr && pthread_equal(state_->id, pthread_self()) != 0;
}

void Thread::Abandon() noexcept { state_.reset(); }

}  // namespace tutti
