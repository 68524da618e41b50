#include "core/base/real_environment.h"

#include <utility>

#include "core/base/clock.h"
#include "core/base/disk.h"
#include "core/base/memory_account.h"
#include "core/base/random.h"
#include "core/base/serial_thread.h"
#include "core/base/thread.h"
#include "core/base/thread_pool.h"

namespace tutti {

RealEnvironment::RealEnvironment(const RealEnvironmentOptions& options)
    : log_(RealClock(), options.log_level),
      recorder_(RealClock(), options.recorder_capacity),
      memory_(MakeRef<MemoryAccount>("runtime", nullptr, options.memory_limit_bytes)),
      pool_(MakeRef<ThreadPool>(options.executor_threads, &log_)),
      callbacks_(MakeRef<QueueCallbackExecutor>(&log_)),
      reaper_(std::make_unique<ReaperThread>(&log_)) {
  Services services;
  services.clock = &RealClock();
  services.executor = pool_.get();
  services.callback_executor = callbacks_.get();
  services.random = &KernelRandom();
  services.disk = &RealDisk();
  services.log = &log_;
  services.recorder = &recorder_;
  services.reaper = reaper_.get();
  services.memory = memory_.get();
  SetServices(services);
}

RealEnvironment::~RealEnvironment() {
  // Nothing has started, or all has been joined; the executors may live on in the hands of stored
  // callbacks, and must start nothing any more.
  (void)OnShutdown(CallOptions::Default());
}

Result<Thread> RealEnvironment::StartThread(std::string_view name, Task task) {
  TUTTI_RETURN_IF_ERROR(CheckUsable(name));
  return Thread::Start(name, std::move(task));
}

bool RealEnvironment::HasThreads() const {
  return pool_->HasThreads() || callbacks_->HasThread() || reaper_->HasThread();
}

void RealEnvironment::OnLastRelease() const noexcept {
  // In a forked child a lost thread may hold a lock: nothing is looked at.
  if (LeftBehindByFork() || HasThreads()) return;
  delete this;
}

Status RealEnvironment::OnShutdown(const CallOptions& options) {
  // In the order in which they feed one another: the reaper's closing may post tasks, tasks may
  // give up the last reference to a callback.
  Status first = reaper_->Stop(options);
  Status pool = pool_->Stop(options);
  if (first.ok()) first = std::move(pool);
  Status callbacks = callbacks_->Stop(options);
  if (first.ok()) first = std::move(callbacks);
  return first;
}

}  // namespace tutti
