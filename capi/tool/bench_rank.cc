#include "capi/tool/bench_rank.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

namespace tutti::tool {
namespace {

constexpr int64_t kRoot = 0;
constexpr int kWarmUp = 8;
constexpr int kProbes = 3;
constexpr int kCallsOfProbe = 4;
constexpr int64_t kMinCalls = 10;
constexpr int64_t kMaxCalls = 20'000;
constexpr int64_t kBatches = 40;
constexpr int64_t kMinBatches = 5;
constexpr size_t kMaxSets = 16;

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// So many sets of tensors that the last level of cache cannot hold them all.
size_t NumSets(size_t bytes_of_set) {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t bytes = cache > 0 ? static_cast<size_t>(cache) : size_t{32} << 20;
  return std::clamp(bytes / std::max<size_t>(bytes_of_set, 1) + 1, size_t{1}, kMaxSets);
}

double Percentile(const std::vector<double>& sorted, double fraction) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(last * fraction + 0.5)];
}

}  // namespace

BenchRank::BenchRank(const BenchOptions& options, tutti_runtime* runtime,
                     tutti_communicator* communicator)
    : options_(options),
      collective_(*options.collective),
      runtime_(runtime),
      communicator_(communicator),
      rank_(tutti_communicator_get_rank(communicator)),
      size_(tutti_communicator_get_size(communicator)),
      item_(tutti_dtype_get_size(options.dtype)) {}

CStatus BenchRank::Run(const std::function<void(const BenchRow&)>& on_row) {
  TUTTI_TOOL_RETURN_IF_FAILED(BenchPattern::Make(runtime_, options_.dtype,
                                                 collective_.reduces ? options_.op : 0, size_,
                                                 &pattern_));
  int64_t last_bytes = -1;
  for (const int64_t bytes : options_.Sizes()) {
    const Counts counts = CountsOf(bytes);
    BenchRow row;
    row.bytes = counts.whole * static_cast<int64_t>(item_);
    row.count = collective_.has_shares ? counts.share : counts.whole;
    if (row.bytes == last_bytes) continue;  // less than an element for each rank, twice
    last_bytes = row.bytes;
    if (!collective_.always_in_place) {
      row.out_of_place.emplace();
      TUTTI_TOOL_RETURN_IF_FAILED(Measure(counts, false, &*row.out_of_place));
    }
    if (collective_.works_in_place) {
      row.in_place.emplace();
      TUTTI_TOOL_RETURN_IF_FAILED(Measure(counts, true, &*row.in_place));
    }
    if (rank_ == 0) on_row(row);
  }
  return nullptr;
}

BenchRank::Counts BenchRank::CountsOf(int64_t bytes) const {
  if (bytes == 0) return {};
  Counts counts;
  counts.whole = std::max<int64_t>(1, bytes / static_cast<int64_t>(item_));
  if (!collective_.has_shares) return counts;
  counts.share = std::max<int64_t>(1, counts.whole / size_);
  counts.whole = counts.share * size_;
  return counts;
}

int64_t BenchRank::ElementsOf(BenchPart part, const Counts& counts) const {
  if (part == BenchPart::kNone) return 0;
  return part == BenchPart::kWhole ? counts.whole : counts.share;
}

CStatus BenchRank::Create(int64_t elements, CTensor* tensor) {
  return CStatus(
      tutti_tensor_create(runtime_, options_.dtype, 1, &elements, nullptr, Out(tensor)));
}

CStatus BenchRank::MakeSet(const Counts& counts, bool in_place, TensorSet* set) {
  const int64_t input = ElementsOf(collective_.input, counts);
  const int64_t output = ElementsOf(collective_.output, counts);
  const bool has_input = collective_.input != BenchPart::kNone;
  const bool has_output = collective_.output != BenchPart::kNone && !collective_.makes_output;
  if (!in_place || !has_input || !has_output) {
    if (has_input) TUTTI_TOOL_RETURN_IF_FAILED(Create(input, &set->input));
    if (has_output) TUTTI_TOOL_RETURN_IF_FAILED(Create(output, &set->output));
    return nullptr;
  }
  CTensor& larger = input > output ? set->input : set->output;
  TUTTI_TOOL_RETURN_IF_FAILED(Create(std::max(input, output), &larger));
  if (input != output) {
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_slice(larger.get(), 0, rank_ * counts.share,
                                                   (rank_ + 1) * counts.share, Out(&set->part)));
  }
  return nullptr;
}

