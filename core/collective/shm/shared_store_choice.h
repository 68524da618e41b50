// How a payload is written to shared memory: through the caches or past them, and results of folds
// behind the inputs or in their place.
//
// Between siblings of one core, which share their caches, plain stores are two to four times as
// fast; between some cores the lines would have to move from cache to cache, and stores that go
// past the caches win by as much. Between others what costs most is to take lines back that a peer
// has read: there a result had better go where the peer wrote what it was folded of, in lines that
// move to this core for reading anyway. The machine moves its virtual cores without telling. So the
// choice is measured, for each operation and size (powers of two): rank 0 times what its calls take
// from when all have come, tries another way now and then, and tells all ranks through the
// segment. What a trial costs decides when the next one is due: about one percent of the time goes
// into trials. The choice changes no byte, and whoever has to know where a rank writes its results
// is told by that rank; so it does not matter when a rank learns of a choice.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_STORE_CHOICE_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_STORE_CHOICE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/collective/call/call_header.h"
#include "core/collective/shm/shared_layout.h"

namespace tutti {

enum class SharedStores : uint8_t {
  kThroughCaches,
  kPastCaches,
  // Through the caches, and results where their inputs lay.
  kResultsInInputs,
  // The same; and large outputs, which otherwise go past them, through the caches as well.
  kAllThroughCaches,
};

class SharedStoreChoice {
 public:
  // Smaller payloads lie in the cache lines of the entry.
  static constexpr size_t kLeastBytes = 1024;

  // What a choice is made for.
  struct Kind {
    CollectiveOp op = CollectiveOp::kNone;
    size_t bytes = 0;
    SharedStores last = SharedStores::kPastCaches;  // of those that the call can use
  };

  SharedStoreChoice(SharedControl& control, bool decides) noexcept
      : words_(control.stores), decides_(decides) {}

  // Whether this call is to be timed on this rank: of small ones, whose cost the clock would add
  // to, one of many, but all of a trial.
  bool IsTimed(const Kind& kind) noexcept {
    if (!decides_ || kind.bytes < kLeastBytes) return false;
    Trials& trials = trials_[Index(kind)];
    return trials.calls != 0 || ++trials.untimed >= CallsPerTimed(kind.bytes);
  }
  // How to write now.
  SharedStores Choose(const Kind& kind) const noexcept {
    if (kind.bytes < kLeastBytes) return SharedStores::kThroughCaches;
    const uint8_t word = words_[Index(kind)].load(std::memory_order_relaxed);
    return word < WaysOf(kind) ? static_cast<SharedStores>(word) : SharedStores::kThroughCaches;
  }
  // A timed call has taken `active_ns`.
  void Note(const Kind& kind, int64_t active_ns);

 private:
  // A trial: some calls in another way, then as many the usual way. The first of each is not
  // counted, because peers may learn of the change in the middle of it.
  static constexpr int kRun = 4;

  struct Trials {
    int calls = 0;    // in this trial; 0: none is going on
    int untimed = 0;  // since the last one that was timed
    int untried = 0;  // ways that have had no trial yet
    SharedStores usual = SharedStores::kThroughCaches;
    SharedStores other = SharedStores::kThroughCaches;  // of this trial, or of the last one
    int64_t other_ns = 0;  // the fastest of the run
    int64_t usual_ns = 0;
    int64_t cost_ns = 0;   // of the run the other way
    int64_t until_next_ns = 0;
    bool warm = false;
  };

  static int CallsPerTimed(size_t bytes) noexcept { return bytes < (size_t{256} << 10) ? 32 : 1; }
  static int WaysOf(const Kind& kind) noexcept { return static_cast<int>(kind.last) + 1; }
  // Calls of an operation that share results, and those that do not, have a choice each.
  static size_t Index(const Kind& kind) noexcept {
    size_t row = static_cast<size_t>(kind.op);
    if (kind.last != SharedStores::kPastCaches) {
      row = static_cast<size_t>(kLastCollectiveOp) + (kind.op == CollectiveOp::kReduce ? 2 : 1);
    }
    return row * 64 + (63 - static_cast<size_t>(__builtin_clzll(kind.bytes)));
  }
  static void BeginTrial(const Kind& kind, SharedStores usual, Trials* trials) noexcept;

  std::array<std::atomic<uint8_t>, kSharedStoreChoices>& words_;
  const bool decides_;
  std::array<Trials, kSharedStoreChoices> trials_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_STORE_CHOICE_H_
