#include "core/dataset/graph/run_profile.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

// Sizes are looked at in the first calls, and then in one of so many.
constexpr int64_t kSizedEach = 16;
// Long enough that the machine's clock tells the rate of the processor's counter.
constexpr int64_t kShortestNs = 100'000;
constexpr size_t kMostDecisions = 12;

}  // namespace

bool NodeProfile::Add(uint64_t ticks) {
  Plus(ticks_, static_cast<int64_t>(ticks) * sampled_.gap());
  sampled_.Measured(ticks);
  const int64_t measured = measured_.load(std::memory_order_relaxed);
  measured_.store(measured + 1, std::memory_order_relaxed);
  return measured < kSizedEach || measured % kSizedEach == 0;
}

RunProfile::RunProfile(const Clock& clock, bool measures)
    : measures_(measures), clock_(clock), start_(clock_.Now()) {}

RunProfile::~RunProfile() = default;

NodeProfile* RunProfile::Add(const Node& node) {
  if (!measures_) return nullptr;
  auto record = std::make_unique<NodeProfile>(node, clock_);
  NodeProfile* const made = record.get();
  std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
  return made;
}

void RunProfile::ShowAs(const Node& part, const Node& whole) {
  std::lock_guard lock(mutex_);
  wholes_.insert_or_assign(&part, std::pair(Ref<const Node>::Retain(&part),
                                            Ref<const Node>::Retain(&whole)));
}

void RunProfile::AddDecision(const Node& node, std::string decision) {
  std::lock_guard lock(mutex_);
  const auto whole = wholes_.find(&node);
  std::vector<std::string>& all =
      decisions_[whole == wholes_.end() ? &node : whole->second.second.get()];
  if (all.size() == kMostDecisions) all.erase(all.begin());
  all.push_back(std::move(decision));
}

std::vector<std::string> RunProfile::Decisions(const Node& node) const {
  std::lock_guard lock(mutex_);
  const auto found = decisions_.find(&node);
  return found == decisions_.end() ? std::vector<std::string>() : found->second;
}

bool RunProfile::has_decisions() const {
  std::lock_guard lock(mutex_);
  return !decisions_.empty();
}

void RunProfile::AddTurn(uint64_t then, uint64_t now, int64_t rows) {
  if (turns_.load(std::memory_order_relaxed) == 0) first_.store(then, std::memory_order_relaxed);
  NodeProfile::Plus(turns_, 1);
  NodeProfile::Plus(rows_, rows);
  NodeProfile::Plus(waited_, static_cast<int64_t>(now - then));
  last_.store(now, std::memory_order_relaxed);
}

double RunProfile::NsPerTick() const {
  if (!clock_.counts()) return 1;
  TickClock::Scale scale = clock_.ReadScale();
  uint64_t now = clock_.Now();
  while (scale.ToNs(now) - scale.ToNs(start_) < kShortestNs) {
    scale = clock_.ReadScale();
    now = clock_.Now();
  }
  return static_cast<double>(scale.ToNs(now) - scale.ToNs(start_)) /
         static_cast<double>(now - start_);
}

RunProfile::Totals RunProfile::ReadTotals() const {
  const double ns_per_tick = NsPerTick();
  const auto ns = [&](double ticks) { return static_cast<int64_t>(ticks * ns_per_tick); };
  Totals totals;
  totals.turns = turns_.load(std::memory_order_relaxed);
  totals.rows = rows_.load(std::memory_order_relaxed);
  totals.waited_ns = ns(static_cast<double>(waited_.load(std::memory_order_relaxed)));
  const uint64_t first = first_.load(std::memory_order_relaxed);
  const uint64_t last = last_.load(std::memory_order_relaxed);
  if (totals.turns > 0 && last > first) totals.elapsed_ns = ns(static_cast<double>(last - first));
  return totals;
}

NodeTotals RunProfile::Read(const Node& node) const {
  const double ns_per_tick = NsPerTick();
  const auto load = [](const NodeProfile::Number& number) {
    return number.load(std::memory_order_relaxed);
  };
  const auto ns = [&](const NodeProfile::Number& ticks) {
    return static_cast<int64_t>(static_cast<double>(load(ticks)) * ns_per_tick);
  };
  NodeTotals sum;
  int64_t sized_rows = 0;
  int64_t sized_bytes = 0;
  int64_t samples = 0;
  int64_t filled = 0;
  int64_t empty = 0;
  int64_t computing_ns = 0;
  int64_t computing_of_ns = 0;
  std::lock_guard lock(mutex_);
  for (const auto& record : records_) {
    if (&record->node() != &node) continue;
    sum.calls += load(record->calls_);
    sum.rows += load(record->rows_);
    sum.failures += load(record->failures_);
    sum.ns += ns(record->ticks_);
    sized_rows += load(record->sized_rows_);
    sized_bytes += load(record->sized_bytes_);
    sum.function_calls += load(record->function_calls_);
    sum.function_rows += load(record->function_rows_);
    sum.function_ns += ns(record->function_ticks_);
    computing_ns += load(record->computing_ns_);
    computing_of_ns += ns(record->computing_ticks_);
    sum.work_ns += ns(record->work_ticks_);
    sum.parallelism = std::max(sum.parallelism, load(record->parallelism_));
    sum.buffer_size = std::max(sum.buffer_size, load(record->buffer_size_));
    samples += load(record->fill_samples_);
    filled += load(record->fill_sum_);
    empty += load(record->fill_empty_);
  }
  if (sized_rows > 0) {
    sum.bytes = static_cast<double>(sized_bytes) / static_cast<double>(sized_rows) *
                static_cast<double>(sum.rows);
  }
  if (computing_of_ns > 0) {
    sum.computing = std::clamp(
        static_cast<double>(computing_ns) / static_cast<double>(computing_of_ns), 0.0, 1.0);
  }
  if (samples > 0) {
    sum.buffer_fill = static_cast<double>(filled) / static_cast<double>(samples);
    sum.buffer_empty = static_cast<double>(empty) / static_cast<double>(samples);
  }
  return sum;
}

}  // namespace tutti
