// Whether a payload is written to shared memory through the caches or past them.
//
// Between siblings of one core, which share their caches, plain stores are two to four times as
// fast; between cores the lines would have to move from cache to cache, and stores that go past the
// caches win by as much. The machine moves its virtual cores without telling. So the choice is
// measured, for each operation and size (powers of two): rank 0 times what its calls take, without
// its waiting for others, tries the other way now and then, and tells all ranks through the
// segment. What a trial costs decides when the next one is due: about one percent of the time goes
// into trials. The choice changes no byte and no message, so that it does not matter when a rank
// learns of it.

#ifndef TUTTI_CORE_COLLECTIVE_SHARED_STORE_CHOICE_H_
#define TUTTI_CORE_COLLECTIVE_SHARED_STORE_CHOICE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/collective/call_header.h"
#include "core/collective/shared_layout.h"

namespace tutti {

class SharedStoreChoice {
 public:
  // Smaller payloads lie in the cache lines of the entry.
  static constexpr size_t kLeastBytes = 1024;

  SharedStoreChoice(SharedControl& control, bool decides) noexcept
      : words_(control.store_past_cache), decides_(decides) {}

  // Whether this call is to be timed on this rank: of small ones, whose cost the clock would add
  // to, one of many, but all of a trial.
  bool IsTimed(CollectiveOp op, size_t bytes) noexcept {
    if (!decides_ || bytes < kLeastBytes) return false;
    Trials& trials = trials_[Index(op, bytes)];
    return trials.calls != 0 || ++trials.untimed >= CallsPerTimed(bytes);
  }
  // Whether to write past the caches now.
  bool PastCache(CollectiveOp op, size_t bytes) const noexcept {
    if (bytes < kLeastBytes) return false;
    return words_[Index(op, bytes)].load(std::memory_order_relaxed) != 0;
  }
  // A timed call has taken `active_ns`.
  void Note(CollectiveOp op, size_t bytes, int64_t active_ns);

 private:
  // A trial: some calls the other way, then as many the usual way. The first of each is not
  // counted, because peers may learn of the change in the middle of it.
  static constexpr int kRun = 4;

  struct Trials {
    int calls = 0;    // in this trial; 0: none is going on
    int untimed = 0;  // since the last one that was timed
    bool usual = false;
    int64_t other_ns = 0;  // the fastest of the run
    int64_t usual_ns = 0;
    int64_t cost_ns = 0;   // of the run the other way
    int64_t until_next_ns = 0;
    bool warm = false;
  };

  static int CallsPerTimed(size_t bytes) noexcept { return bytes < (size_t{256} << 10) ? 32 : 1; }
  static size_t Index(CollectiveOp op, size_t bytes) noexcept {
    return static_cast<size_t>(op) * 64 + (63 - static_cast<size_t>(__builtin_clzll(bytes)));
  }

  std::array<std::atomic<uint8_t>, kSharedStoreChoices>& words_;
  const bool decides_;
  std::array<Trials, kSharedStoreChoices> trials_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHARED_STORE_CHOICE_H_
