// RunProfile: what one iterator has done so far, operation by operation: rows, bytes, calls, time,
// and how full buffers were, where the option experimental_stats.profile asks for it; and what was
// chosen where the choice was left to the library. RunReport (run_report.h) makes of it what people
// read.
//
// Each stage that is measured has a NodeProfile of its own, which the one thread that may be in it
// writes with plain loads and stores. Reading the processor's counter costs more than everything
// else here, so that fast calls are sampled (sampled_calls.h).
//
// Threads: making records and reading them any; what a record says about its writers counts there.
#ifndef TUTTI_CORE_DATASET_GRAPH_RUN_PROFILE_H_
#define TUTTI_CORE_DATASET_GRAPH_RUN_PROFILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/tick_clock.h"
#include "core/dataset/graph/node.h"
#include "core/dataset/graph/sampled_calls.h"

namespace tutti {

class NodeProfile {
 public:
  NodeProfile(const Node& node, const TickClock& clock)
      : node_(Ref<const Node>::Retain(&node)), clock_(clock) {}

  const Node& node() const { return *node_; }
  uint64_t Now() const { return clock_.Now(); }

  // ---- Of who calls the stage; one thread at a time.

  // Whether this call is to be measured.
  bool IsDue() {
    Plus(calls_, 1);
    return sampled_.IsDue();
  }
  void AddRows(int64_t rows) { Plus(rows_, rows); }
  void AddFailure() { Plus(failures_, 1); }
  // A measured call took so long. True when the bytes of its rows shall be added, too.
  bool Add(uint64_t ticks);
  void AddBytes(int64_t rows, int64_t bytes) {
    Plus(sized_rows_, rows);
    Plus(sized_bytes_, bytes);
  }

  // ---- Of any thread.

  // Calls of the node's function, which made `rows` in so many ticks.
  void AddFunctionCall(int64_t rows, uint64_t ticks) {
    function_calls_.fetch_add(1, std::memory_order_relaxed);
    function_rows_.fetch_add(rows, std::memory_order_relaxed);
    function_ticks_.fetch_add(static_cast<int64_t>(ticks), std::memory_order_relaxed);
  }
  // Of some of these calls: what they took, and what their threads computed meanwhile.
  bool IsFunctionCallDue() const {
    const int64_t calls = function_calls_.load(std::memory_order_relaxed);
    return calls < 16 || calls % 16 == 0;
  }
  void AddComputing(uint64_t ticks, int64_t cpu_ns) {
    computing_ticks_.fetch_add(static_cast<int64_t>(ticks), std::memory_order_relaxed);
    computing_ns_.fetch_add(cpu_ns, std::memory_order_relaxed);
  }
  // What the node's own threads did, that of its function and its inputs included.
  void AddWork(uint64_t ticks) {
    work_ticks_.fetch_add(static_cast<int64_t>(ticks), std::memory_order_relaxed);
  }
  // Threads or calls at once of the node's own; 0: none.
  void SetParallelism(int64_t parallelism) {
    parallelism_.store(parallelism, std::memory_order_relaxed);
  }
  // A consumer came and found so many of at most `size` elements ready.
  void AddFill(int64_t elements, int64_t size) {
    buffer_size_.store(size, std::memory_order_relaxed);
    fill_samples_.fetch_add(1, std::memory_order_relaxed);
    fill_sum_.fetch_add(elements, std::memory_order_relaxed);
    if (elements == 0) fill_empty_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  friend class RunProfile;
  using Number = std::atomic<int64_t>;

  // There is one writer.
  static void Plus(Number& number, int64_t more) {
    number.store(number.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  const Ref<const Node> node_;
  const TickClock clock_;
  SampledCalls sampled_;
  Number calls_{0};
  Number rows_{0};
  Number failures_{0};
  Number ticks_{0};
  Number measured_{0};
  Number sized_rows_{0};
  Number sized_bytes_{0};
  Number function_calls_{0};
  Number function_rows_{0};
  Number function_ticks_{0};
  Number computing_ticks_{0};
  Number computing_ns_{0};
  Number work_ticks_{0};
  Number parallelism_{0};
  Number buffer_size_{-1};
  Number fill_samples_{0};
  Number fill_sum_{0};
  Number fill_empty_{0};
};

// What the stages of one node have done, in ns.
struct NodeTotals {
  int64_t calls = 0;
  int64_t rows = 0;
  int64_t failures = 0;
  int64_t ns = 0;
  double bytes = 0;  // about: some of the rows were looked at
  int64_t function_calls = 0;
  int64_t function_rows = 0;
  int64_t function_ns = 0;
  double computing = 0;  // of the function's time, the part in which its thread computed
  int64_t work_ns = 0;
  int64_t parallelism = 0;
  int64_t buffer_size = -1;  // -1: there is none
  double buffer_fill = 0;    // elements that were ready on average
  double buffer_empty = 0;   // of the times that somebody came
};

class RunProfile final : public RefCounted {
 public:
  // `measures`: stages get records; else only decisions are kept.
  RunProfile(const Clock& clock, bool measures);

  bool measures() const { return measures_; }
  // A record for one more stage of `node`, which lives as long as the profile; null where nothing
  // is measured.
  NodeProfile* Add(const Node& node);
  // What is decided of `part` is told of `whole`, of whose stage it is a part.
  void ShowAs(const Node& part, const Node& whole);
  // "num_parallel_calls: 2 -> 4", in order; of each node the last ones are kept.
  void AddDecision(const Node& node, std::string decision);
  std::vector<std::string> Decisions(const Node& node) const;
  bool has_decisions() const;
  const TickClock& clock() const { return clock_; }

  // The consumer: it asked for elements from `then` to `now`. One thread at a time.
  void AddTurn(uint64_t then, uint64_t now, int64_t rows);

  struct Totals {
    int64_t turns = 0;
    int64_t rows = 0;
    int64_t waited_ns = 0;   // in its calls
    int64_t elapsed_ns = 0;  // from the first call to the end of the last
  };
  Totals ReadTotals() const;
  NodeTotals Read(const Node& node) const;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  ~RunProfile() override;

  double NsPerTick() const;

  const bool measures_;
  const TickClock clock_;
  const uint64_t start_;
  NodeProfile::Number turns_{0};
  NodeProfile::Number rows_{0};
  NodeProfile::Number waited_{0};
  std::atomic<uint64_t> first_{0};
  std::atomic<uint64_t> last_{0};
  mutable std::mutex mutex_;  // guards all below
  std::vector<std::unique_ptr<NodeProfile>> records_;
  std::map<const Node*, std::pair<Ref<const Node>, Ref<const Node>>> wholes_;
  std::map<const Node*, std::vector<std::string>> decisions_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_RUN_PROFILE_H_
