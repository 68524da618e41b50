#include "core/collective/shared_store_choice.h"

#include <algorithm>

namespace tutti {
namespace {

// A trial may cost one part in so many of the time until the next.
constexpr int64_t kCostShare = 100;
// The other way must be faster by one part in so many: noise should not change the choice.
constexpr int64_t kLeastGain = 16;

}  // namespace

void SharedStoreChoice::Note(CollectiveOp op, size_t bytes, int64_t active_ns) {
  std::atomic<uint8_t>& word = words_[Index(op, bytes)];
  Trials& trials = trials_[Index(op, bytes)];
  if (!trials.warm) {
    // The first call touches memory that nobody has touched before.
    trials.warm = true;
    trials.untimed = 0;
    return;
  }
  if (trials.calls == 0) {
    // The untimed ones have taken as much.
    trials.until_next_ns -= std::max(trials.untimed, 1) * active_ns;
    trials.untimed = 0;
    if (trials.until_next_ns > 0) return;
    trials.usual = word.load(std::memory_order_relaxed) != 0;
    trials.other_ns = INT64_MAX;
    trials.usual_ns = INT64_MAX;
    trials.cost_ns = 0;
    trials.calls = 1;
    word.store(trials.usual ? 0 : 1, std::memory_order_relaxed);
    return;
  }
  const int call = trials.calls++;
  if (call <= kRun) {
    trials.cost_ns += active_ns;
    if (call > 1) trials.other_ns = std::min(trials.other_ns, active_ns);
    if (call == kRun) word.store(trials.usual ? 1 : 0, std::memory_order_relaxed);
    return;
  }
  if (call > kRun + 1) trials.usual_ns = std::min(trials.usual_ns, active_ns);
  if (call < 2 * kRun) return;
  trials.calls = 0;
  if (trials.other_ns < trials.usual_ns - trials.usual_ns / kLeastGain) {
    word.store(trials.usual ? 0 : 1, std::memory_order_relaxed);
    // The usual way is the dear one now; what it costs to try it again is known as well.
    trials.cost_ns = kRun * trials.usual_ns - kRun * trials.other_ns;
  } else {
    trials.cost_ns -= kRun * trials.usual_ns;
  }
  const int64_t least = kRun * std::min(trials.usual_ns, trials.other_ns);
  trials.until_next_ns = kCostShare * std::max(trials.cost_ns, least / 4);
}

}  // namespace tutti
