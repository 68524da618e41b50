// CallQueue: whose turn it is among the calls of one rank. Calls run one at a time: a call on its
// caller's thread, or the next of the queued ones, on the queue's worker thread or on that of
// somebody who waits for one of them. A call on its caller's thread takes its turn behind those
// that were queued before it; where there are none, as mostly, one compare-and-swap lets it in.
//
// One word says it all:
//
//   word = queued calls that are not done * 4 | a caller waits for its turn * 2 | a caller calls
//
// A caller begins on its own by swapping 0 for "calls". So while calls are queued, none does, and
// who runs a queued call when no caller calls has it for itself. A caller who comes while calls are
// queued leaves a place in the queue; when it is at the front, "waits" is turned into "calls", and
// the queue goes on when the caller has ended. Words and flags are sequentially consistent: either
// who changes the word sees that somebody sleeps, or the sleeper sees the change.
//
// Who waits for a queued call runs the calls before it and the call itself, if they end no later
// than the waiting may: that takes no other thread, and so no switch between threads. Waiting that
// may end earlier leaves them to the worker and yields to it a few times before it sleeps, so that
// the worker need not wake it after each of many short calls.
//
// The worker is woken when a call is queued. Where waiters soon come, time after time, a worker
// without a core of its own would only be in their way: then it leaves the calls to them, and sees
// to the queue only once nobody has begun a call in a *nap*.

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_QUEUE_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/spin_wait.h"

namespace tutti {

class CallQueue final : public RefCounted {
 public:
  class Call {
   public:
    virtual ~Call() = default;
    // In its turn.
    virtual void Run() noexcept = 0;
    // Behind it: the turn is the next one's. Nothing but the queue is certain to be there still.
    virtual void Complete() noexcept = 0;
    // Whether it ends by itself before waiting with `options` has to.
    virtual bool EndsWithin(const CallOptions& options) const = 0;
  };

  // The clock outlives the queue's last call and waiter.
  explicit CallQueue(Clock& clock) : clock_(clock) {}

  // ---- Calls on their caller's thread ----

  // True when it is the caller's turn, until End.
  bool TryBegin() {
    uint64_t idle = 0;
    return word_.compare_exchange_strong(idle, kCalls);
  }
  enum class Place {
    kNone,   // another caller calls, or waits for its turn
    kFirst,  // it is the caller's turn, until End
    kBehind  // behind queued calls: AwaitTurn
  };
  // After TryBegin gave false.
  Place TakePlace();
  // Waits until the turn has come, until End. A failure is that of the waiting, or
  // FAILED_PRECONDITION when the worker has ended; it gives the place up.
  Status AwaitTurn(const CallOptions& options, std::string_view what);
  void End();

  // ---- Queued calls ----

  // The place of a call that is about to be queued: behind all that is there. Callers do not begin
  // on their own from now on, and while this lives nobody else gets a place, so that what is before
  // the call is known before it is pushed. Unless it is pushed the place is given up.
  class Announced {
   public:
    explicit Announced(CallQueue* queue)
        : queue_(queue), order_(queue->order_mutex_), before_(queue->word_.fetch_add(kQueued)) {}
    ~Announced() {
      if (order_.owns_lock()) queue_->Withdraw();
    }
    Announced(const Announced&) = delete;
    Announced& operator=(const Announced&) = delete;

    // A caller calls or waits for its turn.
    bool is_behind_caller() const { return (before_ & (kCalls | kWaits)) != 0; }
    bool is_behind_queued() const { return before_ >= kQueued; }
    // Once.
    void Push(std::unique_ptr<Call>&& call) {
      queue_->Push(std::move(call));
      order_.unlock();
    }

   private:
    CallQueue* const queue_;
    std::unique_lock<std::mutex> order_;
    const uint64_t before_;
  };
  // For who waits with `options` until the queued call that sets `done` is done: runs calls, or
  // sees that they are run. It may return before.
  void Help(const CallOptions& options, const std::atomic<bool>& done);
  // Who would have waited found its call done.
  void FoundDone() noexcept { pushed_since_waiter_.store(0, std::memory_order_relaxed); }
  // On the thread of a queued call that runs.
  bool RunsHere() const {
    return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // ---- The worker ----

  // Before Work. `cores_to_spare`: callers and workers can each have one.
  void Prepare(bool cores_to_spare);
  // Sees to the queued calls until Stop.
  void Work();
  // The worker ends when nothing is queued.
  void Stop();

  bool IsIdle() const { return word_.load() == 0; }
  // Waits until no call runs or is queued, with nobody making new ones.
  Status AwaitIdle(const CallOptions& options, std::string_view what);

 private:
  static constexpr uint64_t kCalls = 1;
  static constexpr uint64_t kWaits = 2;
  static constexpr uint64_t kQueued = 4;

  enum class Worker { kAwake, kNaps, kSleeps };

  ~CallQueue() override = default;

  void Withdraw();
  void Push(std::unique_ptr<Call>&& call);
  bool CallerCalls() const { return (word_.load() & kCalls) != 0; }
  void SpinForWork() const;
  void WakeIfDraining();
  void ErasePlace();  // with the lock held
  void GiveUpPlace();

  // With the lock held, also on return.
  bool CanRunNext() const {
    return !running_ && !queue_.empty() && queue_.front() != nullptr && !CallerCalls();
  }
  void RunNext(std::unique_lock<std::mutex>& lock);
  void GiveTurn();
  bool LeavesCallsToWaiters() const;
  void NoteWaiter(bool may_run_calls);
  void NotePrompt(bool prompt);
  // Runs calls for a waiter; false when there are some that it must leave to the worker.
  bool RunForWaiter(std::unique_lock<std::mutex>& lock, const CallOptions& options,
                    const std::atomic<bool>& done);
  // Whether the worker is to be notified, once the lock is free.
  [[nodiscard]] bool RouseWorker();
  void WorkerNaps(std::unique_lock<std::mutex>& lock);

  Clock& clock_;
  std::atomic<uint64_t> word_{0};
  std::atomic<bool> draining_{false};
  std::atomic<std::thread::id> runner_{};
  bool cores_to_spare_ = false;  // set before there is a worker

  std::mutex order_mutex_;  // held from taking a place in the word to being in queue_
  std::mutex mutex_;        // guards all below
  std::condition_variable work_;
  std::condition_variable turn_;
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Call>> queue_;  // null: the place of a caller
  bool running_ = false;                     // a queued call is, from Run to the end of Complete
  uint64_t num_begun_ = 0;
  std::atomic<bool> turn_has_come_{false};
  Worker worker_ = Worker::kAwake;
  int naps_without_calls_ = 0;
  bool urgent_ = false;  // somebody waits for queued calls that only the worker can run
  bool stopping_ = false;
  bool stopped_ = false;  // the worker has ended

  // How soon waiters have come.
  std::atomic<int64_t> pushed_since_waiter_{0};  // also without the lock
  int64_t pushed_before_waiter_ = 0;
  int64_t first_push_ns_ = 0;  // since the last waiter
  int64_t last_rouse_ns_ = 0;
  int prompt_waiters_ = 0;  // in a row

  std::atomic_flag spins_ = ATOMIC_FLAG_INIT;  // a waiter has the spin
  std::optional<SpinWait> spin_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_CALL_QUEUE_H_
