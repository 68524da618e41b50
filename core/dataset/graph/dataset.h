// Dataset: a handle on an immutable definition of a sequence of elements, and the transformations
// that make new ones from it. Nothing runs before an Iterator is made.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> numbers, Dataset::Range(environment, 0, 1000, 1));
//   TUTTI_ASSIGN_OR_RETURN(numbers, numbers->Shuffle(1000, {.seed = 7}));
//   TUTTI_ASSIGN_OR_RETURN(numbers, numbers->Batch(128));
//   TUTTI_ASSIGN_OR_RETURN(Ref<Iterator> iterator, Iterator::Create(numbers, {}, options));
//
// Bad arguments are INVALID_ARGUMENT here, bad data an error of the iterator that meets it. Every
// maker takes the user's name for the op, which messages use. Threads: any.
#ifndef TUTTI_CORE_DATASET_GRAPH_DATASET_H_
#define TUTTI_CORE_DATASET_GRAPH_DATASET_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/dataset/graph/node.h"
#include "core/function/function.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/value.h"

namespace tutti {

class RunProfile;
struct RunReport;

// prefetch's and num_parallel_calls' "you choose": exec/autotuner.h.
inline constexpr int64_t kAutotune = -1;

struct MapOptions {
  std::string name;
  int64_t num_parallel_calls = 0;  // 0: on the iterating thread
  std::optional<bool> deterministic;
};

struct SampleOptions {
  std::string name;
  // A vector of numbers, or a dataset of such vectors, one for each draw; null, or none: all have
  // the same.
  Ref<const Value> weights;
  std::optional<int64_t> seed;  // none: the environment's, or a drawn one
  bool stop_on_empty_dataset = false;
  bool rerandomize_each_iteration = true;
};

struct ShuffleOptions {
  std::string name;
  std::optional<int64_t> seed;  // none: the environment's default seed, or a random one
  bool reshuffle_each_iteration = true;
};

struct SnapshotOptions {
  std::string name;
  std::string compression = "AUTO";  // GZIP, SNAPPY, NONE
  // From a dataset of datasets, one per shard, to a dataset of elements; null: their interleave.
  Ref<Function> reader_func = nullptr;
  // From an element to the number of its shard, an integer scalar; null: all are in shard 0.
  Ref<Function> shard_func = nullptr;
};

// The attributes of a seeded op for which nobody gave a seed: "seed", drawn here, and "seed_given".
// In a dataset function nothing is drawn: there the op that calls it gives a seed for each element,
// which "seed_by_element" asks for.
void SetDrawnSeed(Environment& environment, Attributes* attributes);

class Dataset final : public DatasetLeaf {
 public:
  using Ptr = Ref<Dataset>;
  using Environments = const Ref<DatasetEnvironment>&;

  // ---- Plain sources and transformations: Range, FromTensors, Take ... ----

#include "generated/core/dataset/dataset_makers.inc"

  // ---- Other sources (record files: tf_record.h, fixed_length_record.h, text_line.h ...). ----

  static Result<Ptr> FromTensorSlices(Environments environment, Ref<const Value> value,
                                      std::string name = {});
  // For each iterator `start` makes a state (in: none), which `next` gets for each element; a null
  // or missing result of `next` ends the sequence.
  static Result<Ptr> FromGenerator(Environments environment, Ref<Function> start,
                                   Ref<Function> next, Ref<const ElementSpec> spec,
                                   std::string name = {});
  // `datasets`: a value whose leaves are datasets.
  static Result<Ptr> Zip(Environments environment, const Value& datasets, std::string name = {});
  // `datasets` as for zip. Elements of `choice_dataset` are their numbers, in the order of leaves.
  static Result<Ptr> ChooseFromDatasets(Environments environment, const Value& datasets,
                                        const Dataset& choice_dataset,
                                        bool stop_on_empty_dataset = true, std::string name = {});
  static Result<Ptr> SampleFromDatasets(Environments environment, const Value& datasets,
                                        SampleOptions options = {});

