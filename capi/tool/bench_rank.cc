#include "capi/tool/bench_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <utility>

namespace tutti::tool {
namespace {

constexpr int kWarmUp = 8;
constexpr int kProbes = 3;
constexpr int kCallsOfProbe = 4;
constexpr int64_t kMinCalls = 10;
constexpr int64_t kMaxCalls = 20'000;
constexpr int64_t kBatches = 40;
constexpr int64_t kMinBatches = 5;

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Percentile(const std::vector<double>& sorted, double fraction) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(last * fraction + 0.5)];
}

}  // namespace

BenchRank::BenchRank(const BenchOptions& options, tutti_runtime* runtime,
                     tutti_communicator* communicator)
    : options_(options),
      calls_({options.collective, options.dtype, options.op, options.tensors, options.mapped},
             runtime, communicator),
      transport_(tutti_communicator_get_transport(communicator)) {}

CStatus BenchRank::Prepare() {
  TUTTI_TOOL_RETURN_IF_FAILED(calls_.Begin());
  if (!options_.mapped) return nullptr;
  sets_ = std::vector<TensorSet>(1);
  TUTTI_TOOL_RETURN_IF_FAILED(
      calls_.MakeSet(calls_.CountsOf(options_.min_bytes), false, &sets_.front()));
  bool mapped = false;
  TUTTI_TOOL_RETURN_IF_FAILED(AreMapped(&mapped));
  if (!mapped) {
    refusal_ = fmt::format(
        "--buffers shared: these {} ranks, over {}, map no memory of each other's for tensors; "
        "that takes processes of one machine, 64 at most, and shared memory as transport",
        calls_.size(), transport_);
  }
  return nullptr;
}

CStatus BenchRank::AreMapped(bool* mapped) const {
  int64_t all = BenchCalls::IsMapped(sets_);
  TUTTI_TOOL_RETURN_IF_FAILED(calls_.Fold(TUTTI_DTYPE_INT64, TUTTI_REDUCE_MIN, &all));
  *mapped = all != 0;
  return nullptr;
}

CStatus BenchRank::Run(const std::function<void(const BenchRow&)>& on_row) {
  const BenchCollective& collective = calls_.collective();
  int64_t last_bytes = -1;
  for (const int64_t bytes : options_.Sizes()) {
    const Counts counts = calls_.CountsOf(bytes);
    BenchRow row;
    row.bytes = calls_.BytesOf(counts);
    row.count = counts.share > 0 ? counts.share : counts.whole;
    if (row.bytes == last_bytes) continue;  // less than an element for each rank, twice
    last_bytes = row.bytes;
    if (!collective.always_in_place) {
      row.out_of_place.emplace();
      TUTTI_TOOL_RETURN_IF_FAILED(Measure(counts, false, &*row.out_of_place));
      if (!refusal_.empty()) return nullptr;
    }
    if (collective.works_in_place) {
      row.in_place.emplace();
      TUTTI_TOOL_RETURN_IF_FAILED(Measure(counts, true, &*row.in_place));
      if (!refusal_.empty()) return nullptr;
    }
    if (calls_.rank() == 0) on_row(row);
  }
  return nullptr;
}

// The library makes a tensor in ordinary memory where it has no other; that would be measured
// under a wrong name.
CStatus BenchRank::MakeSets(const Counts& counts, bool in_place) {
  const auto in_flight = static_cast<size_t>(options_.in_flight);
  sets_ = std::vector<TensorSet>(std::max(calls_.NumSets(counts), in_flight));
  for (TensorSet& set : sets_) {
    TUTTI_TOOL_RETURN_IF_FAILED(calls_.MakeSet(counts, in_place, &set));
    TUTTI_TOOL_RETURN_IF_FAILED(calls_.Fill(counts, &set));
  }
  next_set_ = 0;
  if (!options_.mapped) return nullptr;
  bool mapped = false;
  TUTTI_TOOL_RETURN_IF_FAILED(AreMapped(&mapped));
  if (!mapped) {
    refusal_ = fmt::format(
        "--buffers shared: the memory that the ranks map has no room for {} sets of tensors of {} "
        "bytes; give a smaller --max", sets_.size(), calls_.BytesOf(counts));
  }
  return nullptr;
}

CStatus BenchRank::Measure(const Counts& counts, bool in_place, BenchTiming* timing) {
  TUTTI_TOOL_RETURN_IF_FAILED(MakeSets(counts, in_place));
  if (!refusal_.empty()) return nullptr;
  TUTTI_TOOL_RETURN_IF_FAILED(Time(timing));
  timing->algbw_gbps = static_cast<double>(calls_.BytesOf(counts)) / timing->time_us / 1e3;
  timing->busbw_gbps =
      timing->algbw_gbps * calls_.collective().bus_factor(static_cast<double>(calls_.size()));

  for (TensorSet& set : sets_) TUTTI_TOOL_RETURN_IF_FAILED(calls_.Fill(counts, &set));
  next_set_ = 0;
  TUTTI_TOOL_RETURN_IF_FAILED(CallMany(static_cast<int64_t>(sets_.size()), nullptr));
  for (const TensorSet& set : sets_) timing->wrong += calls_.CountWrong(counts, set);
  return calls_.Fold(TUTTI_DTYPE_INT64, TUTTI_REDUCE_SUM, &timing->wrong);
}

