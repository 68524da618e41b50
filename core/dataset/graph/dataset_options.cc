#include "core/dataset/graph/dataset_options.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace tutti {
namespace {

struct KeyRecord {
  std::string_view name;
  bool is_bool;
  int64_t low;
  int64_t high;
  int64_t otherwise;  // the default
  bool acts = true;   // else it is kept, and nothing asks for it yet
};

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
// In the order of DatasetOptions::Key.
constexpr KeyRecord kKeys[DatasetOptions::kNumKeys] = {
    {"deterministic", true, 0, 1, 1},
    {"experimental_slack", true, 0, 1, 0},
    {"experimental_optimization.apply_default_optimizations", true, 0, 1, 1},
    {"threading.private_threadpool_size", false, 0, kMax, 0},
    {"threading.max_intra_op_parallelism", false, 0, kMax, 0},
    {"autotune.ram_budget", false, 0, kMax, 0},
    {"experimental_distribute.auto_shard_policy", false, -1, 3, 0},
    {"experimental_distribute.num_devices", false, 0, kMax, 0},
    {"experimental_external_state_policy", false, 0, 2, 0},
    {"experimental_optimization.autotune", true, 0, 1, 1},
    {"experimental_optimization.autotune_buffers", true, 0, 1, 0},
    {"experimental_optimization.autotune_cpu_budget", false, 0, kMax, 0},
    {"experimental_optimization.filter_fusion", true, 0, 1, 0, false},
    {"experimental_optimization.filter_with_random_uniform_fusion", true, 0, 1, 0, false},
    {"experimental_optimization.hoist_random_uniform", true, 0, 1, 0, false},
    {"experimental_optimization.map_and_batch_fusion", true, 0, 1, 1, false},
    {"experimental_optimization.map_and_filter_fusion", true, 0, 1, 0, false},
    {"experimental_optimization.map_fusion", true, 0, 1, 0, false},
    {"experimental_optimization.map_parallelization", true, 0, 1, 1, false},
    {"experimental_optimization.map_vectorization.enabled", true, 0, 1, 0, false},
    {"experimental_optimization.map_vectorization.use_choose_fastest", true, 0, 1, 0, false},
    {"experimental_optimization.noop_elimination", true, 0, 1, 1, false},
    {"experimental_optimization.parallel_batch", true, 0, 1, 0, false},
    {"experimental_optimization.reorder_data_discarding_ops", true, 0, 1, 0, false},
    {"experimental_optimization.shuffle_and_repeat_fusion", true, 0, 1, 1, false},
    {"experimental_stats.latency_all_edges", true, 0, 1, 0},
    {"experimental_stats.profile", true, 0, 1, 0},
    {"experimental_optimization.native_functions", true, 0, 1, 0},
    {"experimental_distribute.share_files", true, 0, 1, 0},
};

// In the order of DatasetOptions::Text.
constexpr std::string_view kTexts[DatasetOptions::kNumTexts] = {
    "experimental_stats.prefix",
    "experimental_stats.counter_prefix",
};
constexpr std::string_view kAggregator = "experimental_stats.aggregator";

std::optional<size_t> FindText(std::string_view key) {
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    if (kTexts[i] == key) return i;
  }
  return std::nullopt;
}

// Other names that keys have.
std::string_view OtherName(std::string_view name) {
  if (name == "deterministic") return "experimental_deterministic";
  if (name == "threading.private_threadpool_size") {
    return "experimental_threading.private_threadpool_size";
  }
  if (name == "threading.max_intra_op_parallelism") {
    return "experimental_threading.max_intra_op_parallelism";
  }
  return {};
}

// Of a number or a boolean.
Result<size_t> FindKey(std::string_view key) {
  if (FindText(key)) {
    return InvalidArgument("dataset options: '{}' is a text", key).With("key", key);
  }
  if (key == kAggregator) {
    return InvalidArgument("dataset options: '{}' is a StatsAggregator", key).With("key", key);
  }
  std::vector<std::string> names;
  std::vector<std::string> all;
  for (size_t i = 0; i < std::size(kKeys); ++i) {
    const std::string_view other = OtherName(kKeys[i].name);
    if (kKeys[i].name == key || (!other.empty() && other == key)) return i;
    names.emplace_back(kKeys[i].name);
    all.emplace_back(kKeys[i].name);
    if (!other.empty()) all.emplace_back(other);
  }
  for (const std::string_view name : kTexts) names.emplace_back(name);
  names.emplace_back(kAggregator);
  all.insert(all.end(), names.end() - std::size(kTexts) - 1, names.end());
  const std::string nearest = NearestName(key, all);
  return InvalidArgument("dataset options: unknown key '{}'{}; the keys are {}", key,
                         nearest.empty() ? std::string() : Format(", did you mean '{}'?", nearest),
                         Join(names, ", "))
      .With("key", key);
}

}  // namespace

Status DatasetOptions::SetInt(std::string_view key, int64_t value) {
  TUTTI_ASSIGN_OR_RETURN(const size_t i, FindKey(key));
  const KeyRecord& record = kKeys[i];
  if (record.is_bool) {
    return InvalidArgument("dataset options: '{}' is a boolean, got the integer {}", key, value)
        .With("key", key);
  }
  if (value < record.low || value > record.high) {
    return InvalidArgument("dataset options: '{}' must be {}, got {}", key,
                           record.high == kMax ? Format("{} or more", record.low)
                                               : Format("{} .. {}", record.low, record.high),
                           value)
        .With("key", key);
  }
  values_[i] = value;
  return OkStatus();
}

