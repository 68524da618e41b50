#include "core/dataset/exec/worker_crew.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/exception.h"

namespace tutti {
namespace {

// More than this is asked for by number, not chosen.
constexpr int64_t kMostChosen = 16;

int64_t SizeFor(int64_t asked) {
  if (asked >= 0) return std::max<int64_t>(asked, 1);
  return std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kMostChosen);
}

}  // namespace

WorkerCrew::WorkerCrew(Ref<Environment> environment, int64_t size)
    : environment_(std::move(environment)), size_(SizeFor(size)) {}

void WorkerCrew::Start() {
  started_ = true;
  while (static_cast<int64_t>(threads_.size()) + 1 < size_) {
    // A thread that runs has its place, whatever memory there is.
    threads_.reserve(threads_.size() + 1);
    Result<Thread> thread = environment_->StartThread("tutti-map", [this] { Serve(); });
    // Fewer threads than asked for do the same, later; a simulation has none.
    if (!thread.ok()) break;
    threads_.push_back(std::move(thread).value());
  }
}

Status WorkerCrew::RunErased(size_t count, Call call, const void* target) {
  if (!started_) Start();
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return Cancelled("map: the iterator was closed");
    call_ = call;
    target_ = target;
    count_ = count;
    idle_ = 0;
    failure_ = OkStatus();
    next_item_.store(0, std::memory_order_relaxed);
    ++round_;
  }
  changed_.notify_all();
  Status status;
  try {
    status = Work(call, target, count);
    if (!status.ok()) next_item_.store(count, std::memory_order_relaxed);
    AwaitThreads();
  } catch (...) {
    // This thread is being cancelled. The items are on its stack, and must be out of the others'
    // hands.
    next_item_.store(count, std::memory_order_relaxed);
    AwaitThreads();
    throw;
  }
  std::lock_guard lock(mutex_);
  return status.ok() ? std::exchange(failure_, OkStatus()) : status;
}

void WorkerCrew::AwaitThreads() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return idle_ == threads_.size(); });
}

// After an exception the rest is left out.
Status WorkerCrew::Work(Call call, const void* target, size_t count) {
  return CatchExceptions("map", [&]() -> Status {
    while (true) {
      const size_t i = next_item_.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return OkStatus();
      call(target, i);
    }
  });
}

void WorkerCrew::Serve() {
  uint64_t served = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return round_ != served || stopped_; });
    if (round_ == served) return;
    served = round_;
    const Call call = call_;
    const void* const target = target_;
    const size_t count = count_;
    lock.unlock();
    Status status = Work(call, target, count);
    if (!status.ok()) next_item_.store(count, std::memory_order_relaxed);
    lock.lock();
    if (failure_.ok()) failure_ = std::move(status);
    ++idle_;
    changed_.notify_all();
  }
}

void WorkerCrew::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

Status WorkerCrew::Join(const CallOptions& options) {
  for (Thread& thread : threads_) TUTTI_RETURN_IF_ERROR(thread.Join(options));
  return OkStatus();
}

}  // namespace tutti