  // The dataset in `variant`, a value of that one leaf. INVALID_ARGUMENT naming both specs where
  // its elements are not compatible with `element_spec`. Learns what they are where it is not
  // known, as GetElementSpec does.
  static Result<Ptr> FromVariant(const Value& variant, const ElementSpec& element_spec,
                                 const CallOptions& call);

  // Any op: what the makers of other files and rooms call. Options are merged from the inputs; a
  // seeded op without a seed gets a drawn one.
  static Result<Ptr> Make(Environments environment, std::string_view op, std::string name,
                          Attributes attributes, const std::vector<Ptr>& inputs,
                          std::vector<Ref<Function>> functions = {});

  // ---- Other transformations. ----

  Result<Ptr> Map(Ref<Function> function, MapOptions options = {}) const;
  Result<Ptr> Shuffle(int64_t buffer_size, ShuffleOptions options = {}) const;
  // Writes the first complete pass to a folder below `path` and reads that from then on. The folder
  // goes by what the pipeline computes: INVALID_ARGUMENT where a function does not say that
  // (graph_fingerprint.h).
  Result<Ptr> Snapshot(std::string path, SnapshotOptions options = {}) const;
  // Merges into the dataset's own options. INVALID_ARGUMENT for an option that has another value
  // already, when neither is the default.
  Result<Ptr> WithOptions(const DatasetOptions& options) const;
  // With `options` in the place of its own.
  Ptr ReplaceOptions(const DatasetOptions& options) const;

  // ---- Reading. ----

  int64_t cardinality() const { return node_->cardinality(); }
  const DatasetOptions& options() const { return options_; }
  // Learns it by computing one element of the map that has no output spec. Where an element fails,
  // the next one is computed, until kMostFailedLooks have failed (exec/first_elements.h): then the
  // first one's failure comes. FAILED_PRECONDITION when there is no element. Blocks: refused in
  // dataset callbacks when it would have to.
  Result<Ref<const ElementSpec>> GetElementSpec(const CallOptions& call) const;
  // The last state: `initial`, then for each element what `function` gives for (state, element), of
  // which an element that is a tuple is one part. Structure, kinds and dtypes of the state stay,
  // INVALID_ARGUMENT naming both otherwise; its shapes may change. A failure, of an element or of
  // the function, ends it, and names the element. Blocks: refused in dataset callbacks.
  Result<Ref<Value>> Reduce(Ref<Value> initial, Function& function, const CallOptions& call) const;
  Ref<const ElementSpec> known_element_spec() const override { return node_->element_spec(); }
  // Null where only elements can tell, which may be others than those that told it.
  Ref<const ElementSpec> promised_spec() const;
  // One line per op from the last to the sources, with cardinality and spec; below them what was
  // measured and decided in the run of the iterator that was made last.
  std::string Explain() const;
  RunReport ExplainRun() const;
  // An iterator over this dataset begins. Threads: any.
  void NoteRun(Ref<RunProfile> run) const;
  // FAILED_PRECONDITION naming the op that holds a function without a registered name.
  Result<std::string> Serialize() const;
  // INVALID_ARGUMENT for bytes that are no dataset, NOT_FOUND for an op or a function that this
  // environment does not have.
  static Result<Ptr> Deserialize(Environments environment, std::string_view bytes);

  const Node& node() const { return *node_; }
  const Ref<const Node>& node_ref() const { return node_; }
  const Ref<DatasetEnvironment>& environment() const { return environment_; }

  // A handle on a node that exists (graph rewrites).
  static Ptr OfNode(Environments environment, Ref<const Node> node, DatasetOptions options);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  Dataset(Ref<DatasetEnvironment> environment, Ref<const Node> node, DatasetOptions options);
  ~Dataset() override;

  Result<Ptr> Derive(std::string_view op, std::string name, Attributes attributes,
                     std::vector<Ref<Function>> functions = {}) const;

  const Ref<DatasetEnvironment> environment_;
  const Ref<const Node> node_;
  const DatasetOptions options_;
  mutable std::mutex mutex_;  // guards run_
  mutable Ref<RunProfile> run_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_DATASET_H_
