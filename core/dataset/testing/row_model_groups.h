// The row-by-row model (row_model.h) of operations that make one row of several, or several of one.
#ifndef TUTTI_CORE_DATASET_TESTING_ROW_MODEL_GROUPS_H_
#define TUTTI_CORE_DATASET_TESTING_ROW_MODEL_GROUPS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/dataset/testing/row_model.h"

namespace tutti {

// a: the batch size, b: whether the remainder is dropped; of padded_batch c: the padding value.
class ModelBatch final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool counted) override {
    // Rows that were counted for this batch are wanted now; a failure costs the one row.
    for (size_t i = 0; !counted && i < pending_.size(); ++i) {
      pending_[i] = pending_[i].Made();
      if (!pending_[i].failed()) continue;
      const ModelRow failure = pending_[i];
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
      return failure;
    }
    while (!ended_ && static_cast<int64_t>(pending_.size()) < step_.a) {
      ModelRow row = input().Next(counted);
      if (row.failed()) return row;
      if (row.is_row()) pending_.push_back(std::move(row));
      ended_ = row.end;
    }
    if (step_.b != 0 && static_cast<int64_t>(pending_.size()) < step_.a) pending_.clear();
    if (pending_.empty()) return ModelRow::End();
    const auto make = [step = &step_, rows = std::exchange(pending_, {})] {
      return step->op == Step::Op::kPaddedBatch ? Padded(rows, step->c) : Stacked(rows);
    };
    return counted ? ModelRow{.make = make} : make();
  }
  void Restart() override {
    pending_.clear();
    ended_ = false;
    Model::Restart();
  }

  static ModelRow Stacked(const std::vector<ModelRow>& rows) {
    ModelElement batch;
    for (const ModelRow& counted : rows) {
      const ModelRow row = counted.Made();
      if (row.failed()) return row;
      const bool first = batch.empty();
      for (size_t i = 0; i < row.element->size(); ++i) {
        const ModelTensor& tensor = (*row.element)[i];
        if (first) batch.push_back({.dims = tensor.dims, .items = {}});
        if (batch[i].dims != tensor.dims) return ModelRow::Failure("has shape");
        batch[i].items.insert(batch[i].items.end(), tensor.items.begin(), tensor.items.end());
      }
    }
    for (ModelTensor& tensor : batch) {
      tensor.dims.insert(tensor.dims.begin(), static_cast<int64_t>(rows.size()));
    }
    return ModelRow::Of(std::move(batch));
  }

  // Every place of the largest shape, or of those that are given for the components, each from its
  // row or with the value.
  static ModelRow Padded(const std::vector<ModelRow>& counted, int64_t value,
                         const std::vector<std::vector<int64_t>>* shapes = nullptr) {
    std::vector<ModelRow> rows;
    for (const ModelRow& row : counted) {
      rows.push_back(row.Made());
      if (rows.back().failed()) return rows.back();
    }
    ModelElement batch = *rows[0].element;
    for (size_t i = 0; i < batch.size(); ++i) {
      std::vector<int64_t>& dims = batch[i].dims;
      if (shapes != nullptr) dims = (*shapes)[i];
      for (const ModelRow& row : rows) {
        const std::vector<int64_t>& own = (*row.element)[i].dims;
        if (own.size() != dims.size()) return ModelRow::Failure("has shape");
        for (size_t axis = 0; axis < dims.size(); ++axis) {
          if (shapes != nullptr && own[axis] > dims[axis]) return ModelRow::Failure("has shape");
          dims[axis] = std::max(dims[axis], own[axis]);
        }
      }
      batch[i].items.clear();
      for (const ModelRow& row : rows) AddPadded((*row.element)[i], dims, value, &batch[i].items);
      dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
    }
    return ModelRow::Of(std::move(batch));
  }

 private:
  static void AddPadded(const ModelTensor& tensor, const std::vector<int64_t>& dims, int64_t value,
                        std::vector<int64_t>* items) {
    int64_t places = 1;
    for (const int64_t dim : dims) places *= dim;
    for (int64_t place = 0; place < places; ++place) {
      // The place as one number in the larger shape, and in the tensor's own.
      int64_t rest = place, own = 0, own_stride = 1;
      bool inside = true;
      for (size_t axis = dims.size(); axis-- > 0; rest /= dims[axis]) {
        const int64_t at = rest % dims[axis];
        inside = inside && at < tensor.dims[axis];
        own += at * own_stride;
        own_stride *= tensor.dims[axis];
      }
      items->push_back(inside ? tensor.items[static_cast<size_t>(own)] : value);
    }
  }

  std::vector<ModelRow> pending_;
  bool ended_ = false;
};

