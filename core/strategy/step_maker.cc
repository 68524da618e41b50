#include "core/strategy/step_maker.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/slab.h"
#include "core/strategy/rebatch.h"

namespace tutti {

namespace {

constexpr const char* kStepSource = "distributed iterator";

// An element that is no batch counts as a row.
int64_t RowsOfElement(const Value& element) {
  for (const Leaf& leaf : element.leaves()) {
    if (leaf.is_tensor() && leaf.tensor().rank() > 0) return leaf.tensor().dim(0);
  }
  return 1;
}

}  // namespace

StepMaker::StepMaker(StepPlan plan, Ref<Iterator> source)
    : plan_(std::move(plan)), source_(std::move(source)) {}

StepMaker::~StepMaker() = default;

Status StepMaker::NextItem(const CallOptions& call, Item* item) {
  if (!restored_.empty()) {
    *item = std::move(restored_.front());
    restored_.pop_front();
    return OkStatus();
  }
  Result<Ref<Value>> element = source_->Next(call);
  if (element.ok()) {
    item->element = std::move(element).value();
    return OkStatus();
  }
  if (IsInterruption(element.status())) return std::move(element).status();
  item->failure = std::move(element).status();
  return OkStatus();
}

Result<bool> StepMaker::Fetch(const CallOptions& call, LocalStep* step) {
  Item item;
  TUTTI_RETURN_IF_ERROR(NextItem(call, &item));
  if (!item.failure.ok()) {
    step->failure = item.failure;
    step->items.push_back(std::move(item));
    return false;
  }
  if (!item.element) return false;
  items_.push_back(std::move(item));
  return true;
}

void StepMaker::FailItem(size_t index, Status failure, LocalStep* step) {
  step->failure = std::move(failure);
  step->items = {std::move(items_[index])};
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(index));
  if (index == 0) position_ = LocalStep::Position{position_.block, 0};
  if (plan_.cut == StepPlan::Cut::kCeil) position_.block = 0;
}

Status StepMaker::Make(const CallOptions& call, LocalStep* step) {
  step->begin = position_;
  switch (plan_.cut) {
    case StepPlan::Cut::kNone: return MakeDealt(call, step);
    case StepPlan::Cut::kCeil: return MakeCeil(call, step);
    case StepPlan::Cut::kEven: return MakeEven(call, step);
  }
  return OkStatus();
}

Status StepMaker::MakeDealt(const CallOptions& call, LocalStep* step) {
  while (items_.size() < plan_.num_replicas) {
    TUTTI_ASSIGN_OR_RETURN(const bool fetched, Fetch(call, step));
    if (!step->failure.ok()) return OkStatus();
    if (!fetched) break;
  }
  step->items.assign(items_.begin(), items_.end());
  for (const Item& item : items_) {
    step->rows += RowsOfElement(*item.element);
    step->parts.push_back(item.element);
  }
  return OkStatus();
}

Status StepMaker::MakeCeil(const CallOptions& call, LocalStep* step) {
  if (items_.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const bool fetched, Fetch(call, step));
    if (!fetched) return OkStatus();
  }
  const Value& batch = *items_[0].element;
  Result<int64_t> rows = BatchRows(batch, kStepSource);
  if (!rows.ok()) {
    FailItem(0, std::move(rows).status(), step);
    return OkStatus();
  }
  step->items = {items_[0]};
  const size_t first = plan_.FirstSlice(static_cast<size_t>(position_.block));
  for (size_t i = 0; i < plan_.num_replicas; ++i) {
    const RowRange range = CeilSlice(*rows, first + i, plan_.num_slices);
    step->rows += range.end - range.begin;
    step->parts.push_back(CutRows(batch, range));
  }
  return OkStatus();
}

Status StepMaker::MakeEven(const CallOptions& call, LocalStep* step) {
  const auto block = static_cast<size_t>(position_.block);
  const StepPlan::Window window = plan_.WindowOf(block);
  const auto available = [this] {
    return std::accumulate(rows_.begin(), rows_.end(), -position_.row);
  };
  while (available() < window.rows) {
    TUTTI_ASSIGN_OR_RETURN(const bool fetched, Fetch(call, step));
    if (!step->failure.ok()) return OkStatus();
    if (!fetched) break;
    Result<int64_t> rows = BatchRows(*items_.back().element, kStepSource);
    if (!rows.ok()) {
      FailItem(items_.size() - 1, std::move(rows).status(), step);
      return OkStatus();
    }
    rows_.push_back(*rows);
    if (items_.size() == 1) position_.row = std::min(position_.row, *rows);
  }
  step->items.assign(items_.begin(), items_.end());
  std::vector<Ref<Value>> batches;
  for (const Item& item : items_) batches.push_back(item.element);
  const int64_t end = position_.row + available();
  int64_t at = position_.row + window.skip;
  const size_t first = plan_.FirstSlice(block);
  for (size_t i = 0; i < plan_.num_replicas; ++i) {
    if (at >= end) break;
    const RowRange range{at, std::min(end, at + plan_.sizes[first + i])};
    at = range.end;
    step->rows += range.end - range.begin;
    Result<Ref<Value>> part = JoinRows(batches, rows_, range);
    if (!part.ok()) {
      step->failure = std::move(part).status();
      step->parts.clear();
      Commit();
      return OkStatus();
    }
    step->parts.push_back(std::move(part).value());
  }
  return OkStatus();
}

