#include "core/tensor/tensor_observer.h"

#include <mutex>
#include <utility>

namespace tutti {

namespace {

struct ThreadState {
  bool observed = false;  // said for the thread
  int forced = 0;         // by a scope: 1 observed, -1 not
  int64_t step = -1;
};
thread_local ThreadState observed_thread;
std::atomic<bool> process_observed{false};

// Never destroyed: threads may outlive the end of the program's main function.
struct Installed {
  std::mutex mutex;  // guards the observer
  Ref<TensorObserver> observer;
};
Installed& TheInstalled() {
  static Installed& installed = *new Installed;
  return installed;
}

}  // namespace

bool tensor_internal::ObservedHere() {
  if (observed_thread.forced != 0) return observed_thread.forced > 0;
  return observed_thread.observed || process_observed.load(std::memory_order_relaxed);
}

Status ObserveTensor(const TensorSighting& sighting, const Tensor& tensor) {
  Ref<TensorObserver> observer;
  {
    const std::lock_guard<std::mutex> lock(TheInstalled().mutex);
    observer = TheInstalled().observer;
  }
  return observer ? observer->Observe(sighting, tensor) : OkStatus();
}

void InstallTensorObserver(Ref<TensorObserver> observer) {
  const std::lock_guard<std::mutex> lock(TheInstalled().mutex);
  std::swap(TheInstalled().observer, observer);
}

void SetThreadObserved(bool observed) {
  if (std::exchange(observed_thread.observed, observed) == observed) return;
  tensor_internal::observing.fetch_add(observed ? 1 : -1, std::memory_order_relaxed);
}

void SetProcessObserved(bool observed) {
  if (process_observed.exchange(observed) == observed) return;
  tensor_internal::observing.fetch_add(observed ? 1 : -1, std::memory_order_relaxed);
}

// A thread that is told to look counts as one that wants it, for TensorsAreObserved.
ObservedScope::ObservedScope(bool observed, int64_t step)
    : entered_(observed ||
               tensor_internal::observing.load(std::memory_order_relaxed) != 0) {
  if (!entered_) return;
  forced_before_ = std::exchange(observed_thread.forced, observed ? 1 : -1);
  step_before_ = observed_thread.step;
  if (step >= 0) observed_thread.step = step;
  tensor_internal::observing.fetch_add(1, std::memory_order_relaxed);
}

ObservedScope::~ObservedScope() {
  if (!entered_) return;
  observed_thread.forced = forced_before_;
  observed_thread.step = step_before_;
  tensor_internal::observing.fetch_sub(1, std::memory_order_relaxed);
}

int64_t ObservedStep() { return observed_thread.step; }

}  // namespace tutti
