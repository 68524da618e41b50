// Environment: the world as one worker sees it. Clock, executors, disk, randomness, log, flight
// recorder, memory, and the life and death of everything with threads. It is passed to
// constructors; nothing reaches for a global, so that one process can hold several workers, and a
// simulation can hold a hundred.
//
// RealEnvironment (real_environment.h) is the machine, SimulatedEnvironment
// (simulated_environment.h) virtual time from a seed, and the runtime is an environment too: what
// the C API calls tutti_runtime is the environment that core objects hold.

#ifndef TUTTI_CORE_BASE_ENVIRONMENT_H_
#define TUTTI_CORE_BASE_ENVIRONMENT_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/task.h"

namespace tutti {

class CallbackExecutor;
class Closable;
class Disk;
class Executor;
class Log;
class MemoryAccount;
class Random;
class Reaper;
class Recorder;
class Thread;

class Environment : public RefCounted {
 public:
  Clock& clock() const noexcept { return *services_.clock; }
  Executor& executor() const noexcept { return *services_.executor; }
  CallbackExecutor& callback_executor() const noexcept { return *services_.callback_executor; }
  Random& random() const noexcept { return *services_.random; }
  Disk& disk() const noexcept { return *services_.disk; }
  Log& log() const noexcept { return *services_.log; }
  Recorder& recorder() const noexcept { return *services_.recorder; }
  Reaper& reaper() const noexcept { return *services_.reaper; }
  // The root of the memory accounts; it carries the environment's limit.
  MemoryAccount& memory() const noexcept { return *services_.memory; }

  // OK while work is possible. FAILED_PRECONDITION after shutdown and in a forked child, saying so;
  // `what` names the caller's function or object. Cheap: every entry point calls it.
  Status CheckUsable(std::string_view what) const;
  bool is_shut_down() const noexcept {
    return state_.load(std::memory_order_acquire) != State::kOpen;
  }
  // True when shutdown has done all it had to do.
  bool is_closed() const noexcept {
    return state_.load(std::memory_order_acquire) == State::kClosed;
  }
  // True when this object was made before a fork and this is the child.
  bool LeftBehindByFork() const noexcept;

  // A thread that the caller owns and joins. UNIMPLEMENTED under simulation, which has one thread.
  virtual Result<Thread> StartThread(std::string_view name, Task task) = 0;

  // True while threads of this environment's own services run.
  virtual bool HasThreads() const { return false; }

  // Refuses new work, closes what is registered, joins reaper and executors. Runs pending
  // callbacks. OK when it has been done before; after a deadline it can be called again and goes
  // on. Call it outside of callbacks.
  Status Shutdown(const CallOptions& options);

  // The seed behind "no seed given": unset, every DrawSeed comes from random(); set, draws are a
  // sequence that the seed decides, starting over with each SetDefaultSeed.
  void SetDefaultSeed(std::optional<int64_t> seed);
  std::optional<int64_t> default_seed() const;
  uint64_t DrawSeed();

  // How long calls may take that were given no timeout; kNeverNs: for ever.
  int64_t default_timeout_ns() const noexcept {
    return default_timeout_ns_.load(std::memory_order_relaxed);
  }
  void set_default_timeout_ns(int64_t timeout_ns) noexcept {
    default_timeout_ns_.store(timeout_ns, std::memory_order_relaxed);
  }

  // Where flight records go when something fails; empty: nowhere. Made with mode 0700.
  void SetFlightRecordDirectory(std::string directory);
  // Writes what the recorder holds and gives the path, or an empty one when there is no directory
  // or this environment has written kMaxFlightRecords. For whoever finds a failure that people will
  // want to look into; touches the disk, so call it with no lock held.
  static constexpr int kMaxFlightRecords = 16;
  Result<std::string> WriteFlightRecord();

  // For Closable only.
  Status RegisterClosable(Closable* object);
  void UnregisterClosable(Closable* object) noexcept;

 protected:
  struct Services {
    Clock* clock = nullptr;
    Executor* executor = nullptr;
    CallbackExecutor* callback_executor = nullptr;
    Random* random = nullptr;
    Disk* disk = nullptr;
    Log* log = nullptr;
    Recorder* recorder = nullptr;
    Reaper* reaper = nullptr;
    MemoryAccount* memory = nullptr;
  };

  Environment();
  ~Environment() override;
  // A subclass's constructor calls this; the services live as long as the subclass.
  void SetServices(const Services& services) noexcept { services_ = services; }
  static const Services& ServicesOf(const Environment& other) noexcept { return other.services_; }
  // The subclass's part of Shutdown: stop and join. May be called again after it failed.
  virtual Status OnShutdown(const CallOptions& options) = 0;

 private:
  enum class State : int32_t { kOpen, kClosing, kClosed };

  Status CloseRegistered(const CallOptions& options);
  Closable* NextToClose(uint64_t attempt) noexcept;

  Services services_;
  const uint64_t fork_generation_;
  std::atomic<State> state_{State::kOpen};
  std::atomic<int64_t> default_timeout_ns_{kNeverNs};

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  bool shutting_down_ = false;
  Closable* closables_ = nullptr;  // newest first
  uint64_t attempts_ = 0;
  std::string flight_record_directory_;
  int flight_records_ = 0;
  std::optional<int64_t> default_seed_;
  uint64_t seed_draws_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_ENVIRONMENT_H_
