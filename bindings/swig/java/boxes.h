// What Java holds of an object of the library: the handle of a box.
//
// A box holds one reference, which goes with close(), and those of the calls that use it now. Boxes
// are used again as soon as they are empty, and their memory is never given back: a native function
// has read the handle out of a Java object before it looks at the box, which another thread may
// have closed in between. The handle names box and generation, and a box that has gone on to its
// next generation refuses the handles of the last one. A box whose generations are used up stays
// empty.
#ifndef TUTTI_BINDINGS_SWIG_JAVA_BOXES_H_
#define TUTTI_BINDINGS_SWIG_JAVA_BOXES_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

namespace tutti_java {

// On a line of its own: two replicas use boxes side by side.
struct alignas(64) Box {
  static constexpr uint64_t kClosed = uint64_t{1} << 31;
  static constexpr uint64_t kUsers = kClosed - 1;
  static constexpr uint32_t kLastGeneration = INT32_MAX;

  // The generation above, then whether it is closed, and below the users, of which the open box
  // itself is one.
  std::atomic<uint64_t> state{uint64_t{1} << 32 | kClosed};
  std::atomic<void *> object{nullptr};  // only whoever is a user may touch what it points to
  void (*release)(void *object) = nullptr;
  int64_t bytes = 0;      // that count as memory outside of the heap
  uint32_t index = 0;
  Box *next = nullptr;    // of those that are empty

  uint32_t Generation() const {
    return static_cast<uint32_t>(state.load(std::memory_order_relaxed) >> 32);
  }
  bool IsOpen(uint32_t generation, uint64_t now) const {
    return now >> 32 == generation && (now & kClosed) == 0;
  }
  bool Pin(uint32_t generation) {
    uint64_t now = state.load(std::memory_order_relaxed);
    while (IsOpen(generation, now)) {
      if (state.compare_exchange_weak(now, now + 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
};

class Boxes {
 public:
  // Null short of memory.
  Box *Take() {
    Idle &idle = OfThread();
    if (idle.first == nullptr && !Refill(idle)) return nullptr;
    Box *box = idle.first;
    idle.first = box->next;
    --idle.count;
    return box;
  }
  void Give(Box *box) {
    Idle &idle = OfThread();
    box->next = idle.first;
    idle.first = box;
    if (++idle.count > 2 * kAtATime) Return(idle, kAtATime);
  }
  Box *At(int64_t handle) const {
    const auto index = static_cast<uint32_t>(handle);
    return chunks_[index / kPerChunk].load(std::memory_order_acquire) + index % kPerChunk;
  }

 private:
  static constexpr uint32_t kPerChunk = 256;
  static constexpr uint32_t kChunks = uint32_t{1} << 17;  // enough for 2 GiB of boxes
  static constexpr int kAtATime = 64;

  // The empty boxes of a thread.
  struct Idle {
    Box *first = nullptr;
    int count = 0;
    ~Idle();
  };
  static Idle &OfThread() {
    thread_local Idle idle;
    return idle;
  }

  bool Refill(Idle &idle) {
    const std::lock_guard lock(mutex_);
    if (first_ == nullptr && !AddChunk()) return false;
    for (int i = 0; i < kAtATime && first_ != nullptr; ++i) {
      Box *box = first_;
      first_ = box->next;
      box->next = idle.first;
      idle.first = box;
      ++idle.count;
    }
    return true;
  }
  void Return(Idle &idle, int count) {
    const std::lock_guard lock(mutex_);
    for (; count > 0 && idle.first != nullptr; --count, --idle.count) {
      Box *box = idle.first;
      idle.first = box->next;
      box->next = first_;
      first_ = box;
    }
  }
  bool AddChunk() {
    if (used_chunks_ == kChunks) return false;
    auto *chunk = new (std::nothrow) Box[kPerChunk];
    if (chunk == nullptr) return false;
    for (uint32_t i = 0; i < kPerChunk; ++i) {
      chunk[i].index = used_chunks_ * kPerChunk + i;
      chunk[i].next = first_;
      first_ = &chunk[i];
    }
    chunks_[used_chunks_++].store(chunk, std::memory_order_release);
    return true;
  }

  std::mutex mutex_;          // guards first_ and used_chunks_
  Box *first_ = nullptr;      // empty boxes of no thread
  uint32_t used_chunks_ = 0;
  std::atomic<Box *> chunks_[kChunks] = {};
};
// Threads may use it until the process is gone.
inline Boxes boxes;
inline Boxes::Idle::~Idle() { boxes.Return(*this, count); }

}  // namespace tutti_java

#endif  // TUTTI_BINDINGS_SWIG_JAVA_BOXES_H_