Status DatasetOptions::SetBool(std::string_view key, bool value) {
  TUTTI_ASSIGN_OR_RETURN(const size_t i, FindKey(key));
  if (!kKeys[i].is_bool) {
    return InvalidArgument("dataset options: '{}' is an integer, got the boolean {}", key, value)
        .With("key", key);
  }
  values_[i] = value ? 1 : 0;
  return OkStatus();
}

Status DatasetOptions::SetText(std::string_view key, std::string value) {
  if (const std::optional<size_t> i = FindText(key)) {
    texts_[*i] = std::move(value);
    return OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(FindKey(key).status());
  return InvalidArgument("dataset options: '{}' is no text, got {}", key, Quote(value))
      .With("key", key);
}

Status DatasetOptions::Clear(std::string_view key) {
  if (const std::optional<size_t> i = FindText(key)) {
    texts_[*i].reset();
    return OkStatus();
  }
  if (key == kAggregator) {
    aggregator_ = nullptr;
    return OkStatus();
  }
  TUTTI_ASSIGN_OR_RETURN(const size_t i, FindKey(key));
  values_[i].reset();
  return OkStatus();
}

Result<std::optional<int64_t>> DatasetOptions::Read(std::string_view key) const {
  TUTTI_ASSIGN_OR_RETURN(const size_t i, FindKey(key));
  return std::optional<int64_t>(values_[i]);
}

Result<std::optional<std::string>> DatasetOptions::ReadText(std::string_view key) const {
  if (const std::optional<size_t> i = FindText(key)) return std::optional(texts_[*i]);
  TUTTI_RETURN_IF_ERROR(FindKey(key).status());
  return InvalidArgument("dataset options: '{}' is no text", key).With("key", key);
}

bool DatasetOptions::empty() const {
  const auto is_set = [](const auto& value) { return value.has_value(); };
  return std::none_of(values_.begin(), values_.end(), is_set) &&
         std::none_of(texts_.begin(), texts_.end(), is_set) && !aggregator_;
}

DatasetOptions DatasetOptions::Merge(const DatasetOptions& other,
                                     std::vector<std::string>* changed) const {
  DatasetOptions merged = *this;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!other.values_[i]) continue;
    if (changed != nullptr && values_[i] && *values_[i] != *other.values_[i]) {
      changed->emplace_back(kKeys[i].name);
    }
    merged.values_[i] = other.values_[i];
  }
  const auto note = [changed](bool differs, std::string_view key) {
    if (changed != nullptr && differs) changed->emplace_back(key);
  };
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (!other.texts_[i]) continue;
    note(texts_[i] && *texts_[i] != *other.texts_[i], kTexts[i]);
    merged.texts_[i] = other.texts_[i];
  }
  if (other.aggregator_) {
    note(aggregator_ && !(aggregator_ == other.aggregator_), kAggregator);
    merged.aggregator_ = other.aggregator_;
  }
  return merged;
}

std::vector<std::string> DatasetOptions::Conflicts(const DatasetOptions& other) const {
  std::vector<std::string> conflicts;
  for (size_t i = 0; i < values_.size(); ++i) {
    const int64_t otherwise = kKeys[i].otherwise;
    const int64_t mine = values_[i].value_or(otherwise);
    const int64_t theirs = other.values_[i].value_or(otherwise);
    if (mine != theirs && mine != otherwise && theirs != otherwise) {
      conflicts.emplace_back(kKeys[i].name);
    }
  }
  for (size_t i = 0; i < texts_.size(); ++i) {
    // The empty text is the default.
    const std::string mine = texts_[i].value_or("");
    const std::string theirs = other.texts_[i].value_or("");
    if (mine != theirs && !mine.empty() && !theirs.empty()) conflicts.emplace_back(kTexts[i]);
  }
  if (aggregator_ && other.aggregator_ && !(aggregator_ == other.aggregator_)) {
    conflicts.emplace_back(kAggregator);
  }
  return conflicts;
}

std::string_view DatasetOptions::KeyName(Key key) { return kKeys[static_cast<size_t>(key)].name; }

std::string_view DatasetOptions::KeyName(Text text) { return kTexts[static_cast<size_t>(text)]; }

std::string DatasetOptions::ToString() const { return TextOf(false); }

std::string DatasetOptions::Explain() const { return TextOf(true); }

std::string DatasetOptions::TextOf(bool explains) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!values_[i]) continue;
    parts.push_back(kKeys[i].is_bool ? Format("{}={}", kKeys[i].name, *values_[i] != 0)
                                     : Format("{}={}", kKeys[i].name, *values_[i]));
    if (explains && !kKeys[i].acts) parts.back() += " (without effect yet)";
  }
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i]) parts.push_back(Format("{}={}", kTexts[i], Quote(*texts_[i])));
  }
  if (aggregator_) parts.push_back(Format("{}=StatsAggregator", kAggregator));
  return Join(parts, ", ");
}

}  // namespace tutti
