// shard: elements index, index + num_shards, ...
//
// The failure of an element of another shard is that shard's. But every shard gets a failure that
// stands for more than one element, such as a missing file or a generator that raised and has no
// more to give: otherwise an input that broke off would look like one that ended.
//
// Where no function of the host stands below, a block of the input is read and every num_shards-th
// row gathered from it; otherwise the rows in between are passed over, so that no function runs for
// them.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/gather.h"

namespace tutti {
namespace {

class ShardStage final : public Stage {
 public:
  ShardStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        num_shards_(node.attributes().Int("num_shards")),
        index_(node.attributes().Int("index")),
        reads_blocks_(!node.has_host_functions() && num_shards_ <= kMaxSlabRows / 16),
        account_(context.account) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (num_shards_ == 1 || num_shards_ == kShardHint) return input().Next(demand, options, slab);
    while (slab->rows == 0 && !slab->end && slab->status.ok()) {
      if (reads_blocks_ && !demand.count_only && demand.max_rows > 1) {
        NextBlock(demand, options, slab);
      } else {
        NextRow(demand, options, slab);
      }
    }
  }

  Status Restart(const CallOptions& options) override {
    phase_ = 0;
    passed_over_ = OkStatus();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("shard");
    writer->Int(phase_);
    writer->Failure(passed_over_);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("shard");
    phase_ = reader->IntIn(0, std::max<int64_t>(num_shards_, 1) - 1);
    passed_over_ = reader->Failure();
    return Stage::Restore(reader, options);
  }

 private:
  // Rows to pass over before the next one of ours.
  int64_t Gap() const { return (index_ - phase_ + num_shards_) % num_shards_; }

  // Up to the last row of ours that can be wanted, when the next one lies behind `gap` others.
  int64_t InputHorizon(const Demand& demand, int64_t gap) const {
    return HorizonPlus(HorizonTimes(demand.Horizon(), num_shards_), gap + 1 - num_shards_);
  }

  // Goes behind what the input gave; what came behind its rows is for *slab or for another shard.
  void Advance(const Slab& read, Slab* slab) {
    phase_ = (phase_ + read.rows) % num_shards_;
    if (read.rows > 0) passed_over_ = OkStatus();
    if (read.end) {
      slab->status = std::exchange(passed_over_, OkStatus());
      slab->end = slab->status.ok();
      return;
    }
    slab->status = read.status;
    if (read.status.ok() || IsInterruption(read.status)) return;
    // A failed element has its place in the sequence, too.
    const Loss loss = LossOf(read.status);
    const bool ours = phase_ == index_ || loss == Loss::kMany;
    phase_ = (phase_ + 1) % num_shards_;
    passed_over_ = OkStatus();
    if (ours) return;
    if (loss == Loss::kPerhapsRest) passed_over_ = read.status;
    slab->status = OkStatus();
  }

  void NextRow(const Demand& demand, const CallOptions& options, Slab* slab) {
    const int64_t gap = Gap();
    Slab read;
    const int64_t horizon = InputHorizon(demand, gap);
    input().Next(gap > 0 ? Demand{gap, true, horizon}
                         : Demand{1, demand.count_only, horizon, false, demand.tentative},
                 options, &read);
    Advance(read, slab);
    if (gap > 0) return;
    slab->rows = read.rows;
    slab->tree = std::move(read.tree);
    slab->columns = std::move(read.columns);
    slab->origins = std::move(read.origins);
  }

  void NextBlock(const Demand& demand, const CallOptions& options, Slab* slab) {
    const int64_t first = Gap();
    const int64_t most = first + (demand.max_rows - 1) * num_shards_ + 1;
    Slab block;
    // Most rows of it are passed over.
    input().Next(Demand{std::min(most, kMaxSlabRows), false, InputHorizon(demand, first), false,
                        true},
                 options, &block);
    if (IsInterruption(block.status)) {
      if (block.rows == 0) return NextRow(demand, options, slab);
      block.status = OkStatus();
    }
    std::vector<int64_t> ours;
    for (int64_t row = first; row < block.rows; row += num_shards_) ours.push_back(row);
    Advance(block, slab);
    if (ours.empty()) return;
    slab->rows = static_cast<int64_t>(ours.size());
    slab->tree = block.tree;
    if (!block.origins.empty()) {
      for (const int64_t row : ours) slab->origins.Add(block.origins.Of(row), 1);
    }
    for (const Column& column : block.columns) {
      Result<Column> picked = Pick(column, ours);
      if (!picked.ok()) {
        slab->Clear();
        slab->status = picked.status();
        return;
      }
      slab->columns.push_back(std::move(picked).value());
    }
  }

  Result<Column> Pick(const Column& column, std::span<const int64_t> rows) const {
    if (column.is_dense()) {
      TensorOptions tensor_options;
      tensor_options.zeroed = false;
      tensor_options.account = account_;
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, GatherRows(*column.dense(), rows, tensor_options));
      return Column::Dense(std::move(tensor));
    }
    std::vector<Leaf> leaves;
    for (int64_t row : rows) leaves.push_back(column.Row(row));
    return Column::Rows(std::move(leaves));
  }

  const int64_t num_shards_;
  const int64_t index_;
  const bool reads_blocks_;
  MemoryAccount* const account_;
  int64_t phase_ = 0;   // the input's position modulo num_shards_
  Status passed_over_;  // another shard's; the input may have broken off with it
};

Status CheckShard(const Node& node) {
  const int64_t num_shards = node.attributes().Int("num_shards");
  const int64_t index = node.attributes().Int("index");
  if (num_shards == kShardHint && index == kShardHint) return OkStatus();
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "num_shards", 1, std::numeric_limits<int64_t>::max()));
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "index"));
  if (index >= 0 && index < num_shards) return OkStatus();
  return InvalidArgument("{}: index must be in [0, num_shards), got index {} with num_shards {}",
                         node.label(), index, num_shards);
}

int64_t ShardCardinality(const Node& node) {
  const int64_t n = node.input().cardinality();
  if (n < 0) return n;
  const int64_t num_shards = node.attributes().Int("num_shards");
  if (num_shards == kShardHint) return n;
  return n / num_shards + (node.attributes().Int("index") < n % num_shards ? 1 : 0);
}

Result<std::unique_ptr<Stage>> MakeShard(const Node& node, const ExecContext& context,
                                         StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<ShardStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kShardOp = {
    .name = "shard",
    .attributes = {{"num_shards"}, {"index"}},
    .row_ratio = RowRatio::kSubset,
    .can_seek = true,
    .passes_elements = true,
    .is_shard = true,
    .check = CheckShard,
    .cardinality = ShardCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeShard,
};

}  // namespace tutti