void StepMaker::Commit() {
  switch (plan_.cut) {
    case StepPlan::Cut::kNone: items_.clear(); return;
    case StepPlan::Cut::kCeil:
      if (items_.empty()) return;
      position_.block = (position_.block + 1) % static_cast<int64_t>(plan_.num_blocks);
      if (position_.block == 0) items_.clear();
      return;
    case StepPlan::Cut::kEven:
      position_.row += plan_.WindowOf(static_cast<size_t>(position_.block)).rows;
      position_.block = (position_.block + 1) % static_cast<int64_t>(plan_.num_blocks);
      while (!rows_.empty() && rows_[0] <= position_.row) {
        position_.row -= rows_[0];
        rows_.pop_front();
        items_.pop_front();
      }
      if (items_.empty()) position_.row = 0;
      return;
  }
}

// ---- Position. ----

namespace {

Slab SlabOf(const Value& element) {
  Slab slab;
  slab.rows = 1;
  slab.tree = element.spec_ref();
  for (const Leaf& leaf : element.leaves()) slab.columns.push_back(Column::Rows({leaf}));
  return slab;
}

Status WriteItem(const LocalStep::Item& item, StateWriter* writer) {
  writer->Int(static_cast<int64_t>(item.failure.code()));
  if (item.failure.ok()) return writer->Rows(SlabOf(*item.element));
  writer->Bytes(item.failure.message());
  return OkStatus();
}

Status ReadItem(StateReader* reader, const Ref<const TreeSpec>& tree, LocalStep::Item* item) {
  const int64_t code = reader->IntIn(0, static_cast<int64_t>(StatusCode::kUnauthenticated));
  if (code != 0) {
    item->failure = Status(static_cast<StatusCode>(code), std::string(reader->Bytes()));
    return reader->status();
  }
  Slab slab;
  slab.tree = tree;
  reader->Rows(&slab);
  TUTTI_RETURN_IF_ERROR(reader->status());
  if (slab.rows != 1) {
    reader->Fail("an element that was made ahead is missing");
    return reader->status();
  }
  TUTTI_ASSIGN_OR_RETURN(item->element, slab.Row(0));
  return OkStatus();
}

}  // namespace

Status StepMaker::Save(const LocalStep* step, StateWriter* writer, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::string source, source_->Save(call));
  std::vector<const Item*> items;
  if (step != nullptr) {
    for (const Item& item : step->items) items.push_back(&item);
  }
  for (const Item& item : items_) {
    // What the step has left over of its last element.
    if (!items.empty() && items.back()->element && items.back()->element == item.element) continue;
    items.push_back(&item);
  }
  for (const Item& item : restored_) items.push_back(&item);
  const LocalStep::Position& begin = step == nullptr ? position_ : step->begin;
  writer->Bytes(source);
  writer->Int(begin.block);
  writer->Int(begin.row);
  writer->Int(static_cast<int64_t>(items.size()));
  for (const Item* item : items) TUTTI_RETURN_IF_ERROR(WriteItem(*item, writer));
  return OkStatus();
}

Status StepMaker::Restore(StateReader* reader, const Ref<const TreeSpec>& tree,
                          bool same_cut, const CallOptions& call) {
  const std::string_view source = reader->Bytes();
  LocalStep::Position position;
  position.block = reader->IntIn(0, INT64_MAX);
  position.row = reader->IntIn(0, INT64_MAX);
  const int64_t count = reader->IntIn(0, INT64_MAX);
  std::deque<Item> items;
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    Item item;
    TUTTI_RETURN_IF_ERROR(ReadItem(reader, tree, &item));
    items.push_back(std::move(item));
  }
  if (reader->ok() && !reader->at_end()) reader->Fail("there are bytes behind the end");
  TUTTI_RETURN_IF_ERROR(reader->status());
  if (position.block >= static_cast<int64_t>(same_cut ? plan_.num_blocks : 1) ||
      (position.row != 0 && plan_.cut != StepPlan::Cut::kEven)) {
    return InvalidArgument(
        "restore: the position lies inside of a batch that was cut in another way; save between "
        "two batches, or restore with as many workers and replicas as it was saved with");
  }
  TUTTI_RETURN_IF_ERROR(source_->Restore(source, call));
  restored_ = std::move(items);
  items_.clear();
  rows_.clear();
  position_ = position;
  return OkStatus();
}

}  // namespace tutti