// The batches say how many rows there are, so that they are made even where rows are passed over.
class ModelUnbatch final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool) override {
    while (at_ == size_) {
      const ModelRow row = input().Next(false);
      if (!row.is_row()) return row;
      at_ = size_ = 0;
      for (const ModelTensor& tensor : *row.element) {
        if (tensor.dims.empty()) return ModelRow::Failure("expected tensors of rank 1 or more");
        if (tensor.dims[0] != (*row.element)[0].dims[0]) return ModelRow::Failure("the same size");
      }
      batch_ = *row.element;
      size_ = batch_[0].dims[0];
    }
    ModelElement element;
    for (const ModelTensor& tensor : batch_) {
      const auto each = static_cast<ptrdiff_t>(tensor.items.size()) / size_;
      const auto first = tensor.items.begin() + at_ * each;
      element.push_back({.dims = {tensor.dims.begin() + 1, tensor.dims.end()},
                         .items = {first, first + each}});
    }
    ++at_;
    return ModelRow::Of(std::move(element));
  }
  void Restart() override {
    at_ = size_ = 0;
    Model::Restart();
  }

 private:
  ModelElement batch_;
  int64_t size_ = 0;
  int64_t at_ = 0;
};

// flat_map and interleave. a: the slots, b: the block, c: the threads; with threads all elements
// are made.
class ModelInterleave final : public Model {
 public:
  ModelInterleave(const Step& step, Shared* shared)
      : Model(step, shared), slots_(static_cast<size_t>(step.a)) {}
  ModelRow Next(bool counted) override {
    while (true) {
      std::optional<Slot>& slot = slots_[current_];
      if (!slot.has_value() && !ended_) {
        const ModelRow row = input().Next(false);
        ended_ = row.end;
        if (row.end) continue;
        if (row.failed()) return row;
        const int64_t sum = ModelSum(*row.element);
        if (ModelCallFails(step_, sum)) return ModelRow::Failure(ModelFailure(sum));
        slot = Slot{10 * sum, 10 * sum + ModelLength(step_, sum)};
      }
      if (slot.has_value() && slot->next < slot->end) {
        const int64_t number = slot->next++;
        if (++given_ == step_.b) GoOn();
        const auto make = [step = &step_, number] {
          return ModelFails(*step, number) ? ModelRow::Failure(ModelFailure(number))
                                           : ModelRow::Of({{{}, {number}}});
        };
        return counted && step_.c == 0 ? ModelRow{.make = make} : make();
      }
      const bool had_one = slot.has_value();
      slot.reset();
      GoOn();
      const auto is_open = [](const std::optional<Slot>& one) { return one.has_value(); };
      if (ended_ && !had_one && std::none_of(slots_.begin(), slots_.end(), is_open)) {
        return ModelRow::End();
      }
    }
  }
  void Restart() override {
    slots_.assign(slots_.size(), std::nullopt);
    current_ = 0;
    given_ = 0;
    ended_ = false;
    Model::Restart();
  }

 private:
  struct Slot {
    int64_t next;
    int64_t end;
  };
  void GoOn() {
    given_ = 0;
    current_ = (current_ + 1) % slots_.size();
  }

  std::vector<std::optional<Slot>> slots_;
  size_t current_ = 0;
  int64_t given_ = 0;  // in this visit
  bool ended_ = false;
};

