// RealEnvironment: this machine. Threads start when they are first needed.

#ifndef TUTTI_CORE_BASE_REAL_ENVIRONMENT_H_
#define TUTTI_CORE_BASE_REAL_ENVIRONMENT_H_

#include <memory>
#include <string_view>

#include "core/base/environment.h"
#include "core/base/log.h"
#include "core/base/recorder.h"

namespace tutti {

class QueueCallbackExecutor;
class ReaperThread;
class ThreadPool;

struct RealEnvironmentOptions {
  int executor_threads = 2;
  LogLevel log_level = LogLevel::kWarning;
  uint64_t memory_limit_bytes = 0;  // 0: none
  uint64_t recorder_capacity = Recorder::kDefaultCapacity;
};

class RealEnvironment final : public Environment {
 public:
  explicit RealEnvironment(const RealEnvironmentOptions& options = {});

  Result<Thread> StartThread(std::string_view name, Task task) override;
  // True once a thread of the executors or the reaper has been started and until shutdown has
  // joined them.
  bool HasThreads() const override;

 protected:
  // Shut down first. An environment that still has threads is left alone (leaked): a release must
  // not join.
  ~RealEnvironment() override;
  void OnLastRelease() const noexcept override;
  Status OnShutdown(const CallOptions& options) override;

 private:
  Log log_;
  Recorder recorder_;
  Ref<MemoryAccount> memory_;
  Ref<ThreadPool> pool_;
  Ref<QueueCallbackExecutor> callbacks_;
  std::unique_ptr<ReaperThread> reaper_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_REAL_ENVIRONMENT_H_