tutti_tensor* BenchRank::InputOf(const TensorSet& set) {
  if (set.input != nullptr) return set.input.get();
  return set.part != nullptr ? set.part.get() : set.output.get();
}

tutti_tensor* BenchRank::OutputOf(const TensorSet& set) {
  if (set.output != nullptr) return set.output.get();
  return set.part != nullptr ? set.part.get() : set.input.get();
}

CStatus BenchRank::Fill(const Counts& counts, TensorSet* set) {
  for (const CTensor* tensor : {&set->output, &set->input}) {
    if (*tensor == nullptr) continue;
    void* data = nullptr;
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_get_mutable_data(tensor->get(), &data));
    std::memset(data, 0xa5, tutti_tensor_get_byte_size(tensor->get()));
  }
  // Broadcast has one tensor only, and the root's is its input.
  const bool brings = collective_.input != BenchPart::kNone ||
                      (collective_.always_in_place && rank_ == kRoot);
  if (!brings) return nullptr;
  tutti_tensor* const input = InputOf(*set);
  void* data = nullptr;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_get_mutable_data(input, &data));
  const BenchPart part =
      collective_.input != BenchPart::kNone ? collective_.input : collective_.output;
  pattern_.Fill(rank_, 0, ElementsOf(part, counts), data);
  return nullptr;
}

CStatus BenchRank::Call(TensorSet* set) {
  BenchCall call;
  call.communicator = communicator_;
  call.input = InputOf(*set);
  call.output = OutputOf(*set);
  call.made = &set->made;
  call.op = options_.op;
  call.root = kRoot;
  return CStatus(collective_.call(call));
}

CStatus BenchRank::Measure(const Counts& counts, bool in_place, BenchTiming* timing) {
  const size_t elements = static_cast<size_t>(ElementsOf(collective_.input, counts) +
                                              ElementsOf(collective_.output, counts));
  std::vector<TensorSet> sets(NumSets(elements * item_));
  for (TensorSet& set : sets) {
    TUTTI_TOOL_RETURN_IF_FAILED(MakeSet(counts, in_place, &set));
    TUTTI_TOOL_RETURN_IF_FAILED(Fill(counts, &set));
  }
  TUTTI_TOOL_RETURN_IF_FAILED(Time(&sets, timing));
  const double bytes = static_cast<double>(counts.whole) * static_cast<double>(item_);
  timing->algbw_gbps = bytes / timing->time_us / 1e3;
  timing->busbw_gbps = timing->algbw_gbps * collective_.bus_factor(static_cast<double>(size_));

  for (TensorSet& set : sets) {
    TUTTI_TOOL_RETURN_IF_FAILED(Fill(counts, &set));
    TUTTI_TOOL_RETURN_IF_FAILED(Call(&set));
    timing->wrong += CountWrong(counts, set);
  }
  return Fold(TUTTI_DTYPE_INT64, TUTTI_REDUCE_SUM, &timing->wrong);
}

