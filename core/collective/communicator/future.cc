#include "core/collective/communicator/future.h"

#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/task.h"
#include "core/base/wait.h"
#include "core/collective/communicator/call_queue.h"

namespace tutti {

Future::Future(Ref<Environment> environment) : environment_(std::move(environment)) {}

Future::Future(Ref<Environment> environment, Ref<CallQueue> queue)
    : environment_(std::move(environment)), queue_(std::move(queue)) {}

Future::~Future() = default;

void Future::OnLastRelease() const noexcept {
  if (!environment_->LeftBehindByFork()) delete this;
}

Status Future::Complete(Status status, Ref<Value> value) {
  // Allowed after shutdown: somebody may still wait.
  if (environment_->LeftBehindByFork()) return environment_->CheckUsable("future complete");
  std::vector<Notification> notifications;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (IsDone()) {
      return FailedPrecondition("future complete: the future is done already; complete it once");
    }
    if (status.ok()) value_ = std::move(value);
    status_ = std::move(status);
    notifications.swap(notifications_);
    done_.store(true, std::memory_order_release);
    ready_.notify_all();
  }
  for (Notification& notification : notifications) Post(std::move(notification));
  return OkStatus();
}

Status Future::Wait(const CallOptions& options) const {
  if (IsDone()) {
    if (queue_) queue_->FoundDone();
    return OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed("future wait"));
  TUTTI_RETURN_IF_ERROR(environment_->CheckUsable("future wait"));
  if (queue_) queue_->Help(options, done_);
  std::unique_lock<std::mutex> lock(mutex_);
  return WaitUntil(lock, ready_, environment_->clock(), options, [this] { return IsDone(); },
                   "future wait");
}

Status Future::WaitUntilDone() const {
  if (IsDone()) return OkStatus();
  if (environment_->LeftBehindByFork()) return environment_->CheckUsable("future wait");
  std::unique_lock<std::mutex> lock(mutex_);
  return WaitUntil(lock, ready_, environment_->clock(), CallOptions(), [this] { return IsDone(); },
                   "future wait");
}

Status Future::GetResult(Ref<Value>* out) const {
  if (!IsDone()) {
    return FailedPrecondition("future result: the future is not done yet; wait for it first");
  }
  // Nothing changes once it is done.
  TUTTI_RETURN_IF_ERROR(status_);
  *out = value_;
  return OkStatus();
}

Status Future::OnReady(Notify notify, Ref<const HostData> user_data) {
  TUTTI_RETURN_IF_ERROR(environment_->CheckUsable("future on_ready"));
  if (notify == nullptr) {
    return InvalidArgument("future on_ready: the notification has no function");
  }
  Notification notification{notify, std::move(user_data)};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!IsDone()) {
      notifications_.push_back(std::move(notification));
      return OkStatus();
    }
  }
  Post(std::move(notification));
  return OkStatus();
}

void Future::Post(Notification notification) {
  Task task([notification = std::move(notification)]() mutable {
    notification.notify(notification.user_data ? notification.user_data->data() : nullptr);
    notification.user_data.reset();
  });
  if (environment_->callback_executor().Post(std::move(task))) return;
  CallbackScope scope(CallbackClass::kNotification);
  task();
}

}  // namespace tutti
