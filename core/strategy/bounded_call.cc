#include "core/strategy/bounded_call.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/base/closable.h"
#include "core/base/exception.h"
#include "core/base/task.h"
#include "core/base/thread.h"
#include "core/base/wait.h"

namespace tutti {

namespace {

class CallThread final : public Closable {
 public:
  using Work = std::function<void(Cancellation&)>;

  CallThread(Ref<Environment> environment, const std::string& what)
      : Closable(std::move(environment), what), stop_(MakeRef<Cancellation>()) {}

  Status Start(Work work) {
    TUTTI_RETURN_IF_ERROR(Register());
    return StartUnlessClosed([&]() -> Status {
      Task task([self = Ref<CallThread>::Retain(this), work = std::move(work)]() mutable {
        self->Call(std::move(work));
      });
      TUTTI_ASSIGN_OR_RETURN(thread_, environment().StartThread("tutti-ops", std::move(task)));
      return OkStatus();
    });
  }

  // The work's end, or why nobody waits for it any more.
  Status Await(const CallOptions& options) {
    std::unique_lock<std::mutex> lock(mutex_);
    Status status = WaitUntil(
        lock, ended_, environment().clock(), options, [&] { return has_ended_; },
        closable_name());
    if (status.ok()) return std::move(status_);
    lock.unlock();
    stop_->Cancel(status);
    return status;
  }

 protected:
  Status OnClose(const CallOptions& options) override {
    stop_->Cancel();
    return thread_.Join(options);
  }

 private:
  void Call(Work work) {
    IfThreadEnds ends(closable_name(), [&](Status why) { End(std::move(why)); });
    Status status = CatchExceptions(closable_name(), [&] {
      work(*stop_);
      return OkStatus();
    });
    ends.Stays();
    End(std::move(status));
  }

  void End(Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = std::move(status);
    has_ended_ = true;
    ended_.notify_all();
  }

  const Ref<Cancellation> stop_;
  Thread thread_;  // of Start, then of OnClose

  std::mutex mutex_;  // guards all below
  std::condition_variable ended_;
  bool has_ended_ = false;
  Status status_;
};

}  // namespace

Status CallWithin(Ref<Environment> environment, const CallOptions& options,
                  const std::string& what, std::function<void(Cancellation&)> work) {
  TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment->clock(), what));
  const auto thread = MakeRef<CallThread>(std::move(environment), what);
  TUTTI_RETURN_IF_ERROR(thread->Start(std::move(work)));
  TUTTI_RETURN_IF_ERROR(thread->Await(options));
  return thread->Close(CallOptions::Default());
}

}  // namespace tutti
