// The row-by-row model (row_model.h) of choose_from_datasets, sample_from_datasets,
// bucket_by_sequence_length and assert_cardinality.
#ifndef TUTTI_CORE_DATASET_TESTING_ROW_MODEL_MIXTURES_H_
#define TUTTI_CORE_DATASET_TESTING_ROW_MODEL_MIXTURES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dataset/ops/shuffle_order.h"
#include "core/dataset/testing/row_model.h"
#include "core/dataset/testing/row_model_groups.h"

namespace tutti {

// The dataset that an element of the first input chooses; one of them is none.
inline int64_t ModelChoice(const Step& step, int64_t sum) {
  const auto count = static_cast<int64_t>(step.inputs.size()) - 1;
  return (sum / 2 + step.salt) % (step.salt == 0 ? count + 1 : count);
}

// What sample_from_datasets draws by: the same for all draws, or of an element. All may be 0.
inline std::vector<double> ModelWeights(const Step& step, int64_t sum, size_t count) {
  std::vector<double> weights;
  for (size_t i = 0; i < count; ++i) {
    weights.push_back(static_cast<double>((sum + step.salt + 2 * static_cast<int64_t>(i)) % 4) / 3);
  }
  return weights;
}

// Weights as parts of the largest.
inline std::vector<uint64_t> ModelParts(const std::vector<double>& weights) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  std::vector<uint64_t> parts;
  for (const double weight : weights) {
    parts.push_back(static_cast<uint64_t>(std::ldexp(weight / largest, 40)));
  }
  return parts;
}

inline size_t ModelDrawn(const std::vector<uint64_t>& parts, ShuffleOrder* order) {
  uint64_t at = order->Below(std::accumulate(parts.begin(), parts.end(), uint64_t{0}));
  size_t i = 0;
  for (; at >= parts[i]; ++i) at -= parts[i];
  return i;
}

// By an element of the first input for each of the others. d: whether one that has ended ends all.
// c of a sample is 2.
class ModelChoose final : public Model {
 public:
  ModelChoose(const Step& step, Shared* shared) : Model(step, shared) {
    if (draws() && redraws()) iteration_ = shared->iterations[&step]++;
    Restart(0);
  }
  ModelRow Next(bool counted) override {
    while (!done_) {
      if (!choice_.has_value()) {
        ModelRow failed = Choose();
        if (failed.end || failed.failed()) return failed;
      }
      const size_t i = *std::exchange(choice_, std::nullopt);
      if (ended_[i]) continue;
      ModelRow chosen = input(i + 1).Next(counted);
      // It is of no element, so that the choice is still to be followed.
      if (chosen.takes_many) choice_ = i;
      if (!chosen.end) return chosen;
      ended_[i] = true;
      done_ = step_.d != 0 || std::ranges::all_of(ended_, [](bool ended) { return ended; });
    }
    return ModelRow::End();
  }
  void Restart() override {
    Restart(epoch_ + 1);
    Model::Restart();
  }

 private:
  bool draws() const { return step_.op == Step::Op::kSample; }
  bool redraws() const { return step_.b % 2 == 1; }
  // Into choice_; or why there is none.
  ModelRow Choose() {
    const ModelRow row = input().Next(false);
    done_ = row.end;
    if (!row.is_row()) return row;
    const int64_t sum = ModelSum(*row.element);
    if (ModelFails(step_, sum)) return ModelRow::Failure(ModelFailure(sum));
    if (draws()) {
      const std::vector<double> weights = ModelWeights(step_, sum, ended_.size());
      if (*std::max_element(weights.begin(), weights.end()) == 0) {
        return ModelRow::Failure("weights are all 0");
      }
      choice_ = ModelDrawn(ModelParts(weights), &order_);
      return row;
    }
    const int64_t choice = ModelChoice(step_, sum);
    if (choice >= static_cast<int64_t>(ended_.size())) {
      return ModelRow::Failure("choice_dataset must give numbers of");
    }
    choice_ = static_cast<size_t>(choice);
    return row;
  }
  void Restart(int64_t epoch) {
    epoch_ = redraws() ? epoch : 0;
    order_ = ShuffleOrder(step_.b, iteration_, epoch_);
    choice_.reset();
    ended_.assign(step_.inputs.size() - 1, false);
    done_ = false;
  }

  int64_t iteration_ = 0;
  int64_t epoch_ = 0;
  ShuffleOrder order_;
  std::optional<size_t> choice_;  // that is yet to be followed
  std::vector<bool> ended_;
  bool done_ = false;
};

