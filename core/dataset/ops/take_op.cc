// take: the first `count` elements, -1 = all. skip: all but them, -1 = none.
#include <algorithm>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

class TakeStage final : public Stage {
 public:
  TakeStage(const Node& node, StageInputs inputs)
      : Stage(node, std::move(inputs)), count_(node.attributes().Int("count")) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (count_ < 0) return input().Next(demand, options, slab);
    if (taken_ == count_) {
      slab->end = true;
      return;
    }
    const int64_t left = count_ - taken_;
    input().Next(
        demand.OfInput(std::min(demand.max_rows, left), std::min(demand.Horizon(), left)), options,
        slab);
    taken_ += slab->rows;
    if (taken_ < count_) return;
    // What comes behind the last row is nobody's.
    slab->status = OkStatus();
    slab->end = true;
  }

  std::string_view FileOfLast() const override { return input().FileOfLast(); }

  Status Restart(const CallOptions& options) override {
    taken_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("take");
    writer->Int(taken_);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("take");
    taken_ = reader->IntIn(0, std::max<int64_t>(count_, 0));
    return Stage::Restore(reader, options);
  }

 private:
  const int64_t count_;
  int64_t taken_ = 0;
};

class SkipStage final : public Stage {
 public:
  SkipStage(const Node& node, StageInputs inputs)
      : Stage(node, std::move(inputs)), count_(node.attributes().Int("count")) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (count_ < 0) {
      slab->end = true;
      return;
    }
    while (skipped_ < count_) {
      Slab passed;
      const int64_t left = count_ - skipped_;
      input().Next(Demand{left, true, HorizonPlus(demand.Horizon(), left)}, options, &passed);
      skipped_ += passed.rows;
      if (passed.status.ok() && !passed.end) continue;
      slab->status = passed.status;
      slab->end = passed.end;
      return;
    }
    input().Next(demand, options, slab);
  }

  std::string_view FileOfLast() const override { return input().FileOfLast(); }

  Status Restart(const CallOptions& options) override {
    skipped_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("skip");
    writer->Int(skipped_);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("skip");
    skipped_ = reader->IntIn(0, std::max<int64_t>(count_, 0));
    return Stage::Restore(reader, options);
  }

 private:
  const int64_t count_;
  int64_t skipped_ = 0;
};

Status CheckCount(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "count"));
  const int64_t count = node.attributes().Int("count");
  if (count >= -1) return OkStatus();
  return InvalidArgument("{}: count must be -1 (all) or 0 and more, got {}", node.label(), count);
}

int64_t TakeCardinality(const Node& node) {
  const int64_t count = node.attributes().Int("count");
  const int64_t input = node.input().cardinality();
  if (count < 0) return input;
  if (input == kInfiniteCardinality) return count;
  if (input == kUnknownCardinality) return count == 0 ? 0 : kUnknownCardinality;
  return std::min(count, input);
}

int64_t SkipCardinality(const Node& node) {
  const int64_t count = node.attributes().Int("count");
  const int64_t input = node.input().cardinality();
  if (count < 0) return 0;
  if (input < 0) return input;
  return std::max<int64_t>(input - count, 0);
}

Result<std::unique_ptr<Stage>> MakeTake(const Node& node, const ExecContext&, StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<TakeStage>(node, std::move(inputs)));
}
Result<std::unique_ptr<Stage>> MakeSkip(const Node& node, const ExecContext&, StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<SkipStage>(node, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kTakeOp = {
    .name = "take",
    .attributes = {{"count"}},
    .row_ratio = RowRatio::kSubset,
    .can_seek = true,
    .passes_elements = true,
    .check = CheckCount,
    .cardinality = TakeCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeTake,
};

constinit const OpTraits kSkipOp = {
    .name = "skip",
    .attributes = {{"count"}},
    .row_ratio = RowRatio::kSubset,
    .can_seek = true,
    .passes_elements = true,
    .check = CheckCount,
    .cardinality = SkipCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeSkip,
};

}  // namespace tutti
