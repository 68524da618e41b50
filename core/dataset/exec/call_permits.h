// CallPermits: how many calls of functions may run at once on the threads of one iterator's stages
// (the option threading.private_threadpool_size). Who holds one waits for no other.
#ifndef TUTTI_CORE_DATASET_EXEC_CALL_PERMITS_H_
#define TUTTI_CORE_DATASET_EXEC_CALL_PERMITS_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tutti {

class CallPermits {
 public:
  // `count` 0: as many as anybody wants.
  explicit CallPermits(int64_t count) : count_(count) {}

  int64_t count() const { return count_; }

  // Waits for a permit, which it gives back when it ends.
  class Holder {
   public:
    explicit Holder(CallPermits& permits) : permits_(permits) { permits_.Acquire(); }
    ~Holder() { permits_.Release(); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

   private:
    CallPermits& permits_;
  };

 private:
  void Acquire() {
    if (count_ == 0) return;
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [this] { return used_ < count_; });
    ++used_;
  }
  void Release() {
    if (count_ == 0) return;
    {
      std::lock_guard lock(mutex_);
      --used_;
    }
    returned_.notify_one();
  }

  const int64_t count_;
  std::mutex mutex_;  // guards used_
  std::condition_variable returned_;
  int64_t used_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_CALL_PERMITS_H_
