#include "core/collective/communicator/call_queue.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/wait.h"

namespace tutti {
namespace {

// A pause is 15 to 50 ns: some ten microseconds of spinning in all.
constexpr int kSpinRounds = 400;

// A waiter is prompt that comes so soon after the first of the calls that little else than queueing
// them can have been done meanwhile.
constexpr int64_t kPromptNs = 8'000;
constexpr int64_t kPromptPerCallNs = 4'000;
constexpr int64_t kMostPromptNs = 150'000;
constexpr int64_t kPromptAfterRouseNs = 30'000;
constexpr int kPromptWaiters = 4;
constexpr int64_t kManyCalls = 4;
// Two of them, at most, pass before the worker sees to a call that nobody waits for after all. They
// cost the waiters' core a switch of threads each.
constexpr auto kNap = std::chrono::microseconds(75);
constexpr int kMostNapsWithoutCalls = 8;
// Where so few calls begin in a nap they take so long that a switch of threads is nothing to them,
// and the worker's naps are more.
constexpr uint64_t kFewCalls = 5;
constexpr int kAfterLongCalls = -64;

// Waiting that ends earlier does not yield its core, which may come back late.
constexpr int64_t kShortWaitNs = 10 * kMillisecondNs;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

// ---- Calls on their caller's thread ----

CallQueue::Place CallQueue::TakePlace() {
  const std::lock_guard<std::mutex> order(order_mutex_);
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(nullptr);  // before the word says so: there may be no memory for it
  uint64_t word = word_.load();
  uint64_t taken = 0;
  bool another_calls = false;
  do {
    another_calls = (word & (kCalls | kWaits)) != 0;
    taken = word == 0 ? kCalls : word | kWaits;
  } while (!another_calls && !word_.compare_exchange_weak(word, taken));
  if (another_calls || word == 0) {
    queue_.pop_back();
    return another_calls ? Place::kNone : Place::kFirst;
  }
  turn_has_come_.store(false);
  GiveTurn();
  return Place::kBehind;
}

Status CallQueue::AwaitTurn(const CallOptions& options, std::string_view what) {
  Status status;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!RunForWaiter(lock, options, turn_has_come_) && RouseWorker()) work_.notify_one();
    const auto over = [this] { return turn_has_come_.load() || stopped_; };
    try {
      status = WaitUntil(lock, turn_, clock_, options, over, what);
      if (!turn_has_come_.load() && status.ok()) {
        status = FailedPrecondition("{}: nothing is called any more", what);
      }
    } catch (const std::bad_alloc&) {
      // The place must not stay behind.
      if (!lock.owns_lock()) lock.lock();
      status = Status::OutOfMemory();
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      const bool has_turn = turn_has_come_.load();
      if (!has_turn) ErasePlace();
      lock.unlock();
      if (has_turn) {
        End();
      } else {
        GiveUpPlace();
      }
      throw;
    }
    if (turn_has_come_.load()) return OkStatus();
    ErasePlace();
  }
  GiveUpPlace();
  return status;
}

void CallQueue::ErasePlace() {
  // At most one caller has a place.
  queue_.erase(std::find(queue_.begin(), queue_.end(), nullptr));
}

void CallQueue::GiveUpPlace() {
  word_.fetch_sub(kWaits);
  WakeIfDraining();
}

void CallQueue::End() {
  const uint64_t word = word_.fetch_sub(kCalls);
  if (word >= kQueued) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool rouse = CanRunNext() && RouseWorker();
    lock.unlock();
    if (rouse) work_.notify_one();
  }
  WakeIfDraining();
}

// ---- Queued calls ----

void CallQueue::Withdraw() {
  word_.fetch_sub(kQueued);
  WakeIfDraining();
}

void CallQueue::Push(std::unique_ptr<Call>&& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t pushed = pushed_since_waiter_.load(std::memory_order_relaxed);
  pushed_since_waiter_.store(pushed + 1, std::memory_order_relaxed);
  if (pushed == 0) first_push_ns_ = clock_.NowNs();
  if (queue_.empty()) urgent_ = false;
  queue_.push_back(std::move(call));
  const bool rouse = CanRunNext() && RouseWorker();
  if (rouse) {
    // It has gone to sleep already, after a call that has not been waited for.
    const int64_t now_ns = clock_.NowNs();
    if (pushed > 0 && now_ns - last_rouse_ns_ <= kPromptAfterRouseNs) NotePrompt(true);
    last_rouse_ns_ = now_ns;
  }
  lock.unlock();
  if (rouse) work_.notify_one();
}

void CallQueue::RunNext(std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<Call> call = std::move(queue_.front());
  queue_.pop_front();
  running_ = true;
  ++num_begun_;
  lock.unlock();
  runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  call->Run();
  runner_.store(std::thread::id(), std::memory_order_relaxed);
  Withdraw();
  call->Complete();
  call.reset();
  lock.lock();
  running_ = false;
  GiveTurn();
}

void CallQueue::GiveTurn() {
  if (running_ || queue_.empty() || queue_.front() != nullptr) return;
  // It is in the queue, so no other caller calls.
  queue_.pop_front();
  turn_has_come_.store(true);
  word_.fetch_sub(kWaits - kCalls);
  turn_.notify_all();
}

