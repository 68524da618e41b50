// CallQueue: whose turn it is among the calls of one rank. Calls run one at a time: a call on its
// caller's thread, or the next of the queued ones on the queue's worker thread. A call on its
// caller's thread takes its turn behind those that were queued before it; where there are none, as
// mostly, one compare-and-swap lets it in.
//
// One word says it all:
//
//   word = queued calls that are not done * 4 | a caller waits for its turn * 2 | a caller calls
//
// A caller begins on its own by swapping 0 for "calls". So while calls are queued, none does, and
// the worker, which runs a queued call when no caller calls, has it for itself. A caller who comes
// while calls are queued leaves a place in the queue; when the worker gets there it turns "waits"
// into "calls" and goes on when the caller has ended. Words and flags are sequentially consistent:
// either who changes the word sees that somebody sleeps, or the sleeper sees the change.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_QUEUE_H_
#define TUTTI_CORE_COLLECTIVE_CALL_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/status.h"

namespace tutti {

class CallQueue {
 public:
  class Call {
   public:
    virtual ~Call() = default;
    // In its turn, on the worker.
    virtual void Run() = 0;
    // Behind it: the turn is the next one's.
    virtual void Complete() = 0;
  };

  CallQueue() = default;
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

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
  Status AwaitTurn(Clock& clock, const CallOptions& options, std::string_view what);
  void End();

  // ---- Queued calls ----

  // Announced calls keep callers from beginning on their own; each is to be pushed or withdrawn.
  // Gives what is before it.
  struct Ahead {
    bool caller;
    bool queued;
  };
  Ahead Announce() {
    const uint64_t word = word_.fetch_add(kQueued);
    return Ahead{(word & (kCalls | kWaits)) != 0, word >= kQueued};
  }
  void Withdraw();
  void Push(std::unique_ptr<Call> call);

  // ---- The worker ----

  // Runs the queued calls until Stop. `spin`: it may wait for a few microseconds on a core.
  void Work(bool spin);
  bool OnWorker() const { return worker_.load() == std::this_thread::get_id(); }
  // The worker ends when nothing is queued.
  void Stop();

  bool IsIdle() const { return word_.load() == 0; }
  // Waits until no call runs or is queued, with nobody making new ones.
  Status AwaitIdle(Clock& clock, const CallOptions& options, std::string_view what);

 private:
  static constexpr uint64_t kCalls = 1;
  static constexpr uint64_t kWaits = 2;
  static constexpr uint64_t kQueued = 4;

  bool CallerCalls() const { return (word_.load() & kCalls) != 0; }
  void SpinForWork() const;
  // Sleeps until the condition; with the lock held.
  template <typename Condition>
  void WorkerSleeps(std::unique_lock<std::mutex>& lock, Condition condition);
  void WakeIfDraining();

  std::atomic<uint64_t> word_{0};
  std::atomic<bool> draining_{false};
  std::atomic<std::thread::id> worker_{};

  std::mutex mutex_;  // guards all below
  std::condition_variable work_;
  std::condition_variable turn_;
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Call>> queue_;  // null: the place of a caller
  bool worker_sleeps_ = false;
  bool turn_has_come_ = false;
  bool stopping_ = false;
  bool stopped_ = false;  // the worker has ended
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_QUEUE_H_
