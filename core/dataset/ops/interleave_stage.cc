#include "core/dataset/ops/interleave_stage.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/dataset/exec/inner_stages.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/inner_spec.h"

namespace tutti {
namespace {

constexpr int64_t kMostRows = std::numeric_limits<int64_t>::max();

class InterleaveStage final : public Stage {
 public:
  InterleaveStage(const Node& node, const ExecContext& context, StageInputs inputs,
                  const Cycle& cycle)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        // With one slot the cycle always comes back to it at once.
        block_length_(cycle.length == 1 ? kMostRows : cycle.block_length),
        rows_(input()),
        inners_(this->node(), context),
        spec_(this->node()),
        cycle_length_(cycle.length) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    for (bool first = true;; first = false) {
      slab->status = inners_.JoinEnded(options);
      // Many datasets without elements may follow each other.
      if (slab->status.ok() && !first) {
        slab->status = CheckCallOptions(options, clock_, node().label());
      }
      if (!slab->status.ok()) return;
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
    for (const Slot& slot : slots_) {
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
    HeldRows held;       // what has been made and belongs behind what was given
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
    slots_[current_] = Slot{*made, known, {}};
    ++open_;
    return OkStatus();
  }

  Result<InnerStages::Inner*> Open(const Slab& in, const CallOptions& options) {
    TUTTI_ASSIGN_OR_RETURN(Ref<const Value> element, in.Row(0));
    return inners_.Make(std::move(element), index_, options);
  }

  // Takes what is left of the slot's block, as far as it is wanted.
  void Visit(Slot& slot, const Demand& demand, const CallOptions& options, Slab* slab) {
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
  const int64_t block_length_;
  InputRows rows_;
  InnerStages inners_;
  InnerSpec spec_;
  const int64_t cycle_length_;
  std::vector<Slot> slots_;  // those that were filled once
  size_t current_ = 0;
  int64_t given_ = 0;  // elements of the current slot in this visit
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
