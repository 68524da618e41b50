// Elements come visit by visit, as interleave_stage.h says. Where a visit gives few of them and the
// datasets in the cycle are known, rows of each are read a slab at a time, and many visits are
// woven into one slab: what was read and is not given yet is held in its slot.
#include "core/dataset/ops/interleave_stage.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/dataset/exec/inner_stages.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/ops/inner_spec.h"
#include "core/dataset/ops/window_batches.h"
#include "core/dataset/ops/woven_rows.h"

namespace tutti {
namespace {

constexpr int64_t kMostRows = std::numeric_limits<int64_t>::max();

// Visits that give more are slabs of their own.
constexpr int64_t kMostWoven = 256;
// Of small rows so many are read at once.
constexpr int64_t kRowsRead = 128;
constexpr int64_t kBytesRead = 16 * 1024;

// Whether rows may be read before their turn: no function of the host is called for them, and
// nobody waits for a thread.
bool ReadsAhead(const Node& root) {
  if (root.has_host_functions()) return false;
  return std::ranges::none_of(InputsFirst(root), [](const Node* node) {
    const auto is_set = [node](std::string_view name) {
      const int64_t* number = node->attributes().Get<int64_t>(name);
      return number != nullptr && *number != 0;
    };
    return node->op().makes_ahead || node->op().gives_datasets ||
           is_set("num_parallel_calls") || is_set("num_parallel_reads");
  });
}

class InterleaveStage final : public Stage {
 public:
  InterleaveStage(const Node& node, const ExecContext& context, StageInputs inputs,
                  const Cycle& cycle)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        account_(context.account),
        // With one slot the cycle always comes back to it at once.
        block_length_(cycle.length == 1 ? kMostRows : cycle.block_length),
        rows_(input()),
        inners_(this->node(), context),
        spec_(this->node()),
        cycle_length_(cycle.length),
        // What is read before its turn counts in no budget.
        weaves_(block_length_ <= kMostWoven && context.budget == nullptr) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    for (bool first = true;; first = false) {
      slab->status = inners_.JoinEnded(options);
      // Many datasets without elements may follow each other.
      if (slab->status.ok() && !first) {
        slab->status = CheckCallOptions(options, clock_, node().label());
      }
      if (!slab->status.ok()) return;
      if (Weaves(demand) && Weave(demand, options, slab)) return;
      if (current_ < slots_.size() && slots_[current_].inner != nullptr) {
        Visit(slots_[current_], demand, options, slab);
        if (slab->rows > 0 || !slab->status.ok()) return;
        slab->Clear();
      } else if (!input_ended_) {
        slab->status = Fill(options);
        if (!slab->status.ok()) return;
      } else if (open_ == 0) {
        slab->end = true;
        return;
      } else {
        GoOn();
      }
    }
  }

  Status Restart(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Empty(options));
    // What is interrupted is restarted again, and that is one pass.
    TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
    inners_.BeginPass();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("interleave");
    inners_.Save(writer);
    writer->Int(index_);
    writer->Int(input_ended_ ? 1 : 0);
    writer->Int(static_cast<int64_t>(current_));
    writer->Int(given_);
    writer->Int(static_cast<int64_t>(slots_.size()));
    for (Slot& slot : slots_) {
      HoldReading(&slot);
      writer->Int(slot.inner != nullptr ? 1 : 0);
      if (slot.inner == nullptr) continue;
      TUTTI_RETURN_IF_ERROR(inners_.SaveElement(*slot.inner, writer));
      TUTTI_RETURN_IF_ERROR(slot.held.Save(writer));
      TUTTI_RETURN_IF_ERROR(slot.inner->stage().Save(writer));
    }
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Empty(options));
    if (reader->IsAt(kWindowBatchesSection)) {
      reader->Fail("they were saved where batches of windows were made in one operation; leave the "
                   "option experimental_optimization.apply_default_optimizations true");
      return reader->status();
    }
    reader->Section("interleave");
    inners_.Restore(reader);
    index_ = reader->IntIn(0, kMostRows);
    input_ended_ = reader->IntIn(0, 1) != 0;
    current_ = static_cast<size_t>(reader->IntIn(0, cycle_length_ - 1));
    given_ = reader->IntIn(0, block_length_ - 1);
    const int64_t slots = reader->IntIn(0, cycle_length_);
    for (int64_t i = 0; i < slots && reader->ok(); ++i) {
      slots_.emplace_back();
      if (reader->IntIn(0, 1) == 0) continue;
      Slot& slot = slots_.back();
      TUTTI_ASSIGN_OR_RETURN(slot.inner, inners_.RestoreElement(reader, options));
      ++open_;
      TUTTI_RETURN_IF_ERROR(spec_.CheckDataset(*slot.inner->dataset(), &slot.known));
      slot.woven = IsWoven(slot);
      slot.held.Restore(reader);
      TUTTI_RETURN_IF_ERROR(reader->status());
      TUTTI_RETURN_IF_ERROR(slot.inner->stage().Restore(reader, options));
    }
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

