#include "core/collective/shm/shared_store_choice.h"

#include <algorithm>

namespace tutti {
namespace {

// A trial may cost one part in so many of the time until the next.
constexpr int64_t kCostShare = 100;
// The other way must be faster by one part in so many: noise should not change the choice.
constexpr int64_t kLeastGain = 16;

uint8_t WordOf(SharedStores stores) noexcept { return static_cast<uint8_t>(stores); }

}  // namespace

void SharedStoreChoice::BeginTrial(const Kind& kind, SharedStores usual,
                                   Trials* trials) noexcept {
  // The ways take turns.
  const int ways = WaysOf(kind);
  int other = (static_cast<int>(trials->other) + 1) % ways;
  if (other == static_cast<int>(usual)) other = (other + 1) % ways;
  trials->usual = usual;
  trials->other = static_cast<SharedStores>(other);
  trials->other_ns = INT64_MAX;
  trials->usual_ns = INT64_MAX;
  trials->cost_ns = 0;
  trials->calls = 1;
}

void SharedStoreChoice::Note(const Kind& kind, int64_t active_ns) {
  std::atomic<uint8_t>& word = words_[Index(kind)];
  Trials& trials = trials_[Index(kind)];
  if (!trials.warm) {
    // The first call touches memory that nobody has touched before.
    trials.warm = true;
    trials.untimed = 0;
    trials.untried = WaysOf(kind) - 1;
    return;
  }
  if (trials.calls == 0) {
    // The untimed ones have taken as much.
    trials.until_next_ns -= std::max(trials.untimed, 1) * active_ns;
    trials.untimed = 0;
    if (trials.until_next_ns > 0) return;
    BeginTrial(kind, Choose(kind), &trials);
    word.store(WordOf(trials.other), std::memory_order_relaxed);
    return;
  }
  const int call = trials.calls++;
  if (call <= kRun) {
    trials.cost_ns += active_ns;
    if (call > 1) trials.other_ns = std::min(trials.other_ns, active_ns);
    if (call == kRun) word.store(WordOf(trials.usual), std::memory_order_relaxed);
    return;
  }
  if (call > kRun + 1) trials.usual_ns = std::min(trials.usual_ns, active_ns);
  if (call < 2 * kRun) return;
  trials.calls = 0;
  if (trials.other_ns < trials.usual_ns - trials.usual_ns / kLeastGain) {
    word.store(WordOf(trials.other), std::memory_order_relaxed);
    // The usual way is the dear one now; what it costs to try it again is known as well.
    trials.cost_ns = kRun * trials.usual_ns - kRun * trials.other_ns;
  } else {
    trials.cost_ns -= kRun * trials.usual_ns;
  }
  const int64_t least = kRun * std::min(trials.usual_ns, trials.other_ns);
  trials.until_next_ns = kCostShare * std::max(trials.cost_ns, least / 4);
  // The first choice is among all of them.
  if (trials.untried > 0 && --trials.untried > 0) trials.until_next_ns = 0;
}

}  // namespace tutti
