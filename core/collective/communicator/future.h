// Future: a value or an error that comes later. It is completed once, by the host or by an
// operation of ours; whether it is done and how it ended are asked apart.
//
//   Ref<Future> future = MakeRef<Future>(environment);
//   TUTTI_RETURN_IF_ERROR(future->OnReady(&Wake, MakeRef<HostData>(self, &Destroy, executor)));
//   TUTTI_RETURN_IF_ERROR(future->Complete(OkStatus(), value));
//
// Complete may be called on any thread; Wake(self) then runs on the callback thread.
//
// Who waits for the future of a queued call helps to run it: call_queue.h.
//
// Threads: any.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_FUTURE_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_FUTURE_H_

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/environment.h"
#include "core/base/host_data.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/value.h"

namespace tutti {

class CallQueue;

class Future final : public RefCounted {
 public:
  // Told that the future is done; `user_data` is the HostData's.
  using Notify = void (*)(void* user_data);

  explicit Future(Ref<Environment> environment);
  // Of a call that waits in `queue` for its turn.
  Future(Ref<Environment> environment, Ref<CallQueue> queue);

  // Completes it with a failed `status`, or else with `value` (null = none). FAILED_PRECONDITION
  // when it is done already.
  Status Complete(Status status, Ref<Value> value);

  Environment& environment() const noexcept { return *environment_; }
  bool IsDone() const noexcept { return done_.load(std::memory_order_acquire); }

  // OK once it is done, however it ended. DEADLINE_EXCEEDED and CANCELLED are those of the waiting
  // and leave the operation running; FAILED_PRECONDITION inside dataset and notification callbacks.
  Status Wait(const CallOptions& options) const;

  // Waits for who must not go before the operation has ended: without a limit, and while the
  // environment shuts down as well. Fails only where nobody can end it: in a forked child, and
  // where a simulation has nothing left to do.
  Status WaitUntilDone() const;

  // How it ended: the operation's error, or OK with the value (null for none). `out` is untouched
  // on failure. FAILED_PRECONDITION while it is not done.
  Status GetResult(Ref<Value>* out) const;

  // Calls notify(user_data->data()) once, on the callback executor, when the future is done; at
  // once if it is. `user_data` (may be null) is dropped afterwards, or instead when the future is
  // never completed or this fails. After shutdown it runs on the thread that completes the future.
  Status OnReady(Notify notify, Ref<const HostData> user_data);

 private:
  struct Notification {
    Notify notify;
    Ref<const HostData> user_data;
  };

  ~Future() override;
  // In a forked child it stays: threads of the parent may wait for it, and there its end would wait
  // for them.
  void OnLastRelease() const noexcept override;
  void Post(Notification notification);

  const Ref<Environment> environment_;
  const Ref<CallQueue> queue_;
  std::atomic<bool> done_{false};

  mutable std::mutex mutex_;  // guards all below
  mutable std::condition_variable ready_;
  Status status_;
  Ref<Value> value_;
  std::vector<Notification> notifications_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_FUTURE_H_
