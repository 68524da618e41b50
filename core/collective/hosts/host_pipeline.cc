#include "core/collective/hosts/host_pipeline.h"

#include <utility>

#include "core/base/environment.h"
#include "core/base/wait.h"

namespace tutti {
namespace {

// For the thread, which has nobody to throw to.
Status RunBetween(const HostPipeline::Stages& stages, int64_t chunk, Cancellation* stop) noexcept {
  try {
    Status status = stages.between(chunk, stop);
    return status.ok() ? status : stages.fail(std::move(status));
  } catch (...) {
  }
  try {
    return stages.fail(Status::OutOfMemory());
  } catch (...) {
    return Status::OutOfMemory();
  }
}

}  // namespace

HostPipeline::HostPipeline(Environment& environment)
    : environment_(environment), stop_(MakeRef<Cancellation>()) {}

HostPipeline::~HostPipeline() {
  Stop();
  thread_.Join(CallOptions()).rep();
}

void HostPipeline::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  posted_.notify_one();
}

Status HostPipeline::Run(int64_t chunks, const Stages& stages, Cancellation* watch) {
  Status status;
  try {
    status = RunStages(chunks, stages, watch);
    // That ends what is under way; what is behind it is left out.
    if (!status.ok()) status = stages.fail(std::move(status));
  } catch (...) {
    // What is under way ends the call for all when it is stopped. If there is nothing, whoever gets
    // the exception ends it.
    stop_->Cancel(Status::OutOfMemory());
    ReturnThread();
    throw;
  }
  ReturnThread();
  return status;
}

void HostPipeline::ReturnThread() {
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [&] { return num_done_ == num_posted_; });
  stages_ = nullptr;
  num_posted_ = num_done_ = 0;
  failure_ = OkStatus();
  if (stopping_) posted_.notify_one();
  if (stop_->cancelled()) stop_ = MakeRef<Cancellation>();
}

Status HostPipeline::RunStages(int64_t chunks, const Stages& stages, Cancellation* watch) {
  // One chunk has nothing to overlap with.
  const bool threaded = stages.between && chunks > 1 && TakeThread(stages);
  for (int64_t chunk = 0; chunk <= chunks; ++chunk) {
    if (chunk < chunks) {
      if (stages.first) TUTTI_RETURN_IF_ERROR(stages.first(chunk));
      if (threaded) {
        Post(chunk);
      } else if (stages.between) {
        TUTTI_RETURN_IF_ERROR(stages.between(chunk, watch));
      }
    }
    if (chunk == 0) continue;
    if (threaded) TUTTI_RETURN_IF_ERROR(Await(chunk - 1, watch));
    if (stages.last) TUTTI_RETURN_IF_ERROR(stages.last(chunk - 1));
  }
  return OkStatus();
}

bool HostPipeline::TakeThread(const Stages& stages) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return false;
  if (!thread_.joinable()) {
    Result<Thread> started = environment_.StartThread("tutti-hosts", [this] { Work(); });
    if (!started.ok()) return false;
    thread_ = std::move(started).value();
  }
  stages_ = &stages;
  return true;
}

void HostPipeline::Post(int64_t chunk) {
  std::lock_guard<std::mutex> lock(mutex_);
  num_posted_ = chunk + 1;
  posted_.notify_one();
}

Status HostPipeline::Await(int64_t chunk, Cancellation* watch) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto over = [&] { return num_done_ > chunk; };
  const CallOptions options{Deadline::Infinite(), watch};
  Status status =
      WaitUntil(lock, done_, environment_.clock(), options, over, "what goes between hosts");
  if (!status.ok()) {
    // Who is stopped says whom it has waited for. Who was done by then leaves it to the stages
    // that follow.
    const Ref<Cancellation> stop = stop_;
    lock.unlock();
    stop->Cancel(watch->cancelled() ? watch->reason() : std::move(status));
    lock.lock();
    done_.wait(lock, over);
  }
  return failure_;
}

void HostPipeline::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    posted_.wait(lock, [&] {
      return num_posted_ > num_done_ || (stopping_ && stages_ == nullptr);
    });
    if (num_posted_ == num_done_) return;
    if (failure_.ok()) {
      const int64_t chunk = num_done_;
      const Stages& stages = *stages_;
      const Ref<Cancellation> stop = stop_;
      lock.unlock();
      Status status = RunBetween(stages, chunk, stop.get());
      lock.lock();
      failure_ = std::move(status);
    }
    ++num_done_;
    done_.notify_one();
  }
}

}  // namespace tutti