CStatus BenchRank::Time(BenchTiming* timing) {
  TUTTI_TOOL_RETURN_IF_FAILED(
      CallMany(static_cast<int64_t>(std::max<size_t>(kWarmUp, sets_.size())), nullptr));
  // The best of a few: other work on the machine may hit any.
  double each = std::numeric_limits<double>::max();
  const int64_t calls_of_probe = std::max<int64_t>(kCallsOfProbe, options_.in_flight);
  for (int probe = 0; probe < kProbes; ++probe) {
    const double begin = NowUs();
    TUTTI_TOOL_RETURN_IF_FAILED(CallMany(calls_of_probe, nullptr));
    each = std::min(each, (NowUs() - begin) / static_cast<double>(calls_of_probe));
  }
  int64_t calls = options_.iterations.value_or(std::clamp(
      static_cast<int64_t>(options_.seconds * 1e6 / std::max(each, 0.01)), kMinCalls, kMaxCalls));
  TUTTI_TOOL_RETURN_IF_FAILED(calls_.AgreeOnNumberOfRank0(&calls));

  // Batches, of which the middle one counts; single calls apart, for reading the clock around each
  // would be part of the batch's time.
  std::vector<double> batches, singles;
  TUTTI_TOOL_RETURN_IF_FAILED(InBatches(calls, [&](int64_t count) -> CStatus {
    const double begin = NowUs();
    TUTTI_TOOL_RETURN_IF_FAILED(CallMany(count, nullptr));
    batches.push_back((NowUs() - begin) / static_cast<double>(count));
    return nullptr;
  }));
  TUTTI_TOOL_RETURN_IF_FAILED(InBatches(calls, [&](int64_t count) {
    return CallMany(count, [&](double us) { singles.push_back(us); });
  }));
  std::sort(batches.begin(), batches.end());
  std::sort(singles.begin(), singles.end());
  timing->time_us = Percentile(batches, 0.5);
  timing->p50_us = Percentile(singles, 0.5);
  timing->p99_us = Percentile(singles, 0.99);
  return calls_.Fold(TUTTI_DTYPE_FLOAT64, TUTTI_REDUCE_MEAN, &timing->time_us);
}

CStatus BenchRank::InBatches(int64_t calls, const std::function<CStatus(int64_t)>& batch) {
  // A batch has the time to fill and to empty the line of calls under way.
  const int64_t count = std::max({int64_t{1}, calls / kBatches, 2 * options_.in_flight});
  const double begin = NowUs();
  for (int64_t i = 0; i * count < calls; ++i) {
    // Rank 0 decides when the time is over; it also brings the ranks together before each batch.
    int64_t goes_on =
        options_.iterations || i < kMinBatches || NowUs() - begin < 2 * options_.seconds * 1e6;
    TUTTI_TOOL_RETURN_IF_FAILED(calls_.AgreeOnNumberOfRank0(&goes_on));
    if (goes_on == 0) return nullptr;
    TUTTI_TOOL_RETURN_IF_FAILED(batch(count));
  }
  return nullptr;
}

BenchRank::TensorSet* BenchRank::NextSet() {
  TensorSet* const set = &sets_[next_set_];
  if (++next_set_ == sets_.size()) next_set_ = 0;
  return set;
}

CStatus BenchRank::CallMany(int64_t count, const std::function<void(double us)>& on_call) {
  return options_.in_flight > 0 ? CallInFlight(count, on_call) : CallOneByOne(count, on_call);
}

CStatus BenchRank::CallOneByOne(int64_t count, const std::function<void(double us)>& on_call) {
  if (!on_call) {
    for (int64_t i = 0; i < count; ++i) TUTTI_TOOL_RETURN_IF_FAILED(calls_.Call(NextSet()));
    return nullptr;
  }
  double last = NowUs();
  for (int64_t i = 0; i < count; ++i) {
    TUTTI_TOOL_RETURN_IF_FAILED(calls_.Call(NextSet()));
    const double now = NowUs();
    on_call(now - last);
    last = now;
  }
  return nullptr;
}

// A call may begin when the one `in_flight` before it has ended; from its issue to that end is what
// it took.
CStatus BenchRank::CallInFlight(int64_t count, const std::function<void(double us)>& on_call) {
  struct Flight {
    TensorSet* set;
    CFuture future;
    double begin;
  };
  std::deque<Flight> flights;
  const auto complete = [&]() -> CStatus {
    const Flight flight = std::move(flights.front());
    flights.pop_front();
    TUTTI_TOOL_RETURN_IF_FAILED(calls_.Complete(flight.future, flight.set));
    if (on_call) on_call(NowUs() - flight.begin);
    return nullptr;
  };
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<int64_t>(flights.size()) == options_.in_flight) {
      TUTTI_TOOL_RETURN_IF_FAILED(complete());
    }
    Flight flight{NextSet(), nullptr, on_call ? NowUs() : 0};
    TUTTI_TOOL_RETURN_IF_FAILED(calls_.Start(flight.set, &flight.future));
    flights.push_back(std::move(flight));
  }
  while (!flights.empty()) TUTTI_TOOL_RETURN_IF_FAILED(complete());
  return nullptr;
}

}  // namespace tutti::tool