  void Stop() override {
    inners_.Stop();
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    slots_.clear();
    TUTTI_RETURN_IF_ERROR(inners_.Join(options));
    return Stage::Join(options);
  }

 private:
  struct Slot {
    InnerStages::Inner* inner = nullptr;
    bool known = false;  // its elements need not be looked at
    bool woven = false;  // and may be read before their turn
    HeldRows held;       // what has been made and belongs behind what was given
    // Of a slot that is woven: the rows from `row` on come before `held`.
    std::unique_ptr<Slab> reading;
    int64_t row = 0;
  };

  Status Empty(const CallOptions& options) {
    slots_.clear();
    rows_.Clear();
    open_ = index_ = given_ = 0;
    current_ = 0;
    input_ended_ = false;
    return inners_.EndAll(options);
  }

  // To the next slot; behind the input's end to the next with a dataset.
  void GoOn() {
    given_ = 0;
    do {
      current_ = static_cast<int64_t>(current_) + 1 == cycle_length_ ? 0 : current_ + 1;
      // Slots that were never filled lie behind all others.
      if (input_ended_ && current_ >= slots_.size()) current_ = 0;
    } while (input_ended_ && open_ > 0 && slots_[current_].inner == nullptr);
  }

  // Puts the next element of the input into the current slot, or finds the input's end.
  Status Fill(const CallOptions& options) {
    Slab in;
    // How many datasets have elements, nobody knows.
    rows_.Pull(Demand::Made(1, kNoHorizon), options, &in);
    if (in.rows == 0) {
      input_ended_ = in.end;
      if (!in.status.ok() && !IsInterruption(in.status)) ++index_;
      return in.status;
    }
    Result<InnerStages::Inner*> made = Open(in, options);
    if (!made.ok() && IsInterruption(made.status())) {
      rows_.PutBack(in, 0);
      return made.status();
    }
    rows_.PutBack(in, 1);
    ++index_;
    TUTTI_RETURN_IF_ERROR(made.status());
    bool known = false;
    const Status fits = spec_.CheckDataset(*(*made)->dataset(), &known);
    if (!fits.ok()) {
      inners_.End(*made);
      return fits.With("index", index_ - 1);
    }
    if (current_ >= slots_.size()) slots_.resize(current_ + 1);
    Slot& slot = slots_[current_] = Slot();
    slot.inner = *made;
    slot.known = known;
    slot.woven = IsWoven(slot);
    ++open_;
    return OkStatus();
  }

  Result<InnerStages::Inner*> Open(const Slab& in, const CallOptions& options) {
    TUTTI_ASSIGN_OR_RETURN(Ref<const Value> element, in.Row(0));
    return inners_.Make(std::move(element), index_, options);
  }

  bool IsWoven(const Slot& slot) const {
    return weaves_ && slot.known && ReadsAhead(slot.inner->dataset()->node());
  }

  // Rows of slots come ahead of their turn only where all of them are made.
  bool Weaves(const Demand& demand) const {
    return weaves_ && demand.max_rows > 1 && demand.all_wanted && !demand.count_only &&
           !demand.tentative && current_ < slots_.size() && slots_[current_].woven;
  }

  // As many visits as can be made of what is there or can be read at once. False: there is no row,
  // and Visit has to see why.
  bool Weave(const Demand& demand, const CallOptions& options, Slab* slab) {
    constexpr size_t kNone = static_cast<size_t>(-1);
    const int64_t most = std::min(demand.max_rows, kMaxSlabRows);
    WovenRows woven;
    woven.Reserve(most);
    std::vector<std::unique_ptr<Slab>> finished;
    std::vector<size_t> sources(slots_.size(), kNone);
    while (woven.rows() < most) {
      // A slot that was never filled, or has to be filled again, ends it.
      if (current_ >= slots_.size()) break;
      Slot& slot = slots_[current_];
      if (slot.inner == nullptr) {
        if (!input_ended_ || open_ == 0) break;
        GoOn();
        continue;
      }
      if (!slot.woven) break;
      size_t& source = sources[current_];
      if (slot.reading == nullptr || slot.row == slot.reading->rows) {
        if (slot.reading != nullptr) finished.push_back(std::move(slot.reading));
        source = kNone;
        Status interrupted;
        if (!ReadSlot(demand, most, options, &slot, &interrupted)) {
          // With rows the call was not interrupted.
          if (woven.rows() == 0) slab->status = std::move(interrupted);
          break;
        }
      }
      if (source == kNone) {
        if (woven.rows() > 0 && !(*slot.reading->tree == *woven.source(0).tree)) break;
        source = woven.AddSource(slot.reading.get());
      }
      const int64_t rows = std::min(
          {block_length_ - given_, most - woven.rows(), slot.reading->rows - slot.row});
      woven.Pick(source, slot.row, slot.row + rows);
      slot.row += rows;
      given_ += rows;
      if (given_ == block_length_) GoOn();
    }
    if (woven.rows() == 0) return !slab->status.ok();
    slab->status = woven.Make(account_, slab);
    return true;
  }

