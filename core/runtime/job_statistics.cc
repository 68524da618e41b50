#include "core/runtime/job_statistics.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/runtime/runtime.h"
#include "core/runtime/value_collectives.h"

namespace tutti {
namespace {

struct SummedHistogram {
  int64_t count = 0;
  double sum = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = 0;
  std::vector<double> limits;
  std::vector<int64_t> counts;
};

template <typename T>
Result<std::vector<T>> NumbersOf(const Value& item, const char* name) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> found, item.Find(name));
  if (!found->is_leaf() || !found->leaf(0).is_tensor() ||
      found->leaf(0).tensor().dtype() != DTypeOf<T>) {
    return InvalidArgument("statistics: \"{}\" is something else than numbers", name);
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> tensor, found->leaf(0).tensor().Contiguous());
  const std::span<const T> numbers = tensor->span<T>();
  if (numbers.empty()) return InvalidArgument("statistics: \"{}\" is empty", name);
  return std::vector<T>(numbers.begin(), numbers.end());
}

Status AddHistogram(const Value& part, SummedHistogram* sum) {
  TUTTI_ASSIGN_OR_RETURN(const auto count, NumbersOf<int64_t>(part, "count"));
  TUTTI_ASSIGN_OR_RETURN(const auto seconds, NumbersOf<double>(part, "sum"));
  TUTTI_ASSIGN_OR_RETURN(const auto least, NumbersOf<double>(part, "min"));
  TUTTI_ASSIGN_OR_RETURN(const auto most, NumbersOf<double>(part, "max"));
  TUTTI_ASSIGN_OR_RETURN(auto limits, NumbersOf<double>(part, "limits"));
  TUTTI_ASSIGN_OR_RETURN(const auto counts, NumbersOf<int64_t>(part, "counts"));
  if (sum->limits.empty()) {
    sum->limits = std::move(limits);
    sum->counts.assign(counts.size(), 0);
  } else if (sum->limits != limits) {
    return InvalidArgument(
        "statistics: the ranks have histograms of other limits; run one release");
  }
  if (counts.size() != sum->counts.size()) {
    return InvalidArgument("statistics: a histogram has {} counts, others {}", counts.size(),
                           sum->counts.size());
  }
  for (size_t i = 0; i < counts.size(); ++i) sum->counts[i] += counts[i];
  sum->count += count[0];
  sum->sum += seconds[0];
  if (count[0] > 0) sum->min = std::min(sum->min, least[0]);
  sum->max = std::max(sum->max, most[0]);
  return OkStatus();
}

Result<Ref<Value>> ValueOfSum(const SummedHistogram& sum) {
  const Shape shape({static_cast<int64_t>(sum.limits.size())});
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> limits,
                         Tensor::FromSpan<double>(shape, std::span<const double>(sum.limits)));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> counts,
                         Tensor::FromSpan<int64_t>(shape, std::span<const int64_t>(sum.counts)));
  return Value::Dict({{"count", Value::OfTensor(Tensor::Scalar(sum.count))},
                      {"counts", Value::OfTensor(std::move(counts))},
                      {"limits", Value::OfTensor(std::move(limits))},
                      {"max", Value::OfTensor(Tensor::Scalar(sum.max))},
                      {"min", Value::OfTensor(Tensor::Scalar(sum.count > 0 ? sum.min : 0.0))},
                      {"sum", Value::OfTensor(Tensor::Scalar(sum.sum))}});
}

}  // namespace

Result<Ref<Value>> SumStatistics(std::span<const Ref<Value>> parts) {
  std::map<std::string, int64_t> counters;
  std::map<std::string, SummedHistogram> histograms;
  for (const Ref<Value>& part : parts) {
    if (!part->Find("counters").ok() || !part->Find("histograms").ok()) {
      return InvalidArgument(
          "statistics: expected what an aggregator reads, with \"counters\" and \"histograms\"; "
          "found {}",
          part->spec().ToString());
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> counted, part->Find("counters"));
    for (const std::string& name : counted->spec().keys()) {
      TUTTI_ASSIGN_OR_RETURN(const auto number, NumbersOf<int64_t>(*counted, name.c_str()));
      counters[name] += number[0];
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> measured, part->Find("histograms"));
    for (const std::string& name : measured->spec().keys()) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Value> histogram, measured->Find(name));
      TUTTI_RETURN_IF_ERROR(AddHistogram(*histogram, &histograms[name]));
    }
  }
  std::vector<std::pair<std::string, Ref<Value>>> counter_items;
  for (const auto& [name, number] : counters) {
    counter_items.emplace_back(name, Value::OfTensor(Tensor::Scalar(number)));
  }
  std::vector<std::pair<std::string, Ref<Value>>> histogram_items;
  for (const auto& [name, sum] : histograms) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> value, ValueOfSum(sum));
    histogram_items.emplace_back(name, std::move(value));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> all_counters, Value::Dict(std::move(counter_items)));
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> all_histograms, Value::Dict(std::move(histogram_items)));
  return Value::Dict({{"counters", std::move(all_counters)},
                      {"histograms", std::move(all_histograms)},
                      {"ranks", Value::List(std::vector<Ref<Value>>(parts.begin(), parts.end()))}});
}

Result<Ref<Value>> GatherStatistics(Runtime& runtime, Communicator& communicator,
                                    const Value& mine, const CollectiveOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<const Value> all,
                         AllGatherValue(runtime, communicator, mine, options));
  std::vector<Ref<Value>> parts;
  for (int64_t rank = 0; rank < communicator.size(); ++rank) {
    const PathStep path[] = {static_cast<size_t>(rank)};
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> part, all->Get(path));
    parts.push_back(std::move(part));
  }
  return SumStatistics(parts);
}

Result<RunReport> GatherReports(Runtime& runtime, Communicator& communicator,
                                const RunReport& mine, const CollectiveOptions& options) {
  const Ref<Value> text = Value::OfString(mine.ToJson());
  TUTTI_ASSIGN_OR_RETURN(const Ref<const Value> all,
                         AllGatherValue(runtime, communicator, *text, options));
  std::vector<std::pair<std::string, RunReport>> runs;
  for (int64_t rank = 0; rank < communicator.size(); ++rank) {
    const PathStep path[] = {static_cast<size_t>(rank)};
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> part, all->Get(path));
    const std::string name = Format("rank {}", rank);
    if (!part->is_leaf() || part->leaf(0).kind() != LeafKind::kString) {
      return InvalidArgument("explain: {} brought something else than a report: {}", name,
                             part->spec().ToString());
    }
    Result<RunReport> report = RunReport::FromJson(part->leaf(0).string());
    if (!report.ok()) return std::move(report).status().WithPrefix(name);
    runs.emplace_back(name, std::move(report).value());
  }
  return RunReport::Sum(std::move(runs));
}

}  // namespace tutti