CStatus BenchRank::Time(std::vector<TensorSet>* sets, BenchTiming* timing) {
  size_t next = 0;
  const auto call = [&] {
    TensorSet& set = (*sets)[next];
    if (++next == sets->size()) next = 0;
    return Call(&set);
  };
  const size_t warm_up = std::max<size_t>(kWarmUp, sets->size());
  for (size_t i = 0; i < warm_up; ++i) TUTTI_TOOL_RETURN_IF_FAILED(call());
  // The best of a few: other work on the machine may hit any.
  double each = std::numeric_limits<double>::max();
  for (int probe = 0; probe < kProbes; ++probe) {
    const double begin = NowUs();
    for (int i = 0; i < kCallsOfProbe; ++i) TUTTI_TOOL_RETURN_IF_FAILED(call());
    each = std::min(each, (NowUs() - begin) / kCallsOfProbe);
  }
  int64_t calls = options_.iterations.value_or(std::clamp(
      static_cast<int64_t>(options_.seconds * 1e6 / std::max(each, 0.01)), kMinCalls, kMaxCalls));
  TUTTI_TOOL_RETURN_IF_FAILED(AgreeOnNumberOfRank0(&calls));

  // Batches, of which the middle one counts; single calls apart, for reading the clock around each
  // would be part of the batch's time.
  std::vector<double> batches, singles;
  TUTTI_TOOL_RETURN_IF_FAILED(InBatches(calls, [&](int64_t count) -> CStatus {
    const double begin = NowUs();
    for (int64_t i = 0; i < count; ++i) TUTTI_TOOL_RETURN_IF_FAILED(call());
    batches.push_back((NowUs() - begin) / static_cast<double>(count));
    return nullptr;
  }));
  TUTTI_TOOL_RETURN_IF_FAILED(InBatches(calls, [&](int64_t count) -> CStatus {
    double last = NowUs();
    for (int64_t i = 0; i < count; ++i) {
      TUTTI_TOOL_RETURN_IF_FAILED(call());
      const double now = NowUs();
      singles.push_back(now - last);
      last = now;
    }
    return nullptr;
  }));
  std::sort(batches.begin(), batches.end());
  std::sort(singles.begin(), singles.end());
  timing->time_us = Percentile(batches, 0.5);
  timing->p50_us = Percentile(singles, 0.5);
  timing->p99_us = Percentile(singles, 0.99);
  return Fold(TUTTI_DTYPE_FLOAT64, TUTTI_REDUCE_MEAN, &timing->time_us);
}

CStatus BenchRank::InBatches(int64_t calls, const std::function<CStatus(int64_t)>& batch) {
  const int64_t count = std::max<int64_t>(1, calls / kBatches);
  const double begin = NowUs();
  for (int64_t i = 0; i * count < calls; ++i) {
    // Rank 0 decides when the time is over; it also brings the ranks together before each batch.
    int64_t goes_on =
        options_.iterations || i < kMinBatches || NowUs() - begin < 2 * options_.seconds * 1e6;
    TUTTI_TOOL_RETURN_IF_FAILED(AgreeOnNumberOfRank0(&goes_on));
    if (goes_on == 0) return nullptr;
    TUTTI_TOOL_RETURN_IF_FAILED(batch(count));
  }
  return nullptr;
}

int64_t BenchRank::CountWrong(const Counts& counts, const TensorSet& set) const {
  if (collective_.output == BenchPart::kNone) return 0;
  if (collective_.only_at_root && rank_ != kRoot) return 0;
  const tutti_tensor* const output = collective_.makes_output ? set.made.get() : OutputOf(set);
  const int64_t elements = ElementsOf(collective_.output, counts);
  if (tutti_tensor_get_element_count(output) != elements) return elements;
  const auto* const data = static_cast<const std::byte*>(tutti_tensor_get_data(output));
  const BenchPlace place{size_, rank_, kRoot, counts.share};
  // What comes from one rank lies together.
  const int64_t run = counts.share > 0 ? counts.share : elements;
  int64_t wrong = 0;
  for (int64_t first = 0; first < elements; first += run) {
    const BenchOrigin origin = collective_.origin(place, first);
    wrong += pattern_.CountWrong(origin.rank, origin.index, run,
                                 data + static_cast<size_t>(first) * item_);
  }
  return wrong;
}

CStatus BenchRank::Barrier() {
  return CStatus(tutti_communicator_barrier(communicator_, nullptr));
}

CStatus BenchRank::AgreeOnNumberOfRank0(int64_t* number) {
  CTensor tensor;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_create_from_data(runtime_, TUTTI_DTYPE_INT64, 0, nullptr,
                                                            number, sizeof(*number),
                                                            Out(&tensor)));
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_communicator_broadcast(communicator_, 0, nullptr, tensor.get()));
  std::memcpy(number, tutti_tensor_get_data(tensor.get()), sizeof(*number));
  return nullptr;
}

CStatus BenchRank::Fold(tutti_dtype dtype, tutti_reduce_op op, void* number) {
  CTensor tensor;
  const size_t bytes = tutti_dtype_get_size(dtype);
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_create_from_data(runtime_, dtype, 0, nullptr, number,
                                                            bytes, Out(&tensor)));
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_communicator_all_reduce(communicator_, tensor.get(), op, nullptr, tensor.get()));
  std::memcpy(number, tutti_tensor_get_data(tensor.get()), bytes);
  return nullptr;
}

}  // namespace tutti::tool
