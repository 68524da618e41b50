// TensorObserver: looks at the tensors that pass through operations: into and out of collectives,
// reductions over replicas, updates of variables, checkpoints, and out of replicas' functions.
//
//   if (TensorsAreObserved()) {
//     TUTTI_RETURN_IF_ERROR(ObserveTensor({.op = "all_reduce", .name = "the input"}, *input));
//   }
//
// There are two: the checker, which may refuse a tensor (debugging/numerics_observer.h; the runtime
// installs it), and the recorder, which takes notes (debugging/dump_writer.h). Whether the checker
// looks is said for a thread, and for the replicas that the thread runs, or for the process; the
// recorder looks at everything while it is installed. While nobody looks TensorsAreObserved() is
// one relaxed load. Threads: any.
#ifndef TUTTI_CORE_TENSOR_TENSOR_OBSERVER_H_
#define TUTTI_CORE_TENSOR_TENSOR_OBSERVER_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Where a tensor was seen.
struct TensorSighting {
  std::string_view op;    // "all_reduce", "assign_add", "run"
  std::string_view name;  // for messages: "the result[\"loss\"]", "the value of variable 'w'"
  int64_t replica = -1;   // among those of all workers; -1: of none, or of all
};

class TensorObserver : public RefCounted {
 public:
  // Called on the operation's thread. An error becomes the operation's error.
  virtual Status Observe(const TensorSighting& sighting, const Tensor& tensor) = 0;
};

namespace tensor_internal {

// How many threads, and whether the process, have said that tensors are to be checked, and whether
// there is a recorder.
inline std::atomic<int64_t> observing{0};
bool ObservedHere();
bool CheckedHere();

}  // namespace tensor_internal

// Whether tensors of this thread's operations are looked at, by whomever; by the checker.
inline bool TensorsAreObserved() {
  return tensor_internal::observing.load(std::memory_order_relaxed) != 0 &&
         tensor_internal::ObservedHere();
}
inline bool NumericsAreChecked() {
  return tensor_internal::observing.load(std::memory_order_relaxed) != 0 &&
         tensor_internal::CheckedHere();
}

// Shows it to the recorder, and to the checker where numerics are checked, whose answer it gives.
Status ObserveTensor(const TensorSighting& sighting, const Tensor& tensor);
// Shows it to the checker alone, whether numerics are checked here or not; to the recorder alone.
Status CheckTensor(const TensorSighting& sighting, const Tensor& tensor);
void RecordTensor(const TensorSighting& sighting, const Tensor& tensor);

// Take the place of the ones before; null: nobody. Of the process.
void InstallTensorChecker(Ref<TensorObserver> checker);
void InstallTensorRecorder(Ref<TensorObserver> recorder);

// Whether the checker looks, until the opposite is said, for the calling thread or for all threads.
void SetThreadChecked(bool checked);
void SetProcessChecked(bool checked);

enum class Observed {
  kAsBefore,
  kChecked,  // numerics are checked
  kNot,      // nobody looks
};

// While it lives tensors of this thread are observed so, whatever was said, and are those of step
// `step` of a run (-1: as before).
class ObservedScope {
 public:
  explicit ObservedScope(Observed observed, int64_t step = -1);
  ~ObservedScope();
  ObservedScope(const ObservedScope&) = delete;
  ObservedScope& operator=(const ObservedScope&) = delete;

 private:
  const bool counted_;
  const Observed observed_before_;
  const int64_t step_before_;
};

// The step of the scope that the thread is in; -1 in none.
int64_t ObservedStep();

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_TENSOR_OBSERVER_H_
