#include "core/tensor/tensor_observer.h"

#include <mutex>
#include <utility>

#include "core/tensor/device_buffer.h"

namespace tutti {

namespace {

struct ThreadState {
  bool checked = false;  // said for the thread
  Observed forced = Observed::kAsBefore;
  int64_t step = -1;
};
thread_local ThreadState observed_thread;
std::atomic<bool> process_checked{false};
std::atomic<bool> has_recorder{false};

// Never destroyed: threads may outlive the end of the program's main function.
struct Installed {
  std::mutex mutex;  // guards the rest
  Ref<TensorObserver> checker;
  Ref<TensorObserver> recorder;
};
Installed& TheInstalled() {
  static Installed& installed = *new Installed;
  return installed;
}

Ref<TensorObserver> Checker() {
  const std::lock_guard<std::mutex> lock(TheInstalled().mutex);
  return TheInstalled().checker;
}

void Count(bool more) {
  tensor_internal::observing.fetch_add(more ? 1 : -1, std::memory_order_relaxed);
}

}  // namespace

bool tensor_internal::CheckedHere() {
  if (observed_thread.forced != Observed::kAsBefore) {
    return observed_thread.forced == Observed::kChecked;
  }
  return observed_thread.checked || process_checked.load(std::memory_order_relaxed);
}

bool tensor_internal::ObservedHere() {
  if (observed_thread.forced == Observed::kNot) return false;
  return CheckedHere() || has_recorder.load(std::memory_order_relaxed);
}

Status CheckTensor(const TensorSighting& sighting, const Tensor& tensor) {
  const Ref<TensorObserver> checker = Checker();
  return checker ? checker->Observe(sighting, tensor) : OkStatus();
}

void RecordTensor(const TensorSighting& sighting, const Tensor& tensor) {
  if (!has_recorder.load(std::memory_order_relaxed)) return;
  Ref<TensorObserver> recorder;
  {
    const std::lock_guard<std::mutex> lock(TheInstalled().mutex);
    recorder = TheInstalled().recorder;
  }
  if (recorder) (void)recorder->Observe(sighting, tensor);
}

Status ObserveTensor(const TensorSighting& sighting, const Tensor& given) {
  // Whoever observes asks for the elements, wherever they lie.
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> here, OnHost(given));
  const Tensor& tensor = *here;
  RecordTensor(sighting, tensor);
  return tensor_internal::CheckedHere() ? CheckTensor(sighting, tensor) : OkStatus();
}

void InstallTensorChecker(Ref<TensorObserver> checker) {
  const std::lock_guard<std::mutex> lock(TheInstalled().mutex);
  std::swap(TheInstalled().checker, checker);
}

void InstallTensorRecorder(Ref<TensorObserver> recorder) {
  const bool there = static_cast<bool>(recorder);
  const std::lock_guard<std::mutex> lock(TheInstalled().mutex);
  std::swap(TheInstalled().recorder, recorder);
  if (has_recorder.exchange(there) != there) Count(there);
}

void SetThreadChecked(bool checked) {
  if (std::exchange(observed_thread.checked, checked) != checked) Count(checked);
}

void SetProcessChecked(bool checked) {
  if (process_checked.exchange(checked) != checked) Count(checked);
}

// A thread that is told to check counts as one that wants it, for TensorsAreObserved.
ObservedScope::ObservedScope(Observed observed, int64_t step)
    : counted_(observed == Observed::kChecked),
      observed_before_(observed_thread.forced),
      step_before_(observed_thread.step) {
  if (observed != Observed::kAsBefore) observed_thread.forced = observed;
  if (step >= 0) observed_thread.step = step;
  if (counted_) Count(true);
}

ObservedScope::~ObservedScope() {
  observed_thread.forced = observed_before_;
  observed_thread.step = step_before_;
  if (counted_) Count(false);
}

int64_t ObservedStep() { return observed_thread.step; }

}  // namespace tutti