// The elements of the windows of a: size, b: shift, c: stride, d: whether the remainder is dropped,
// one window after the other. A failed element fails each window that it would stand in; a failure
// of no element comes once, before the first window that is not complete without what is behind it.
class ModelWindow final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool) override {
    while (window_.empty()) {
      const int64_t span = (step_.a - 1) * step_.c + 1;
      while (!ended_ && begin_ + size() < next_ + span) {
        ModelRow row = Read(span);
        if (row.takes_many) return row;
      }
      const int64_t left = begin_ + size() - next_;
      if (left <= 0 || (step_.d != 0 && left < span)) {
        for (; !rows_.empty(); Forget()) continue;
        return std::exchange(broken_off_, ModelRow::End());
      }
      ModelRow failure;
      for (int64_t i = 0; i < step_.a && i * step_.c < left; ++i) {
        Place& place = rows_[static_cast<size_t>(next_ - begin_ + i * step_.c)];
        place.used = true;
        if (place.row.failed() && !failure.failed()) failure = place.row;
        window_.push_back(place.row);
      }
      for (next_ += step_.b; begin_ < next_ && !rows_.empty();) Forget();
      if (!failure.failed()) continue;
      window_.clear();
      return failure;
    }
    const ModelRow row = window_.front();
    window_.pop_front();
    return row;
  }
  void Restart() override {
    rows_.clear();
    window_.clear();
    begin_ = next_ = 0;
    ended_ = false;
    broken_off_ = ModelRow::End();
    Model::Restart();
  }

 private:
  struct Place {
    ModelRow row;
    bool used = false;
  };
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }

  // Rows between windows are passed over.
  ModelRow Read(int64_t span) {
    const bool between = step_.b > span && (begin_ + size()) % step_.b >= span;
    const ModelRow row = input().Next(between);
    ended_ = row.end;
    if (row.end) return row;
    if (row.takes_many) {
      if (!rows_.empty()) rows_.back().used = true;
      broken_off_ = ModelRow::End();
      return row;
    }
    rows_.push_back({row});
    if (rows_.size() > 1) broken_off_ = ModelRow::End();
    if (between) Forget();
    return row;
  }
  void Forget() {
    const Place place = rows_.front();
    rows_.pop_front();
    ++begin_;
    const bool may_be_last = !place.used && place.row.failed() && place.row.may_be_last;
    broken_off_ = may_be_last && rows_.empty() ? place.row : ModelRow::End();
  }

  std::deque<Place> rows_;  // from begin_ on
  std::deque<ModelRow> window_;
  int64_t begin_ = 0;
  int64_t next_ = 0;  // the first of the next window
  bool ended_ = false;
  ModelRow broken_off_ = ModelRow::End();
};

// a: the size of windows, b: whether it is one more for each key, c: how many rows the function
// gives of a window; 0: all.
class ModelGroupByWindow final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool) override {
    while (given_.empty()) {
      int64_t key = 0;
      if (ended_) {
        if (groups_.empty()) return ModelRow::End();
        key = groups_.begin()->first;
      } else {
        const ModelRow row = input().Next(false);
        ended_ = row.end;
        if (row.end) continue;
        if (row.failed()) return row;
        const int64_t sum = ModelSum(*row.element);
        if (ModelFails(step_, sum)) return ModelRow::Failure(ModelFailure(sum));
        key = ModelKey(sum);
        groups_[key].push_back(row);
        if (static_cast<int64_t>(groups_[key].size()) < ModelGroupSize(step_, key)) continue;
      }
      given_ = std::move(groups_[key]);
      groups_.erase(key);
      if (ModelCallFails(step_, key)) {
        given_.clear();
        return ModelRow::Failure(ModelFailure(key));
      }
      while (step_.c > 0 && static_cast<int64_t>(given_.size()) > step_.c) given_.pop_back();
    }
    const ModelRow row = given_.front();
    given_.pop_front();
    return row;
  }
  void Restart() override {
    groups_.clear();
    given_.clear();
    ended_ = false;
    Model::Restart();
  }

 private:
  std::map<int64_t, std::deque<ModelRow>> groups_;
  std::deque<ModelRow> given_;
  bool ended_ = false;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_ROW_MODEL_GROUPS_H_
