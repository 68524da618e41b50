// The row-by-row model (row_model.h) of operations that keep a whole pass.
#ifndef TUTTI_CORE_DATASET_TESTING_ROW_MODEL_STORES_H_
#define TUTTI_CORE_DATASET_TESTING_ROW_MODEL_STORES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/dataset/testing/row_model.h"

namespace tutti {

// A pass in which nothing fails is kept once it is complete.
class ModelCache final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    if (phase_ == Phase::kFresh) Begin();
    if (phase_ == Phase::kPassing) return input().Next(counted);
    if (phase_ == Phase::kReading) {
      if (rows_.size() == at_) return ModelRow::End();
      return ModelRow::Of(rows_[at_++]);
    }
    const ModelRow row = input().Next(false);
    if (row.failed()) phase_ = Phase::kPassing;
    if (row.is_row()) rows_.push_back(*row.element);
    const bool complete = row.end || static_cast<int64_t>(rows_.size()) == step_.input_cardinality;
    if (phase_ == Phase::kWriting && complete) shared_->kept.emplace(&step_, rows_);
    return row;
  }
  void Restart() override {
    phase_ = Phase::kFresh;
    rows_.clear();
    at_ = 0;
  }

 private:
  enum class Phase { kFresh, kReading, kWriting, kPassing };

  void Begin() {
    const auto kept = shared_->kept.find(&step_);
    phase_ = kept != shared_->kept.end() ? Phase::kReading : Phase::kWriting;
    if (phase_ == Phase::kReading) {
      rows_ = kept->second;
    } else if (std::exchange(input_used_, true)) {
      input().Restart();
    }
  }

  Phase phase_ = Phase::kFresh;
  std::vector<ModelElement> rows_;  // of this pass
  size_t at_ = 0;
  bool input_used_ = false;
};

// As a cache, but that a pass which somebody else is writing is passed through, as is the rest of
// one that goes on elsewhere. a: the shards, by which a kept pass comes, one row of each in turn.
class ModelSnapshot final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    if (phase_ == Phase::kFresh) Begin();
    if (phase_ == Phase::kPassing || written_) return input().Next(counted);
    if (phase_ == Phase::kReading) {
      if (rows_.size() == at_) return ModelRow::End();
      return ModelRow::Of(rows_[at_++]);
    }
    const ModelRow row = input().Next(false);
    if (row.failed()) phase_ = Phase::kPassing;
    if (phase_ == Phase::kRest) return row;
    if (row.is_row()) rows_.push_back(*row.element);
    written_ = row.end || static_cast<int64_t>(rows_.size()) == step_.input_cardinality;
    if (phase_ == Phase::kWriting && written_) shared_->kept.emplace(&step_, InTurn());
    return row;
  }
  void Restart() override {
    phase_ = Phase::kFresh;
    from_input_ = written_ = false;
    rows_.clear();
    at_ = 0;
  }
  // Stages take some rows before they are wanted, and what is written may be complete with them:
  // then the next pass reads it, in the order of its shards.
  bool CanGoOnElsewhere() const override {
    const bool may_be_complete = phase_ == Phase::kWriting && !written_;
    return !(may_be_complete && step_.a > 1) && Model::CanGoOnElsewhere();
  }
  void GoOnElsewhere() override {
    if (phase_ == Phase::kFresh && !from_input_) from_input_ = !IsKept();
    if (phase_ == Phase::kWriting) phase_ = written_ ? Phase::kPassing : Phase::kRest;
    Model::GoOnElsewhere();
  }

 private:
  enum class Phase { kFresh, kReading, kWriting, kPassing, kRest };

  bool IsKept() const { return shared_->kept.contains(&step_); }

  void Begin() {
    phase_ = IsKept() ? Phase::kReading : Phase::kWriting;
    // What was not there when the position was saved is not read.
    if (IsKept() && from_input_) phase_ = Phase::kPassing;
    if (phase_ == Phase::kReading) {
      rows_ = shared_->kept.at(&step_);
    } else if (std::exchange(input_used_, true)) {
      input().Restart();
    }
  }

  std::vector<ModelElement> InTurn() const {
    std::map<int64_t, std::vector<ModelElement>> shards;
    for (const ModelElement& row : rows_) shards[ModelShardOf(step_, row)].push_back(row);
    std::vector<ModelElement> all;
    for (size_t i = 0; all.size() < rows_.size(); ++i) {
      for (const auto& [number, rows] : shards) {
        if (i < rows.size()) all.push_back(rows[i]);
      }
    }
    return all;
  }

  Phase phase_ = Phase::kFresh;
  bool from_input_ = false;
  bool written_ = false;
  bool input_used_ = false;
  std::vector<ModelElement> rows_;  // of this pass
  size_t at_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_ROW_MODEL_STORES_H_
