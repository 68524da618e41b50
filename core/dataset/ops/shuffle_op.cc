// shuffle: a random order through a buffer of `buffer_size` elements.
//
// The buffer is filled; each output is drawn uniformly from it. A draw leaves a hole, which the
// next element of the input takes when the next one is wanted; once the input has ended, the
// buffer's last element takes it. So the order depends on seed, iteration, epoch and buffer size
// only, never on how the input comes in slabs. The draws of one call are made first, as a list of
// slots; then each column is moved once along that list (row_store.h).
//
// With reshuffle_each_iteration every iterator over the dataset draws an iteration number, and
// every epoch that a repeat behind it starts counts up: each has an order of its own.
//
// The state is the generator's and the positions of the buffered elements in the input; Restore
// reads them again from the nearest replay points.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/replay_points.h"
#include "core/dataset/exec/row_store.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/shuffle_order.h"

namespace tutti {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

class ShuffleStage final : public Stage, private ReplayPoints::Taker {
 public:
  ShuffleStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        buffer_size_(node.attributes().Int("buffer_size")),
        reshuffles_(node.attributes().Bool("reshuffle_each_iteration")),
        seed_(context.SeedOf(node)),
        iteration_(reshuffles_ ? context.DrawIteration(node) : 0),
        order_(seed_, iteration_, 0),
        store_(context.account),
        kept_(context, node, HeldBytes::Kind::kKept) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    slab->status = Fill(demand, options);
    if (!slab->status.ok()) return;
    if (size() == (hole_ >= 0 ? 1 : 0) && input_ended_) {
      slab->end = true;
      return;
    }
    slab->status = kept_.CheckWithin();
    if (!slab->status.ok()) return;
    Slab refill;
    int64_t draws = std::min(demand.max_rows, kMaxSlabRows);
    if (!input_ended_) {
      // A pending hole and one behind each draw but the last.
      const int64_t unneeded = hole_ < 0 ? 1 : 0;
      const int64_t wanted = draws - unneeded;
      if (wanted > 0) {
        slab->status = Pull(Demand::Made(wanted, HorizonPlus(demand.Horizon(), -unneeded)),
                            options, &refill);
        // Rows come first; what followed them is seen again, or was an end in time.
        if (refill.rows < wanted && !input_ended_) draws = refill.rows + (hole_ < 0 ? 1 : 0);
        if (draws == 0) return;
      }
    }
    Draw(draws, std::move(refill), demand, slab);
  }

