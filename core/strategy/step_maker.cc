#include "core/strategy/step_maker.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/slab.h"
#include "core/strategy/rebatch.h"

namespace tutti {

namespace {

constexpr const char* kStepSource = "distributed iterator";
// More cannot be in a position that is whole.
constexpr int64_t kMostWorkers = int64_t{1} << 20;

// An element that is no batch counts as a row.
int64_t RowsOfElement(const Value& element) {
  for (const Leaf& leaf : element.leaves()) {
    if (leaf.is_tensor() && leaf.tensor().rank() > 0) return leaf.tensor().dim(0);
  }
  return 1;
}

}  // namespace

StepMaker::StepMaker(StepPlan plan, std::vector<StepSource> sources)
    : plan_(std::move(plan)), sources_(std::move(sources)) {}

StepMaker::~StepMaker() = default;

Status StepMaker::CloseSources(const CallOptions& options) const {
  Status first;
  for (const StepSource& source : sources_) {
    Status status = source.Close(options);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

std::deque<LocalStep::Item>::iterator StepMaker::NextRestored(size_t source) {
  return std::find_if(restored_.begin(), restored_.end(),
                      [source](const Item& item) { return item.source == source; });
}

Status StepMaker::NextItem(const CallOptions& call, Item* item) {
  item->source = sources_.size() == 1 ? 0 : items_.size();
  if (const auto restored = NextRestored(item->source); restored != restored_.end()) {
    *item = std::move(*restored);
    restored_.erase(restored);
    item->number = ++taken_;
    return OkStatus();
  }
  Result<Ref<Value>> element = sources_[item->source].Next(call);
  if (!element.ok() && IsInterruption(element.status())) return std::move(element).status();
  item->number = ++taken_;
  if (element.ok()) {
    item->element = std::move(element).value();
    return OkStatus();
  }
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
    if (fetched) continue;
    if (sources_.size() == 1) break;
    items_.emplace_back();  // this replica's own source has ended
  }
  bool has_data = false;
  for (const Item& item : items_) {
    step->parts.push_back(item.element);
    if (!item.element) continue;
    has_data = true;
    step->items.push_back(item);
    step->rows += RowsOfElement(*item.element);
  }
  if (!has_data) step->parts.clear();
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
  // One more than nothing: who has data has some in every step, also where its slices have no rows,
  // as other workers may have reached their end.
  while (available() < std::max<int64_t>(window.rows, 1)) {
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
  writer->Int(static_cast<int64_t>(item.source));
  writer->Int(static_cast<int64_t>(item.failure.code()));
  if (item.failure.ok()) return writer->Rows(SlabOf(*item.element));
  writer->Bytes(item.failure.message());
  return OkStatus();
}

Status ReadItem(StateReader* reader, const Ref<const TreeSpec>& tree, int64_t num_sources,
                LocalStep::Item* item) {
  item->source = static_cast<size_t>(reader->IntIn(0, num_sources - 1));
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

void WriteOrigin(const PartOrigin& origin, StateWriter* writer) {
  writer->Int(static_cast<int64_t>(origin.policy));
  writer->Int(origin.num_workers);
  writer->Int(origin.worker);
  writer->Int(origin.num_replicas);
}

PartOrigin ReadOrigin(StateReader* reader) {
  PartOrigin origin;
  origin.policy = static_cast<AutoShardPolicy>(reader->IntIn(
      static_cast<int64_t>(AutoShardPolicy::kOff), static_cast<int64_t>(AutoShardPolicy::kHint)));
  origin.num_workers = reader->IntIn(1, kMostWorkers);
  origin.worker = reader->IntIn(0, origin.num_workers - 1);
  origin.num_replicas = reader->IntIn(1, kMostWorkers);
  return origin;
}

}  // namespace

Status StepMaker::Save(std::span<const LocalStep* const> steps, StateWriter* writer,
                       const CallOptions& call) {
  if (is_dealt()) {
    const StepSource& source = sources_[0];
    writer->Int(static_cast<int64_t>(source.turn()));
    writer->Int(static_cast<int64_t>(source.parts().size()));
    for (const SourcePart& part : source.parts()) {
      WriteOrigin(part.origin, writer);
      writer->Int(part.before);
      writer->Int(part.stride);
      writer->Int(part.ended ? 1 : 0);
      TUTTI_ASSIGN_OR_RETURN(const std::string state, part.iterator->Save(call));
      writer->Bytes(state);
    }
  } else {
    writer->Int(static_cast<int64_t>(sources_.size()));
    for (const StepSource& source : sources_) {
      TUTTI_ASSIGN_OR_RETURN(const std::string state, source.iterator().Save(call));
      writer->Bytes(state);
    }
  }
  // Steps share what one has left over of its last element with the next.
  std::map<int64_t, const Item*> taken;
  for (const LocalStep* step : steps) {
    for (const Item& item : step->items) taken.emplace(item.number, &item);
  }
  for (const Item& item : items_) {
    if (item.element || !item.failure.ok()) taken.emplace(item.number, &item);
  }
  std::vector<const Item*> items;
  for (const auto& [number, item] : taken) items.push_back(item);
  for (const Item& item : restored_) items.push_back(&item);
  const LocalStep::Position& begin = steps.empty() ? position_ : steps.front()->begin;
  writer->Int(begin.block);
  writer->Int(begin.row);
  writer->Int(static_cast<int64_t>(items.size()));
  for (const Item* item : items) TUTTI_RETURN_IF_ERROR(WriteItem(*item, writer));
  return OkStatus();
}

Result<MakerState> ReadMakerState(StateReader* reader, const Ref<const TreeSpec>& tree,
                                  bool is_dealt) {
  MakerState state;
  state.is_dealt = is_dealt;
  int64_t num_sources = 1;
  if (is_dealt) {
    state.turn = static_cast<size_t>(reader->IntIn(0, kMostWorkers));
    const int64_t num_parts = reader->IntIn(0, kMostWorkers);
    for (int64_t i = 0; i < num_parts && reader->ok(); ++i) {
      SourcePart part;
      part.origin = ReadOrigin(reader);
      part.before = reader->IntIn(0, INT64_MAX);
      part.stride = reader->IntIn(1, INT64_MAX);
      part.ended = reader->IntIn(0, 1) != 0;
      state.parts.push_back(std::move(part));
      state.states.push_back(reader->Bytes());
    }
    if (state.turn != 0 && state.turn >= state.parts.size()) reader->Fail("no part has the turn");
  } else {
    num_sources = reader->IntIn(1, INT64_MAX);
    for (int64_t i = 0; i < num_sources && reader->ok(); ++i) {
      state.states.push_back(reader->Bytes());
    }
  }
  state.position.block = reader->IntIn(0, INT64_MAX);
  state.position.row = reader->IntIn(0, INT64_MAX);
  const int64_t count = reader->IntIn(0, INT64_MAX);
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    LocalStep::Item item;
    TUTTI_RETURN_IF_ERROR(ReadItem(reader, tree, num_sources, &item));
    state.items.push_back(std::move(item));
  }
  if (reader->ok() && !reader->at_end()) reader->Fail("there are bytes behind the end");
  TUTTI_RETURN_IF_ERROR(reader->status());
  return state;
}

Result<std::deque<LocalStep::Item>> ItemsBehind(std::deque<LocalStep::Item> items,
                                                const LocalStep::Position& position,
                                                const StepPlan& plan) {
  int64_t used = position.row;  // rows
  std::deque<LocalStep::Item> rest;
  bool is_first = true;
  for (LocalStep::Item& item : items) {
    if (item.element && plan.cut != StepPlan::Cut::kNone) {
      TUTTI_ASSIGN_OR_RETURN(const int64_t rows, BatchRows(*item.element, kStepSource));
      if (is_first && plan.cut == StepPlan::Cut::kCeil && position.block != 0) {
        const size_t first = plan.FirstSlice(static_cast<size_t>(position.block));
        used = CeilSlice(rows, first, plan.num_slices).begin;
      }
      is_first = false;
      const int64_t taken = std::min(used, rows);
      used -= taken;
      if (taken == rows && taken > 0) continue;
      if (taken > 0) item.element = CutRows(*item.element, RowRange{taken, rows});
    }
    rest.push_back(std::move(item));
  }
  return rest;
}

Status StepMaker::RestoreSources(std::span<const std::string_view> states,
                                 const CallOptions& call) {
  std::vector<std::string> before;  // of the first ones, which have gone to another position
  for (size_t i = 0; i < sources_.size(); ++i) {
    Iterator& source = sources_[i].iterator();
    Result<std::string> here =
        i + 1 < sources_.size() ? source.Save(call) : Result<std::string>(std::string());
    Status status = here.ok() ? source.Restore(states[i], call) : std::move(here).status();
    if (status.ok()) {
      before.push_back(std::move(here).value());
      continue;
    }
    for (size_t back = 0; back < before.size(); ++back) {
      TUTTI_RETURN_IF_ERROR(sources_[back].iterator().Restore(before[back], call));
    }
    return status;
  }
  for (StepSource& source : sources_) source.GoesOn();
  return OkStatus();
}

Status StepMaker::Restore(MakerState state, bool same_cut, const CallOptions& call) {
  if (state.states.size() != sources_.size()) {
    return InvalidArgument(
        "restore: the position is one of {} input pipelines, and this iterator has {}; restore "
        "with the replication mode and the number of replicas that it was saved with",
        state.states.size(), sources_.size());
  }
  if (state.position.block >= static_cast<int64_t>(same_cut ? plan_.num_blocks : 1) ||
      (state.position.row != 0 && plan_.cut != StepPlan::Cut::kEven)) {
    return InvalidArgument(
        "restore: the position lies inside of a batch that was cut in another way; save between "
        "two batches, restore with as many workers and replicas as it was saved with, or save a "
        "joint position");
  }
  TUTTI_RETURN_IF_ERROR(RestoreSources(state.states, call));
  restored_ = std::move(state.items);
  items_.clear();
  rows_.clear();
  position_ = state.position;
  return OkStatus();
}

std::vector<StepSource> StepMaker::Replace(std::vector<StepSource> sources,
                                           std::deque<Item> items,
                                           const LocalStep::Position& position) {
  std::swap(sources_, sources);
  restored_ = std::move(items);
  items_.clear();
  rows_.clear();
  position_ = position;
  return sources;
}

std::vector<StepSource> StepMaker::Take(std::deque<Item>* items, LocalStep::Position* position) {
  *items = std::move(restored_);
  *position = position_;
  return std::move(sources_);
}

}  // namespace tutti
