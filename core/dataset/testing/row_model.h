// A model of datasets: what a pipeline gives, element by element and error by error, written so
// that it is obviously right. Each operation asks its inputs for one row at a time; there are no
// slabs, threads, states or tensors. What the stages do must be the same to whoever iterates.
//
// A pipeline is a graph of Steps, from which a test makes both a dataset (row_model_datasets.h) and
// the model. The operations are in row_model_rows.h, row_model_groups.h, row_model_mixtures.h and
// row_model_stores.h; row_model_pipeline.h has them all.
//
// The one subtlety: a row may be passed over (`counted`). Then no function runs for it, so that its
// value is made only if somebody wants it after all, as batch does whose rows were counted before
// an element failed. Here such a row is a value that is not made yet.
#ifndef TUTTI_CORE_DATASET_TESTING_ROW_MODEL_H_
#define TUTTI_CORE_DATASET_TESTING_ROW_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

// The components of an element, each an int64 tensor; its structure is not the model's business.
struct ModelTensor {
  std::vector<int64_t> dims;
  std::vector<int64_t> items;
  bool operator==(const ModelTensor&) const = default;
};
using ModelElement = std::vector<ModelTensor>;

// A row, a failure, or the end.
struct ModelRow {
  std::optional<ModelElement> element = {};
  std::string failure = {};  // a part of the message
  bool may_be_last = false;  // of a failure: shards share it when the end follows
  bool takes_many = false;   // of a failure: it is of no element, and nobody passes over it
  bool end = false;
  std::function<ModelRow()> make = {};  // of a row that was only counted

  bool failed() const { return !failure.empty(); }
  bool is_row() const { return !failed() && !end; }
  ModelRow Made() const { return make ? make() : *this; }

  static ModelRow Of(ModelElement element) { return {.element = std::move(element)}; }
  static ModelRow Failure(std::string text) { return {.failure = std::move(text)}; }
  static ModelRow End() { return {.end = true}; }
};

struct Step {
  enum class Op {
    kRange, kSlices, kGenerator, kMap, kFilter, kTakeWhile, kBatch, kRepeat, kShuffle, kTake, kSkip,
    kShard, kConcatenate, kEnumerate, kPrefetch, kZip, kUnique, kCache,
    kFlatMap, kInterleave, kUnbatch, kWindow, kPaddedBatch, kGroupByWindow, kOnError, kSnapshot,
    kChoose, kSample, kBuckets, kAssertCardinality,
  };
  Op op = Op::kRange;
  std::vector<std::shared_ptr<Step>> inputs = {};
  int64_t a = 0;  // the first argument, or the number of elements of a source
  int64_t b = 0;  // the second
  int64_t c = 0;  // the third
  int64_t d = 0;  // the fourth
  int64_t failing = 0;  // one of so many elements fails in its function or generator; 0: none
  int64_t salt = 0;
  int64_t input_cardinality = 0;  // as the dataset says
  // The shapes of the input's components, as the dataset promises them; -1 is an open size.
  std::vector<std::vector<int64_t>> input_shapes = {};
};

// What functions look at.
inline int64_t ModelSum(const ModelElement& element) {
  int64_t sum = 0;
  for (const ModelTensor& tensor : element) {
    for (int64_t item : tensor.items) sum += item + 1;
  }
  return sum;
}
inline bool ModelFails(const Step& step, int64_t number) {
  return step.failing > 0 && (number + step.salt) % step.failing == 0;
}
inline std::string ModelFailure(int64_t number) { return "bad " + std::to_string(number) + "."; }
// What a map's function gives.
inline ModelRow ModelMapped(const Step& step, ModelElement element) {
  const int64_t sum = ModelSum(element);
  if (ModelFails(step, sum)) return ModelRow::Failure(ModelFailure(sum));
  for (ModelTensor& tensor : element) {
    for (int64_t& item : tensor.items) ++item;
  }
  return ModelRow::Of(std::move(element));
}
inline bool ModelKeeps(const Step& step, int64_t sum) { return (sum / 2 + step.salt) % 3 != 0; }

// What the function of flat_map and interleave gives: so many numbers from 10 * sum on, of which
// some fail when they are made; or it fails itself.
inline bool ModelCallFails(const Step& step, int64_t sum) {
  return step.failing > 0 && (sum + 2 * step.salt) % 5 == 0;
}
inline int64_t ModelLength(const Step& step, int64_t sum) { return (sum / 3 + step.salt) % 4; }

// group_by_window's keys, and how many rows make a group.
inline int64_t ModelKey(int64_t sum) { return sum % 3; }
inline int64_t ModelGroupSize(const Step& step, int64_t key) {
  return step.b == 0 ? step.a : step.a + key;
}

// The shard of a snapshot of which step.a says how many there are.
inline int64_t ModelShardOf(const Step& step, const ModelElement& element) {
  return ModelSum(element) % step.a;
}

class Model {
 public:
  // What all iterators over a pipeline share.
  struct Shared {
    std::map<const Step*, int64_t> iterations;              // of shuffles
    std::map<const Step*, std::vector<ModelElement>> kept;  // by caches and snapshots
  };

  static std::unique_ptr<Model> Make(const Step& step, Shared* shared);

  Model(const Step& step, Shared* shared) : step_(step), shared_(shared) {
    for (const auto& input : step.inputs) inputs_.push_back(Make(*input, shared));
  }
  virtual ~Model() = default;

  virtual ModelRow Next(bool counted) = 0;
  virtual void Restart() {
    for (const auto& input : inputs_) input->Restart();
  }
  // Whether it can be told what another iterator would do.
  virtual bool CanGoOnElsewhere() const {
    return std::ranges::all_of(inputs_, [](const auto& input) {
      return input->CanGoOnElsewhere();
    });
  }
  // Another iterator goes on from here, which was restored from this one's state.
  virtual void GoOnElsewhere() {
    for (const auto& input : inputs_) input->GoOnElsewhere();
  }

 protected:
  Model& input(size_t i = 0) { return *inputs_[i]; }

  const Step& step_;
  Shared* const shared_;
  std::vector<std::unique_ptr<Model>> inputs_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_ROW_MODEL_H_
