#include "core/base/environment.h"

#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/closable.h"
#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/fork.h"
#include "core/base/random.h"
#include "core/base/recorder.h"
#include "core/base/wait.h"

namespace tutti {

Environment::Environment() : fork_generation_((InstallForkHandler(), ForkGeneration())) {
  NoteEnvironmentStarted();
}

Environment::~Environment() {
  if (state_.load(std::memory_order_relaxed) != State::kClosed && !LeftBehindByFork()) {
    NoteEnvironmentStopped();
  }
}

bool Environment::LeftBehindByFork() const noexcept { return fork_generation_ != ForkGeneration(); }

Status Environment::CheckUsable(std::string_view what) const {
  if (LeftBehindByFork()) {
    return FailedPrecondition(
        "{}: this process was forked off while the runtime was running, and has none of its "
        "threads; only releasing works here. Start workers as fresh processes (spawn or exec), or "
        "fork before the runtime starts",
        what);
  }
  if (is_shut_down()) {
    return FailedPrecondition(
        "{}: the runtime has been shut down; objects made before cannot be used any more, make "
        "them anew on a new runtime",
        what);
  }
  return OkStatus();
}

Status Environment::RegisterClosable(Closable* object) {
  std::lock_guard<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(CheckUsable(object->closable_name()));
  object->next_ = closables_;
  if (closables_ != nullptr) closables_->previous_ = object;
  closables_ = object;
  object->registered_.store(true, std::memory_order_release);
  return OkStatus();
}

void Environment::UnregisterClosable(Closable* object) noexcept {
  if (LeftBehindByFork()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!object->registered_.load(std::memory_order_relaxed)) return;
  (object->previous_ != nullptr ? object->previous_->next_ : closables_) = object->next_;
  if (object->next_ != nullptr) object->next_->previous_ = object->previous_;
  object->previous_ = object->next_ = nullptr;
  object->registered_.store(false, std::memory_order_release);
  idle_.notify_all();
}

// With the lock held: the newest registered object that this attempt has not tried, retained.
Closable* Environment::NextToClose(uint64_t attempt) noexcept {
  for (Closable* object = closables_; object != nullptr; object = object->next_) {
    if (object->attempt_ != attempt && object->TryRetain()) return object;
  }
  return nullptr;
}

Status Environment::CloseRegistered(const CallOptions& options) {
  Status first;
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t attempt = ++attempts_;
  for (;;) {
    while (Closable* const object = NextToClose(attempt)) {
      object->attempt_ = attempt;
      lock.unlock();
      Status status = CatchExceptions("close", [&] { return object->Close(options); });
      if (!status.ok() && first.ok()) {
        first = std::move(status).WithPrefix("shutdown: closing " + object->closable_name());
      }
      object->Release();
      lock.lock();
    }
    // What nobody holds any more is on its way to the reaper, or being deleted.
    const auto settled = [&] {
      for (Closable* object = closables_; object != nullptr; object = object->next_) {
        if (object->attempt_ != attempt) return false;
      }
      return true;
    };
    if (settled()) return first;
    CallOptions slice = options;
    slice.deadline =
        Deadline::Earlier(options.deadline, Deadline::After(clock(), kMillisecondNs));
    const Status status = WaitUntil(lock, idle_, clock(), slice, settled, "shutdown");
    if (status.ok()) return first;
    TUTTI_RETURN_IF_ERROR(
        CheckCallOptions(options, clock(), "shutdown: waiting for released objects to end"));
  }
}

Status Environment::Shutdown(const CallOptions& options) {
  if (LeftBehindByFork()) return CheckUsable("shutdown");
  TUTTI_RETURN_IF_ERROR(CheckOutsideCallbacks("shutdown"));
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, idle_, clock(), options, [&] { return !shutting_down_; },
      "shutdown (another thread shuts down)"));
  if (state_.load(std::memory_order_relaxed) == State::kClosed) return OkStatus();
  shutting_down_ = true;
  state_.store(State::kClosing, std::memory_order_release);
  lock.unlock();
  Status status;
  try {
    status = CatchExceptions("shutdown", [&] { return CloseRegistered(options); });
    // The rest is shut down all the same.
    Status rest = CatchExceptions("shutdown", [&] { return OnShutdown(options); });
    if (status.ok()) status = std::move(rest);
  } catch (...) {
    // This thread is being cancelled: another one may go on.
    lock.lock();
    shutting_down_ = false;
    idle_.notify_all();
    throw;
  }
  lock.lock();
  shutting_down_ = false;
  if (status.ok()) {
    state_.store(State::kClosed, std::memory_order_release);
    NoteEnvironmentStopped();
  }
  idle_.notify_all();
  return status;
}

void Environment::SetFlightRecordDirectory(std::string directory) {
  std::lock_guard<std::mutex> lock(mutex_);
  flight_record_directory_ = std::move(directory);
}

Result<std::string> Environment::WriteFlightRecord() {
  std::string path;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!flight_record_directory_.empty() && flight_records_ < kMaxFlightRecords) {
      ++flight_records_;
      path = Format("{}/{}", flight_record_directory_, recorder().FileName());
    }
  }
  recorder().set_last_path(path);
  if (path.empty()) return path;
  Status status = disk().MakeDirectories(path.substr(0, path.rfind('/')), 0700);
  if (status.ok()) status = disk().WriteFile(path, recorder().ToJson());
  if (status.ok()) return path;
  recorder().set_last_path("");
  return status;
}

void Environment::SetDefaultSeed(std::optional<int64_t> seed) {
  std::lock_guard<std::mutex> lock(mutex_);
  default_seed_ = seed;
  seed_draws_ = 0;
}

std::optional<int64_t> Environment::default_seed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return default_seed_;
}

uint64_t Environment::DrawSeed() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (default_seed_) {
      const uint64_t draw = SplitMix64(seed_draws_++).Next();
      return SplitMix64(static_cast<uint64_t>(*default_seed_) ^ draw).Next();
    }
  }
  return random().Next();
}

}  // namespace tutti
