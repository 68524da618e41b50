// StatsAggregator: where datasets whose options name it write down how long their elements took,
// and how many there were: histograms and counters by name, added up over all iterators.
//
// Who measures has a LatencyRecord of its own, which one thread at a time writes, with plain loads
// and stores: a sample costs two readings of the processor's counter and a few additions. Fast
// calls are sampled (sampled_calls.h): the rows of those between count with the next sample, so
// that there are as many as there were. Readers add the records up; one that ends leaves what it
// has to its aggregator.
//
//   if (record.IsDue()) {
//     const uint64_t then = record.Now();
//     ...
//     record.Add(rows, record.Now() - then);
//   } else {
//     ...
//     record.AddRows(rows);
//   }
//
// Threads: the aggregator's functions any.
#ifndef TUTTI_CORE_DATASET_GRAPH_STATS_AGGREGATOR_H_
#define TUTTI_CORE_DATASET_GRAPH_STATS_AGGREGATOR_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/tick_clock.h"
#include "core/dataset/graph/sampled_calls.h"
#include "core/tensor/value.h"

namespace tutti {

class LatencyRecord;

// Durations in ns. counts[i] of them are at most LimitNs(i), and more than LimitNs(i - 1).
struct LatencyHistogram {
  static constexpr int kNumBuckets = 32;
  // 64 ns, and twice as much from one to the next, up to 69 s; the last has no limit.
  static constexpr int kFirstBit = 6;
  static constexpr int64_t LimitNs(int bucket) {
    return bucket == kNumBuckets - 1 ? std::numeric_limits<int64_t>::max()
                                     : int64_t{1} << (bucket + kFirstBit);
  }
  static int BucketOf(int64_t ns) {
    const int bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(ns, 1) - 1));
    return std::clamp(bits - kFirstBit, 0, kNumBuckets - 1);
  }

  int64_t count() const;
  void Add(const LatencyHistogram& other);

  std::array<int64_t, kNumBuckets> counts{};
  int64_t sum_ns = 0;
  int64_t min_ns = std::numeric_limits<int64_t>::max();
  int64_t max_ns = 0;
};

class StatsAggregator final : public RefCounted {
 public:
  StatsAggregator() : ticks_(RealClock()) {}

  // {"counters": {name: int64}, "histograms": {name: {"count", "counts", "limits", "max", "min",
  // "sum"}}}: count int64, counts int64[32], all others float64 in seconds, limits [32] the upper
  // limits of the counts, of which the last is infinite.
  Result<Ref<Value>> Read() const;
  // The same in the text format of Prometheus.
  std::string ToPrometheus() const;

  // What is measured on `clock` from here on: ns in a tick of TickClock(clock).
  double NsPerTick(const TickClock& clock);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  friend class LatencyRecord;
  ~StatsAggregator() override = default;

  struct Totals {
    std::map<std::string, LatencyHistogram> histograms;
    std::map<std::string, int64_t> counters;
    void Add(const LatencyRecord& record);
  };
  Totals Sum() const;

  const TickClock ticks_;
  mutable std::mutex mutex_;  // guards all below
  double ns_per_tick_ = 0;    // of ticks_; 0: not measured yet
  Totals ended_;
  std::set<const LatencyRecord*> records_;
};

// One place that is measured. Names as they stand in the aggregator.
class LatencyRecord {
 public:
  LatencyRecord(Ref<StatsAggregator> aggregator, const Clock& clock, std::string histogram,
                std::string elements, std::string failures);
  ~LatencyRecord();
  LatencyRecord(const LatencyRecord&) = delete;
  LatencyRecord& operator=(const LatencyRecord&) = delete;

  uint64_t Now() const { return clock_.Now(); }
  // Whether this call is to be measured.
  bool IsDue() { return sampled_.IsDue() || !clock_.counts(); }
  // `rows` > 0 elements took `ticks` together; each is a sample of its share.
  void Add(int64_t rows, uint64_t ticks) {
    sampled_.Measured(ticks);
    const auto ns = static_cast<int64_t>(static_cast<double>(ticks) * ns_per_tick_);
    const int64_t each = rows == 1 ? ns : ns / rows;
    const int64_t others = Load(unmeasured_);
    unmeasured_.store(0, std::memory_order_relaxed);
    last_ns_.store(each, std::memory_order_relaxed);
    Plus(counts_[static_cast<size_t>(LatencyHistogram::BucketOf(each))], rows + others);
    Plus(sum_ns_, ns + others * each);
    if (each < Load(min_ns_)) min_ns_.store(each, std::memory_order_relaxed);
    if (each > Load(max_ns_)) max_ns_.store(each, std::memory_order_relaxed);
  }
  // Of a call that was not due.
  void AddRows(int64_t rows) { Plus(unmeasured_, rows); }
  void AddFailure() { Plus(failures_, 1); }

 private:
  friend class StatsAggregator;
  using Number = std::atomic<int64_t>;

  static int64_t Load(const Number& number) { return number.load(std::memory_order_relaxed); }
  // There is one writer.
  static void Plus(Number& number, int64_t more) {
    number.store(Load(number) + more, std::memory_order_relaxed);
  }
  LatencyHistogram Read() const;

  const Ref<StatsAggregator> aggregator_;
  const TickClock clock_;
  const double ns_per_tick_;
  const std::string histogram_;
  const std::string elements_;
  const std::string failure_counter_;
  SampledCalls sampled_;
  std::array<Number, LatencyHistogram::kNumBuckets> counts_{};
  Number unmeasured_{0};  // rows since the last sample
  Number last_ns_{0};     // of each row of that
  Number sum_ns_{0};
  Number min_ns_{std::numeric_limits<int64_t>::max()};
  Number max_ns_{0};
  Number failures_{0};
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_STATS_AGGREGATOR_H_