bool CallQueue::LeavesCallsToWaiters() const {
  return prompt_waiters_ >= kPromptWaiters && !cores_to_spare_;
}

void CallQueue::NoteWaiter(bool may_run_calls) {
  if (pushed_since_waiter_.load(std::memory_order_relaxed) == 0) return;
  pushed_before_waiter_ = pushed_since_waiter_.exchange(0, std::memory_order_relaxed);
  const int64_t prompt_ns =
      std::min(kPromptNs + pushed_before_waiter_ * kPromptPerCallNs, kMostPromptNs);
  NotePrompt((may_run_calls || pushed_before_waiter_ >= kManyCalls) &&
             clock_.NowNs() - first_push_ns_ <= prompt_ns);
}

void CallQueue::NotePrompt(bool prompt) {
  prompt_waiters_ = prompt ? std::min(prompt_waiters_ + 1, kPromptWaiters) : 0;
}

bool CallQueue::RunForWaiter(std::unique_lock<std::mutex>& lock, const CallOptions& options,
                             const std::atomic<bool>& done) {
  NoteWaiter(options.cancellation == nullptr);
  if (cores_to_spare_ || LeavesCallsToWaiters()) {
    while (!done.load() && CanRunNext() && queue_.front()->EndsWithin(options)) RunNext(lock);
  }
  if (done.load()) return true;
  urgent_ = !queue_.empty();
  return !CanRunNext();
}

void CallQueue::Help(const CallOptions& options, const std::atomic<bool>& done) {
  std::unique_lock<std::mutex> lock(mutex_);
  RunForWaiter(lock, options, done);
  // What was queued behind the call is the worker's, or the next waiter's.
  const bool rouse = CanRunNext() && RouseWorker();
  const bool many = pushed_before_waiter_ >= kManyCalls;
  lock.unlock();
  if (rouse) work_.notify_one();
  if (done.load() || !many || options.deadline.RemainingNs(clock_) < kShortWaitNs) return;
  if (spins_.test_and_set(std::memory_order_acquire)) return;
  const Cancellation* const cancellation = options.cancellation;
  spin_->Until([&] { return done.load(std::memory_order_acquire); },
               [&] { return cancellation != nullptr && cancellation->cancelled(); },
               SpinWait::kForArrivalNs);
  spins_.clear(std::memory_order_release);
}

// ---- The worker ----

void CallQueue::Prepare(bool cores_to_spare) {
  cores_to_spare_ = cores_to_spare;
  spin_.emplace(clock_, cores_to_spare);
}

bool CallQueue::RouseWorker() {
  if (worker_ == Worker::kAwake) return false;
  if (worker_ == Worker::kNaps && !urgent_ && LeavesCallsToWaiters()) return false;
  worker_ = Worker::kAwake;
  return true;
}

void CallQueue::SpinForWork() const {
  for (int round = 0; round < kSpinRounds && word_.load(std::memory_order_relaxed) < kWaits;
       ++round) {
    Pause();
  }
}

void CallQueue::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (queue_.empty() && cores_to_spare_ && !stopping_) {
      lock.unlock();
      SpinForWork();
      lock.lock();
    }
    if (queue_.empty() && stopping_) break;
    if (CanRunNext() && (urgent_ || !LeavesCallsToWaiters())) {
      RunNext(lock);
      naps_without_calls_ = 0;
    } else if (LeavesCallsToWaiters() &&
               (CanRunNext() || naps_without_calls_ < kMostNapsWithoutCalls)) {
      WorkerNaps(lock);
    } else {
      worker_ = Worker::kSleeps;
      work_.wait(lock, [this] { return worker_ == Worker::kAwake; });
      naps_without_calls_ = 0;
    }
  }
  stopped_ = true;
  turn_.notify_all();
}

void CallQueue::WorkerNaps(std::unique_lock<std::mutex>& lock) {
  const bool may_run = CanRunNext();
  const uint64_t num_begun_before = num_begun_;
  worker_ = Worker::kNaps;
  const bool roused = work_.wait_for(lock, kNap, [this] { return worker_ == Worker::kAwake; });
  worker_ = Worker::kAwake;
  const uint64_t num_begun = num_begun_ - num_begun_before;
  naps_without_calls_ = num_begun == 0 ? naps_without_calls_ + 1 : 0;
  if (roused) return;
  if (running_ && num_begun <= kFewCalls) prompt_waiters_ = kAfterLongCalls;
  // Nobody has come.
  if (may_run && num_begun == 0 && CanRunNext()) prompt_waiters_ = 0;
}

void CallQueue::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  worker_ = Worker::kAwake;
  work_.notify_all();
}

// ---- The end ----

void CallQueue::WakeIfDraining() {
  if (!draining_.load()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.notify_all();
}

Status CallQueue::AwaitIdle(const CallOptions& options, std::string_view what) {
  draining_.store(true);
  std::unique_lock<std::mutex> lock(mutex_);
  return WaitUntil(lock, idle_, clock_, options, [this] { return IsIdle(); }, what);
}

}  // namespace tutti
