#include "core/collective/call_queue.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/wait.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tutti {
namespace {

// A pause is 15 to 50 ns: some ten microseconds of spinning in all.
constexpr int kSpinRounds = 400;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

CallQueue::Place CallQueue::TakePlace() {
  uint64_t word = word_.load();
  uint64_t taken = 0;
  do {
    if ((word & (kCalls | kWaits)) != 0) return Place::kNone;
    taken = word == 0 ? kCalls : word | kWaits;
  } while (!word_.compare_exchange_weak(word, taken));
  if (word == 0) return Place::kFirst;
  const std::lock_guard<std::mutex> lock(mutex_);
  turn_has_come_ = false;
  queue_.push_back(nullptr);
  if (worker_sleeps_) work_.notify_one();
  return Place::kBehind;
}

Status CallQueue::AwaitTurn(Clock& clock, const CallOptions& options, std::string_view what) {
  Status status;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto over = [this] { return turn_has_come_ || stopped_; };
    status = WaitUntil(lock, turn_, clock, options, over, what);
    if (turn_has_come_) return OkStatus();
    if (status.ok()) status = FailedPrecondition("{}: nothing is called any more", what);
    // At most one caller has a place.
    queue_.erase(std::find(queue_.begin(), queue_.end(), nullptr));
  }
  word_.fetch_sub(kWaits);
  WakeIfDraining();
  return status;
}

void CallQueue::End() {
  const uint64_t word = word_.fetch_sub(kCalls);
  if (word >= kQueued) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (worker_sleeps_) work_.notify_one();
  }
  WakeIfDraining();
}

void CallQueue::Withdraw() {
  word_.fetch_sub(kQueued);
  WakeIfDraining();
}

void CallQueue::Push(std::unique_ptr<Call> call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(call));
  if (worker_sleeps_) work_.notify_one();
}

template <typename Condition>
void CallQueue::WorkerSleeps(std::unique_lock<std::mutex>& lock, Condition condition) {
  worker_sleeps_ = true;
  work_.wait(lock, condition);
  worker_sleeps_ = false;
}

void CallQueue::SpinForWork() const {
  for (int round = 0; round < kSpinRounds && word_.load(std::memory_order_relaxed) < kWaits;
       ++round) {
    Pause();
  }
}

void CallQueue::Work(bool spin) {
  worker_.store(std::this_thread::get_id());
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (queue_.empty()) {
      if (stopping_) {
        stopped_ = true;
        turn_.notify_all();
        return;
      }
      if (spin) {
        lock.unlock();
        SpinForWork();
        lock.lock();
      }
      WorkerSleeps(lock, [this] { return !queue_.empty() || stopping_; });
      continue;
    }
    if (CallerCalls()) {
      WorkerSleeps(lock, [this] { return !CallerCalls(); });
      continue;  // the place at the front may have been given up
    }
    std::unique_ptr<Call> call = std::move(queue_.front());
    queue_.pop_front();
    if (call == nullptr) {
      turn_has_come_ = true;
      word_.fetch_sub(kWaits - kCalls);
      turn_.notify_all();
      continue;
    }
    lock.unlock();
    call->Run();
    Withdraw();
    call->Complete();
    call.reset();
    lock.lock();
  }
}

void CallQueue::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  work_.notify_all();
}

void CallQueue::WakeIfDraining() {
  if (!draining_.load()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.notify_all();
}

Status CallQueue::AwaitIdle(Clock& clock, const CallOptions& options, std::string_view what) {
  draining_.store(true);
  std::unique_lock<std::mutex> lock(mutex_);
  return WaitUntil(lock, idle_, clock, options, [this] { return IsIdle(); }, what);
}

}  // namespace tutti