  Status Restart(const CallOptions& options) override {
    // What is interrupted is restarted again, and that is one epoch.
    TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
    ++epoch_;
    if (reshuffles_)
      order_ = ShuffleOrder(seed_, iteration_, epoch_);
    else
      order_ = ShuffleOrder(seed_, 0, 0);
    Empty();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override;
  Status Restore(StateReader* reader, const CallOptions& options) override;

 private:
  int64_t size() const { return static_cast<int64_t>(slots_.size()); }

  void Empty() {
    store_.Clear();
    kept_.Clear();
    points_.Clear();
    points_status_ = OkStatus();
    slots_.clear();
    positions_.clear();
    hole_ = -1;
    consumed_ = 0;
    input_ended_ = false;
  }

  // Rows of the input and the bookkeeping of where they came from. An error after rows comes back
  // with them.
  Status Pull(const Demand& demand, const CallOptions& options, Slab* rows) {
    const int64_t since = points_.empty() ? 0 : consumed_ - points_.last_position();
    if (points_.empty() || since >= std::max({buffer_size_, kMaxSlabRows, points_.last_bytes()})) {
      AddPoint();
    }
    input().Next(demand, options, rows);
    consumed_ += rows->rows;
    input_ended_ = rows->end;
    Status status = std::exchange(rows->status, OkStatus());
    // Passing over a failed element is not replayed: the failure need not come again.
    if (!status.ok() && !IsInterruption(status)) AddPoint();
    return status;
  }

  void AddPoint() {
    int64_t oldest = consumed_;
    for (int64_t slot : slots_) oldest = std::min(oldest, positions_[static_cast<size_t>(slot)]);
    points_.Forget(oldest);
    const Status added = points_.Add(input(), consumed_);
    if (!added.ok() && points_status_.ok()) points_status_ = added;
  }

  // The first filling of the buffer.
  Status Fill(const Demand& demand, const CallOptions& options) {
    while (!input_ended_ && size() < buffer_size_) {
      TUTTI_RETURN_IF_ERROR(kept_.CheckRoom());
      Slab rows;
      const int64_t first_position = consumed_;
      const int64_t free = buffer_size_ - size();
      const int64_t wanted = kept_.RowsThatFit(std::min(free, kMaxSlabRows));
      // Behind what fills the buffer, one for each draw but the last.
      const Status status = Pull(
          Demand::Made(wanted, HorizonPlus(demand.Horizon(), free - 1)), options, &rows);
      if (rows.rows > 0) {
        TUTTI_RETURN_IF_ERROR(store_.Append(rows, size()));
        kept_.Add(rows);
        for (int64_t i = 0; i < rows.rows; ++i) {
          slots_.push_back(size());
          positions_.push_back(first_position + i);
        }
      }
      TUTTI_RETURN_IF_ERROR(status);
    }
    return OkStatus();
  }

  // Draws up to `draws` elements, filling holes from `refill` as long as it has rows.
  void Draw(int64_t draws, Slab refill, const Demand& demand, Slab* slab) {
    // A failed element comes after the rows; a call that has rows was not interrupted.
    Status status = std::exchange(slab->status, OkStatus());
    if (IsInterruption(status)) status = OkStatus();
    int64_t position = consumed_ - refill.rows;
    if (hole_ >= 0 && refill.rows == 0) RemoveSlot(hole_);
    if (hole_ >= 0 && refill.rows > 0) {
      const int64_t slot = slots_[static_cast<size_t>(hole_)];
      positions_[static_cast<size_t>(slot)] = position++;
      const Slab first = refill.Slice(0, 1);
      slab->status = store_.Exchange({&slot, 1}, first, nullptr);
      kept_.Add(first);
      refill = refill.Slice(1, refill.rows);
    }
    hole_ = -1;
    // As long as there is a refill the buffer stays full, and the loop has nothing to decide.
    const int64_t steady = std::min(draws, refill.rows);
    drawn_.resize(static_cast<size_t>(steady));
    ShuffleOrder order = order_;
    const auto full = static_cast<uint64_t>(size());
    for (int64_t& drawn : drawn_) {
      drawn = slots_[order.Below(full)];
      positions_[static_cast<size_t>(drawn)] = position++;
    }
    for (int64_t k = steady; k < draws && size() > 0; ++k) {
      const auto index = static_cast<int64_t>(order.Below(static_cast<uint64_t>(size())));
      drawn_.push_back(slots_[static_cast<size_t>(index)]);
      if (input_ended_) {
        RemoveSlot(index);
      } else {
        hole_ = index;  // the last draw
      }
    }
    order_ = order;
    Slab drawn;
    if (slab->status.ok()) {
      const bool makes = !demand.count_only || kept_.counts();
      slab->status = store_.Exchange(drawn_, refill, makes ? &drawn : nullptr);
    }
    if (!slab->status.ok()) return;
    kept_.Add(refill);
    kept_.Remove(drawn);
    *slab = std::move(drawn);
    slab->rows = static_cast<int64_t>(drawn_.size());
    slab->status = std::move(status);
    slab->end = input_ended_ && size() == 0 && slab->status.ok();
  }

  void RemoveSlot(int64_t index) {
    slots_[static_cast<size_t>(index)] = slots_.back();
    slots_.pop_back();
  }

  // Of Restore: the rows at sorted_[first], ... go to their slots.
  Status Take(const Slab& rows, int64_t first) override {
    kept_.Add(rows);
    return store_.Append(rows, first);
  }

  const int64_t buffer_size_;
  const bool reshuffles_;
  int64_t seed_;
  int64_t iteration_;
  int64_t epoch_ = 0;
  ShuffleOrder order_;
  RowStore store_;
  HeldBytes kept_;
  ReplayPoints points_;
  Status points_status_;            // why there is no replay point
  std::vector<int64_t> slots_;      // the buffer, as slots of the store
  std::vector<int64_t> positions_;  // by slot: the element's place in the input
  int64_t hole_ = -1;               // index in slots_ of an element that was drawn
  int64_t consumed_ = 0;            // rows of the input in this epoch
  bool input_ended_ = false;
  std::vector<int64_t> drawn_;
};

Status ShuffleStage::Save(StateWriter* writer) {
  TUTTI_RETURN_IF_ERROR(points_status_);
  writer->Section("shuffle");
  writer->Int(ShuffleOrder::kVersion);
  writer->Int(seed_);
  writer->Int(iteration_);
  writer->Int(epoch_);
  writer->Int(static_cast<int64_t>(order_.state()));
  writer->Int(consumed_);
  writer->Int(input_ended_ ? 1 : 0);
  writer->Int(hole_);
  std::vector<int64_t> positions;
  positions.reserve(slots_.size());
  int64_t oldest = consumed_;
  for (int64_t i = 0; i < size(); ++i) {
    // The hole is empty: its old element is not needed again.
    positions.push_back(
        i == hole_ ? -1 : positions_[static_cast<size_t>(slots_[static_cast<size_t>(i)])]);
    if (i != hole_) oldest = std::min(oldest, positions.back());
  }
  points_.Forget(oldest);
  writer->Ints(positions);
  points_.Save(writer);
  return Stage::Save(writer);
}

Status ShuffleStage::Restore(StateReader* reader, const CallOptions& options) {
  Empty();
  reader->Section("shuffle");
  reader->Version("the order of shuffle", ShuffleOrder::kVersion);
  seed_ = reader->Int();
  iteration_ = reader->IntIn(0, kMaxInt);
  epoch_ = reader->IntIn(0, kMaxInt);
  order_.set_state(static_cast<uint64_t>(reader->Int()));
  consumed_ = reader->IntIn(0, kMaxInt);
  input_ended_ = reader->IntIn(0, 1) != 0;
  hole_ = reader->Int();
  const std::vector<int64_t> positions = reader->Ints();
  points_.Restore(reader);
  const auto count = static_cast<int64_t>(positions.size());
  if (hole_ < -1 || hole_ >= count || count > buffer_size_) reader->Fail("an impossible buffer");
  TUTTI_RETURN_IF_ERROR(reader->status());

  // Slots in the order of the input, the hole's last.
  std::vector<int64_t> by_position(positions.size());
  std::iota(by_position.begin(), by_position.end(), 0);
  std::sort(by_position.begin(), by_position.end(), [&](int64_t a, int64_t b) {
    const auto key = [&](int64_t i) {
      return i == hole_ ? kMaxInt : positions[static_cast<size_t>(i)];
    };
    return key(a) < key(b);
  });
  slots_.resize(positions.size());
  positions_.resize(positions.size());
  for (int64_t slot = 0; slot < count; ++slot) {
    const int64_t index = by_position[static_cast<size_t>(slot)];
    slots_[static_cast<size_t>(index)] = slot;
    positions_[static_cast<size_t>(slot)] = positions[static_cast<size_t>(index)];
  }
  const std::span<const int64_t> held(positions_.data(), positions_.size() - (hole_ >= 0 ? 1 : 0));
  for (size_t i = 0; i < held.size(); ++i) {
    if (held[i] < 0 || held[i] >= consumed_ || (i > 0 && held[i] == held[i - 1])) {
      reader->Fail("an impossible buffer");
      return reader->status();
    }
  }
  store_.Begin(count);
  TUTTI_RETURN_IF_ERROR(points_.Replay(input(), held, reader->environment(), options, this));
  return Stage::Restore(reader, options);
}

Status CheckShuffle(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "buffer_size", 1, kMaxInt));
  TUTTI_RETURN_IF_ERROR(CheckSeed(node));
  return CheckBool(node, "reshuffle_each_iteration");
}

Result<std::unique_ptr<Stage>> MakeShuffle(const Node& node, const ExecContext& context,
                                           StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<ShuffleStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kShuffleOp = {
    .name = "shuffle",
    .attributes = {{"buffer_size"},
                   {"seed"},
                   {"seed_given", true},
                   {"reshuffle_each_iteration", true},
                   {"seed_by_element"}},
    .row_ratio = RowRatio::kPermuted,
    .can_seek = true,
    .passes_elements = true,
    .determinism = Determinism::kSeeded,
    .check = CheckShuffle,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakeShuffle,
};

Result<Ref<Dataset>> Dataset::Shuffle(int64_t buffer_size, ShuffleOptions options) const {
  Attributes attributes;
  attributes.Set("buffer_size", buffer_size);
  if (options.seed.has_value()) {
    attributes.Set("seed", *options.seed);
    attributes.Set("seed_given", true);
  } else {
    SetDrawnSeed(environment_->environment(), &attributes);
  }
  attributes.Set("reshuffle_each_iteration", options.reshuffle_each_iteration);
  return Derive("shuffle", std::move(options.name), std::move(attributes));
}

}  // namespace tutti
