// The row-by-row model (row_model.h) of sources and of operations that give the rows of their
// inputs, changed, chosen, repeated or in another order.
#ifndef TUTTI_CORE_DATASET_TESTING_ROW_MODEL_ROWS_H_
#define TUTTI_CORE_DATASET_TESTING_ROW_MODEL_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/dataset/ops/shuffle_order.h"
#include "core/dataset/testing/row_model.h"

namespace tutti {

class ModelSource final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool) override {
    if (at_ == step_.a) return ModelRow::End();
    const int64_t i = at_++;
    if (step_.op == Step::Op::kSlices) return ModelRow::Of({{{2}, {2 * i, 2 * i + 1}}});
    if (step_.op == Step::Op::kGenerator && ModelFails(step_, i)) {
      ModelRow row = ModelRow::Failure(ModelFailure(i));
      row.may_be_last = true;
      return row;
    }
    return ModelRow::Of({{{}, {i}}});
  }
  void Restart() override { at_ = 0; }

 private:
  int64_t at_ = 0;
};

class ModelMap final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    const ModelRow row = input().Next(counted);
    if (!row.is_row()) return row;
    const auto make = [step = &step_, row] {
      ModelRow made = row.Made();
      return made.is_row() ? ModelMapped(*step, std::move(*made.element)) : made;
    };
    return counted ? ModelRow{.make = make} : make();
  }
};

// filter and take_while.
class ModelFilter final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool) override {
    while (!done_) {
      ModelRow row = input().Next(false);
      if (!row.is_row()) return row;
      const int64_t sum = ModelSum(*row.element);
      if (ModelFails(step_, sum)) return ModelRow::Failure(ModelFailure(sum));
      if (ModelKeeps(step_, sum)) return row;
      done_ = step_.op == Step::Op::kTakeWhile;
    }
    return ModelRow::End();
  }
  void Restart() override {
    done_ = false;
    Model::Restart();
  }

 private:
  bool done_ = false;
};

// a: how many times.
class ModelRepeat final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    while (pass_ < step_.a) {
      if (std::exchange(restarts_, false)) input().Restart();
      const ModelRow row = input().Next(counted);
      if (!row.end) {
        gave_ = true;
        return row;
      }
      // A pass that gives nothing is the last.
      pass_ = std::exchange(gave_, false) ? pass_ + 1 : step_.a;
      restarts_ = true;
    }
    return ModelRow::End();
  }
  void Restart() override {
    pass_ = 0;
    gave_ = restarts_ = false;
    Model::Restart();
  }

 private:
  int64_t pass_ = 0;
  bool gave_ = false;
  bool restarts_ = false;
};

// a: the buffer size, b: the seed; odd seeds reshuffle.
class ModelShuffle final : public Model {
 public:
  ModelShuffle(const Step& step, Shared* shared) : Model(step, shared) {
    if (reshuffles()) iteration_ = shared->iterations[&step]++;
    order_ = ShuffleOrder(step.b, iteration_, 0);
  }
  ModelRow Next(bool) override {
    while (!ended_ && (!full_ || hole_.has_value())) {
      const ModelRow row = input().Next(false);
      if (row.failed()) return row;
      ended_ = row.end;
      if (ended_) break;
      if (hole_.has_value()) {
        buffer_[*hole_] = row;
        hole_.reset();
      } else {
        buffer_.push_back(row);
        full_ = static_cast<int64_t>(buffer_.size()) == step_.a;
      }
    }
    if (hole_.has_value()) Remove(*std::exchange(hole_, std::nullopt));
    if (buffer_.empty()) return ModelRow::End();
    const size_t drawn = order_.Below(buffer_.size());
    const ModelRow row = buffer_[drawn];
    if (ended_) {
      Remove(drawn);
    } else {
      hole_ = drawn;
    }
    return row;
  }
  void Restart() override {
    ++epoch_;
    order_ = reshuffles() ? ShuffleOrder(step_.b, iteration_, epoch_) : ShuffleOrder(step_.b, 0, 0);
    buffer_.clear();
    hole_.reset();
    full_ = ended_ = false;
    Model::Restart();
  }

 private:
  bool reshuffles() const { return step_.b % 2 == 1; }
  void Remove(size_t i) {
    buffer_[i] = buffer_.back();
    buffer_.pop_back();
  }

  int64_t iteration_ = 0;
  int64_t epoch_ = 0;
  ShuffleOrder order_;
  std::vector<ModelRow> buffer_;
  std::optional<size_t> hole_;  // what was drawn last; the next row takes its place
  bool full_ = false;
  bool ended_ = false;
};

class ModelTake final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    if (taken_ == step_.a) return ModelRow::End();
    const ModelRow row = input().Next(counted);
    taken_ += row.is_row() ? 1 : 0;
    return row;
  }
  void Restart() override {
    taken_ = 0;
    Model::Restart();
  }

 private:
  int64_t taken_ = 0;
};

