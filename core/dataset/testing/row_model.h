// A model of datasets: what a pipeline gives, element by element and error by error, written so
// that it is obviously right. Each operation asks its inputs for one row at a time; there are no
// slabs, threads, states or tensors. What the stages do must be the same to whoever iterates.
//
// A pipeline is a graph of Steps, from which a test makes both a dataset and the model.
//
// The one subtlety: a row may be passed over (`counted`). Then no function runs for it, so that its
// value is made only if somebody wants it after all, as batch does whose rows were counted before
// an element failed. Here such a row is a value that is not made yet.
#ifndef TUTTI_CORE_DATASET_TESTING_ROW_MODEL_H_
#define TUTTI_CORE_DATASET_TESTING_ROW_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/dataset/ops/shuffle_order.h"

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
    kFlatMap, kInterleave, kUnbatch, kWindow, kPaddedBatch, kGroupByWindow, kOnError,
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

class Model {
 public:
  // What all iterators over a pipeline share.
  struct Shared {
    std::map<const Step*, int64_t> iterations;              // of shuffles
    std::map<const Step*, std::vector<ModelElement>> kept;  // by caches
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

 protected:
  Model& input(size_t i = 0) { return *inputs_[i]; }

  const Step& step_;
  Shared* const shared_;
  std::vector<std::unique_ptr<Model>> inputs_;
};

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

 private:
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

  // Every place of the largest shape, each from its row or with the value.
  static ModelRow Padded(const std::vector<ModelRow>& counted, int64_t value) {
    std::vector<ModelRow> rows;
    for (const ModelRow& row : counted) {
      rows.push_back(row.Made());
      if (rows.back().failed()) return rows.back();
    }
    ModelElement batch = *rows[0].element;
    for (size_t i = 0; i < batch.size(); ++i) {
      std::vector<int64_t>& dims = batch[i].dims;
      for (const ModelRow& row : rows) {
        const std::vector<int64_t>& own = (*row.element)[i].dims;
        if (own.size() != dims.size()) return ModelRow::Failure("has shape");
        for (size_t axis = 0; axis < dims.size(); ++axis) {
          dims[axis] = std::max(dims[axis], own[axis]);
        }
      }
      batch[i].items.clear();
      for (const ModelRow& row : rows) AddPadded((*row.element)[i], dims, value, &batch[i].items);
      dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
    }
    return ModelRow::Of(std::move(batch));
  }
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
      if (ours) return row;
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
      for (; owed_[i] > 0; --owed_[i]) {
        if (input(i).Next(false).end) return ModelRow::End();
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

// The elements of the windows of a: size, b: shift, c: stride, d: whether the remainder is dropped,
// one window after the other. A failed element fails each window that it would stand in.
class ModelWindow final : public Model {
 public:
  using Model::Model;
  ModelRow Next(bool) override {
    while (window_.empty()) {
      const int64_t span = (step_.a - 1) * step_.c + 1;
      while (!ended_ && begin_ + size() < next_ + span) Read(span);
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
  void Read(int64_t span) {
    const bool between = step_.b > span && (begin_ + size()) % step_.b >= span;
    const ModelRow row = input().Next(between);
    ended_ = row.end;
    if (row.end) return;
    rows_.push_back({row});
    if (rows_.size() > 1) broken_off_ = ModelRow::End();
    if (between) Forget();
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
      if (!row.failed() || skipped_ == step_.a) return row;
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

inline std::unique_ptr<Model> Model::Make(const Step& step, Shared* shared) {
  switch (step.op) {
    case Step::Op::kRange:
    case Step::Op::kSlices:
    case Step::Op::kGenerator:
      return std::make_unique<ModelSource>(step, shared);
    case Step::Op::kGroupByWindow:
      return std::make_unique<ModelGroupByWindow>(step, shared);
    case Step::Op::kMap:
      return std::make_unique<ModelMap>(step, shared);
    case Step::Op::kFilter:
    case Step::Op::kTakeWhile:
      return std::make_unique<ModelFilter>(step, shared);
    case Step::Op::kBatch:
    case Step::Op::kPaddedBatch:
      return std::make_unique<ModelBatch>(step, shared);
    case Step::Op::kRepeat:
      return std::make_unique<ModelRepeat>(step, shared);
    case Step::Op::kShuffle:
      return std::make_unique<ModelShuffle>(step, shared);
    case Step::Op::kUnbatch:
      return std::make_unique<ModelUnbatch>(step, shared);
    case Step::Op::kWindow:
      return std::make_unique<ModelWindow>(step, shared);
    case Step::Op::kTake:
      return std::make_unique<ModelTake>(step, shared);
    case Step::Op::kSkip:
      return std::make_unique<ModelSkip>(step, shared);
    case Step::Op::kShard:
      return std::make_unique<ModelShard>(step, shared);
    case Step::Op::kConcatenate:
      return std::make_unique<ModelConcatenate>(step, shared);
    case Step::Op::kEnumerate:
      return std::make_unique<ModelEnumerate>(step, shared);
    case Step::Op::kPrefetch:
      return std::make_unique<ModelPrefetch>(step, shared);
    case Step::Op::kZip:
      return std::make_unique<ModelZip>(step, shared);
    case Step::Op::kUnique:
      return std::make_unique<ModelUnique>(step, shared);
    case Step::Op::kOnError:
      return std::make_unique<ModelOnError>(step, shared);
    case Step::Op::kCache:
      return std::make_unique<ModelCache>(step, shared);
    case Step::Op::kFlatMap:
    case Step::Op::kInterleave:
      return std::make_unique<ModelInterleave>(step, shared);
  }
  return nullptr;
}

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_ROW_MODEL_H_
