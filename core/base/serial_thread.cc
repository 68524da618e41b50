#include "core/base/serial_thread.h"

#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/closable.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/log.h"

namespace tutti {

SerialThread::SerialThread(std::string name)
    : name_(std::move(name)), fork_generation_(ForkGeneration()) {}

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
    task();
    task = Task();
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

QueueCallbackExecutor::QueueCallbackExecutor() : thread_("tutti-callback") {}
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

ReaperThread::ReaperThread() : thread_("tutti-reaper") {}
ReaperThread::~ReaperThread() = default;

void ReaperThread::Take(Closable* object) noexcept {
  thread_.Post([object] { Reap(object); });
}

Status ReaperThread::Stop(const CallOptions& options) {
  Status status = thread_.Stop(options);
  if (status.ok()) return status;
  return std::move(status).WithPrefix("the reaper is still closing a released object");
}

void Reap(Closable* object) noexcept {
  const Status status = object->Close(CallOptions::Default());
  if (status.ok()) {
    object->Release();
    return;
  }
  object->environment().log().Error(Format("{} was released without being closed, and cannot be "
                                           "closed now: {}",
                                           object->closable_name(), status.ToString()));
}

}  // namespace tutti
