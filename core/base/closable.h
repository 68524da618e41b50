// Closable: the base of everything that owns threads, or waits that others must be able to end.
//
// Close stops and joins; whoever made the object calls it. An object whose last reference goes away
// unclosed is handed to the environment's reaper, which closes and deletes it; shutdown closes what
// is registered and joins the reaper.
//
// A factory does three things in this order: MakeRef, Register (fails after shutdown), then start
// the threads:
//
//   Ref<Pump> pump = MakeRef<Pump>(environment);
//   TUTTI_RETURN_IF_ERROR(pump->Register());
//   // On failure the reaper closes what did start.
//   TUTTI_RETURN_IF_ERROR(pump->StartUnlessClosed([&] { return pump->StartThreads(); }));

#ifndef TUTTI_CORE_BASE_CLOSABLE_H_
#define TUTTI_CORE_BASE_CLOSABLE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class Environment;

class Closable : public RefCounted {
 public:
  // Runs OnClose until it has succeeded once; later calls are OK at once, concurrent ones wait for
  // the one that runs. In a forked child FAILED_PRECONDITION.
  Status Close(const CallOptions& options);
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }

  // The reaper could not take the reference that the last release gave it, for lack of memory or
  // because it has stopped: whoever closes the object gives that reference up.
  void LeaveReferenceToClose() const noexcept;

  // Makes the object known to shutdown, which may close it from then on.
  Status Register();

  // Runs `start`, which returns a Status, while Close waits for it: no thread starts behind the
  // back of a Close on another thread. FAILED_PRECONDITION when the object has been closed.
  template <typename Start>
  Status StartUnlessClosed(Start start) {
    TUTTI_RETURN_IF_ERROR(BeginStart());
    const Exclusive exclusive{this};
    return start();
  }

  Environment& environment() const noexcept { return *environment_; }
  // For messages: "strategy MirroredStrategy", "iterator".
  const std::string& closable_name() const noexcept { return name_; }

 protected:
  Closable(Ref<Environment> environment, std::string name);
  ~Closable() override;

  // Stops and joins everything of this object, and may be called again when it failed (a deadline,
  // say). Called at most once at a time, with no lock held.
  virtual Status OnClose(const CallOptions& options) = 0;
  void OnLastRelease() const noexcept final;

 private:
  friend class Environment;

  const Ref<Environment> environment_;
  const std::string name_;
  std::atomic<bool> closed_{false};
  mutable std::atomic<bool> reference_left_{false};
  std::atomic<bool> registered_{false};
  // The environment's list of registered objects, guarded by its mutex.
  Closable* previous_ = nullptr;
  Closable* next_ = nullptr;
  uint64_t attempt_ = 0;  // the shutdown that tried to close it last

  // While it lives, this thread is the one that starts or closes, however it leaves.
  struct Exclusive {
    Closable* closable;
    ~Exclusive() { closable->EndExclusive(); }
  };

  void TakeReferenceLeft() const noexcept;
  Status BeginStart();
  void EndExclusive();

  std::mutex mutex_;  // guards exclusive_
  std::condition_variable idle_;
  bool exclusive_ = false;  // a thread is starting or closing the object
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_CLOSABLE_H_
