// TensorObserver: looks at the tensors that pass through operations: into and out of collectives,
// reductions over replicas, updates of variables, checkpoints, and out of replicas' functions.
//
//   if (TensorsAreObserved()) {
//     TUTTI_RETURN_IF_ERROR(ObserveTensor({.op = "all_reduce", .name = "the input"}, *input));
//   }
//
// The runtime installs what checks numerics (debugging/numerics_observer.h). Whether it looks is
// said for a thread, and for the replicas that the thread runs, or for the process; while nobody
// has said so, TensorsAreObserved() is one relaxed load. Threads: any.
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

// How many threads, and whether the process, have said that tensors are to be observed.
inline std::atomic<int64_t> observing{0};
bool ObservedHere();

}  // namespace tensor_internal

// Whether tensors of this thread's operations are looked at.
inline bool TensorsAreObserved() {
  return tensor_internal::observing.load(std::memory_order_relaxed) != 0 &&
         tensor_internal::ObservedHere();
}

// What the installed observer says; OK when there is none.
Status ObserveTensor(const TensorSighting& sighting, const Tensor& tensor);

// Takes the place of the observer before. Of the process.
void InstallTensorObserver(Ref<TensorObserver> observer);

// From now on, until the opposite is said, for the calling thread or for all threads.
void SetThreadObserved(bool observed);
void SetProcessObserved(bool observed);

// While it lives tensors of this thread are observed or not, whatever was said, and are those of
// step `step` of a run (-1: as before).
class ObservedScope {
 public:
  explicit ObservedScope(bool observed, int64_t step = -1);
  ~ObservedScope();
  ObservedScope(const ObservedScope&) = delete;
  ObservedScope& operator=(const ObservedScope&) = delete;

 private:
  const bool entered_;  // false: there was nothing to change
  int forced_before_ = 0;
  int64_t step_before_ = -1;
};

// The step of the scope that the thread is in; -1 in none.
int64_t ObservedStep();

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_TENSOR_OBSERVER_H_
