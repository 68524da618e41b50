// What AUTOTUNE means: numbers of calls at once, of threads and of buffered elements that follow
// what is measured while an iterator is read.
//
// Calls at once (TunedCalls) are looked at from time to time by who delivers the elements. Where
// the consumer had to wait for a quarter of the time while all calls were under way, their number
// is doubled; where it waited nearly all of the time, a short look is enough, and it is quadrupled
// unless there is a RAM budget. Where it still waits and there is not a tenth more in a second, it
// goes back, and the next attempt comes later than the last one; where four times as many brought
// less than twice as many could, it goes half the way back. Where nobody ever waited, it is halved,
// once.
// A buffer (TunedBuffer) that was full and is found empty gets twice the size.
//
// All of one iterator share the CPU budget (experimental_optimization.autotune_cpu_budget): each
// has one call at least, and together they have no more than the budget, as far as that allows.
// Buffers keep to the RAM budget (ram_budget.h); where there is none, a tuned one keeps to
// kMostTunedBytes.
//
// Every change is in the RunProfile, for explain.
#ifndef TUTTI_CORE_DATASET_EXEC_AUTOTUNER_H_
#define TUTTI_CORE_DATASET_EXEC_AUTOTUNER_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/base/ref.h"
#include "core/base/tick_clock.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"

namespace tutti {

class RunProfile;

// Of one tuned number of calls, where there is no budget.
inline constexpr int64_t kMostTunedCalls = 16;
inline constexpr int64_t kMostTunedElements = 512;
inline constexpr int64_t kMostTunedBytes = int64_t{64} << 20;

// What the tuned numbers of one iterator share; outlives its stages.
class Autotuner {
 public:
  // `cpu_budget` 0: none.
  explicit Autotuner(int64_t cpu_budget) : cpu_budget_(cpu_budget) {}
  Autotuner(const Autotuner&) = delete;
  Autotuner& operator=(const Autotuner&) = delete;

  // Threads: any. Takes up to `wanted` calls of the budget, and says how many.
  int64_t Take(int64_t wanted);
  // The one that everybody may have.
  void TakeFirst() { used_.fetch_add(1, std::memory_order_relaxed); }
  void GiveBack(int64_t calls) { used_.fetch_sub(calls, std::memory_order_relaxed); }

 private:
  const int64_t cpu_budget_;
  std::atomic<int64_t> used_{0};
};

class TunedCalls {
 public:
  // `first` to begin with, at most `most`; `attribute` is what it is called in explain. Where
  // `tunes` is false, or the context has no Autotuner, it stays at `first`.
  TunedCalls(const Node& node, const ExecContext& context, std::string_view attribute, bool tunes,
             int64_t first, int64_t most);
  ~TunedCalls();
  TunedCalls(const TunedCalls&) = delete;
  TunedCalls& operator=(const TunedCalls&) = delete;

  int64_t now() const { return now_; }
  // For Observe; nothing where nothing is tuned.
  uint64_t Now() const { return autotuner_ != nullptr ? clock_.Now() : 0; }
  // The consumer has got `rows`; for so long it waited for them, while all calls were under way or
  // not. True when there may be more calls now than before. One thread at a time.
  bool Observe(int64_t rows, uint64_t waited, bool all_busy);

 private:
  // Whether enough was seen since the window began, `ns` ago.
  bool HasSeenEnough(double ns, double ticks) const;
  bool Decide(double rate, double ticks);
  void Set(int64_t calls, std::string_view why);

  const Ref<const Node> node_;
  RunProfile* const profile_;
  NodeProfile* const record_;
  Autotuner* const autotuner_;  // null: it does not change
  const std::string_view attribute_;
  const TickClock clock_;
  // Within a RAM budget there may be no room for what four times the calls make.
  const bool hurries_;
  const int64_t least_ = 1;
  const int64_t most_;
  int64_t now_;
  // Since the window began.
  uint64_t began_ = 0;
  int64_t rows_ = 0;
  uint64_t waits_ = 0;
  uint64_t busy_waits_ = 0;
  // Before the last doubling; 0: there is none to be judged.
  int64_t before_ = 0;
  double rate_before_ = 0;
  bool skips_ = false;  // the window in which the number changed
  int64_t pause_ = 0;   // windows without an attempt
  int64_t next_pause_ = 8;
  int64_t idle_ = 0;    // windows in which nobody waited
  bool halved_ = false;
};

class TunedBuffer {
 public:
  TunedBuffer(const Node& node, const ExecContext& context, bool tunes, int64_t first);
  TunedBuffer(const TunedBuffer&) = delete;
  TunedBuffer& operator=(const TunedBuffer&) = delete;

  int64_t now() const { return now_; }
  // With the buffer's lock. It is full.
  void WasFull() { was_full_ = true; }
  // Somebody found it empty, and not at the end; an element has so many bytes. True when it is
  // larger now.
  bool WasEmpty(int64_t row_bytes);

 private:
  const Ref<const Node> node_;
  RunProfile* const profile_;
  const bool tunes_;
  bool was_full_ = false;
  int64_t now_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_AUTOTUNER_H_
