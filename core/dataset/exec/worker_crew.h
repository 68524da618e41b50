// WorkerCrew: threads that work on one list of items together with the thread that asks, for a
// parallel map. They start with the first Run and sleep in between.
#ifndef TUTTI_CORE_DATASET_EXEC_WORKER_CREW_H_
#define TUTTI_CORE_DATASET_EXEC_WORKER_CREW_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/thread.h"

namespace tutti {

class WorkerCrew {
 public:
  // `size` threads in all, the caller's included; -1 chooses by the machine, 0 and 1 mean none but
  // the caller's.
  WorkerCrew(Ref<Environment> environment, int64_t size);

  int64_t size() const { return size_; }

  // Calls work(i) for each i in [0, count) and returns when all calls have returned. CANCELLED,
  // with nothing called, after Stop. An exception of a call is the returned status (exception.h),
  // and leaves some of the calls out; it, too, ends this only when nothing is called any more.
  template <class Work>
  Status Run(size_t count, const Work& work) {
    return RunErased(
        count, [](const void* target, size_t i) { (*static_cast<const Work*>(target))(i); }, &work);
  }

  void Stop();
  Status Join(const CallOptions& options);

 private:
  using Call = void (*)(const void* target, size_t i);

  Status RunErased(size_t count, Call call, const void* target);
  void Start();
  void Serve();
  Status Work(Call call, const void* target, size_t count);
  void AwaitThreads();

  const Ref<Environment> environment_;
  const int64_t size_;
  std::vector<Thread> threads_;  // of the caller
  bool started_ = false;
  std::atomic<size_t> next_item_{0};

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  uint64_t round_ = 0;
  size_t idle_ = 0;  // threads that have finished this round
  Call call_ = nullptr;
  const void* target_ = nullptr;
  size_t count_ = 0;
  Status failure_;    // of the threads in this round, the first
  bool stopped_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_WORKER_CREW_H_