// b: the seed; odd ones draw anew for each pass. c: 0 without weights, 1 with. d as above.
class ModelSample final : public Model {
 public:
  ModelSample(const Step& step, Shared* shared) : Model(step, shared) {
    if (redraws()) iteration_ = shared->iterations[&step]++;
    Restart(0);
  }
  ModelRow Next(bool counted) override {
    while (std::ranges::any_of(parts_, [](uint64_t part) { return part > 0; })) {
      const ShuffleOrder before = order_;
      const size_t i = ModelDrawn(parts_, &order_);
      ModelRow row = input(i).Next(counted);
      // It is of no element, so that the draw counts for nothing.
      if (row.takes_many) order_ = before;
      if (!row.end) return row;
      parts_[i] = 0;
      if (step_.d != 0) parts_.clear();
    }
    return ModelRow::End();
  }
  void Restart() override {
    Restart(epoch_ + 1);
    Model::Restart();
  }

 private:
  bool redraws() const { return step_.b % 2 == 1; }
  void Restart(int64_t epoch) {
    epoch_ = redraws() ? epoch : 0;
    order_ = ShuffleOrder(step_.b, iteration_, epoch_);
    parts_.assign(step_.inputs.size(), 1);
    if (step_.c == 1) parts_ = ModelParts(ModelWeights(step_, 0, step_.inputs.size()));
  }

  int64_t iteration_ = 0;
  int64_t epoch_ = 0;
  ShuffleOrder order_;
  std::vector<uint64_t> parts_;  // 0: of one that has ended, too
};

// Lengths are sums modulo 7; buckets end at a and a + b, and have c, c + 1 and 2 rows. salt 1:
// rows are stacked as they are, 3: open sizes are padded to the last one below the bucket's
// boundary, which the last bucket has not; d: whether the remainder is dropped.
inline constexpr int64_t kModelPadsToBoundary = 3;
inline int64_t ModelLengthOf(int64_t sum) { return sum % 7; }
inline std::vector<int64_t> ModelBoundaries(const Step& step) { return {step.a, step.a + step.b}; }
inline std::vector<int64_t> ModelBatchSizes(const Step& step) { return {step.c, step.c + 1, 2}; }

class ModelBuckets final : public Model {
 public:
  ModelBuckets(const Step& step, Shared* shared) : Model(step, shared), buckets_(3) {}
  ModelRow Next(bool) override {
    while (!ended_) {
      const ModelRow row = input().Next(false);
      ended_ = row.end;
      if (row.end) break;
      if (row.failed()) return row;
      const int64_t sum = ModelSum(*row.element);
      if (ModelFails(step_, sum)) return ModelRow::Failure(ModelFailure(sum));
      size_t i = 0;
      for (const int64_t boundary : ModelBoundaries(step_)) i += ModelLengthOf(sum) >= boundary;
      if (step_.salt == kModelPadsToBoundary && i == 2) {
        return ModelRow::Failure("lies in the last bucket");
      }
      buckets_[i].push_back(row);
      if (static_cast<int64_t>(buckets_[i].size()) == ModelBatchSizes(step_)[i]) return Batch(i);
    }
    for (size_t i = 0; step_.d == 0 && i < buckets_.size(); ++i) {
      if (!buckets_[i].empty()) return Batch(i);
    }
    return ModelRow::End();
  }
  void Restart() override {
    for (auto& bucket : buckets_) bucket.clear();
    ended_ = false;
    Model::Restart();
  }

 private:
  ModelRow Batch(size_t i) {
    const std::vector<ModelRow> rows = std::exchange(buckets_[i], {});
    if (step_.salt == 1) return ModelBatch::Stacked(rows);
    if (step_.salt != kModelPadsToBoundary) return ModelBatch::Padded(rows, 0);
    std::vector<std::vector<int64_t>> shapes = step_.input_shapes;
    for (std::vector<int64_t>& shape : shapes) {
      for (int64_t& size : shape) size = size < 0 ? ModelBoundaries(step_)[i] - 1 : size;
    }
    return ModelBatch::Padded(rows, 0, &shapes);
  }

  std::vector<std::vector<ModelRow>> buckets_;
  bool ended_ = false;
};

// a: how many elements there must be; -1: no end.
class ModelAssertCardinality final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    if (done_) return ModelRow::End();
    ModelRow row = input().Next(counted);
    const bool expects_end = step_.a == seen_;
    if (row.failed() && row.takes_many) return row;
    if (row.end && expects_end) return row;
    if (row.end) {
      return Fail(step_.a < 0 ? "expected elements without end, and there were " +
                                    std::to_string(seen_) + ";"
                              : "expected " + std::to_string(step_.a) +
                                    " elements, and there were " + std::to_string(seen_) + ";");
    }
    if (expects_end) {
      return Fail("expected " + std::to_string(step_.a) + " elements, and there are more");
    }
    ++seen_;
    return row;
  }
  void Restart() override {
    seen_ = 0;
    done_ = false;
    Model::Restart();
  }

 private:
  ModelRow Fail(std::string text) {
    done_ = true;
    ModelRow row = ModelRow::Failure(std::move(text));
    row.takes_many = true;
    return row;
  }

  int64_t seen_ = 0;
  bool done_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_ROW_MODEL_MIXTURES_H_
