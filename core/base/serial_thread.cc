#include "core/base/serial_thread.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/closable.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/fork.h"
#include "core/base/log.h"
#include "core/base/run_task.h"
#include "core/base/wait.h"

namespace tutti {
namespace {

thread_local bool reaps = false;

}  // namespace

SerialThread::SerialThread(std::string name, Log* log)
    : name_(std::move(name)), log_(log), fork_generation_(ForkGeneration()) {}

SerialThread::~SerialThread() = default;

bool SerialThread::Post(Task&& task) {
  if (ForkGeneration() != fork_generation_) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return false;
  if (!thread_.joinable()) {
    Result<Thread> thread = Thread::Start(name_, [this] { Work(); });
    if (!thread.ok()) return false;
    thread_ = std::move(thread).value();
  }
  queue_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

void SerialThread::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    (void)RunTask(&task, name_, log_);
    lock.lock();
  }
}

Status SerialThread::Stop(const CallOptions& options) {
  Thread thread;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    std::swap(thread, thread_);
    joining_ = thread.joinable();
  }
  Status status = thread.Join(options);
  std::lock_guard<std::mutex> lock(mutex_);
  thread_ = std::move(thread);
  joining_ = false;
  return status;
}

bool SerialThread::HasThread() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return joining_ || thread_.joinable();
}

QueueCallbackExecutor::QueueCallbackExecutor(Log* log) : thread_("tutti-callback", log) {}
QueueCallbackExecutor::~QueueCallbackExecutor() = default;

bool QueueCallbackExecutor::Post(Task&& task) {
  // A refused task must still be the caller's, so it travels in a box.
  struct Boxed {
    Task task;
    void operator()() {
      CallbackScope scope(CallbackClass::kNotification);
      task();
      task = Task();
    }
  };
  auto box = std::make_shared<Boxed>(Boxed{std::move(task)});
  if (thread_.Post([box] { (*box)(); })) return true;
  task = std::move(box->task);
  return false;
}

Status QueueCallbackExecutor::Stop(const CallOptions& options) {
  Status status = thread_.Stop(options);
  if (status.ok()) return status;
  return std::move(status).WithPrefix("a destroy or on_ready callback has not returned");
}

ReaperThread::ReaperThread(Log* log) : thread_("tutti-reaper", log) {}
ReaperThread::~ReaperThread() = default;

void ReaperThread::Take(Closable* object) noexcept {
  // On its way here a shutdown may have closed it, and stopped the thread: then it only has to go.
  if (!Post(object)) object->LeaveReferenceToClose();
}

// Without memory for it the object keeps the reference, until a shutdown closes it.
bool ReaperThread::Post(Closable* object) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  bool posted = false;
  const Status status = CatchExceptions("reaper", [&] {
    taken_.push_back(object);
    const struct Undo {
      ReaperThread& self;
      const bool& posted;
      ~Undo() {
        if (!posted) self.taken_.pop_back();
      }
    } undo{*this, posted};
    posted = thread_.Post([this, object] { CloseTaken(object); });
    return OkStatus();
  });
  return status.ok() && posted;
}

void ReaperThread::CloseTaken(Closable* object) noexcept {
  reaps = true;
  Reap(object);
  reaps = false;
  std::lock_guard<std::mutex> lock(mutex_);
  taken_.pop_front();
  ++num_closed_;
  closed_.notify_all();
}

Status ReaperThread::AwaitTakenBefore(const Closable& self, const CallOptions& options) {
  if (reaps) return OkStatus();
  std::unique_lock<std::mutex> lock(mutex_);
  const auto before = std::find(taken_.begin(), taken_.end(), &self) - taken_.begin();
  const uint64_t due = num_closed_ + static_cast<uint64_t>(before);
  return WaitUntil(lock, closed_, self.environment().clock(), options,
                   [&] { return num_closed_ >= due; }, "closing of released objects");
}

Status ReaperThread::Stop(const CallOptions& options) {
  Status status = thread_.Stop(options);
  if (status.ok()) return status;
  return std::move(status).WithPrefix("the reaper is still closing a released object");
}

void Reap(Closable* object) noexcept {
  const Status status =
      CatchExceptions("reaper", [&] { return object->Close(CallOptions::Default()); });
  if (status.ok()) {
    object->Release();
    return;
  }
  (void)CatchExceptions("reaper", [&] {
    object->environment().log().Error(Format("{} was released without being closed, and cannot be "
                                             "closed now: {}",
                                             object->closable_name(), status.ToString()));
    return OkStatus();
  });
}

}  // namespace tutti
