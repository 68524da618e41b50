// DatasetOptions: what a user may ask of a dataset beside its elements; typed values by key, each
// of which knows whether it was set. A value type; C's tutti_data_options holds one.
//
//   deterministic                                        bool, true; parallel maps keep the order
//   experimental_slack                                   bool, false; the thread of the last
//                                                        prefetch pauses after each step
//                                                        (prefetch_op.cc)
//   experimental_external_state_policy                   0 .. 2, see ExternalStatePolicy; what
//                                                        becomes of the state that functions of the
//                                                        host may have, which is in no
//                                                        definition and in no saved position;
//                                                        unset: nothing is said of it
//   threading.private_threadpool_size                    0 or more; calls that the parallel maps of
//                                                        one iterator make at once, in all; 0: any
//   threading.max_intra_op_parallelism                   0 or more; calls that one operation makes
//                                                        at once; 0: as many as it says itself
//   autotune.ram_budget                                  bytes of elements that the buffers of one
//                                                        iterator hold in all; 0: any
//   experimental_distribute.auto_shard_policy            -1 .. 3, see AutoShardPolicy
//   experimental_distribute.num_devices                  0 or more; elements that make one step,
//                                                        for experimental_slack; unset: a
//                                                        strategy sets it to its replicas here
//   experimental_distribute.share_files                  bool, false; where there are fewer files
//                                                        than workers, several take the elements
//                                                        of a file's part in turn
//   experimental_optimization.autotune                   bool, true; what is left to the library
//                                                        (AUTOTUNE) follows what is measured, else
//                                                        it is a constant
//   experimental_optimization.autotune_buffers           bool; false: buffers stay constants
//   experimental_optimization.autotune_cpu_budget        calls that AUTOTUNE chooses, of one
//                                                        iterator in all; 0: 16 each
//   experimental_optimization.native_functions           bool; true: an iterator over a dataset in
//                                                        which an operation calls the host's
//                                                        function is refused; false: bindings make
//                                                        no expressions of functions unless asked
//   experimental_optimization.apply_default_optimizations
//                                                        bool, true; false: no two operations
//                                                        become one (window_batches.h)
//   experimental_optimization.<switch>                   see kKeys; without effect yet
//   experimental_stats.latency_all_edges                 bool, false; every operation is measured,
//                                                        where there is an aggregator
//   experimental_stats.profile                           bool, false; what explain tells after a
//                                                        run is measured
//
// Beside these there are texts, experimental_stats.prefix and experimental_stats.counter_prefix,
// which stand before the names of histograms and of counters, and experimental_stats.aggregator, to
// which they belong. The aggregator is this process's, and in no saved definition.
//
// experimental_deterministic and experimental_threading.<key> are other names of deterministic and
// of threading.<key>. What does not act is kept, merged and saved like the rest.
#ifndef TUTTI_CORE_DATASET_GRAPH_DATASET_OPTIONS_H_
#define TUTTI_CORE_DATASET_GRAPH_DATASET_OPTIONS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/graph/stats_aggregator.h"

namespace tutti {

enum class AutoShardPolicy : int64_t { kOff = -1, kAuto = 0, kFile = 1, kData = 2, kHint = 3 };
enum class ExternalStatePolicy : int64_t { kWarn = 0, kIgnore = 1, kFail = 2 };

class DatasetOptions {
 public:
  // In the order in which definitions have them: new ones come last.
  enum class Key : int32_t {
    kDeterministic,
    kSlack,
    kApplyDefaultOptimizations,
    kPrivateThreadpoolSize,
    kMaxIntraOpParallelism,
    kRamBudget,
    kAutoShardPolicy,
    kNumDevices,
    kExternalStatePolicy,
    kAutotune,
    kAutotuneBuffers,
    kAutotuneCpuBudget,
    kFilterFusion,
    kFilterWithRandomUniformFusion,
    kHoistRandomUniform,
    kMapAndBatchFusion,
    kMapAndFilterFusion,
    kMapFusion,
    kMapParallelization,
    kMapVectorization,
    kMapVectorizationChooseFastest,
    kNoopElimination,
    kParallelBatch,
    kReorderDataDiscardingOps,
    kShuffleAndRepeatFusion,
    kLatencyAllEdges,
    kProfile,
    kNativeFunctions,
    kShareFiles,
  };
  static constexpr int kNumKeys = 29;
  enum class Text : int32_t { kStatsPrefix, kStatsCounterPrefix };
  static constexpr int kNumTexts = 2;

