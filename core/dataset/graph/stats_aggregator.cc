#include "core/dataset/graph/stats_aggregator.h"

#include <cmath>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace tutti {
namespace {

// Long enough that the machine's clock tells the rate of the processor's counter to a thousandth.
constexpr int64_t kCalibrationNs = 200'000;

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// A limit as Prometheus compares it, and a sum: as many digits as there are nanoseconds.
std::string SecondsText(int64_t ns) {
  std::string digits = Format("{}", ns % kSecondNs);
  digits.insert(0, 9 - digits.size(), '0');
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  return Format("{}.{}", ns / kSecondNs, digits);
}

// A value of a label: between quotes, in which these three are escaped.
std::string LabelText(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

using Items = std::vector<std::pair<std::string, Ref<Value>>>;

Result<Ref<Value>> ValueOf(const LatencyHistogram& histogram) {
  std::vector<double> limits;
  for (int i = 0; i + 1 < LatencyHistogram::kNumBuckets; ++i) {
    limits.push_back(Seconds(LatencyHistogram::LimitNs(i)));
  }
  limits.push_back(std::numeric_limits<double>::infinity());
  const Shape shape({LatencyHistogram::kNumBuckets});
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> limits_tensor,
                         Tensor::FromSpan<double>(shape, std::span<const double>(limits)));
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Tensor> counts,
      Tensor::FromSpan<int64_t>(shape, std::span<const int64_t>(histogram.counts)));
  const int64_t count = histogram.count();
  return Value::Dict(
      {{"count", Value::OfTensor(Tensor::Scalar(count))},
       {"counts", Value::OfTensor(std::move(counts))},
       {"limits", Value::OfTensor(std::move(limits_tensor))},
       {"max", Value::OfTensor(Tensor::Scalar(Seconds(histogram.max_ns)))},
       {"min", Value::OfTensor(Tensor::Scalar(Seconds(count == 0 ? 0 : histogram.min_ns)))},
       {"sum", Value::OfTensor(Tensor::Scalar(Seconds(histogram.sum_ns)))}});
}

}  // namespace

int64_t LatencyHistogram::count() const {
  int64_t count = 0;
  for (const int64_t part : counts) count += part;
  return count;
}

void LatencyHistogram::Add(const LatencyHistogram& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  sum_ns += other.sum_ns;
  min_ns = std::min(min_ns, other.min_ns);
  max_ns = std::max(max_ns, other.max_ns);
}

void StatsAggregator::Totals::Add(const LatencyRecord& record) {
  const LatencyHistogram read = record.Read();
  histograms[record.histogram_].Add(read);
  counters[record.elements_] += read.count();
  counters[record.failure_counter_] += LatencyRecord::Load(record.failures_);
}

StatsAggregator::Totals StatsAggregator::Sum() const {
  std::lock_guard lock(mutex_);
  Totals sum = ended_;
  for (const LatencyRecord* record : records_) sum.Add(*record);
  return sum;
}

Result<Ref<Value>> StatsAggregator::Read() const {
  const Totals sum = Sum();
  Items counters;
  for (const auto& [name, number] : sum.counters) {
    counters.emplace_back(name, Value::OfTensor(Tensor::Scalar(number)));
  }
  Items histograms;
  for (const auto& [name, histogram] : sum.histograms) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> value, ValueOf(histogram));
    histograms.emplace_back(name, std::move(value));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> all_counters, Value::Dict(std::move(counters)));
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> all_histograms, Value::Dict(std::move(histograms)));
  return Value::Dict({{"counters", std::move(all_counters)},
                      {"histograms", std::move(all_histograms)}});
}

std::string StatsAggregator::ToPrometheus() const {
  const Totals sum = Sum();
  std::string text;
  if (!sum.counters.empty()) {
    text += "# HELP tutti_dataset_total What datasets count.\n# TYPE tutti_dataset_total counter\n";
  }
  for (const auto& [name, number] : sum.counters) {
    text += Format("tutti_dataset_total{{name=\"{}\"}} {}\n", LabelText(name), number);
  }
  if (!sum.histograms.empty()) {
    text +=
        "# HELP tutti_dataset_latency_seconds How long an element took.\n"
        "# TYPE tutti_dataset_latency_seconds histogram\n";
  }
  for (const auto& [name, histogram] : sum.histograms) {
    const std::string label = LabelText(name);
    int64_t up_to = 0;
    for (int i = 0; i < LatencyHistogram::kNumBuckets; ++i) {
      up_to += histogram.counts[static_cast<size_t>(i)];
      text += Format("tutti_dataset_latency_seconds_bucket{{name=\"{}\",le=\"{}\"}} {}\n", label,
                     i + 1 == LatencyHistogram::kNumBuckets
                         ? "+Inf"
                         : SecondsText(LatencyHistogram::LimitNs(i)),
                     up_to);
    }
    text += Format("tutti_dataset_latency_seconds_sum{{name=\"{}\"}} {}\n", label,
                   SecondsText(histogram.sum_ns));
    text += Format("tutti_dataset_latency_seconds_count{{name=\"{}\"}} {}\n", label, up_to);
  }
  return text;
}

double StatsAggregator::NsPerTick(const TickClock& clock) {
  if (!clock.counts()) return 1;
  std::lock_guard lock(mutex_);
  if (ns_per_tick_ == 0) {
    const int64_t start_ns = RealClock().NowNs();
    const uint64_t start = ticks_.Now();
    while (RealClock().NowNs() - start_ns < kCalibrationNs) {
    }
    const uint64_t end = ticks_.Now();
    const TickClock::Scale scale = ticks_.ReadScale();
    ns_per_tick_ = static_cast<double>(scale.ToNs(end) - scale.ToNs(start)) /
                   static_cast<double>(end - start);
  }
  return ns_per_tick_;
}

LatencyRecord::LatencyRecord(Ref<StatsAggregator> aggregator, const Clock& clock,
                             std::string histogram, std::string elements, std::string failures)
    : aggregator_(std::move(aggregator)),
      clock_(clock),
      ns_per_tick_(aggregator_->NsPerTick(clock_)),
      histogram_(std::move(histogram)),
      elements_(std::move(elements)),
      failure_counter_(std::move(failures)) {
  std::lock_guard lock(aggregator_->mutex_);
  aggregator_->records_.insert(this);
}

LatencyRecord::~LatencyRecord() {
  std::lock_guard lock(aggregator_->mutex_);
  aggregator_->records_.erase(this);
  aggregator_->ended_.Add(*this);
}

LatencyHistogram LatencyRecord::Read() const {
  LatencyHistogram read;
  for (size_t i = 0; i < counts_.size(); ++i) read.counts[i] = Load(counts_[i]);
  // What no sample has come for yet is as the last one was.
  const int64_t others = Load(unmeasured_);
  const int64_t each = Load(last_ns_);
  if (others > 0) read.counts[static_cast<size_t>(LatencyHistogram::BucketOf(each))] += others;
  read.sum_ns = Load(sum_ns_) + others * each;
  read.min_ns = Load(min_ns_);
  read.max_ns = Load(max_ns_);
  return read;
}

}  // namespace tutti