  // The next rows of a slot's dataset: as many as its visits may take of what is wanted, and more
  // of small ones. False: there is a failure or the end, which are Visit's to tell, or
  // `interrupted`.
  bool ReadSlot(const Demand& demand, int64_t most, const CallOptions& options, Slot* slot,
                Status* interrupted) {
    Slab next;
    if (!slot->held.empty()) {
      slot->held.Pop(kMaxSlabRows, &next);
    } else {
      const int64_t share = most / std::max<int64_t>(1, open_) + 1;
      const int64_t small = row_bytes_ > 0 ? std::min(kRowsRead, kBytesRead / row_bytes_) : 1;
      slot->inner->stage().Next(
          demand.OfInput(std::max({block_length_, share, small}), demand.Horizon()), options,
          &next);
      if (IsInterruption(next.status)) {
        Status status = std::exchange(next.status, OkStatus());
        if (next.rows == 0) {
          *interrupted = std::move(status);
          return false;
        }
      }
      if (next.rows > 0 && row_bytes_ == 0) {
        row_bytes_ = std::max<int64_t>(1, ElementBytes(next) / next.rows);
      }
    }
    if (next.rows == 0 || !next.status.ok() || next.end) {
      slot->held.Prepend(next, next.rows);
      next.status = OkStatus();
      next.end = false;
    }
    if (next.rows == 0) return false;
    slot->reading = std::make_unique<Slab>(std::move(next));
    slot->row = 0;
    return true;
  }

  // What was read of a slot and is not given yet stands before all that it holds.
  static void HoldReading(Slot* slot) {
    if (slot->reading == nullptr) return;
    if (slot->row < slot->reading->rows) slot->held.Prepend(*slot->reading, slot->row);
    slot->reading.reset();
  }

  // Takes what is left of the slot's block, as far as it is wanted.
  void Visit(Slot& slot, const Demand& demand, const CallOptions& options, Slab* slab) {
    HoldReading(&slot);
    const int64_t left = block_length_ - given_;
    // What comes behind a bad row may be passed over after all.
    const bool one_by_one = !slot.known && !demand.count_only && !demand.all_wanted;
    const int64_t wanted = one_by_one ? 1 : std::min(demand.max_rows, left);
    if (!slot.held.empty()) {
      slot.held.Pop(wanted, slab);
    } else {
      slot.inner->stage().Next(
          demand.OfInput(demand.count_only ? wanted : std::min(wanted, kMaxSlabRows),
                         demand.Horizon()),
          options, slab);
    }
    if (!slot.known && !demand.count_only) HoldBadRow(slot, demand, slab);
    bool failed = !slab->status.ok() && !IsInterruption(slab->status);
    if ((failed || slab->end) && slab->rows == left) {
      // It belongs to the next visit: a dataset's end is found when it is asked for more.
      Slab later;
      later.status = std::exchange(slab->status, OkStatus());
      later.end = std::exchange(slab->end, false);
      slot.held.Prepend(later, 0);
      failed = false;
    }
    if (block_length_ != kMostRows) given_ += slab->rows + (failed ? 1 : 0);
    if (std::exchange(slab->end, false)) {
      inners_.End(slot.inner);
      slot = Slot();
      --open_;
      GoOn();
    } else if (given_ >= block_length_) {
      GoOn();
    }
  }

  // A row that is another than all others has failed; those behind it come later.
  void HoldBadRow(Slot& slot, const Demand& demand, Slab* slab) {
    Status status;
    const int64_t good = spec_.CheckRows(*slab, &status);
    if (good == slab->rows) return;
    slot.held.Prepend(*slab, good + (demand.tentative ? 0 : 1));
    *slab = slab->Slice(0, good);
    if (!demand.tentative) {
      slab->status = std::move(status);
    } else if (good == 0) {
      slab->status = Undecided(node());
    }
  }

  Clock& clock_;
  MemoryAccount* const account_;
  const int64_t block_length_;
  InputRows rows_;
  InnerStages inners_;
  InnerSpec spec_;
  const int64_t cycle_length_;
  const bool weaves_;
  std::vector<Slot> slots_;  // those that were filled once
  size_t current_ = 0;
  int64_t given_ = 0;  // elements of the current slot in this visit
  int64_t row_bytes_ = 0;  // about; 0: not known yet
  int64_t open_ = 0;   // slots with a dataset
  int64_t index_ = 0;  // of the input's next element
  bool input_ended_ = false;
};

}  // namespace

std::unique_ptr<Stage> MakeInterleaveStage(const Node& node, const ExecContext& context,
                                           StageInputs inputs, const Cycle& cycle) {
  return std::make_unique<InterleaveStage>(node, context, std::move(inputs), cycle);
}

}  // namespace tutti