  // INVALID_ARGUMENT for an unknown key, naming the nearest and all known ones, or for a value of
  // another type or out of range.
  Status SetInt(std::string_view key, int64_t value);
  Status SetBool(std::string_view key, bool value);
  Status SetText(std::string_view key, std::string value);
  // Null: as if it had never been set.
  void SetAggregator(Ref<StatsAggregator> aggregator) { aggregator_ = std::move(aggregator); }
  // As if it had never been set. INVALID_ARGUMENT for an unknown key.
  Status Clear(std::string_view key);
  // The value where it was set; booleans are 0 and 1. INVALID_ARGUMENT for an unknown key.
  Result<std::optional<int64_t>> Read(std::string_view key) const;
  // The same of a text.
  Result<std::optional<std::string>> ReadText(std::string_view key) const;

  // What was set, or the default.
  bool deterministic() const { return Value(Key::kDeterministic, 1) != 0; }
  AutoShardPolicy auto_shard_policy() const {
    return static_cast<AutoShardPolicy>(Value(Key::kAutoShardPolicy, 0));
  }
  bool share_files() const { return Value(Key::kShareFiles, 0) != 0; }
  int64_t private_threadpool_size() const { return Value(Key::kPrivateThreadpoolSize, 0); }
  int64_t max_intra_op_parallelism() const { return Value(Key::kMaxIntraOpParallelism, 0); }
  bool slack() const { return Value(Key::kSlack, 0) != 0; }
  // Elements that make one step; 0 where nobody said.
  int64_t num_devices() const { return Value(Key::kNumDevices, 0); }
  // None: as if there were no such option.
  std::optional<ExternalStatePolicy> external_state_policy() const {
    const std::optional<int64_t> value = Get(Key::kExternalStatePolicy);
    if (!value) return std::nullopt;
    return static_cast<ExternalStatePolicy>(*value);
  }
  bool demands_native_functions() const { return Value(Key::kNativeFunctions, 0) != 0; }
  int64_t ram_budget() const { return Value(Key::kRamBudget, 0); }
  bool applies_default_optimizations() const {
    return Value(Key::kApplyDefaultOptimizations, 1) != 0;
  }
  bool autotune() const { return Value(Key::kAutotune, 1) != 0; }
  bool autotune_buffers() const { return Value(Key::kAutotuneBuffers, 1) != 0; }
  int64_t autotune_cpu_budget() const { return Value(Key::kAutotuneCpuBudget, 0); }
  bool profile() const { return Value(Key::kProfile, 0) != 0; }
  bool latency_all_edges() const { return Value(Key::kLatencyAllEdges, 0) != 0; }
  const std::optional<std::string>& Get(Text text) const {
    return texts_[static_cast<size_t>(text)];
  }
  // Null where none was set.
  const Ref<StatsAggregator>& aggregator() const { return aggregator_; }
  std::optional<int64_t> Get(Key key) const { return values_[static_cast<size_t>(key)]; }
  bool empty() const;

  // `other` where it was set, else this. Keys whose value changed are appended to `*changed` (may
  // be null), for the warning.
  DatasetOptions Merge(const DatasetOptions& other, std::vector<std::string>* changed) const;
  // Keys that both set, to different values neither of which is the default.
  std::vector<std::string> Conflicts(const DatasetOptions& other) const;
  static std::string_view KeyName(Key key);
  static std::string_view KeyName(Text text);
  // "deterministic=false, threading.private_threadpool_size=2": what was set.
  std::string ToString() const;
  // The same, and which of them have no effect yet.
  std::string Explain() const;

  friend bool operator==(const DatasetOptions&, const DatasetOptions&) = default;

 private:
  std::string TextOf(bool explains) const;
  int64_t Value(Key key, int64_t otherwise) const { return Get(key).value_or(otherwise); }

  std::array<std::optional<int64_t>, kNumKeys> values_;
  std::array<std::optional<std::string>, kNumTexts> texts_;
  Ref<StatsAggregator> aggregator_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_DATASET_OPTIONS_H_
