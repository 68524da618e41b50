#include "core/base/fork.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace tutti {
namespace {

// The process's own facts, with constant initialisation: there is one handler per process.
std::atomic<uint64_t> generation{0};
std::atomic<int64_t> running_environments{0};
std::atomic<bool> forked_while_running{false};

void AfterForkInChild() {
  generation.fetch_add(1, std::memory_order_relaxed);
  if (running_environments.exchange(0, std::memory_order_relaxed) > 0) {
    forked_while_running.store(true, std::memory_order_relaxed);
  }
}

}  // namespace

void InstallForkHandler() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, &AfterForkInChild); });
}

uint64_t ForkGeneration() noexcept { return generation.load(std::memory_order_relaxed); }

bool InForkedChild() noexcept { return forked_while_running.load(std::memory_order_relaxed); }

void NoteEnvironmentStarted() noexcept {
  running_environments.fetch_add(1, std::memory_order_relaxed);
}

void NoteEnvironmentStopped() noexcept {
  running_environments.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tutti