class ModelSkip final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    while (skipped_ < step_.a) {
      const ModelRow row = input().Next(true);
      if (!row.is_row()) return row;
      ++skipped_;
    }
    return input().Next(counted);
  }
  void Restart() override {
    skipped_ = 0;
    Model::Restart();
  }

 private:
  int64_t skipped_ = 0;
};

// a: the number of shards, b: which.
class ModelShard final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    while (step_.a > 1) {
      const bool ours = place_ % step_.a == step_.b;
      const ModelRow row = input().Next(!ours || counted);
      if (row.end) return std::exchange(broken_off_, ModelRow::End());
      broken_off_ = ModelRow::End();
      ++place_;
      if (ours || row.takes_many) return row;
      if (row.failed() && row.may_be_last) broken_off_ = row;
    }
    return input().Next(counted);
  }
  void Restart() override {
    place_ = 0;
    broken_off_ = ModelRow::End();
    Model::Restart();
  }

 private:
  int64_t place_ = 0;
  ModelRow broken_off_ = ModelRow::End();
};

class ModelConcatenate final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    const ModelRow row = input(current_).Next(counted);
    if (!row.end || current_ == 1) return row;
    current_ = 1;
    return Next(counted);
  }
  void Restart() override {
    current_ = 0;
    Model::Restart();
  }

 private:
  size_t current_ = 0;
};

// a: the first number. A failed element has its number, too.
class ModelEnumerate final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    const ModelRow row = input().Next(counted);
    const int64_t number = step_.a + index_;
    index_ += row.end ? 0 : 1;
    if (!row.is_row()) return row;
    const auto make = [row, number] {
      ModelRow made = row.Made();
      if (made.is_row()) made.element->insert(made.element->begin(), ModelTensor{{}, {number}});
      return made;
    };
    return counted ? ModelRow{.make = make} : make();
  }
  void Restart() override {
    index_ = 0;
    Model::Restart();
  }

 private:
  int64_t index_ = 0;
};

// a: the buffer size; with a buffer all elements are made.
class ModelPrefetch final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override { return input().Next(counted && step_.a == 0); }
};

// Where an element of one input fails, the others pass over theirs of that place.
class ModelZip final : public Model {
 public:
  ModelZip(const Step& step, Shared* shared) : Model(step, shared), owed_(step.inputs.size(), 0) {}
  ModelRow Next(bool) override {
    for (size_t i = 0; i < owed_.size(); ++i) {
      while (owed_[i] > 0) {
        const ModelRow passed = input(i).Next(false);
        if (passed.end) return passed;
        --owed_[i];
        if (passed.takes_many) return passed;
      }
    }
    ModelElement all;
    for (size_t i = 0; i < owed_.size(); ++i) {
      const ModelRow row = i < kept_.size() ? kept_[i] : input(i).Next(false);
      // At the end of a later input the earlier ones keep what they gave.
      if (row.end) return row;
      if (row.failed()) {
        for (size_t k = i + 1; k < owed_.size(); ++k) ++owed_[k];
        kept_.clear();
        return row;
      }
      if (i >= kept_.size()) kept_.push_back(row);
      all.insert(all.end(), row.element->begin(), row.element->end());
    }
    kept_.clear();
    return ModelRow::Of(std::move(all));
  }
  void Restart() override {
    std::fill(owed_.begin(), owed_.end(), 0);
    kept_.clear();
    Model::Restart();
  }

 private:
  std::vector<int64_t> owed_;
  std::vector<ModelRow> kept_;
};

class ModelUnique final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool) override {
    while (true) {
      const ModelRow row = input().Next(false);
      if (!row.is_row()) return row;
      const ModelTensor& key = (*row.element)[0];
      if (seen_.emplace(key.dims, key.items).second) return row;
    }
  }
  void Restart() override {
    seen_.clear();
    Model::Restart();
  }

 private:
  std::set<std::pair<std::vector<int64_t>, std::vector<int64_t>>> seen_;
};

// a: how many failed elements of a pass are skipped; -1: any number. One behind which the input may
// be over is not, where it is.
class ModelOnError final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    if (step_.a == 0) return input().Next(counted);
    while (true) {
      ModelRow row = input().Next(false);
      const ModelRow held = std::exchange(held_, ModelRow::End());
      if (row.end) return held;
      skipped_ += held.end ? 0 : 1;
      if (!row.failed() || row.takes_many || skipped_ == step_.a) return row;
      if (row.may_be_last) {
        held_ = std::move(row);
      } else {
        ++skipped_;
      }
    }
  }
  void Restart() override {
    skipped_ = 0;
    held_ = ModelRow::End();
    Model::Restart();
  }

 private:
  int64_t skipped_ = 0;
  ModelRow held_ = ModelRow::End();
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_ROW_MODEL_ROWS_H_
